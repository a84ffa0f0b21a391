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

std::vector<int> microbatch_counts(const SearchRequest& request, int dp) {
  const std::int64_t batch = request.workload.global_batch;
  if (request.pins.microbatches) return {*request.pins.microbatches};
  if (batch % dp != 0) return {1};
  std::vector<int> counts;
  for (int m = 1; m <= kMostMicrobatches && m <= batch / dp; ++m) {
    if ((batch / dp) % m == 0) counts.push_back(m);
  }
  return counts;
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
  std::vector<int> rank_counts;
  if (request.ranks) {
    rank_counts = {*request.ranks};
  } else {
    rank_counts = divisors(request.cluster.devices());
  }
  std::vector<Layout> layouts;
  for (const int ranks : rank_counts) {
    for (const int tp : divisors(ranks)) {
      if (!allowed(request.pins.tp, tp)) continue;
      for (const int positions : divisors(ranks / tp)) {
        Layout layout;
        layout.tp = tp;
        layout.dp = ranks / tp / positions;
        if (!allowed(request.pins.dp, layout.dp)) continue;
        add_layouts(request, layout, positions, layouts);
      }
    }
  }
  return layouts;
}

}  // namespace parplan::planner
