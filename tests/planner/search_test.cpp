#include "planner/search.hpp"

#include <algorithm>
#include <atomic>
#include <string>

#include "sim/core/cluster_presets.hpp"
#include "sim/core/error.hpp"
#include "sim/core/model_presets.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;
using namespace parplan::planner;

namespace {

/// Four devices with a slow link, so that layouts differ.
Cluster four_devices() {
  Cluster c;
  c.name = "four";
  c.devices_per_node = 4;
  c.device.peak[DType::kFloat32] = FlopPerSecond{2e11};
  c.device.memory_bandwidth = BytesPerSecond{1e10};
  c.device.memory = Bytes{std::int64_t{4} << 30};
  c.intra_node.bandwidth = BytesPerSecond{2e9};
  c.intra_node.latency = Seconds{2e-6};
  return c;
}

Workload batch_of(std::int64_t samples) {
  Workload w;
  w.global_batch = samples;
  w.sequence = 32;
  return w;
}

std::vector<std::pair<std::string, double>> summary(const SearchResult& result) {
  std::vector<std::pair<std::string, double>> rows;
  for (const Candidate& c : result.best) {
    rows.emplace_back(to_string(c.layout), c.simulation.step_time.value);
  }
  return rows;
}

}  // namespace

TEST_CASE("the search equals exhaustive search and does not depend on threads", "[planner]") {
  const Model model = *make_preset("gpt2-tiny");
  const Cluster cluster = four_devices();
  SearchRequest request{model, batch_of(16), cluster, std::nullopt, {}, {}, 6, 1, false};
  const SearchResult exhaustive = search(request);
  CHECK(exhaustive.simulated + [&] {
    std::int64_t n = 0;
    for (const Dropped& d : exhaustive.dropped) n += d.count;
    return n;
  }() == exhaustive.considered);
  request.prune = true;
  const SearchResult pruned = search(request);
  CHECK(summary(pruned) == summary(exhaustive));
  request.threads = 3;
  CHECK(summary(search(request)) == summary(exhaustive));
  REQUIRE(exhaustive.best.size() == 6);
  for (std::size_t i = 1; i < exhaustive.best.size(); ++i) {
    CHECK(exhaustive.best[i - 1].simulation.step_time <= exhaustive.best[i].simulation.step_time);
  }
}

TEST_CASE("every number of ranks is looked at, also those that leave devices idle", "[planner]") {
  const Model model = *make_preset("seed-transformer");
  const Cluster cluster = *make_cluster_preset("dgx-b200", 1);
  // Six samples divide among six replicas, not among eight.
  Workload workload = batch_of(6);
  workload.sequence = 128;
  std::optional<Seconds> fastest;
  std::string layout;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const SearchResult some = search({model, workload, cluster, ranks, {}, {}, 1, 1, false});
    if (some.best.empty()) continue;
    const Seconds time = some.best[0].simulation.step_time;
    if (fastest && *fastest <= time) continue;
    fastest = time;
    layout = to_string(some.best[0].layout);
  }
  for (const int threads : {1, 3}) {
    const SearchResult all =
        search({model, workload, cluster, std::nullopt, {}, {}, 1, threads, true});
    REQUIRE_FALSE(all.best.empty());
    CHECK(to_string(all.best[0].layout) == layout);
    CHECK(all.looked_at() == all.considered);
  }
  CHECK(layout == "dp=6");
}

TEST_CASE("pins fix their axes and leave the others open", "[planner]") {
  const Model model = *make_preset("gpt2-tiny");
  const Cluster cluster = four_devices();
  SearchRequest request{model, batch_of(16), cluster, 4, parse_pins("tp=2"), {}, 100, 1, false};
  const SearchResult result = search(request);
  REQUIRE_FALSE(result.best.empty());
  for (const Candidate& c : result.best) {
    CHECK(c.layout.tp == 2);
    CHECK(c.layout.ranks() == 4);
  }
  CHECK_THROWS_AS(parse_pins("tp=zero"), InputError);
  CHECK_THROWS_AS(parse_pins("stages=1+2"), InputError);
}

TEST_CASE("when nothing fits the result names the nearest miss", "[planner]") {
  const Model model = *make_preset("gpt2");
  Cluster cluster = four_devices();
  cluster.device.memory = Bytes{100'000'000};
  Workload workload = batch_of(4);
  const SearchRequest request{model, workload, cluster, std::nullopt, {}, {}, 5, 1, true};
  const SearchResult result = search(request);
  CHECK(result.best.empty());
  REQUIRE(result.nearest_miss.has_value());
  CHECK(result.nearest_miss->simulation.peak_memory() > cluster.device.memory);
}

TEST_CASE("layouts whose parameters alone are too large are not simulated", "[planner]") {
  const Model model = *make_preset("gpt2");
  const Workload workload = batch_of(4);
  Cluster cluster = four_devices();
  // Parameters, gradients and two moments of 124,439,808 elements (GPT-2 small) in float32.
  const std::int64_t all = 4 * 4 * std::int64_t{124'439'808};
  cluster.device.memory = Bytes{all * 6 / 10};  // half of them fits, with activations
  SearchRequest request{model, workload, cluster, std::nullopt, {}, {}, 5, 1, true};
  CHECK(least_memory(request, parse_layout("dp=2")).value == all);
  CHECK(least_memory(request, parse_layout("dp=2,tp=2")).value == all / 2);
  CHECK(least_memory(request, parse_layout("tp=2,pp=2,schedule=1f1b,microbatches=2")).value ==
        all / 4);
  const SearchResult quick = search(request);
  CHECK(quick.cannot_fit > 0);
  REQUIRE(!quick.best.empty());
  request.prune = false;
  const SearchResult all_simulated = search(request);
  CHECK(all_simulated.cannot_fit == 0);
  CHECK(summary(quick) == summary(all_simulated));

  cluster.device.memory = Bytes{all / 5};
  request.prune = true;
  const SearchResult none = search(request);
  CHECK(none.best.empty());
  CHECK(none.simulated == 0);
  REQUIRE(none.nearest_miss.has_value());
  CHECK(none.nearest_miss->layout.ranks() == 4);
  CHECK(none.nearest_miss->layout.dp == 1);
}

TEST_CASE("stages are cut by cost: the stage with the wide head holds fewer layers", "[planner]") {
  const Model model = *make_preset("gpt2");
  Cluster cluster = four_devices();
  cluster.device.memory = Bytes{std::int64_t{1} << 40};
  Workload workload = batch_of(8);
  workload.sequence = 128;
  const SearchRequest request{model, workload, cluster, 2,   parse_pins("pp=2,microbatches=4"),
                              {},    1,        1,       true};
  const SearchResult result = search(request);
  REQUIRE_FALSE(result.best.empty());
  const auto& stages = result.best[0].layout.stage_layers;
  REQUIRE(stages.size() == 2);
  // 16 layers: embedding, position, 12 blocks, final norm, head. The head costs about 5.4 blocks
  // (768 x 50257 against 12 x 768^2 + attention), so the cut lies behind block 9 of 12.
  CHECK(stages[0] >= 10);
  CHECK(stages[0] <= 12);
}

namespace {

/// The fastest layouts of all searches with microbatches pinned to one of `counts`, at most `top`.
std::vector<std::pair<std::string, double>> pinned_summary(SearchRequest request,
                                                           const std::vector<int>& counts) {
  request.prune = false;
  request.pins.schedule = PipelineSchedule::kOneForwardOneBackward;
  std::vector<std::pair<std::string, double>> rows;
  for (const int m : counts) {
    request.pins.microbatches = m;
    for (auto& row : summary(search(request))) rows.push_back(std::move(row));
  }
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  rows.resize(std::min(rows.size(), static_cast<std::size_t>(request.top)));
  return rows;
}

}  // namespace

TEST_CASE("more than 256 microbatches are searched where no fewer fit", "[planner]") {
  const Model model = *make_preset("gpt2-tiny");
  Cluster cluster = four_devices();
  cluster.device.memory = Bytes{1};
  SearchRequest request{model, batch_of(2048), cluster, {}, {}, {}, 6, 1, true};
  request.pins.microbatches = 256;
  const SearchResult least =
      search({model, batch_of(2048), cluster, {}, request.pins, {}, 1, 1, false});
  REQUIRE(least.nearest_miss);
  // With 256 microbatches the nearest layout lacks one byte, with fewer it lacks more.
  cluster.device.memory = Bytes{least.nearest_miss->simulation.peak_memory().value - 1};
  CHECK(pinned_summary(request, {1, 2, 4, 8, 16, 32, 64, 128, 256}).empty());
  const auto pinned = pinned_summary(request, {512, 1024, 2048});
  REQUIRE_FALSE(pinned.empty());

  request.pins = {};
  const SearchResult found = search(request);
  CHECK(summary(found) == pinned);
  CHECK(found.looked_at() == found.considered);
  request.threads = 3;
  CHECK(summary(search(request)) == pinned);
  request.prune = false;
  const SearchResult exhaustive = search(request);
  CHECK(summary(exhaustive) == pinned);
  CHECK(exhaustive.considered == found.considered);
  CHECK(exhaustive.looked_at() == exhaustive.considered);
  CHECK(exhaustive.simulated > found.simulated);

  // One byte more, and 256 are enough: nothing beyond them is looked at.
  cluster.device.memory.value += 1;
  request.prune = true;
  const SearchResult enough = search(request);
  REQUIRE_FALSE(enough.best.empty());
  for (const Candidate& c : enough.best) CHECK(c.layout.microbatches == 256);
  CHECK(enough.considered < found.considered);
}

TEST_CASE("when no number of microbatches fits, more of them are not proposed", "[planner]") {
  const Model model = *make_preset("gpt2-tiny");
  Cluster cluster = four_devices();
  cluster.device.memory = Bytes{6'000'000};
  SearchRequest request{model, batch_of(1024), cluster, {}, {}, {}, 5, 1, true};
  const SearchResult none = search(request);
  REQUIRE(none.best.empty());
  CHECK(none.looked_at() == none.considered);
  REQUIRE(none.nearest_miss);
  CHECK(none.nearest_miss->layout.microbatches > 256);
  const auto suggested = [](const SearchResult& result) {
    for (const Dropped& d : result.dropped) {
      if (d.reason == "does not fit into the device's memory") return d.suggestion;
    }
    return std::string("not dropped");
  };
  CHECK(suggested(none) == "more ranks, tp or pp, or a smaller model or sequence");
  request.pins.microbatches = 2;
  CHECK(suggested(search(request)) == "more ranks, tp or pp, or more microbatches");
  // gpipe is looked at when it is asked for, and needs what the whole step shows.
  request.pins = parse_pins("schedule=gpipe,pp=4,tp=1");
  const SearchResult gpipe = search(request);
  CHECK(gpipe.best.empty());
  CHECK(gpipe.looked_at() == gpipe.considered);
  REQUIRE(gpipe.nearest_miss);
  CHECK(gpipe.nearest_miss->layout.schedule == PipelineSchedule::kGpipe);
}

TEST_CASE("an interrupted search tells what it has looked at", "[planner]") {
  const Model model = *make_preset("gpt2-tiny");
  Cluster cluster = four_devices();
  cluster.device.memory = Bytes{30'000'000};
  std::atomic<bool> stop{false};
  const SearchRequest request{model, batch_of(1024), cluster, {}, {}, {}, 5, 1, true};
  std::int64_t reported = 0;
  const SearchResult result = search(
      request,
      [&](std::int64_t done, std::int64_t) {
        reported = done;
        stop = done == 3;
      },
      &stop);
  CHECK(reported == 3);
  CHECK(result.looked_at() == 3);
  CHECK(result.considered > 100);
}

TEST_CASE("pinning 'single' leaves one rank", "[planner]") {
  const Model model = *make_preset("gpt2-tiny");
  const Cluster cluster = four_devices();
  const SearchResult result = search({model, batch_of(8), cluster, {}, parse_pins("single"), {}});
  REQUIRE_FALSE(result.best.empty());
  for (const Candidate& c : result.best) CHECK(c.layout.ranks() == 1);
}

TEST_CASE("layouts whose step is beyond the clock are dropped with the reason", "[planner]") {
  const Model model = *make_preset("gpt2-tiny");
  Cluster cluster = four_devices();
  cluster.device.operation_overhead = Seconds{1e6};
  const SearchResult result = search({model, batch_of(8), cluster, {}, {}, {}});
  CHECK(result.best.empty());
  REQUIRE_FALSE(result.dropped.empty());
  bool named = false;
  for (const Dropped& d : result.dropped) {
    named = named || d.reason.find("1000000 s that can be simulated") != std::string::npos;
  }
  CHECK(named);
}
