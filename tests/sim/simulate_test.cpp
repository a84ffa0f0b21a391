#include "sim/simulate.hpp"

#include <string>

#include "sim/core/error.hpp"
#include "sim/core/model_builder.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

namespace {

/// Embedding (free here) and `layers` equal square linears; the loss costs next to nothing.
Model chain(int layers, std::int64_t width = 512) {
  ModelBuilder b("chain");
  const ValueId tokens = b.input("tokens", ValueRole::kTokens, Positions::kSequence);
  const ValueId target = b.input("target", ValueRole::kRealTarget, Positions::kSequence, width);
  ValueId x{};
  for (int i = 0; i < layers; ++i) {
    b.begin_layer("layers." + std::to_string(i));
    if (i == 0) x = b.embedding("embedding", tokens, 16, width);
    x = b.linear("linear", x, {width, width, false, LinearParallel::kReplicated});
    if (i + 1 == layers) b.squared_error("loss", x, target);
  }
  return b.finish();
}

/// A device that only computes: 1 TFLOP/s, everything else free.
Cluster ideal_cluster() {
  Cluster c;
  c.name = "ideal";
  c.devices_per_node = 1024;
  c.device.peak[DType::kFloat32] = FlopPerSecond{1e12};
  c.device.memory = Bytes{std::int64_t{1} << 60};
  return c;
}

Plan plan_for(const Model& model, const std::string& layout, std::int64_t batch = 32) {
  Plan plan;
  plan.model = model;
  plan.workload.global_batch = batch;
  plan.workload.sequence = 8;
  plan.layout = place_layers(model, plan.workload, parse_layout(layout));
  return plan;
}

}  // namespace

TEST_CASE("clipping adds a pass over the gradients and one small all-reduce before the optimizer",
          "[sim]") {
  const Model model = chain(4);
  Cluster cluster = ideal_cluster();
  cluster.device.memory_bandwidth = BytesPerSecond{1e9};
  cluster.intra_node.latency = Seconds{1e-3};
  cluster.intra_node.bandwidth = BytesPerSecond{1e12};
  Plan plan = plan_for(model, "pp=4,stages=1+1+1+1,microbatches=4");
  const sim::Simulation free = sim::simulate(plan, cluster);
  plan.workload.optimizer.max_gradient_norm = 1.0;
  const sim::Simulation clipped = sim::simulate(plan, cluster);
  // The first stage is the last to finish; it also has the embedding: (512 + 16) x 512 floats.
  const double norm = 4.0 * 528.0 * 512.0 / 1e9;
  // Up to 1,024 bytes 4 ranks send all at once: one latency (choose_all_reduce).
  CHECK(clipped.step_time.value - free.step_time.value == Approx(norm + 1e-3).epsilon(1e-6));
  const Trace& trace = clipped.trace;
  for (int rank = 0; rank < 4; ++rank) {
    Picoseconds norm_end, reduced, adam;
    for (const TraceEvent& e : trace.events) {
      if (e.rank != rank) continue;
      if (e.key.phase() == Phase::kGradientNorm) norm_end = e.end;
      if (e.key.phase() == Phase::kReduceNorm) reduced = e.end;
      if (e.key.phase() == Phase::kOptimizer) adam = e.start;
    }
    CHECK(norm_end.value > 0);
    CHECK(reduced > norm_end);
    CHECK(adam >= reduced);
  }
}

TEST_CASE("gpipe and 1f1b lose (p-1)/m of the ideal time to the bubble", "[sim]") {
  const Model model = chain(4);
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    for (const int m : {1, 2, 4, 8, 16}) {
      INFO(schedule << " " << m);
      const Plan plan = plan_for(
          model, "pp=4,stages=1+1+1+1,schedule=" + schedule + ",microbatches=" + std::to_string(m));
      const sim::Simulation s = sim::simulate(plan, ideal_cluster());
      // Work of one stage: 6 rows h^2 flop at 1 TFLOP/s; the bubble adds (p-1)/m of it.
      const double ideal = 6.0 * 32 * 8 * 512.0 * 512.0 / 1e12;
      const double adam = 12.0 * 512.0 * 512.0 / 1e12;  // 12 flop per parameter, once a step
      CHECK(s.step_time.value == Approx(ideal * (1.0 + 3.0 / m) + adam).epsilon(0.003));
      for (const sim::ClassForecast& c : s.classes) {
        CHECK(c.breakdown.total().value == Approx(s.step_time.value).epsilon(1e-9));
        CHECK(c.breakdown.bubble.value == Approx(ideal * 3.0 / m).epsilon(0.02));
      }
    }
  }
}

TEST_CASE("data parallel replicas halve the work and pay the ring", "[sim]") {
  const Model model = chain(4);
  Cluster cluster = ideal_cluster();
  cluster.intra_node.bandwidth = BytesPerSecond{1e9};
  const sim::Simulation one = sim::simulate(plan_for(model, "single"), cluster);
  Plan plan = plan_for(model, "dp=4");
  plan.stack.overlap_gradient_reduction = false;
  const sim::Simulation four = sim::simulate(plan, cluster);
  // Ring all-reduce: each rank sends 2(n-1)/n of the gradients.
  const double gradients = 4.0 * static_cast<double>(model.parameter_count());
  const double expected = one.step_time.value / 4 + gradients * 2 * 3 / 4 / 1e9;
  CHECK(four.step_time.value == Approx(expected).epsilon(0.01));
  CHECK(four.classes[0].breakdown.exposed_communication.value ==
        Approx(gradients * 1.5 / 1e9).epsilon(0.01));
}

TEST_CASE("gradient reduction hides behind backward, or behind the optimizer", "[sim]") {
  const Model model = chain(8);
  Cluster cluster = ideal_cluster();
  cluster.intra_node.bandwidth = BytesPerSecond{1e12};
  cluster.device.peak[DType::kFloat32] = FlopPerSecond{1e11};
  Plan plan = plan_for(model, "dp=2");
  plan.stack.bucket_bytes = Bytes{1 << 20};
  const double overlapped = sim::simulate(plan, cluster).step_time.value;
  plan.stack.overlap_gradient_reduction = false;
  const double after = sim::simulate(plan, cluster).step_time.value;
  const double wire = 4.0 * static_cast<double>(model.parameter_count()) / 1e12;
  // Eight buckets. Reduced after backward, all but the first hide behind the optimizer of the one
  // before, which takes longer; reduced beside backward, the first hides as well.
  CHECK(after - overlapped == Approx(wire / 8).epsilon(0.02));
}

TEST_CASE("a link that is the bottleneck is busy from the first gradient to the last", "[sim]") {
  const Model model = chain(8);
  Cluster cluster = ideal_cluster();
  cluster.device.peak[DType::kFloat32] = FlopPerSecond{1e12};
  cluster.intra_node.bandwidth = BytesPerSecond{1e8};
  Plan plan = plan_for(model, "dp=2");
  plan.stack.bucket_bytes = Bytes{1 << 20};
  const double layer =
      2.0 * 16 * 8 * 512.0 * 512.0 / 1e12;  // one product of a replica's 16 samples
  const double wire = 4.0 * static_cast<double>(model.parameter_count()) / 1e8;
  const double adam = 12.0 * 512.0 * 512.0 / 1e12;  // of the last bucket
  // Forward, the last layer's weight gradient, then all eight buckets one after the other.
  const double expected = 8 * layer + layer + wire + adam;
  CHECK(sim::simulate(plan, cluster).step_time.value == Approx(expected).epsilon(0.01));
  // Work of the cores for it changes nothing, as long as the link needs longer.
  cluster.intra_node.send_cpu_s_per_byte = 3e-9;
  cluster.intra_node.receive_cpu_s_per_byte = 3e-9;
  CHECK(sim::simulate(plan, cluster).step_time.value == Approx(expected).epsilon(0.01));
}

TEST_CASE("transfers between stages take the link's time when the next stage waits", "[sim]") {
  const Model model = chain(2);
  Cluster cluster = ideal_cluster();
  cluster.intra_node.bandwidth = BytesPerSecond{1e9};
  cluster.intra_node.latency = Seconds{1e-3};
  const Plan plan = plan_for(model, "pp=2,stages=1+1,microbatches=1");
  const double free = sim::simulate(plan, ideal_cluster()).step_time.value;
  const double priced = sim::simulate(plan, cluster).step_time.value;
  // One activation forward and one gradient back, each 32 x 8 x 512 floats.
  const double transfer = 1e-3 + 32.0 * 8 * 512 * 4 / 1e9;
  CHECK(priced - free == Approx(2 * transfer).epsilon(1e-6));
}

TEST_CASE("a link of one direction at a time serves transfers of both one by one", "[sim]") {
  const Model model = chain(2);
  Cluster cluster = ideal_cluster();
  cluster.device.peak[DType::kFloat32] = FlopPerSecond{1e18};
  cluster.intra_node.bandwidth = BytesPerSecond{1e9};
  constexpr int kMicrobatches = 8;
  const Plan plan = plan_for(model, "pp=2,stages=1+1,schedule=1f1b,microbatches=8");
  const double full = sim::simulate(plan, cluster).step_time.value;
  cluster.intra_node.half_duplex = true;
  // The bandwidth is what both directions have together; one alone takes all of it.
  const double half = sim::simulate(plan, cluster).step_time.value;
  const double transfer = 32.0 / kMicrobatches * 8 * 512 * 4 / 1e9;
  CHECK(half >= 2 * kMicrobatches * transfer * (1 - 1e-9));
  CHECK(half <= 2 * (kMicrobatches + 1) * transfer);
  CHECK(full < half - transfer);
}

TEST_CASE("the predicted trace carries every instruction and operation once per step", "[sim]") {
  const Model model = chain(4);
  const Plan plan = plan_for(model, "dp=2,pp=2,microbatches=4");
  const Program program = lower(plan);
  const sim::Simulation s = sim::simulate(plan, ideal_cluster());
  std::size_t expected = 0;
  for (const RankClass& c : program.classes) {
    std::size_t events = 1;  // the step itself
    for (const Instruction& i : c.instructions) {
      events +=
          i.kind == InstructionKind::kRun ? static_cast<std::size_t>(i.op_end - i.op_begin) : 1;
    }
    expected += events * static_cast<std::size_t>(c.multiplicity);
  }
  CHECK(s.trace.events.size() == expected);
  CHECK(s.trace.ranks == 4);
  for (const TraceEvent& e : s.trace.events) CHECK(e.end >= e.start);
  CHECK(s.trace.summaries.size() == 4);
}

namespace {

/// As the ideal one, with 4 devices and `cores` cores in a node; 0: a core for each.
Cluster cluster_with_cores(int cores) {
  Cluster c = ideal_cluster();
  c.devices_per_node = 4;
  c.cores_per_node = cores;
  return c;
}

double step_time(const Plan& plan, const Cluster& cluster) {
  return sim::simulate(plan, cluster).step_time.value;
}

}  // namespace

TEST_CASE("equal ranks that share cores take ranks over cores times as long", "[sim]") {
  const Model model = chain(4);
  const Plan two = plan_for(model, "dp=2", 12), three = plan_for(model, "dp=3", 12);
  Cluster busy = cluster_with_cores(0);
  busy.device.operation_overhead = Seconds{1e-6};
  busy.device.instruction_overhead = Seconds{2e-6};
  busy.device.step_overhead = Seconds{5e-5};
  const double alone2 = step_time(two, busy), alone3 = step_time(three, busy);
  busy.cores_per_node = 1;
  CHECK(step_time(two, busy) == Approx(2 * alone2).epsilon(1e-9));
  CHECK(step_time(three, busy) == Approx(3 * alone3).epsilon(1e-9));
  busy.cores_per_node = 2;
  CHECK(step_time(two, busy) == alone2);
  CHECK(step_time(three, busy) == Approx(1.5 * alone3).epsilon(1e-9));
  // Turns that cost something.
  busy.core_sharing_slowdown = 1.25;
  CHECK(step_time(two, busy) == alone2);
  CHECK(step_time(three, busy) == Approx(1.25 * 1.5 * alone3).epsilon(1e-9));
  busy.core_sharing_slowdown = 1.0;
  // Two threads a rank: three ranks want six of the four cores.
  busy.cores_per_node = 4;
  busy.device.cores = 2;
  CHECK(step_time(two, busy) == alone2);
  CHECK(step_time(three, busy) == Approx(1.5 * alone3).epsilon(1e-9));
}

TEST_CASE("only the ranks on a node share its cores", "[sim]") {
  const Model model = chain(4);
  const Plan plan = plan_for(model, "dp=4");
  Cluster cluster = cluster_with_cores(0);
  const double alone = step_time(plan, cluster);
  cluster.cores_per_node = 2;
  CHECK(step_time(plan, cluster) == Approx(2 * alone).epsilon(1e-9));
  cluster.nodes = 2;
  cluster.devices_per_node = 2;
  CHECK(step_time(plan, cluster) == alone);
  cluster.cores_per_node = 1;
  CHECK(step_time(plan, cluster) == Approx(2 * alone).epsilon(1e-9));
}

TEST_CASE("ranks with cores of their own are simulated as if cores were not counted", "[sim]") {
  const Model model = chain(4);
  for (const char* layout : {"dp=2", "tp=2", "pp=2,microbatches=4", "dp=2,pp=2,microbatches=2"}) {
    INFO(layout);
    const Plan plan = plan_for(model, layout);
    Cluster cluster = cluster_with_cores(0);
    cluster.intra_node.bandwidth = BytesPerSecond{1e10};
    cluster.intra_node.send_cpu_s_per_byte = 1e-11;
    const sim::Simulation uncounted = sim::simulate(plan, cluster);
    cluster.cores_per_node = 4;
    const sim::Simulation counted = sim::simulate(plan, cluster);
    CHECK(counted.step_time == uncounted.step_time);
    CHECK(counted.trace.events == uncounted.trace.events);
  }
}

TEST_CASE("a pipeline in which one rank works at a time needs one core", "[sim]") {
  const Model model = chain(4);
  const Plan plan = plan_for(model, "pp=4,stages=1+1+1+1,microbatches=1");
  Cluster cluster = cluster_with_cores(0);
  const double alone = step_time(plan, cluster);
  // While a stage goes backward the one after it runs its optimizer, so never more than two.
  cluster.cores_per_node = 2;
  CHECK(step_time(plan, cluster) == Approx(alone).epsilon(1e-9));
  // One core has all the work, and always some: 6 rows h^2 of four layers and four optimizers.
  cluster.cores_per_node = 1;
  const double stage = 6.0 * 32 * 8 * 512.0 * 512.0 / 1e12;
  const double adam = 12.0 * 512.0 * 512.0 / 1e12;
  CHECK(step_time(plan, cluster) == Approx(4 * (stage + adam)).epsilon(0.003));
}

TEST_CASE("on one core a pipeline has no bubble", "[sim]") {
  const Model model = chain(4);
  const double single = step_time(plan_for(model, "microbatches=4"), cluster_with_cores(0));
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    INFO(schedule);
    const Plan plan = plan_for(model, "pp=4,stages=1+1+1+1,microbatches=4,schedule=" + schedule);
    const sim::Simulation s = sim::simulate(plan, cluster_with_cores(1));
    // All the work of the single process; the embedding and the loss differ by nothing.
    CHECK(s.step_time.value == Approx(single).epsilon(1e-6));
    for (const sim::ClassForecast& c : s.classes) {
      CHECK(c.breakdown.total().value == Approx(s.step_time.value).epsilon(1e-9));
    }
    // On two cores at least half of that, on four the pipeline alone.
    CHECK(step_time(plan, cluster_with_cores(2)) >= single / 2);
    CHECK(step_time(plan, cluster_with_cores(2)) < single);
    CHECK(step_time(plan, cluster_with_cores(4)) == step_time(plan, cluster_with_cores(0)));
  }
}

TEST_CASE("waiting for a link takes no core, copying does", "[sim]") {
  const Model model = chain(2);
  Plan plan = plan_for(model, "dp=2");
  plan.stack.overlap_gradient_reduction = false;
  plan.stack.bucket_bytes = Bytes{1 << 30};
  Cluster cluster = cluster_with_cores(0);
  const double compute = step_time(plan, cluster);
  cluster.intra_node.bandwidth = BytesPerSecond{1e9};
  const double wire = step_time(plan, cluster) - compute;
  cluster.cores_per_node = 1;
  CHECK(step_time(plan, cluster) == Approx(2 * compute + wire).epsilon(1e-6));
  // Copying that takes each rank half of the wire's time fills the core while the wire is busy,
  // copying that takes all of it twice as long.
  cluster.intra_node.send_cpu_s_per_byte = 0.25e-9;
  cluster.intra_node.receive_cpu_s_per_byte = 0.25e-9;
  CHECK(step_time(plan, cluster) == Approx(2 * compute + wire).epsilon(1e-6));
  cluster.intra_node.send_cpu_s_per_byte = 0.5e-9;
  cluster.intra_node.receive_cpu_s_per_byte = 0.5e-9;
  CHECK(step_time(plan, cluster) == Approx(2 * compute + 2 * wire).epsilon(1e-6));
}

TEST_CASE("tensor collectives share cores like computation and stay one event", "[sim]") {
  ModelBuilder b("pair");
  const ValueId x = b.input("x", ValueRole::kFeatures, Positions::kOne, 256);
  const ValueId target = b.input("target", ValueRole::kRealTarget, Positions::kOne, 256);
  b.begin_layer("layer");
  ValueId y = b.linear("up", x, {256, 256, false, LinearParallel::kColumn});
  y = b.linear("down", y, {256, 256, false, LinearParallel::kRow});
  b.squared_error("loss", y, target);
  const Model model = b.finish();
  const Plan plan = plan_for(model, "tp=2");
  Cluster cluster = cluster_with_cores(0);
  cluster.intra_node.bandwidth = BytesPerSecond{1e9};
  cluster.intra_node.send_cpu_s_per_byte = 1e-9;  // all of the wire's time
  const sim::Simulation alone = sim::simulate(plan, cluster);
  REQUIRE(alone.classes[0].breakdown.tensor_communication.value > 0.0);
  cluster.cores_per_node = 1;
  const sim::Simulation shared = sim::simulate(plan, cluster);
  CHECK(shared.step_time.value == Approx(2 * alone.step_time.value).epsilon(1e-6));
  CHECK(shared.classes[0].breakdown.tensor_communication.value ==
        Approx(2 * alone.classes[0].breakdown.tensor_communication.value).epsilon(1e-6));
  REQUIRE(shared.trace.events.size() == alone.trace.events.size());
  for (std::size_t i = 0; i < shared.trace.events.size(); ++i) {
    const TraceEvent& one = alone.trace.events[i];
    const TraceEvent& two = shared.trace.events[i];
    CHECK(two.key == one.key);
    CHECK(static_cast<double>((two.end - two.start).value) ==
          Approx(2.0 * static_cast<double>((one.end - one.start).value)).epsilon(1e-6));
  }
}

TEST_CASE("a step beyond the clock's range is refused, not wrapped", "[sim]") {
  const Model model = chain(2);
  Cluster slow = ideal_cluster();
  slow.device.step_overhead = Seconds{9e5};
  CHECK(sim::simulate(plan_for(model, "single"), slow).step_time.value == Approx(9e5));
  // A rate of 1 FLOP/s: 6 x 256 x 512^2 flop a layer are 4e8 s.
  slow.device.peak[DType::kFloat32] = FlopPerSecond{1.0};
  CHECK_THROWS_AS(sim::simulate(plan_for(model, "single"), slow), InputError);
  CHECK_THROWS_WITH(sim::simulate(plan_for(model, "single"), slow),
                    ContainsSubstring("1000000 s that can be simulated"));
}
