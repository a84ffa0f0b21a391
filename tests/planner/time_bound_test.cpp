#include "planner/time_bound.hpp"

#include <algorithm>

#include "planner/search.hpp"
#include "sim/core/cluster_presets.hpp"
#include "sim/core/model_builder.hpp"
#include "sim/core/model_presets.hpp"
#include "sim/simulate.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;
using namespace parplan::planner;
using sim::Simulation;

namespace {

Cluster devices(int count, int cores) {
  Cluster c;
  c.name = "devices";
  c.devices_per_node = count;
  c.cores_per_node = cores;
  c.core_sharing_slowdown = 1.2;
  c.device.peak[DType::kFloat32] = FlopPerSecond{2e11};
  c.device.memory_bandwidth = BytesPerSecond{1e10};
  c.device.memory = Bytes{std::int64_t{1} << 60};
  c.device.operation_overhead = Seconds{2e-6};
  c.intra_node.bandwidth = BytesPerSecond{2e9};
  c.intra_node.latency = Seconds{2e-6};
  return c;
}

/// Eight linears that cost the same, but for the first, which needs no gradient of its input; the
/// loss costs next to nothing.
Model chain(std::int64_t width) {
  ModelBuilder b("chain");
  const ValueId features = b.input("features", ValueRole::kFeatures, Positions::kSequence, width);
  const ValueId target = b.input("target", ValueRole::kRealTarget, Positions::kSequence, width);
  ValueId x = features;
  for (int i = 0; i < 8; ++i) {
    b.begin_layer("layers." + std::to_string(i));
    x = b.linear("linear", x, {width, width, false, LinearParallel::kReplicated});
    if (i == 7) b.squared_error("loss", x, target);
  }
  return b.finish();
}

Workload short_batch_of(std::int64_t samples) {
  Workload w;
  w.global_batch = samples;
  w.sequence = 8;
  return w;
}

}  // namespace

TEST_CASE("no simulation undercuts the time bound", "[planner]") {
  for (const char* name :
       {"seed-mlp", "seed-tensor-parallel", "seed-encoder-decoder", "gpt2-tiny", "llama-tiny"}) {
    const Model model = *make_preset(name);
    Workload workload = short_batch_of(16);
    workload.source_sequence = 8;
    for (Cluster cluster : {devices(4, 0), devices(4, 4), devices(4, 2), devices(8, 3)}) {
      for (const bool half_duplex : {false, true}) {
        cluster.intra_node.half_duplex = half_duplex;
        const SearchRequest request{model, workload, cluster, std::nullopt, {},
                                    {},    10000,    2,       false};
        const SearchResult all = search(request);
        REQUIRE(all.best.size() > 20);
        const sim::CostModel costs(cluster);
        TimeBound bound(model, workload, costs);
        for (const Candidate& c : all.best) {
          INFO(name << " " << to_string(c.layout) << ", " << cluster.cores_per_node << " cores");
          CHECK(bound.of(c.layout) <= c.simulation.step_time);
          // The same sum in another order where there is one position.
          CHECK(bound.of_any_placement(c.layout) <= bound.of(c.layout) * (1.0 + 1e-12));
        }
      }
    }
  }
}

TEST_CASE("the bound of a chain on ideal devices is the pipeline's own time", "[planner]") {
  const std::int64_t width = 512;
  const Model model = chain(width);
  const Workload workload = short_batch_of(32);
  Cluster cluster = devices(8, 0);
  cluster.device.operation_overhead = Seconds{};
  cluster.device.memory_bandwidth = BytesPerSecond{1e20};
  cluster.intra_node.bandwidth = BytesPerSecond{1e20};
  cluster.intra_node.latency = Seconds{};
  const sim::CostModel costs(cluster);
  TimeBound bound(model, workload, costs);
  // A linear of one sample: 2 x 8 x 512 x 512 flop at 2e11 flop/s, of which backward has two.
  const double linear = 2.0 * 8 * width * width / 2e11;
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    for (const int m : {1, 2, 8, 32}) {
      INFO(schedule << " " << m);
      const Layout layout = place_layers(model, workload,
                                         parse_layout("pp=4,stages=2+2+2+2,schedule=" + schedule +
                                                      ",microbatches=" + std::to_string(m)));
      // Two linears to a stage: forward takes 2, backward 4. The first stage has no gradient of its
      // input to make, 3; the others hand it on before the last weights' gradient, after 3. So the
      // last stage begins when three forwards have passed, takes 5 for each microbatch, and the
      // last backward passes three stages.
      // With many microbatches that is less than all the work of one stage.
      const double samples = 32.0 / m;
      const double time = bound.of(layout).value / (linear * samples);
      CHECK(time == Approx(std::max(3 * 2 + 5 * m + 3 * 3, 6 * m)).epsilon(2e-3));
      const Simulation simulated =
          sim::simulate({model, workload, layout, {}, {}, {}, {}}, cluster, {.trace = false});
      CHECK(bound.of(layout) <= simulated.step_time);
    }
  }
  const double all = linear * 32 * (8 * 3 - 1);
  CHECK(bound.of(parse_layout("single")).value == Approx(all).epsilon(1e-3));
  CHECK(bound.of(parse_layout("dp=4")).value == Approx(all / 4).epsilon(1e-3));
}
