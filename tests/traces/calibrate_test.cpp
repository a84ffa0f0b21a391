#include "traces/calibrate.hpp"

#include "sim/core/error.hpp"
#include "sim/core/op_code.hpp"
#include "sim/simulate.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/traces/small_run.hpp"
#include "traces/breakdown.hpp"
#include "traces/step_times.hpp"

using namespace parplan;

namespace {

/// The same machine believed to compute three times as fast, to move half as fast, to have other
/// overheads.
Cluster wrong_machine() {
  Cluster c = test::round_machine();
  c.device.peak[DType::kFloat32] = FlopPerSecond{3e11};
  c.device.memory_bandwidth = BytesPerSecond{9e10};
  c.device.operation_overhead = Seconds{1e-7};
  c.device.instruction_overhead = Seconds{9e-6};
  c.device.step_overhead = Seconds{2e-3};
  c.intra_node.latency = Seconds{4e-6};
  c.intra_node.bandwidth = BytesPerSecond{2e9};
  return c;
}

double step_time(const Plan& plan, const Cluster& cluster) {
  return sim::simulate(plan, cluster, {.trace = false}).step_time.value;
}

const CalibrationFactor* find_factor(const std::vector<CalibrationFactor>& factors,
                                     const std::string& key) {
  for (const CalibrationFactor& f : factors) {
    if (f.key == key) return &f;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a wrong machine file predicts the true step time once calibrated", "[traces]") {
  const Cluster truth = test::round_machine();
  for (const char* layout : {"single", "microbatches=4", "dp=2,microbatches=2",
                             "pp=2,microbatches=4", "tp=2,microbatches=2", "dp=2,tp=2", "mp=2"}) {
    INFO(layout);
    const Plan plan = test::tiny_plan(layout);
    const double expected = step_time(plan, truth);
    REQUIRE(std::abs(step_time(plan, wrong_machine()) / expected - 1.0) > 0.1);
    traces::CalibrationSummary summary;
    const Cluster refitted = traces::calibrate(
        wrong_machine(), {{"measured.json", test::measured_on(plan, truth, 3)}}, &summary);
    CHECK(step_time(plan, refitted) == Approx(expected).epsilon(0.01));
    CHECK(summary.events > 0);
    CHECK(summary.new_shapes > 0);
    CHECK(summary.refitted_shapes == 0);
    const bool stops_for_transfers = plan.layout.tp > 1 || plan.layout.pp > 1 || plan.layout.mp > 1;
    CHECK((summary.new_transfers > 0) == stops_for_transfers);
    CHECK(summary.refitted_transfers == 0);
    CHECK(static_cast<std::int64_t>(refitted.operations.size()) == summary.new_shapes);
    for (const OperationSample& sample : refitted.operations) {
      CHECK(sample.median.value > 0.0);
      CHECK(sample.relative_spread == Approx(0.0).margin(1e-6));
    }
  }
}

TEST_CASE("disturbed steps, fewer than a quarter, do not move the fit", "[traces]") {
  const Plan plan = test::tiny_plan("microbatches=2");
  const Cluster truth = test::round_machine();
  constexpr int kSteps = 20;
  traces::TraceFile measured = test::measured_on(plan, truth, kSteps);
  std::size_t outliers = 0;
  // In four of twenty steps, every third operation takes eight times as long.
  test::stretch(measured.trace, [&outliers](const TraceEvent& e) {
    const bool hit = e.step % 5 == 2 && (e.key.packed * 0x9E3779B97F4A7C15U >> 32) % 3 == 0;
    outliers += hit ? 1 : 0;
    return hit ? 8.0 : 1.0;
  });
  REQUIRE(outliers * 25 > measured.trace.events.size());
  const Cluster refitted = traces::calibrate(wrong_machine(), {{"measured.json", measured}});
  CHECK(step_time(plan, refitted) == Approx(step_time(plan, truth)).epsilon(0.01));
}

TEST_CASE("what happens in every step is no outlier", "[traces]") {
  const Plan plan = test::tiny_plan("microbatches=2");
  traces::TraceFile measured = test::measured_on(plan, test::round_machine(), 20);
  // Every operation takes four times as long in every fifth step, each key in other ones.
  test::stretch(measured.trace, [](const TraceEvent& e) {
    const auto turn = (e.key.packed * 0x9E3779B97F4A7C15U >> 32) % 5;
    return static_cast<std::uint64_t>(e.step) % 5 == turn ? 4.0 : 1.0;
  });
  const Cluster refitted = traces::calibrate(wrong_machine(), {{"measured.json", measured}});
  CHECK(step_time(plan, refitted) ==
        Approx(traces::step_time_of(measured.trace).value).epsilon(0.03));
}

TEST_CASE("a second calibration refits the shapes of the first", "[traces]") {
  const Plan plan = test::tiny_plan("single");
  const Cluster once = traces::calibrate(
      wrong_machine(), {{"first.json", test::measured_on(plan, test::round_machine(), 2)}});
  Cluster slower = test::round_machine();
  slower.device.peak[DType::kFloat32] = FlopPerSecond{5e10};
  slower.device.memory_bandwidth = BytesPerSecond{1e10};
  traces::CalibrationSummary summary;
  const Cluster twice =
      traces::calibrate(once, {{"second.json", test::measured_on(plan, slower, 2)}}, &summary);
  CHECK(summary.new_shapes == 0);
  CHECK(summary.refitted_shapes > 0);
  CHECK(twice.operations.size() == once.operations.size());
  CHECK(step_time(plan, twice) == Approx(step_time(plan, slower)).epsilon(0.01));
  REQUIRE(twice.provenance.fitted_from.size() == 2);
  CHECK(twice.provenance.fitted_from[0] == "first.json (single, gpt2-tiny)");
  CHECK(twice.provenance.fitted_from[1] == "second.json (single, gpt2-tiny)");
}

TEST_CASE("traces of another device, and one given twice, are refused", "[traces]") {
  const traces::TraceFile measured =
      test::measured_on(test::tiny_plan("single"), test::round_machine(), 3);
  Cluster other = test::round_machine();
  other.device.name = "NVIDIA H100";
  CHECK_THROWS_WITH(traces::calibrate(other, {{"m.json", measured}}),
                    ContainsSubstring("m.json: measured on 'round numbers'") &&
                        ContainsSubstring("describes 'NVIDIA H100'"));
  traces::TraceFile unknown = measured;
  unknown.trace.device.clear();
  CHECK_NOTHROW(traces::calibrate(other, {{"m.json", unknown}}));
  CHECK_THROWS_WITH(
      traces::calibrate(test::round_machine(), {{"m.json", measured}, {"copy.json", measured}}),
      ContainsSubstring("copy.json: the same measurement as m.json"));
}

TEST_CASE("traces of a precision or of threads that the machine file is not of are refused",
          "[traces]") {
  Plan plan = test::tiny_plan("single");
  plan.workload.precision = DType::kFloat64;
  Cluster floats = test::round_machine();
  REQUIRE_FALSE(floats.device.peak.contains(DType::kFloat64));
  Cluster both = floats;
  both.device.peak[DType::kFloat64] = FlopPerSecond{1e12};
  const traces::TraceFile doubles = test::measured_on(plan, both, 3);
  CHECK_NOTHROW(traces::calibrate(both, {{"m.json", doubles}}));
  CHECK_THROWS_WITH(traces::calibrate(floats, {{"m.json", doubles}}),
                    ContainsSubstring("m.json: measured in float64, of which") &&
                        ContainsSubstring("parplan profile --precision float64"));
  // A sample is enough to know of it.
  OperationSample sample;
  sample.dtype = DType::kFloat64;
  floats.operations.push_back(sample);
  CHECK_NOTHROW(traces::calibrate(floats, {{"m.json", doubles}}));
  traces::TraceFile threads = doubles;
  threads.trace.threads_per_rank = 2;
  CHECK_THROWS_WITH(traces::calibrate(both, {{"m.json", threads}}),
                    ContainsSubstring("m.json: its ranks computed with 2 threads each"));
}

TEST_CASE("factors take the place of what was there and the rest is kept", "[traces]") {
  const Plan plan = test::tiny_plan("dp=2,microbatches=1");
  Cluster machine = test::round_machine();
  machine.calibration = {{"overlapped/all_reduce", 2.0, 0.1, 7}, {"overlapped/broadcast", 3, 0, 5}};
  // The file has reductions beside backward take twice their true time: the fit must take it back.
  traces::CalibrationSummary summary;
  const Cluster refitted = traces::calibrate(
      machine, {{"m.json", test::measured_on(plan, test::round_machine(), 2)}}, &summary);
  const CalibrationFactor* fitted = find_factor(summary.factors, "overlapped/all_reduce");
  REQUIRE(fitted != nullptr);
  CHECK(fitted->factor == Approx(1.0).epsilon(1e-3));
  const CalibrationFactor* merged = find_factor(refitted.calibration, "overlapped/all_reduce");
  REQUIRE(merged != nullptr);
  CHECK(merged->factor == Approx(1.0).epsilon(1e-3));
  CHECK(merged->samples > 0);
  const CalibrationFactor* kept = find_factor(refitted.calibration, "overlapped/broadcast");
  REQUIRE(kept != nullptr);
  CHECK(*kept == machine.calibration[1]);
  CHECK(refitted.provenance.host == machine.provenance.host);
  CHECK(refitted.provenance.date == machine.provenance.date);
  CHECK(refitted.intra_node == machine.intra_node);
  CHECK(refitted.device.memory == machine.device.memory);
}

TEST_CASE("buckets that queue for a slow link do not look slow themselves", "[traces]") {
  // Reductions take far longer than backward: of the last bucket's time from issue to completion
  // nearly all is spent behind the others.
  Plan plan = test::tiny_plan("dp=2,microbatches=1");
  plan.stack.bucket_bytes = Bytes{256 << 10};
  Cluster machine = test::round_machine();
  machine.intra_node.bandwidth = BytesPerSecond{1e8};
  traces::CalibrationSummary summary;
  const Cluster refitted =
      traces::calibrate(machine, {{"m.json", test::measured_on(plan, machine, 3)}}, &summary);
  const CalibrationFactor* fitted = find_factor(summary.factors, "overlapped/all_reduce");
  REQUIRE(fitted != nullptr);
  CHECK(fitted->factor == Approx(1.0).epsilon(1e-3));
  CHECK(step_time(plan, refitted) == Approx(step_time(plan, machine)).epsilon(0.01));
  // Half the bandwidth is seen as what it is.
  Cluster slower = machine;
  slower.intra_node.bandwidth = BytesPerSecond{5e7};
  traces::CalibrationSummary half;
  traces::calibrate(machine, {{"m.json", test::measured_on(plan, slower, 3)}}, &half);
  fitted = find_factor(half.factors, "overlapped/all_reduce");
  REQUIRE(fitted != nullptr);
  CHECK(fitted->factor > 1.5);
}

TEST_CASE("operations are fitted less what transfers beside them took", "[traces]") {
  // One data-parallel step on a link that takes half of the core: every operation beside a
  // reduction lasts twice as long. The machine file that says so needs no correction of operations.
  const Plan plan = test::tiny_plan("dp=2,microbatches=1");
  Cluster machine = test::round_machine();
  machine.intra_node.latency = Seconds{};
  machine.intra_node.bandwidth = BytesPerSecond{1e8};
  machine.intra_node.send_cpu_s_per_byte = 5e-9;  // half of the 10 ns that a byte takes
  traces::TraceFile file = test::measured_on(plan, machine, 1);
  std::erase_if(file.trace.events,
                [](const TraceEvent& e) { return e.stream != Stream::kCompute; });
  Picoseconds begin = file.trace.events.back().end;
  Picoseconds end;
  for (const TraceEvent& e : file.trace.events) {
    begin = std::min(begin, e.start);
    end = std::max(end, e.end);
  }
  // Operations stretched to twice their length under one reduction that lasts longer than they do.
  for (TraceEvent& e : file.trace.events) {
    e.start = begin + (e.start - begin) * std::int64_t{2};
    e.end = begin + (e.end - begin) * std::int64_t{2};
  }
  const auto length = (end - begin) * std::int64_t{3};
  for (const int rank : {0, 1}) {
    TraceEvent e;
    e.rank = rank;
    e.stream = Stream::kDataParallel;
    e.key = Key(Phase::kReduceGradients, 0, 0, Key::kNone, 0, Key::kWholeInstruction);
    e.start = begin;
    e.end = begin + length;
    e.bytes = Bytes{static_cast<std::int64_t>(to_seconds(length).value * 1e8)};
    file.trace.events.push_back(e);
  }
  const Cluster refitted = traces::calibrate(machine, {{"m.json", file}});
  REQUIRE(!refitted.operations.empty());
  const sim::CostModel before(machine);
  for (const OperationSample& s : refitted.operations) {
    INFO(name_of(s.code));
    const Seconds alone =
        before.price(s.code, s.shape, s.variant, s.dtype, {static_cast<double>(s.busy_ranks), {}})
            .time;
    // An operation's event contains the overhead of starting it.
    const Seconds overhead = s.code == OpCode::kAdam ? Seconds{} : Seconds{2e-6};
    CHECK(s.median.value == Approx((alone + overhead).value).epsilon(0.01));
  }
}

TEST_CASE("a transfer whose end the receiver noticed late does not look slow", "[traces]") {
  const Plan plan = test::tiny_plan("pp=2,schedule=1f1b,microbatches=8");
  const traces::TraceFile measured = test::measured_on(plan, test::round_machine(), 3);
  traces::TraceFile late = measured;
  int moved = 0;
  for (TraceEvent& e : late.trace.events) {
    const Phase phase = e.key.phase();
    if (phase != Phase::kReceiveActivation && phase != Phase::kReceiveGradient) continue;
    // The receiver was computing and looks after that operation only.
    for (const TraceEvent& work : measured.trace.events) {
      const bool covers = work.rank == e.rank && work.step == e.step &&
                          work.stream == Stream::kCompute && work.key.phase() != Phase::kStep &&
                          !traces::spans_operations(work) && work.start < e.end && e.end < work.end;
      if (!covers) continue;
      e.end = work.end;
      ++moved;
    }
  }
  REQUIRE(moved >= 3);
  const auto median = [](const Cluster& c) {
    for (const TransferSample& t : c.transfers) {
      if (t.kind == CollectiveKind::kSendReceive && t.in_situ) return t.median.value;
    }
    return 0.0;
  };
  const double expected = median(traces::calibrate(wrong_machine(), {{"m.json", measured}}));
  CHECK(expected > 0.0);
  CHECK(median(traces::calibrate(wrong_machine(), {{"m.json", late}})) ==
        Approx(expected).epsilon(0.01));
}

TEST_CASE("a predicted trace calibrates nothing", "[traces]") {
  const Plan plan = test::tiny_plan("single");
  const std::vector<traces::NamedTrace> named{
      {"predicted.json", test::predicted_of(plan, test::round_machine())}};
  CHECK_THROWS_AS(traces::calibrate(test::round_machine(), named), InputError);
  CHECK_THROWS_WITH(traces::calibrate(test::round_machine(), named),
                    ContainsSubstring("predicted.json"));
}

TEST_CASE("a trace of nothing but steps calibrates nothing", "[traces]") {
  traces::TraceFile steps = test::predicted_of(test::tiny_plan("single"), test::round_machine());
  steps.trace.source = TraceSource::kMeasured;
  std::erase_if(steps.trace.events,
                [](const TraceEvent& e) { return e.key.phase() != Phase::kStep; });
  CHECK_THROWS_WITH(
      traces::calibrate(test::round_machine(), {{"steps.json", steps}}),
      ContainsSubstring("steps.json: none of its events is an operation or a transfer"));
}

TEST_CASE("ranks that shared cores calibrate nothing", "[traces]") {
  Cluster machine = test::round_machine();
  machine.devices_per_node = 4;
  const Plan two = test::tiny_plan("dp=2"), four = test::tiny_plan("dp=4");
  CHECK_NOTHROW(traces::calibrate(machine, {{"two.json", test::measured_on(two, machine, 3)}}));
  const std::vector<traces::NamedTrace> named{{"four.json", test::measured_on(four, machine, 3)}};
  CHECK_THROWS_AS(traces::calibrate(machine, named), InputError);
  CHECK_THROWS_WITH(traces::calibrate(machine, named), ContainsSubstring("four.json"));
}

TEST_CASE("a trace without steps is refused by name", "[traces]") {
  traces::TraceFile file = test::measured_on(test::tiny_plan("single"), test::round_machine(), 2);
  std::erase_if(file.trace.events,
                [](const TraceEvent& e) { return e.key.phase() == Phase::kStep; });
  CHECK_THROWS_WITH(traces::calibrate(test::round_machine(), {{"empty.json", file}}),
                    ContainsSubstring("empty.json: no step"));
}
