#include "sim/cost_model.hpp"

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;
using sim::CostModel;
using sim::CostSource;
using sim::SampleTable;
using sim::Span;
using sim::Waits;

namespace {

Cluster machine() {
  Cluster c;
  c.devices_per_node = 2;
  c.device.peak[DType::kFloat32] = FlopPerSecond{1e11};
  c.device.memory_bandwidth = BytesPerSecond{1e10};
  c.intra_node.latency = Seconds{1e-5};
  c.intra_node.bandwidth = BytesPerSecond{1e9};
  c.inter_node = c.intra_node;
  return c;
}

TransferSample transfer(std::int64_t bytes, double seconds, bool in_situ = false) {
  TransferSample t;
  t.kind = CollectiveKind::kAllReduce;
  t.ranks = 2;
  t.bytes = Bytes{bytes};
  t.median = Seconds{seconds};
  t.cpu = Seconds{in_situ ? 0.0 : seconds / 2};
  t.in_situ = in_situ;
  return t;
}

double wall(const CostModel& costs, std::int64_t bytes, Span span = Span::kOneNode,
            Waits waits = Waits::kAtOnce) {
  return costs.collective(CollectiveKind::kAllReduce, 2, Bytes{bytes}, span, waits).wall.value;
}

}  // namespace

TEST_CASE("without samples an operation takes the larger of its two rooflines", "[sim]") {
  const CostModel costs(machine());
  // A product of 64 x 64 x 64 is bound by its 3 x 16 KiB of memory, one of 4096^3 by its flop.
  const auto small = costs.price(OpCode::kLinearForward, {.rows = 64, .columns = 64, .inner = 64},
                                 {}, DType::kFloat32, {});
  CHECK(small.source == CostSource::kRoofline);
  CHECK(small.time.value == Approx(std::max(2.0 * 64 * 64 * 64 / 1e11, 3.0 * 64 * 64 * 4 / 1e10)));
  const auto large =
      costs.price(OpCode::kLinearForward, {.rows = 4096, .columns = 4096, .inner = 4096}, {},
                  DType::kFloat32, {});
  CHECK(large.time.value == Approx(2.0 * 4096.0 * 4096.0 * 4096.0 / 1e11));
}

TEST_CASE("a measured shape takes what was measured, beside its own number of busy ranks",
          "[sim]") {
  Cluster c = machine();
  const OpShape shape{.rows = 100, .columns = 200, .inner = 300};
  for (const int busy : {1, 2}) {
    OperationSample s;
    s.code = OpCode::kLinearForward;
    s.dtype = DType::kFloat32;
    s.shape = shape;
    s.busy_ranks = busy;
    s.median = Seconds{busy * 1e-3};
    c.operations.push_back(s);
  }
  c.calibration = {{"linear_forward", 3.0, 0.0, 5}};
  const CostModel costs(c);
  const auto price = [&](const OpShape& s, double busy) {
    return costs.price(OpCode::kLinearForward, s, {}, DType::kFloat32, {busy, Bytes{}});
  };
  CHECK(price(shape, 1).source == CostSource::kMeasured);
  CHECK(price(shape, 1).time.value == Approx(1e-3));
  CHECK(price(shape, 2).time.value == Approx(2e-3));
  CHECK(price(shape, 8).time.value == Approx(2e-3));  // the nearest that was measured
  CHECK(price(shape, 1.75).source == CostSource::kMeasured);
  CHECK(price(shape, 1.75).time.value == Approx(0.25 * 1e-3 + 0.75 * 2e-3));
  // Another shape has the same time per flop, times the factor.
  const OpShape twice{.rows = 200, .columns = 200, .inner = 300};
  CHECK(price(twice, 1).source == CostSource::kInterpolated);
  CHECK(price(twice, 1).time.value == Approx(3 * 2e-3).epsilon(1e-6));
}

TEST_CASE("an all-reduce without samples pays steps of latency and the ring's bytes", "[sim]") {
  const CostModel costs(machine());
  const std::int64_t size = 1 << 24;
  // Two ranks: reduce-scatter and all-gather are a step each, and 2 (n-1)/n = 1 of the bytes.
  CHECK(wall(costs, size) == Approx(2 * 1e-5 + static_cast<double>(size) / 1e9));
  CHECK(wall(costs, 0) == 0.0);
  Cluster bus = machine();
  bus.intra_node.half_duplex = true;
  CHECK(wall(CostModel(bus), size) == Approx(2 * 1e-5 + 2 * static_cast<double>(size) / 1e9));
  // One message has a direction of its own and shares with nobody.
  CHECK(CostModel(bus).point_to_point(Bytes{size}, Span::kOneNode).wall.value ==
        Approx(1e-5 + static_cast<double>(size) / 1e9));
  // Of four ranks on one medium each sends 2 (n-1)/n of the bytes, one after the other.
  Cluster medium = machine();
  medium.intra_node.shared = true;
  CHECK(CostModel(medium)
            .collective(CollectiveKind::kAllReduce, 4, Bytes{size}, Span::kOneNode)
            .wall.value == Approx(6 * 1e-5 + 4 * 1.5 * static_cast<double>(size) / 1e9));
}

TEST_CASE("transfers in steps correct the benchmark, and only of one node", "[sim]") {
  Cluster c = machine();
  // The benchmark: 1 ns per byte.
  for (std::int64_t size = 1024; size <= (1 << 20); size *= 2) {
    c.transfers.push_back(transfer(size, 1e-9 * static_cast<double>(size)));
  }
  const double before = wall(CostModel(c), 100'000);
  CHECK(before == Approx(1e-4).epsilon(0.01));
  c.transfers.push_back(transfer(10'000, 2 * 1e-5, true));   // twice as long
  c.transfers.push_back(transfer(300'000, 4 * 3e-4, true));  // four times
  c.calibration = {{"overlapped/all_reduce", 1.5, 0.0, 9}};
  const CostModel costs(c);
  CHECK(wall(costs, 10'000) == Approx(2e-5).epsilon(1e-6));
  CHECK(wall(costs, 300'000) == Approx(1.2e-3).epsilon(1e-6));
  // Beyond the sizes seen the correction stays what it was at the nearest.
  CHECK(wall(costs, 2048) == Approx(2 * 2048e-9).epsilon(0.02));
  CHECK(wall(costs, 1 << 20) == Approx(4 * 1048576e-9).epsilon(0.02));
  // In between it lies in between.
  CHECK(wall(costs, 60'000) > 2 * 6e-5);
  CHECK(wall(costs, 60'000) < 4 * 6e-5);
  const sim::TransferCost cost =
      costs.collective(CollectiveKind::kAllReduce, 2, Bytes{10'000}, Span::kOneNode);
  CHECK(cost.cpu.value == Approx(cost.wall.value / 2).epsilon(1e-6));
  CHECK(wall(costs, 10'000, Span::kOneNode, Waits::kLater) == Approx(1.5 * 2e-5).epsilon(1e-6));
  CHECK(wall(costs, 10'000, Span::kSeveralNodes) == Approx(1e-5 * 1 + 1e-5).epsilon(1e-6));
}

TEST_CASE("a transfer says what its price rests on", "[sim]") {
  Cluster c = machine();
  const auto source = [&c](std::int64_t bytes, Span span = Span::kOneNode) {
    return CostModel(c).collective(CollectiveKind::kAllReduce, 2, Bytes{bytes}, span).source;
  };
  CHECK(source(1 << 20) == sim::CostSource::kRoofline);  // latency and bandwidth are no samples
  c.transfers = {transfer(1 << 10, 1e-5), transfer(1 << 20, 1e-3)};
  CHECK(source(1 << 20) == sim::CostSource::kMeasured);
  CHECK(source(1 << 15) == sim::CostSource::kInterpolated);
  CHECK(source(1 << 20, Span::kSeveralNodes) == sim::CostSource::kRoofline);
}

TEST_CASE("a collective measured by ranks that shared cores is freed of their turns", "[sim]") {
  Cluster c = machine();
  c.devices_per_node = 4;
  TransferSample t = transfer(1 << 20, 1e-3);
  t.ranks = 4;
  t.cpu = Seconds{0.8e-3};
  c.transfers = {t};
  const auto cost = [&c] {
    return CostModel(c).collective(CollectiveKind::kAllReduce, 4, Bytes{1 << 20}, Span::kOneNode);
  };
  c.cores_per_node = 4;
  CHECK(cost().wall.value == Approx(1e-3));
  CHECK(cost().cpu.value == Approx(0.8e-3));
  // Four ranks on two cores: of 1 ms no rank can have had a core for more than 0.5 ms. Without the
  // turns of the others that is all it takes.
  c.cores_per_node = 2;
  CHECK(cost().wall.value == Approx(0.5e-3));
  CHECK(cost().cpu.value == Approx(0.5e-3));
  // 0.3 ms of core take 0.6 ms of the millisecond when shared by two; 0.4 ms are waiting.
  c.transfers[0].cpu = Seconds{0.3e-3};
  CHECK(cost().wall.value == Approx(0.7e-3));
  CHECK(cost().cpu.value == Approx(0.3e-3));
  // Sharing that costs something was in the measured time, too: 0.3 x 2 x 1.25 = 0.75 ms.
  c.core_sharing_slowdown = 1.25;
  CHECK(cost().wall.value == Approx(0.55e-3));
  CHECK(cost().cpu.value == Approx(0.3e-3));
}

TEST_CASE("of several measurements at one point the geometric mean counts", "[sim]") {
  SampleTable table;
  table.add({1.0, 2.0}, 3.0);
  table.add({1.0, 2.0}, 5.0);
  table.add({1.0, 3.0}, 50.0);
  const auto estimate = table.at({1.0, 2.0});
  REQUIRE(estimate.has_value());
  CHECK(estimate->exact);
  CHECK(estimate->log_y == Approx(4.0));
}

TEST_CASE("as many heads in larger batches are another attention", "[sim]") {
  Cluster c = machine();
  for (const std::int64_t heads : {4, 16}) {
    OperationSample s;
    s.code = OpCode::kAttentionForward;
    s.dtype = DType::kFloat32;
    s.shape.batch = 64 / heads;
    s.shape.heads = heads;
    s.shape.queries = s.shape.keys = 128;
    s.shape.head_dim = 64;
    s.median = Seconds{1e-3 * static_cast<double>(heads)};
    c.operations.push_back(s);
  }
  const CostModel costs(c);
  for (const OperationSample& s : c.operations) {
    CHECK(costs.price(s.code, s.shape, {}, s.dtype, {}).time.value == Approx(s.median.value));
  }
}

TEST_CASE("products in a precision that the machine file does not know are refused", "[sim]") {
  Cluster c = machine();  // of float32 alone
  Model model;
  model.ops.push_back({});
  model.ops.back().body = LinearOp{64, 64};
  CHECK_NOTHROW(CostModel(c).require_products(model, DType::kFloat32));
  CHECK_THROWS_WITH(CostModel(c).require_products(model, DType::kFloat64),
                    ContainsSubstring("linear_forward is in float64") &&
                        ContainsSubstring("device.peak_flop_per_s.float64"));
  for (const OpCode code :
       {OpCode::kLinearForward, OpCode::kLinearBackwardInput, OpCode::kLinearBackwardWeight}) {
    CHECK_THROWS_AS(CostModel(c).require_products(model, DType::kFloat64), InputError);
    OperationSample sample;
    sample.code = code;
    sample.dtype = DType::kFloat64;
    sample.shape = {.rows = 64, .columns = 64, .inner = 64};
    sample.median = Seconds{1e-5};
    c.operations.push_back(sample);
  }
  CHECK_NOTHROW(CostModel(c).require_products(model, DType::kFloat64));
}
