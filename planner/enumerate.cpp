#include <algorithm>
#include <compare>
#include <set>
#include <string>

#include "planner/search.hpp"
#include "sim/core/error.hpp"
#include "sim/core/sharding.hpp"

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

struct Mesh {
  int ranks = 1;
  int tp = 1;
  int positions = 1;

  auto operator<=>(const Mesh&) const = default;
};

/// All that have this many ranks.
void add_meshes_of(int ranks, std::set<Mesh>& meshes) {
  for (const int tp : divisors(ranks)) {
    for (const int positions : divisors(ranks / tp)) meshes.insert({ranks, tp, positions});
  }
}

/// Those of up to `devices` ranks whose axes suit the model and the batch.
void add_suitable_meshes(const SearchRequest& request, int devices, std::set<Mesh>& meshes) {
  std::vector<std::string> problems;
  const std::int64_t divisor = TensorSharding(request.model, 2, problems).common_divisor();
  const auto layers = static_cast<int>(request.model.layers.size());
  for (int tp = 1; tp <= std::min<std::int64_t>(devices, std::max<std::int64_t>(1, divisor));
       ++tp) {
    if (tp > 1 && divisor % tp != 0) continue;
    for (int dp = 1; dp <= devices / tp; ++dp) {
      if (request.workload.global_batch % dp != 0) continue;
      for (int positions = 1; positions <= std::min(layers, devices / tp / dp); ++positions) {
        meshes.insert({dp * tp * positions, tp, positions});
      }
    }
  }
}

/// Calls `visit(layout, positions)` with dp and tp set for every mesh.
template <class Visit>
void each_mesh(const SearchRequest& request, const Visit& visit) {
  std::set<Mesh> meshes;
  if (request.ranks) {
    add_meshes_of(*request.ranks, meshes);
  } else {
    const int devices = request.cluster.devices();
    for (const int ranks : divisors(devices)) add_meshes_of(ranks, meshes);
    // Layouts that leave devices idle are there to be found, not to be complained of.
    add_suitable_meshes(request, devices, meshes);
  }
  for (const Mesh& mesh : meshes) {
    Layout layout;
    layout.tp = mesh.tp;
    layout.dp = mesh.ranks / mesh.tp / mesh.positions;
    if (allowed(request.pins.tp, layout.tp) && allowed(request.pins.dp, layout.dp)) {
      visit(layout, mesh.positions);
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
