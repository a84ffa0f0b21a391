#include <algorithm>
#include <array>
#include <string>

#include "planner/search.hpp"
#include "sim/core/error.hpp"

namespace parplan::planner {
namespace {

std::vector<int> divisors(int n) {
  std::vector<int> result;
  for (int d = 1; d <= n; ++d) {
    if (n % d == 0) result.push_back(d);
  }
  return result;
}

bool allowed(const std::optional<int>& pin, int value) { return !pin || *pin == value; }

/// Numbers from `least` to `most` that the replica's batch divides into.
std::vector<int> dividing_counts(std::int64_t replica_batch, int least, int most) {
  std::vector<int> counts;
  for (int m = least; m <= most && m <= replica_batch; ++m) {
    if (replica_batch % m == 0) counts.push_back(m);
  }
  return counts;
}

std::vector<int> microbatch_counts(const SearchRequest& request, int dp) {
  const std::int64_t batch = request.workload.global_batch;
  if (request.pins.microbatches) return {*request.pins.microbatches};
  if (batch % dp != 0) return {1};
  return dividing_counts(batch / dp, 1, kManyMicrobatches);
}

/// All layouts of one (dp, tp, positions) triple.
void add_layouts(const SearchRequest& request, Layout base, int positions,
                 std::vector<Layout>& layouts) {
  const Pins& pins = request.pins;
  if (positions > 1 && allowed(pins.mp, positions) && allowed(pins.pp, 1) &&
      allowed(pins.microbatches, 1) && !pins.schedule) {
    Layout layout = base;
    layout.mp = positions;
    layouts.push_back(layout);
  }
  if (!allowed(pins.pp, positions) || !allowed(pins.mp, 1)) return;
  base.pp = positions;
  for (const int m : microbatch_counts(request, base.dp)) {
    for (const PipelineSchedule schedule :
         {PipelineSchedule::kOneForwardOneBackward, PipelineSchedule::kGpipe}) {
      if (pins.schedule && *pins.schedule != schedule) continue;
      // Without a pipeline, gpipe only keeps more activations alive; with one microbatch both are
      // one.
      const bool redundant = schedule == PipelineSchedule::kGpipe && (positions == 1 || m == 1);
      if (redundant && !pins.schedule) continue;
      Layout layout = base;
      layout.schedule = schedule;
      layout.microbatches = m;
      layouts.push_back(layout);
    }
  }
}

/// Calls `visit(layout, positions)` with dp and tp set for every such triple.
template <class Visit>
void each_mesh(const SearchRequest& request, const Visit& visit) {
  const std::vector<int> rank_counts =
      request.ranks ? std::vector<int>{*request.ranks} : divisors(request.cluster.devices());
  for (const int ranks : rank_counts) {
    for (const int tp : divisors(ranks)) {
      if (!allowed(request.pins.tp, tp)) continue;
      for (const int positions : divisors(ranks / tp)) {
        Layout layout;
        layout.tp = tp;
        layout.dp = ranks / tp / positions;
        if (allowed(request.pins.dp, layout.dp)) visit(layout, positions);
      }
    }
  }
}

}  // namespace

Pins parse_pins(std::string_view text) {
  Pins pins;
  if (text.empty()) return pins;
  if (text == "single") {
    pins.dp = pins.tp = pins.pp = pins.mp = 1;
    return pins;
  }
  const Layout layout = parse_layout(text);  // checks names and numbers
  const std::string padded = "," + std::string(text);
  const auto given = [&padded](const char* item) {
    return padded.find("," + std::string(item) + "=") != std::string::npos;
  };
  if (given("stages") || given("devices")) {
    throw InputError(
        "--pin: stages and devices are placed by the planner; give a whole layout to "
        "'parplan plan --layout' instead");
  }
  if (given("dp")) pins.dp = layout.dp;
  if (given("tp")) pins.tp = layout.tp;
  if (given("pp")) pins.pp = layout.pp;
  if (given("mp")) pins.mp = layout.mp;
  if (given("microbatches")) pins.microbatches = layout.microbatches;
  if (given("schedule")) pins.schedule = layout.schedule;
  return pins;
}

std::vector<Layout> enumerate_layouts(const SearchRequest& request) {
  std::vector<Layout> layouts;
  each_mesh(request, [&](const Layout& layout, int positions) {
    add_layouts(request, layout, positions, layouts);
  });
  return layouts;
}

std::vector<std::vector<Layout>> enumerate_many_microbatches(const SearchRequest& request) {
  const Pins& pins = request.pins;
  std::vector<std::vector<Layout>> lists;
  if (pins.microbatches || !allowed(pins.mp, 1)) return lists;
  each_mesh(request, [&](Layout layout, int positions) {
    const std::int64_t batch = request.workload.global_batch;
    if (!allowed(pins.pp, positions) || batch % layout.dp != 0) return;
    layout.pp = positions;
    layout.schedule = pins.schedule.value_or(PipelineSchedule::kOneForwardOneBackward);
    std::vector<Layout> list;
    for (const int m :
         dividing_counts(batch / layout.dp, kManyMicrobatches + 1, kMostMicrobatches)) {
      layout.microbatches = m;
      list.push_back(layout);
    }
    if (!list.empty()) lists.push_back(std::move(list));
  });
  return lists;
}

}  // namespace parplan::planner
