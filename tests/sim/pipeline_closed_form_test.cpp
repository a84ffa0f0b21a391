#include "sim/pipeline_closed_form.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/event_queue.hpp"
#include "sim/longest_path.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;
using namespace parplan::sim;

namespace {

constexpr std::array kSchedules{PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward};
constexpr std::array kModes{TransferMode::kEager, TransferMode::kPosted, TransferMode::kRendezvous};

/// Times of many tempers: free, equal, nearly equal, wild; with and without stream parts.
PipelineTimes random_times(std::mt19937& random, std::size_t stages, bool parts) {
  const auto fill = [&](std::vector<std::int64_t>& values, std::size_t count, std::int64_t scale) {
    const auto temper = random() % 4;
    const auto equal = static_cast<std::int64_t>(random() % static_cast<unsigned>(scale));
    values.resize(count);
    for (auto& value : values) {
      const auto wild = static_cast<std::int64_t>(random() % static_cast<unsigned>(scale));
      value = temper == 0 ? equal : temper == 1 ? equal + wild % 3 : temper == 2 ? wild : 0;
    }
  };
  PipelineTimes times;
  fill(times.forward_ps, stages, 1'000'000);
  fill(times.backward_ps, stages, 2'000'000);
  const std::int64_t transfer = random() % 2 == 0 ? 100'000 : 3'000'000;
  fill(times.activation_transfer_ps, stages - 1, transfer);
  fill(times.gradient_transfer_ps, stages - 1, transfer);
  if (parts) {
    fill(times.activation_send_ps, stages - 1, 50'000);
    fill(times.activation_receive_ps, stages - 1, 50'000);
    fill(times.gradient_send_ps, stages - 1, 50'000);
    fill(times.gradient_receive_ps, stages - 1, 50'000);
  }
  return times;
}

/// Finish of every stage's compute stream, then the makespan.
std::vector<std::int64_t> by_graph(const PipelineGraph& pipeline, const PipelineTimes& times) {
  const auto durations = pipeline_durations_ps(pipeline, times);
  std::vector<std::int64_t> finish(durations.size());
  const auto makespan = longest_path(pipeline.graph, durations, finish);
  std::vector<std::int64_t> ends(pipeline.stages, 0);
  for (TaskIndex t = 0; t < finish.size(); ++t) {
    if (pipeline.graph.resource(t) >= pipeline.stages) continue;
    auto& end = ends[pipeline.graph.resource(t)];
    end = std::max(end, finish[t]);
  }
  ends.push_back(makespan);
  return ends;
}

std::vector<std::int64_t> by_closed_form(const PipelineClosedForm& form, const PipelineTimes& times,
                                         PipelineScratch& scratch) {
  std::vector<std::int64_t> ends(form.stages());
  const auto makespan = form.evaluate(times, scratch, ends);
  ends.push_back(makespan);
  return ends;
}

/// Each stage runs forwards and backwards in order but mixes them by chance, sometimes by a pattern
/// of its own; many of these deadlock.
ScheduleTable random_table(std::mt19937& random, int stages, int microbatches) {
  ScheduleTable table;
  for (int stage = 0; stage < stages; ++stage) {
    auto& order = table.emplace_back();
    int ahead = 0, forward = 0, backward = 0;
    const int most_ahead = std::min(microbatches, stages - stage + static_cast<int>(random() % 4));
    const bool regular = random() % 2 == 0;
    const int burst = 1 + static_cast<int>(random() % 3);
    bool filling = true;
    while (backward < microbatches) {
      bool go_forward = forward < microbatches && ahead < most_ahead;
      if (regular) {
        if (ahead >= most_ahead) filling = false;
        if (ahead <= std::max(0, most_ahead - burst)) filling = true;
        go_forward = go_forward && filling;
      } else {
        go_forward = go_forward && random() % 2 == 0;
      }
      if (ahead == 0) go_forward = true;
      if (go_forward) {
        order.push_back({StepKind::kForward, forward++});
        ++ahead;
      } else {
        order.push_back({StepKind::kBackward, backward++});
        --ahead;
      }
    }
  }
  return table;
}

}  // namespace

TEST_CASE("closed form, longest path and event queue agree on gpipe and 1f1b", "[sim]") {
  std::mt19937 random(51);
  PipelineScratch scratch;
  for (int round = 0; round < 400; ++round) {
    const int p = 1 + static_cast<int>(random() % 9);
    const int m = 1 + static_cast<int>(random() % (round % 10 == 0 ? 200 : 25));
    const auto schedule = kSchedules[random() % 2];
    const auto mode = kModes[random() % 3];
    const bool parts = random() % 2 == 0;
    CAPTURE(round, p, m, pipeline_schedule_name(schedule), static_cast<int>(mode));
    const auto pipeline = build_pipeline_graph(schedule_table(schedule, p, m), mode, parts);
    const PipelineClosedForm form(schedule, p, m, mode);
    EventQueue queue(pipeline.graph);
    for (int repeat = 0; repeat < 3; ++repeat) {
      const auto times = random_times(random, static_cast<std::size_t>(p), parts);
      const auto expected = by_graph(pipeline, times);
      REQUIRE(by_closed_form(form, times, scratch) == expected);
      std::vector<std::int64_t> start(pipeline.graph.task_count()), finish(start.size());
      REQUIRE(queue.run(pipeline_durations_ps(pipeline, times), start, finish) == expected.back());
    }
  }
  CHECK(scratch.loop.jumps > 100);
}

TEST_CASE("closed form and longest path agree for every number of microbatches", "[sim]") {
  std::mt19937 random(52);
  PipelineScratch scratch;
  for (const auto schedule : kSchedules) {
    for (const auto mode : kModes) {
      const auto times = random_times(random, 5, true);
      for (int m = 1; m <= 120; ++m) {
        CAPTURE(m);
        const auto pipeline = build_pipeline_graph(schedule_table(schedule, 5, m), mode, true);
        REQUIRE(by_closed_form({schedule, 5, m, mode}, times, scratch) ==
                by_graph(pipeline, times));
      }
    }
  }
}

TEST_CASE("the closed form takes any schedule that does not deadlock", "[sim]") {
  std::mt19937 random(53);
  PipelineScratch scratch;
  int ran = 0, deadlocked = 0;
  for (int round = 0; round < 1500; ++round) {
    const int p = 1 + static_cast<int>(random() % 4);
    const int m = 1 + static_cast<int>(random() % (round % 10 == 0 ? 100 : 12));
    const auto table = random_table(random, p, m);
    const auto mode = kModes[random() % 3];
    CAPTURE(round, p, m, static_cast<int>(mode));
    std::optional<PipelineGraph> pipeline;
    try {
      pipeline = build_pipeline_graph(table, mode, false);
    } catch (const InputError&) {
      ++deadlocked;
      REQUIRE_THROWS_AS(PipelineClosedForm(table, mode), InputError);
      continue;
    }
    ++ran;
    const auto times = random_times(random, static_cast<std::size_t>(p), false);
    REQUIRE(by_closed_form({table, mode}, times, scratch) == by_graph(*pipeline, times));
  }
  CHECK(ran > 300);
  CHECK(deadlocked > 100);
}

TEST_CASE("a table deadlocks when sends block exactly if schedule_problem() says so", "[sim]") {
  std::mt19937 random(54);
  int deadlocked = 0;
  for (int round = 0; round < 500; ++round) {
    const auto table = random_table(random, 1 + static_cast<int>(random() % 4),
                                    1 + static_cast<int>(random() % 8));
    if (schedule_problem(table)) {
      ++deadlocked;
      CHECK_THROWS_AS(PipelineClosedForm(table, TransferMode::kRendezvous), InputError);
    } else {
      CHECK_NOTHROW(PipelineClosedForm(table, TransferMode::kRendezvous));
    }
  }
  CHECK(deadlocked > 50);
}

TEST_CASE("a million microbatches cost what a thousand do", "[sim]") {
  std::mt19937 random(55);
  for (const auto schedule : kSchedules) {
    for (const auto mode : kModes) {
      for (int round = 0; round < 10; ++round) {
        const auto times = random_times(random, 8, false);
        PipelineScratch scratch;
        const auto thousand = PipelineClosedForm(schedule, 8, 1000, mode).evaluate(times, scratch);
        const auto few = std::exchange(scratch.loop.applications, 0);
        const auto million =
            PipelineClosedForm(schedule, 8, 1'000'000, mode).evaluate(times, scratch);
        CAPTURE(static_cast<int>(mode), few, scratch.loop.applications);
        CHECK(scratch.loop.applications <= 2000);
        // The bottleneck stage alone needs this long, and the rest is at most the fill and the
        // drain.
        std::int64_t slowest = 0;
        for (std::size_t i = 0; i < 8; ++i) {
          slowest = std::max(slowest, times.forward_ps[i] + times.backward_ps[i]);
        }
        CHECK(million >= 1'000'000 * slowest);
        CHECK(million >= thousand);
      }
    }
  }
}

TEST_CASE("bubble over ideal time is (p-1)/m in the closed form too", "[sim]") {
  PipelineScratch scratch;
  for (const auto schedule : kSchedules) {
    for (const auto mode : kModes) {
      for (const int p : {1, 2, 7, 64}) {
        for (const int m : {1, 5, 64, 4096, 1'000'000}) {
          PipelineTimes times;
          times.forward_ps.assign(static_cast<std::size_t>(p), 1009);
          times.backward_ps.assign(static_cast<std::size_t>(p), 1999);
          times.activation_transfer_ps.assign(static_cast<std::size_t>(p - 1), 0);
          times.gradient_transfer_ps = times.activation_transfer_ps;
          const PipelineClosedForm form(schedule, p, m, mode);
          const std::int64_t ideal = std::int64_t{m} * (1009 + 1999);
          CAPTURE(p, m);
          CHECK((form.evaluate(times, scratch) - ideal) * m == ideal * (p - 1));
        }
      }
    }
  }
}

TEST_CASE("impossible pipelines and misshapen times are refused", "[sim]") {
  CHECK_THROWS_AS(PipelineClosedForm(kSchedules[0], 0, 1, kModes[0]), InputError);
  CHECK_THROWS_AS(PipelineClosedForm(kSchedules[0], 1, 0, kModes[0]), InputError);
  CHECK_THROWS_AS(PipelineClosedForm(ScheduleTable{}, kModes[0]), InputError);
  const PipelineClosedForm form(kSchedules[1], 2, 2, kModes[0]);
  PipelineScratch scratch;
  std::mt19937 random(1);
  CHECK_THROWS_AS(form.evaluate(random_times(random, 3, false), scratch), InternalError);
  std::vector<std::int64_t> room(3);
  CHECK_THROWS_AS(form.evaluate(random_times(random, 2, false), scratch, room), InternalError);
}
