#include "traces/breakdown.hpp"

#include "sim/core/op_code.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/traces/small_run.hpp"
#include "traces/statistics.hpp"
#include "traces/step_times.hpp"

using namespace parplan;

namespace {

constexpr std::int64_t kMicrosecond = 1000000;  // in picoseconds

Key operation(OpCode code) {
  return Key(Phase::kForward, 0, 0, 0, 0, static_cast<std::uint32_t>(code));
}
Key receive() {
  return Key(Phase::kReceiveActivation, 0, 0, Key::kNone, 1, Key::kWholeInstruction);
}
Key step() { return Key(Phase::kStep, 0, 0, Key::kNone, 0, Key::kWholeInstruction); }

TraceEvent event(Key key, std::int64_t from_us, std::int64_t to_us, std::int64_t waiting_us = 0,
                 Stream stream = Stream::kCompute) {
  TraceEvent e;
  e.key = key;
  e.stream = stream;
  e.start = Picoseconds{from_us * kMicrosecond};
  e.end = Picoseconds{to_us * kMicrosecond};
  e.waiting = Picoseconds{waiting_us * kMicrosecond};
  return e;
}

/// One step of 1000 us. Compute stream:
///   0 overhead 100 linear 300 gap 500 linear 700 all-reduce 800 adam 950 overhead 1000
/// The gap is for a receive posted at 150 whose peer comes 250 later, at 400, and that is done at
/// 450.
Trace hand_made() {
  Trace trace;
  trace.ranks = 1;
  trace.steps = 1;
  trace.events = {
      event(step(), 0, 1000),
      event(operation(OpCode::kLinearForward), 100, 300),
      event(receive(), 150, 450, 250, Stream::kPipelineReceive),
      event(operation(OpCode::kLinearForward), 500, 700),
      event(operation(OpCode::kTensorAllReduce), 700, 800, 30),
      event(Key(Phase::kOptimizer, 0, 0, Key::kNone, 0, Key::kWholeInstruction), 800, 950),
  };
  return trace;
}

void check_us(Seconds time, double microseconds) {
  CHECK(time.value * 1e6 == Approx(microseconds).margin(1e-9));
}

double parts(const traces::RankBreakdown& b) {
  return (b.compute + b.communication + b.waiting + b.overhead).value;
}

}  // namespace

TEST_CASE("a hand-made step comes apart into its known parts", "[traces]") {
  const auto ranks = traces::break_down(hand_made());
  REQUIRE(ranks.size() == 1);
  const traces::RankBreakdown& b = ranks[0];
  check_us(b.step, 1000);
  check_us(b.compute, 200 + 200 + 150);   // two linears and adam
  check_us(b.waiting, (400 - 300) + 30);  // the peer comes at 400; 30 of the all-reduce
  check_us(b.communication, (450 - 400) + (100 - 30));
  check_us(b.overhead, 100 + (500 - 450) + 50);  // before, after the receive, at the end
  check_us(Seconds{parts(b)}, 1000);
}

TEST_CASE("events that span operations are not counted twice", "[traces]") {
  Trace trace = hand_made();
  const auto before = traces::break_down(trace);
  trace.events.push_back(
      event(Key(Phase::kForward, 0, 0, Key::kNone, 0, Key::kWholeInstruction), 90, 720));
  CHECK(traces::spans_operations(trace.events.back()));
  CHECK_FALSE(traces::spans_operations(trace.events[1]));
  CHECK_FALSE(traces::spans_operations(trace.events[0]));
  CHECK(traces::break_down(trace)[0].compute == before[0].compute);
}

TEST_CASE("predicted core work counts where a measurement has it", "[traces]") {
  // A reduction that is issued at 120, needs 250 of the core and is done at 990: of the gap from
  // 300 to 500, between operations, all is such work; a measured linear would have been so much
  // longer. The last gap is for its end: 40 of it, and of the rest the work that is left.
  Trace trace = hand_made();
  trace.source = TraceSource::kPredicted;
  trace.events[2] = event(Key(Phase::kReduceGradients, 0, 0, Key::kNone, 0, Key::kWholeInstruction),
                          120, 990, 0, Stream::kDataParallel);
  trace.events[2].cpu = Picoseconds{250 * kMicrosecond};
  traces::RankBreakdown b = traces::break_down(trace)[0];
  check_us(b.compute, 200 + 200 + 150 + 200);
  check_us(b.communication, (100 - 30) + 40 + 10);
  check_us(b.waiting, 30);
  check_us(b.overhead, 100);  // at the beginning
  check_us(Seconds{parts(b)}, 1000);
  trace.events[2].cpu = Picoseconds{80 * kMicrosecond};
  b = traces::break_down(trace)[0];
  check_us(b.compute, 200 + 200 + 150 + 80);
  check_us(b.overhead, 100 + 120 + 10);
}

TEST_CASE("a transfer that is not awaited explains no gap", "[traces]") {
  Trace trace = hand_made();
  // Done only after the gap, so that the compute stream cannot have waited for it.
  trace.events[2] = event(receive(), 150, 600, 250, Stream::kPipelineReceive);
  const traces::RankBreakdown b = traces::break_down(trace)[0];
  check_us(b.overhead, 100 + 200 + 50);
  check_us(b.waiting, 30);
  check_us(b.communication, 70);
  check_us(Seconds{parts(b)}, 1000);
}

TEST_CASE("parts are means of typical steps and add up to the median step", "[traces]") {
  // Rank 1 takes 100 us more than rank 0 in every step. Of the slowest rank's steps 1110, 4100,
  // 1130, 1100 and 1140 us the quickest and the slowest do not count, the first of the run neither:
  // typical are 1110, 1130 and 1140, in the mean 1126.67, the median is 1130.
  Trace trace;
  trace.ranks = 2;
  const std::int64_t lengths[] = {2000, 1010, 4000, 1030, 1000, 1040};
  for (int s = 0; s < 6; ++s) {
    const std::int64_t from = 10000 * s;
    for (int rank = 0; rank < 2; ++rank) {
      const std::int64_t length = lengths[s] + 100 * rank;
      trace.events.push_back(event(step(), from, from + length));
      trace.events.push_back(event(operation(OpCode::kLinearForward), from, from + length - 40));
      for (std::size_t last : {trace.events.size() - 2, trace.events.size() - 1}) {
        trace.events[last].step = s;
        trace.events[last].rank = rank;
      }
    }
  }
  check_us(traces::step_time_of(trace), 1130);
  const auto ranks = traces::break_down(trace);
  REQUIRE(ranks.size() == 2);
  const double scale = 1130.0 / ((1110.0 + 1130.0 + 1140.0) / 3.0);
  for (int rank = 0; rank < 2; ++rank) {
    const double mean = (1010.0 + 1030.0 + 1040.0) / 3.0 + 100.0 * rank;
    CHECK(ranks[rank].rank == rank);
    check_us(ranks[rank].step, scale * mean);
    check_us(ranks[rank].compute, scale * (mean - 40.0));
    check_us(ranks[rank].overhead, scale * 40.0);
  }
  check_us(ranks[1].step, 1130);
}

TEST_CASE("medians of even and odd counts, and of nothing", "[traces]") {
  CHECK(traces::median_of({}) == 0.0);
  CHECK(traces::median_of({3.0}) == 3.0);
  CHECK(traces::median_of({9.0, 1.0, 5.0}) == 5.0);
  CHECK(traces::median_of({8.0, 1.0, 4.0, 2.0}) == 3.0);
}

TEST_CASE("predicted steps sum to their parts in every layout", "[traces]") {
  for (const char* layout : {"single", "dp=2,microbatches=2", "pp=2,microbatches=4", "tp=2", "mp=2",
                             "dp=2,pp=2,schedule=gpipe,microbatches=2"}) {
    INFO(layout);
    const auto file = test::predicted_of(test::tiny_plan(layout), test::round_machine());
    const auto ranks = traces::break_down(file.trace);
    CHECK(ranks.size() == static_cast<std::size_t>(file.trace.ranks));
    for (const traces::RankBreakdown& b : ranks) {
      CHECK(b.compute.value > 0.0);
      CHECK(parts(b) == Approx(b.step.value).epsilon(1e-9));
    }
  }
}
