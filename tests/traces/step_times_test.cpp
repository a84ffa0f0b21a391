#include "traces/step_times.hpp"

#include "tests/catch2_compat.hpp"

using namespace parplan;
using traces::StepTimes;

namespace {

/// A trace of whole steps only, by (step, rank, length in microseconds).
struct Whole {
  std::int32_t step, rank;
  std::int64_t length_us;
};
Trace trace_of(const std::vector<Whole>& steps) {
  Trace trace;
  for (const Whole& w : steps) {
    TraceEvent e;
    e.key = Key(Phase::kStep, 0, 0, Key::kNone, 0, Key::kWholeInstruction);
    e.step = w.step;
    e.rank = w.rank;
    e.end = Picoseconds{w.length_us * 1000000};
    trace.events.push_back(e);
  }
  return trace;
}

}  // namespace

TEST_CASE("a step takes as long as its slowest rank", "[traces]") {
  const StepTimes times = traces::step_times(trace_of({{4, 0, 10}, {4, 1, 30}, {5, 1, 7}}));
  REQUIRE(times.size() == 2);
  CHECK(times.at(4).value == Approx(30e-6));
  CHECK(times.at(5).value == Approx(7e-6));
}

TEST_CASE("the first step of a run counts only where it must", "[traces]") {
  const StepTimes three{{0, Seconds{9.0}}, {1, Seconds{2.0}}, {2, Seconds{4.0}}};
  CHECK(traces::median_step(traces::without_warm_up(three)) == Seconds{3.0});
  const StepTimes two{{0, Seconds{9.0}}, {1, Seconds{2.0}}};
  CHECK(traces::without_warm_up(two) == two);
  // The last three of more steps: none of them is the first.
  const StepTimes last{{5, Seconds{9.0}}, {6, Seconds{2.0}}, {7, Seconds{4.0}}};
  CHECK(traces::without_warm_up(last) == last);
  CHECK(traces::median_step(last) == Seconds{4.0});
}

TEST_CASE("typical steps are the middle half of those that count", "[traces]") {
  std::vector<Whole> steps{{0, 0, 5}};  // the fifth of nine, were it counted
  for (std::int32_t s = 1; s <= 8; ++s) steps.push_back({s, 0, s});
  CHECK(traces::typical_steps(trace_of(steps)) == std::set<std::int32_t>{3, 4, 5, 6});
  CHECK(traces::typical_steps(trace_of({{0, 0, 5}})) == std::set<std::int32_t>{0});
}
