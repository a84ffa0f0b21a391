#include "traces/compare.hpp"

#include <algorithm>

#include "sim/core/error.hpp"
#include "sim/core/op_code.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/traces/small_run.hpp"

using namespace parplan;
using traces::Comparison;
using traces::ErrorRow;
using traces::TraceFile;

namespace {

bool is_linear_forward(const TraceEvent& e) {
  return e.key.phase() == Phase::kForward &&
         e.key.code() == static_cast<std::uint32_t>(OpCode::kLinearForward);
}

void check_all_exact(const std::vector<ErrorRow>& rows) {
  CHECK_FALSE(rows.empty());
  for (const ErrorRow& row : rows) {
    INFO(row.name << ", rank " << row.rank);
    CHECK(row.predicted.value == Approx(row.measured.value).epsilon(1e-9).margin(1e-15));
    CHECK(row.relative_spread == Approx(0.0).margin(1e-9));
    CHECK(row.count > 0);
  }
}

void check_gap(const traces::GapDecomposition& gap, double compute, double total) {
  const double tolerance = 1e-11;
  CHECK(gap.compute.value == Approx(compute).margin(tolerance));
  CHECK(gap.communication.value == Approx(0.0).margin(tolerance));
  CHECK(gap.waiting.value == Approx(0.0).margin(tolerance));
  CHECK(gap.overhead.value == Approx(0.0).margin(tolerance));
  CHECK(gap.unexplained.value == Approx(0.0).margin(tolerance));
  CHECK(gap.total.value == Approx(total).margin(tolerance));
}

}  // namespace

TEST_CASE("a run exactly as predicted has no error anywhere", "[traces]") {
  for (const char* layout : {"single", "dp=2,microbatches=2", "pp=2,microbatches=4", "tp=2", "mp=2",
                             "dp=2,pp=2,microbatches=2"}) {
    INFO(layout);
    const Plan plan = test::tiny_plan(layout);
    const Comparison c = traces::compare(test::predicted_of(plan, test::round_machine()),
                                         test::measured_on(plan, test::round_machine(), 4));
    CHECK(c.predicted_step.value == Approx(c.measured_step.value).epsilon(1e-12));
    CHECK(c.steps.size() == 4);
    for (const auto* rows : {&c.steps, &c.kinds, &c.layers, &c.operations}) check_all_exact(*rows);
    CHECK(c.layers.size() == plan.model.layers.size());
    CHECK(c.only_predicted.empty());
    CHECK(c.only_measured.empty());
    CHECK(c.memory.size() == static_cast<std::size_t>(plan.layout.ranks()));
    for (const traces::MemoryRow& m : c.memory) {
      CHECK(m.predicted_tensors == m.measured_tensors);
      CHECK(m.predicted_process == m.measured_process);
    }
    check_gap(c.gap, 0.0, 0.0);
  }
}

TEST_CASE("one slow kind of operation shows as exactly that", "[traces]") {
  const Plan plan = test::tiny_plan("microbatches=2");
  const TraceFile predicted = test::predicted_of(plan, test::round_machine());
  TraceFile measured = test::measured_on(plan, test::round_machine(), 3);
  double linear = 0.0;
  for (const TraceEvent& e : predicted.trace.events) {
    if (is_linear_forward(e)) linear += to_seconds(e.end - e.start).value;
  }
  REQUIRE(linear > 0.0);
  test::stretch(measured.trace,
                [](const TraceEvent& e) { return is_linear_forward(e) ? 1.2 : 1.0; });
  const Comparison c = traces::compare(predicted, measured);
  for (const ErrorRow& row : c.kinds) {
    INFO(row.name);
    const double expected = row.name == "linear_forward" ? 1.0 / 1.2 - 1.0 : 0.0;
    CHECK(row.relative_error() == Approx(expected).margin(1e-6));
  }
  check_gap(c.gap, -0.2 * linear, -0.2 * linear);
  // The rows that differ most are the slow ones; after them nothing differs.
  std::size_t slow = 0;
  for (const ErrorRow& row : c.operations) {
    const bool is_slow = row.name.ends_with("/linear_forward");
    CHECK((std::abs(row.difference().value) > 1e-9) == is_slow);
    slow += is_slow ? 1 : 0;
  }
  REQUIRE(slow > 0);
  for (std::size_t i = 0; i < slow; ++i) CHECK(c.operations[i].name.ends_with("/linear_forward"));
}

TEST_CASE("what else differs between prediction and measurement is told", "[traces]") {
  const Plan plan = test::tiny_plan("single");
  const TraceFile predicted = test::predicted_of(plan, test::round_machine());
  TraceFile measured = test::measured_on(plan, test::round_machine(), 3);
  CHECK(traces::compare(predicted, measured).caveats.empty());
  measured.trace.threads_per_rank = 2;
  CHECK(traces::compare(predicted, measured).caveats ==
        std::vector<std::string>{"predicted for 1 thread per rank, measured with 2"});
  measured.trace.threads_per_rank = 1;
  measured.trace.device = "abacus";
  CHECK(traces::compare(predicted, measured).caveats ==
        std::vector<std::string>{"predicted for 'round numbers', measured on 'abacus'"});
  measured.trace.device.clear();  // not known
  CHECK(traces::compare(predicted, measured).caveats.empty());
}

TEST_CASE("waiting for a peer is no error of the transfer", "[traces]") {
  const Plan plan = test::tiny_plan("pp=2,microbatches=2");
  const TraceFile predicted = test::predicted_of(plan, test::round_machine());
  TraceFile measured = test::measured_on(plan, test::round_machine(), 1);
  std::size_t moved = 0;
  for (TraceEvent& e : measured.trace.events) {
    if (e.stream != Stream::kPipelineReceive) continue;
    e.start -= Picoseconds{5000000};
    e.waiting += Picoseconds{5000000};
    ++moved;
  }
  REQUIRE(moved > 0);
  for (const ErrorRow& row : traces::compare(predicted, measured).kinds) {
    CHECK(row.relative_error() == Approx(0.0).margin(1e-9));
  }
}

TEST_CASE("a transfer behind operations differs without cost for the step", "[traces]") {
  Plan plan = test::tiny_plan("dp=2,microbatches=2");
  plan.stack.bucket_bytes = Bytes{1 << 16};
  const TraceFile predicted = test::predicted_of(plan, test::round_machine());
  TraceFile measured = test::measured_on(plan, test::round_machine(), 1);
  // The reduction that begins first goes on beside backward: it may take half as long again.
  const auto reduction = std::find_if(
      measured.trace.events.begin(), measured.trace.events.end(),
      [](const TraceEvent& e) { return e.rank == 0 && e.stream == Stream::kDataParallel; });
  REQUIRE(reduction != measured.trace.events.end());
  const std::string name = to_string(reduction->key, plan.model);
  const Seconds before = to_seconds(reduction->end - reduction->start - reduction->waiting);
  reduction->end += (reduction->end - reduction->start - reduction->waiting) / std::int64_t{2};
  const Comparison c = traces::compare(predicted, measured);
  const auto row = std::find_if(c.operations.begin(), c.operations.end(),
                                [&](const ErrorRow& r) { return r.name == name && r.rank == 0; });
  REQUIRE(row != c.operations.end());
  CHECK(row->measured.value == Approx(1.5 * before.value));
  CHECK(row->relative_error() == Approx(1.0 / 1.5 - 1.0));
  // It may end between two operations, which takes no longer than issuing one.
  const double overhead = test::round_machine().device.operation_overhead.value;
  REQUIRE(overhead < 0.1 * before.value);
  CHECK(row->measured_exposed.value <= overhead);
  CHECK(std::abs(row->difference().value) <= overhead);
}

TEST_CASE("transfers under way at once count from the end of the one before", "[traces]") {
  // Two reductions that are predicted to follow each other go on together, and end as predicted.
  Plan plan = test::tiny_plan("dp=2,microbatches=2");
  plan.stack.bucket_bytes = Bytes{1 << 16};
  plan.stack.overlap_gradient_reduction = false;
  const TraceFile predicted = test::predicted_of(plan, test::round_machine());
  TraceFile measured = test::measured_on(plan, test::round_machine(), 1);
  std::vector<TraceEvent*> reductions;
  for (TraceEvent& e : measured.trace.events) {
    if (e.rank == 0 && e.stream == Stream::kDataParallel) reductions.push_back(&e);
  }
  REQUIRE(reductions.size() > 2);
  std::sort(reductions.begin(), reductions.end(),
            [](const auto* a, const auto* b) { return a->end < b->end; });
  const TraceEvent& first = *reductions[0];
  TraceEvent& second = *reductions[1];
  REQUIRE(second.start + second.waiting >= first.end);
  REQUIRE(second.waiting.value > 0);
  second.waiting = {};
  REQUIRE(second.start < first.end);
  const Comparison c = traces::compare(predicted, measured);
  for (const ErrorRow& row : c.operations) {
    INFO(row.name);
    CHECK(row.relative_error() == Approx(0.0).margin(1e-3));
  }
}

TEST_CASE("what a rank stands still for is exposed", "[traces]") {
  Plan plan = test::tiny_plan("dp=2,microbatches=2");
  plan.stack.overlap_gradient_reduction = false;
  const Comparison c = traces::compare(test::predicted_of(plan, test::round_machine()),
                                       test::measured_on(plan, test::round_machine(), 1));
  const auto row = std::find_if(c.kinds.begin(), c.kinds.end(),
                                [](const ErrorRow& r) { return r.name == "gradient all-reduce"; });
  REQUIRE(row != c.kinds.end());
  // All but the core's own work in them, after which they are issued.
  CHECK(row->measured_exposed.value == Approx(row->measured.value).epsilon(0.01));
}

TEST_CASE("the warm-up is listed and does not count", "[traces]") {
  const Plan plan = test::tiny_plan("single");
  const TraceFile predicted = test::predicted_of(plan, test::round_machine());
  TraceFile measured = test::measured_on(plan, test::round_machine(), 3);
  test::stretch(measured.trace, [](const TraceEvent& e) { return e.step == 0 ? 3.0 : 1.0; });
  const Comparison c = traces::compare(predicted, measured);
  REQUIRE(c.steps.size() == 3);
  CHECK(c.steps[0].name == "step 0 (warm-up)");
  CHECK(c.steps[0].relative_error() < -0.5);
  CHECK(c.counted_steps == 2);
  CHECK(c.measured_step.value == Approx(c.predicted_step.value).epsilon(1e-9));
  CHECK(c.measured_spread == Approx(0.0).margin(1e-9));
  check_all_exact(c.operations);
  check_gap(c.gap, 0.0, 0.0);
}

TEST_CASE("events without a partner are listed by name", "[traces]") {
  const Plan plan = test::tiny_plan("single");
  TraceFile predicted = test::predicted_of(plan, test::round_machine());
  TraceFile measured = test::measured_on(plan, test::round_machine(), 2);
  const Key lost = predicted.trace.events[5].key;
  std::erase_if(measured.trace.events, [&](const TraceEvent& e) { return e.key == lost; });
  const Key extra = predicted.trace.events[9].key;
  REQUIRE(extra != lost);
  std::erase_if(predicted.trace.events, [&](const TraceEvent& e) { return e.key == extra; });
  const Comparison c = traces::compare(predicted, measured);
  CHECK(c.only_predicted == std::vector<std::string>{to_string(lost, plan.model)});
  CHECK(c.only_measured == std::vector<std::string>{to_string(extra, plan.model)});
}

TEST_CASE("steps that differ show as spread, and the median counts", "[traces]") {
  const Plan plan = test::tiny_plan("single");
  const TraceFile predicted = test::predicted_of(plan, test::round_machine());
  TraceFile measured = test::measured_on(plan, test::round_machine(), 5);
  test::stretch(measured.trace, [](const TraceEvent& e) { return e.step == 3 ? 3.0 : 1.0; });
  const Comparison c = traces::compare(predicted, measured);
  CHECK(c.measured_step.value == Approx(c.predicted_step.value).epsilon(1e-9));
  CHECK(c.measured_spread > 1.0);
  CHECK(c.steps[3].relative_error() < -0.5);
}

TEST_CASE("what cannot be compared is refused", "[traces]") {
  const Plan plan = test::tiny_plan("single");
  const TraceFile predicted = test::predicted_of(plan, test::round_machine());
  const TraceFile measured = test::measured_on(plan, test::round_machine(), 1);
  CHECK_THROWS_WITH(traces::compare(measured, predicted), ContainsSubstring("first trace"));
  CHECK_THROWS_WITH(traces::compare(predicted, predicted), ContainsSubstring("second trace"));
  const TraceFile other =
      test::measured_on(test::tiny_plan("dp=2,microbatches=2"), test::round_machine(), 1);
  CHECK_THROWS_AS(traces::compare(predicted, other), InputError);
  CHECK_THROWS_WITH(traces::compare(predicted, other),
                    ContainsSubstring(predicted.trace.plan_digest) &&
                        ContainsSubstring(other.trace.plan_digest) && ContainsSubstring("dp=2"));
}
