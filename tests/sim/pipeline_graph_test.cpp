#include "sim/pipeline_graph.hpp"

#include <algorithm>

#include "sim/core/error.hpp"
#include "sim/longest_path.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;
using namespace parplan::sim;

namespace {

constexpr auto kGpipe = PipelineSchedule::kGpipe;
constexpr auto k1f1b = PipelineSchedule::kOneForwardOneBackward;

PipelineTimes equal_times(std::size_t stages, std::int64_t forward, std::int64_t backward,
                          std::int64_t transfer) {
  PipelineTimes times;
  times.forward_ps.assign(stages, forward);
  times.backward_ps.assign(stages, backward);
  times.activation_transfer_ps.assign(stages - 1, transfer);
  times.gradient_transfer_ps.assign(stages - 1, transfer);
  return times;
}

std::int64_t makespan_of(const ScheduleTable& table, TransferMode mode,
                         const PipelineTimes& times) {
  const bool parts = !times.activation_send_ps.empty();
  const auto pipeline = build_pipeline_graph(table, mode, parts);
  std::vector<std::int64_t> scratch;
  return makespan_ps(pipeline.graph, pipeline_durations_ps(pipeline, times), scratch);
}

}  // namespace

TEST_CASE("bubble over ideal time is (p-1)/m with equal stages and free transfers", "[sim]") {
  // Each stage works m * (f + b); the last microbatch's forward reaches the last stage p - 1
  // forwards late and the last backward comes back p - 1 backwards later: the step is (m + p - 1)(f
  // + b).
  for (const auto schedule : {kGpipe, k1f1b}) {
    for (const auto mode :
         {TransferMode::kEager, TransferMode::kPosted, TransferMode::kRendezvous}) {
      for (int p = 1; p <= 8; ++p) {
        for (int m = 1; m <= 17; ++m) {
          CAPTURE(p, m);
          const auto table = schedule_table(schedule, p, m);
          const std::int64_t step =
              makespan_of(table, mode, equal_times(static_cast<std::size_t>(p), 1009, 1999, 0));
          const std::int64_t ideal = m * (1009 + 1999);
          CHECK((step - ideal) * m == ideal * (p - 1));
        }
      }
    }
  }
}

TEST_CASE("two stages and one microbatch are a plain chain", "[sim]") {
  auto times = equal_times(2, 10, 20, 3);
  times.activation_send_ps = {1};
  times.activation_receive_ps = {2};
  times.gradient_send_ps = {4};
  times.gradient_receive_ps = {5};
  // forward 10, send 1, transfer 3, receive 2, forward 10, backward 20, send 4, transfer 3, receive
  // 5, backward 20: 78 in either mode.
  const auto table = schedule_table(kGpipe, 2, 1);
  CHECK(makespan_of(table, TransferMode::kEager, times) == 78);
  CHECK(makespan_of(table, TransferMode::kRendezvous, times) == 78);
}

TEST_CASE("a rendezvous holds the sender, an eager transfer does not", "[sim]") {
  // gpipe, 2 stages, 2 microbatches, forward 10, backward 20, transfer 4.
  // Eager: F0 at 0-10 and F1 at 10-20 on stage 0; over the link 10-14, 20-24; stage 1: F0 14-24,
  // F1 24-34, B0 34-54, B1 54-74; back 54-58, 74-78; stage 0: B0 58-78, B1 78-98.
  // Rendezvous: stage 0 waits from 10 to 14 for its first transfer, F1 14-24; stage 1 runs F0 14-24
  // and takes F1 over 24-28, F1 28-38, B0 38-58, is held by the transfer 58-62, B1 62-82, transfer
  // 82-86; stage 0: B0 62-82, B1 86-106.
  // Posted: as eager until stage 1 has run F0; the transfer of microbatch 1 could start at once
  // since its receive was posted before F0. Stage 1 goes on to B1 when B0 is over, its transfer
  // takes till 58, B1 54-74 does not wait for it. The same 98.
  const auto table = schedule_table(kGpipe, 2, 2);
  const auto times = equal_times(2, 10, 20, 4);
  CHECK(makespan_of(table, TransferMode::kEager, times) == 98);
  CHECK(makespan_of(table, TransferMode::kPosted, times) == 98);
  CHECK(makespan_of(table, TransferMode::kRendezvous, times) == 106);
}

TEST_CASE("a posted transfer waits for the receiver's step before the last", "[sim]") {
  // 2 stages, gpipe with 3 microbatches, forward 10 on stage 0 and 100 on stage 1, backward 1,
  // transfer 4. Receives of F0 and F1 are posted at 0; that of F2 when stage 1 has run F0: 14-114.
  // So F2 crosses 114-118 although stage 0 made it at 30; F1 runs 114-214, F2 214-314, B0 315, B1
  // 316, B2 317. Back: 315-319, 319-323 (one at a time), 323-327; stage 0 B0 319-320, B1 323-324,
  // B2 327-328.
  auto times = equal_times(2, 10, 1, 4);
  times.forward_ps[1] = 100;
  const auto pipeline =
      build_pipeline_graph(schedule_table(kGpipe, 2, 3), TransferMode::kPosted, false);
  const auto durations = pipeline_durations_ps(pipeline, times);
  std::vector<std::int64_t> finish(durations.size());
  CHECK(longest_path(pipeline.graph, durations, finish) == 328);
  for (TaskIndex t = 0; t < pipeline.graph.task_count(); ++t) {
    if (pipeline.tasks[t] ==
        PipelineTask{PipelineTask::Part::kTransfer, {StepKind::kForward, 2}, 0}) {
      CHECK(finish[t] == 118);
    }
  }
}

TEST_CASE("a pipeline graph has a task for every step, transfer and stream part", "[sim]") {
  const int p = 4, m = 6;
  for (const bool parts : {false, true}) {
    const auto pipeline =
        build_pipeline_graph(schedule_table(k1f1b, p, m), TransferMode::kRendezvous, parts);
    const auto count = [&](PipelineTask::Part part) {
      return std::count_if(pipeline.tasks.begin(), pipeline.tasks.end(),
                           [&](const PipelineTask& task) { return task.part == part; });
    };
    CHECK(count(PipelineTask::Part::kCompute) == 2 * p * m);
    CHECK(count(PipelineTask::Part::kTransfer) == 2 * (p - 1) * m);
    CHECK(count(PipelineTask::Part::kSend) == (parts ? 2 * (p - 1) * m : 0));
    CHECK(count(PipelineTask::Part::kReceive) == (parts ? 2 * (p - 1) * m : 0));
    CHECK(pipeline.graph.resource_count() == 3 * p - 2);
    for (TaskIndex t = 0; t < pipeline.graph.task_count(); ++t) {
      const auto& task = pipeline.tasks[t];
      const bool on_stage = task.part != PipelineTask::Part::kTransfer;
      CHECK(on_stage == (pipeline.graph.resource(t) < static_cast<unsigned>(p)));
      if (on_stage) CHECK(pipeline.graph.resource(t) == static_cast<unsigned>(task.stage));
    }
  }
}

TEST_CASE("tables that deadlock are refused by the names of the tasks", "[sim]") {
  const ScheduleStep f0{StepKind::kForward, 0}, f1{StepKind::kForward, 1};
  const ScheduleStep b0{StepKind::kBackward, 0}, b1{StepKind::kBackward, 1};
  CHECK_THROWS_WITH(
      build_pipeline_graph({{f0, b0, f1, b1}, {f0, f1, b0, b1}}, TransferMode::kEager, false),
      ContainsSubstring("the program deadlocks: ") &&
          ContainsSubstring(
              "backward of microbatch 0 on stage 0 waits for transfer of the backward of "
              "microbatch 0 from stage 1"));
  CHECK_THROWS_WITH(build_pipeline_graph({{f0, b0}, {f0}}, TransferMode::kEager, false),
                    "stage 1 lacks the backward of microbatch 0.");

  // Runs with eager transfers, deadlocks when sends block (see the test of schedule_problem()).
  ScheduleTable ahead = schedule_table(kGpipe, 2, 4);
  ahead[1] = stage_order(k1f1b, 1, 4, 0);
  CHECK(build_pipeline_graph(ahead, TransferMode::kEager, false).graph.task_count() == 24);
  CHECK_THROWS_AS(build_pipeline_graph(ahead, TransferMode::kRendezvous, false), InputError);
}

TEST_CASE("times of the wrong shape are refused", "[sim]") {
  const auto pipeline =
      build_pipeline_graph(schedule_table(kGpipe, 3, 2), TransferMode::kEager, false);
  CHECK_THROWS_AS(pipeline_durations_ps(pipeline, equal_times(2, 1, 1, 1)), InternalError);
  auto times = equal_times(3, 1, 1, 1);
  times.gradient_transfer_ps[1] = -1;
  CHECK_THROWS_AS(pipeline_durations_ps(pipeline, times), InternalError);
  times = equal_times(3, 1, 1, 1);
  times.activation_send_ps = {1, 1};  // the graph has no tasks for these
  CHECK_THROWS_AS(pipeline_durations_ps(pipeline, times), InternalError);
}
