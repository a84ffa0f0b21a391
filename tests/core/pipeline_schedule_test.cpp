#include "sim/core/pipeline_schedule.hpp"

#include <algorithm>
#include <string>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

namespace {

constexpr auto kGpipe = PipelineSchedule::kGpipe;
constexpr auto k1f1b = PipelineSchedule::kOneForwardOneBackward;

std::string text(const std::vector<ScheduleStep>& order) {
  std::string out;
  for (const auto& step : order) {
    if (!out.empty()) out += ' ';
    out += (step.kind == StepKind::kForward ? "F" : "B") + std::to_string(step.microbatch);
  }
  return out;
}

ScheduleTable table_of(const std::vector<std::vector<std::string>>& stages) {
  ScheduleTable table;
  for (const auto& stage : stages) {
    auto& order = table.emplace_back();
    for (const auto& step : stage) {
      order.push_back(
          {step[0] == 'F' ? StepKind::kForward : StepKind::kBackward, std::stoi(step.substr(1))});
    }
  }
  return table;
}

std::string problem_of(const std::vector<std::vector<std::string>>& stages) {
  return schedule_problem(table_of(stages)).value_or("none");
}

}  // namespace

TEST_CASE("schedule names round-trip and others are refused", "[core]") {
  CHECK(pipeline_schedule_name(kGpipe) == "gpipe");
  CHECK(pipeline_schedule_name(k1f1b) == "1f1b");
  CHECK(parse_pipeline_schedule("gpipe") == kGpipe);
  CHECK(parse_pipeline_schedule("1f1b") == k1f1b);
  CHECK_FALSE(parse_pipeline_schedule("1F1B").has_value());
}

TEST_CASE("gpipe runs every forward, then every backward, both in order", "[core]") {
  for (int stage = 0; stage < 3; ++stage) {
    CHECK(text(stage_order(kGpipe, 3, 3, stage)) == "F0 F1 F2 B0 B1 B2");
  }
}

TEST_CASE("1f1b warms up with the stages behind it and then alternates", "[core]") {
  CHECK(text(stage_order(k1f1b, 3, 4, 0)) == "F0 F1 F2 B0 F3 B1 B2 B3");
  CHECK(text(stage_order(k1f1b, 3, 4, 1)) == "F0 F1 B0 F2 B1 F3 B2 B3");
  CHECK(text(stage_order(k1f1b, 3, 4, 2)) == "F0 B0 F1 B1 F2 B2 F3 B3");
  SECTION("fewer microbatches than stages") {
    CHECK(text(stage_order(k1f1b, 4, 2, 0)) == "F0 F1 B0 B1");
    CHECK(text(stage_order(k1f1b, 4, 2, 1)) == "F0 F1 B0 B1");
    CHECK(text(stage_order(k1f1b, 4, 2, 2)) == "F0 F1 B0 B1");
    CHECK(text(stage_order(k1f1b, 4, 2, 3)) == "F0 B0 F1 B1");
  }
}

TEST_CASE("both schedules are complete, never deadlock and hold what theory says", "[core]") {
  for (int stages = 1; stages <= 9; ++stages) {
    for (int microbatches = 1; microbatches <= 13; ++microbatches) {
      CAPTURE(stages, microbatches);
      const auto gpipe = schedule_table(kGpipe, stages, microbatches);
      const auto one = schedule_table(k1f1b, stages, microbatches);
      REQUIRE(gpipe.size() == static_cast<std::size_t>(stages));
      REQUIRE(one.size() == static_cast<std::size_t>(stages));
      CHECK(schedule_problem(gpipe).value_or("none") == "none");
      CHECK(schedule_problem(one).value_or("none") == "none");
      for (int stage = 0; stage < stages; ++stage) {
        const auto s = static_cast<std::size_t>(stage);
        CHECK(gpipe[s].size() == 2 * static_cast<std::size_t>(microbatches));
        CHECK(in_flight_microbatches(gpipe[s]) == microbatches);
        CHECK(in_flight_microbatches(one[s]) == std::min(stages - stage, microbatches));
      }
    }
  }
}

TEST_CASE("impossible pipelines are refused", "[core]") {
  CHECK_THROWS_AS(stage_order(kGpipe, 0, 1, 0), InputError);
  CHECK_THROWS_AS(stage_order(kGpipe, 2, 0, 0), InputError);
  CHECK_THROWS_AS(stage_order(k1f1b, 2, 1, 2), InputError);
  CHECK_THROWS_AS(stage_order(k1f1b, 2, 1, -1), InputError);
  CHECK_THROWS_AS(schedule_table(k1f1b, 0, 1), InputError);
}

TEST_CASE("a broken schedule table is named by what is wrong", "[core]") {
  CHECK(problem_of({}) == "the schedule has no stage.");
  CHECK(problem_of({{}}) == "stage 0 has no forward.");
  CHECK(problem_of({{"F0", "B0", "B0"}}) == "stage 0 has the backward of microbatch 0 twice.");
  CHECK(problem_of({{"B0", "F0"}}) ==
        "stage 0 has the backward of microbatch 0 before its forward.");
  CHECK(problem_of({{"F0", "B0"}, {"F0"}}) == "stage 1 lacks the backward of microbatch 0.");
  CHECK(problem_of({{"F0", "B0"}, {"F0", "F1", "B0"}}) ==
        "stage 1 has the forward of microbatch 1, but there are 1 microbatches.");
  CHECK(problem_of({{"F0", "F1", "B0", "B1"}, {"F0", "F1", "B1", "B0"}}) ==
        "stages 0 and 1 run the backwards in different orders.");
}

TEST_CASE("a schedule that deadlocks says who waits for what", "[core]") {
  // Stage 0 wants a gradient back before it gives the second microbatch; stage 1 wants both first.
  CHECK(problem_of({{"F0", "B0", "F1", "B1"}, {"F0", "F1", "B0", "B1"}}) ==
        "the schedule deadlocks when sends block: "
        "stage 0 waits for the backward of microbatch 0 from stage 1; "
        "stage 1 waits for the forward of microbatch 1 from stage 0.");
  // With buffered sends this would run, but blocked in its send of microbatch 2 the first stage
  // never comes to take the gradient that the second must hand over before it can go on.
  CHECK(problem_of({{"F0", "F1", "F2", "F3", "B0", "B1", "B2", "B3"},
                    {"F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"}}) ==
        "the schedule deadlocks when sends block: "
        "stage 0 cannot hand the forward of microbatch 2 to stage 1; "
        "stage 1 cannot hand the backward of microbatch 0 to stage 0.");
  // One microbatch less and the send comes together with the receive.
  CHECK(problem_of({{"F0", "F1", "F2", "B0", "B1", "B2"}, {"F0", "B0", "F1", "B1", "F2", "B2"}}) ==
        "none");
}
