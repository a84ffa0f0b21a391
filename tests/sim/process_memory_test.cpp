#include "sim/process_memory.hpp"

#include "sim/core/collective_algorithm.hpp"
#include "sim/core/memory_replay.hpp"
#include "sim/core/model_builder.hpp"
#include "sim/core/model_presets.hpp"
#include "sim/core/resident_memory.hpp"
#include "sim/simulate.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

namespace {

Cluster machine() {
  Cluster c;
  c.name = "machine";
  c.devices_per_node = 8;
  c.device.peak[DType::kFloat32] = c.device.peak[DType::kFloat64] = FlopPerSecond{1e11};
  c.device.memory = Bytes{std::int64_t{1} << 40};
  c.intra_node.bandwidth = BytesPerSecond{1e10};
  return c;
}

Plan plan_of(Model model, const std::string& layout) {
  Plan plan;
  plan.model = std::move(model);
  plan.workload.global_batch = 32;
  plan.workload.data.samples = 64;
  plan.layout = place_layers(plan.model, plan.workload, parse_layout(layout));
  return plan;
}

/// What the process has beside its tensors' block.
std::int64_t beside(const Plan& plan, const Cluster& cluster, std::size_t rank_class = 0) {
  const Program program = lower(plan);
  const RankClass& c = program.classes[rank_class];
  const Bytes arena = replay_memory(c, program.precision).arena;
  const Bytes process = sim::simulate(plan, cluster).classes[rank_class].memory.process;
  return (process - resident_block_bytes(c, program.precision, arena)).value;
}

std::int64_t products(const Plan& plan, std::size_t rank_class = 0) {
  return sim::distinct_products(lower(plan).classes[rank_class], plan.layout.microbatches);
}

}  // namespace

TEST_CASE("products differ by pass, shape and whether they accumulate", "[sim]") {
  // 784 -> 256 -> 10: two forward, two weight gradients, one input gradient.
  CHECK(products(plan_of(make_mlp({}), "single")) == 5);
  // The second microbatch adds to the weight gradients.
  CHECK(products(plan_of(make_mlp({}), "microbatches=2")) == 7);
  // 512 -> 512 twice: the same shape; the first input gradient is nobody's.
  LinearPairSpec square;
  square.in = square.hidden = square.out = 512;
  CHECK(products(plan_of(make_linear_pair(square), "single")) == 3);
  // A stage has its own.
  const Plan stages = plan_of(make_mlp({}), "pp=2,microbatches=1");
  CHECK(products(stages, 0) == 2);
  CHECK(products(stages, 1) == 3);
}

TEST_CASE("a process keeps code for each float product, and its data set", "[sim]") {
  Cluster cluster = machine();
  cluster.device.process_bytes = Bytes{1'000'000};
  cluster.device.product_bytes = Bytes{70'000};
  cluster.device.transport_bytes = Bytes{20'000'000};
  Plan plan = plan_of(make_mlp({}), "single");
  const std::int64_t data = 64 * 784 * 4;
  CHECK(beside(plan, cluster) == 1'000'000 + 5 * 70'000 + data);
  plan.workload.precision = DType::kFloat64;              // our own kernels, compiled once
  CHECK(beside(plan, cluster) == 1'000'000 + (2 << 20));  // a huge page for 2 x data
  // The last stage loads no features, and what it sends is no all-reduce.
  CHECK(beside(plan_of(make_mlp({}), "pp=2,microbatches=1"), cluster, 1) ==
        1'000'000 + 3 * 70'000 + 20'000'000);
}

TEST_CASE("reductions that are under way at once have scratch each", "[sim]") {
  LinearPairSpec wide;  // two weights of 1024 x 1024
  wide.in = wide.hidden = wide.out = 1024;
  Plan plan = plan_of(make_linear_pair(wide), "dp=2");
  plan.stack.bucket_bytes = Bytes{4 << 20};
  Cluster cluster = machine();
  const Program program = lower(plan);
  REQUIRE(program.classes[0].buckets.size() >= 2);
  std::int64_t all = 0;
  std::int64_t largest = 0;
  for (const Bucket& b : program.classes[0].buckets) {
    const std::int64_t scratch = all_reduce_scratch_bytes(b.end - b.begin, 4, 2);
    all += scratch;
    largest = std::max(largest, scratch);
  }
  REQUIRE(all > largest);
  const std::int64_t data = 2 * (2 << 20);  // a huge page each for 256 KiB of inputs and targets
  // Issued together after backward.
  plan.stack.overlap_gradient_reduction = false;
  CHECK(beside(plan, cluster) == all + data);
  // Beside a backward that is slow enough, one is complete before the next.
  plan.stack.overlap_gradient_reduction = true;
  cluster.device.peak[DType::kFloat32] = FlopPerSecond{1e9};
  CHECK(beside(plan, cluster) == largest + data);
}

TEST_CASE("only as many reductions as move at once have scratch", "[sim]") {
  ModelBuilder b("chain");
  ValueId x = b.input("x", ValueRole::kFeatures, Positions::kOne, 512);
  const ValueId target = b.input("target", ValueRole::kRealTarget, Positions::kOne, 512);
  for (int i = 0; i < 12; ++i) {
    b.begin_layer("layers." + std::to_string(i));
    x = b.linear("linear", x, {512, 512, false, LinearParallel::kReplicated});
    if (i == 11) b.squared_error("loss", x, target);
  }
  Plan plan = plan_of(b.finish(), "dp=2");
  plan.workload.precision = DType::kFloat64;  // no code per product
  plan.stack.overlap_gradient_reduction = false;
  plan.stack.bucket_bytes = Bytes{1 << 20};
  const Program program = lower(plan);
  const std::vector<Bucket>& buckets = program.classes[0].buckets;
  REQUIRE(buckets.size() > 2 * kRingsAtOnce);
  std::int64_t most = 0;  // of neighbours in the queue
  for (std::size_t first = 0; first + kRingsAtOnce <= buckets.size(); ++first) {
    std::int64_t sum = 0;
    for (std::size_t i = first; i < first + kRingsAtOnce; ++i) {
      sum += all_reduce_scratch_bytes(buckets[i].end - buckets[i].begin, 8, 2);
    }
    most = std::max(most, sum);
  }
  REQUIRE(most > 0);
  const Bytes data = resident_input_bytes(program.classes[0], plan.model, plan.workload);
  CHECK(beside(plan, machine()) == most + data.value);
}

TEST_CASE("the scratch of tensor-parallel sums is that of the largest", "[sim]") {
  LinearPairSpec spec;  // the second linear's output of 32 x 1 x 8192 floats is summed: 1 MiB
  spec.in = spec.hidden = 64;
  spec.out = 8192;
  const Plan plan = plan_of(make_linear_pair(spec), "tp=2");
  CHECK(beside(plan, machine()) == all_reduce_scratch_bytes(32 * 8192, 4, 2) + 64 * 64 * 4 +
                                       (2 << 20));  // targets of 64 x 8192 floats fill a huge page
}
