// Speed of the three evaluators of a step on one core: tasks/s of the longest path and the event
// queue, and how many times faster than the longest path the closed form is.
//
//   cmake --preset release && cmake --build --preset release --target engines_bench
//   build/release/bin/engines_bench
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "sim/event_queue.hpp"
#include "sim/longest_path.hpp"
#include "sim/pipeline_closed_form.hpp"
#include "sim/pipeline_graph.hpp"

namespace {

using namespace parplan;
using namespace parplan::sim;

constexpr int kStages = 64;
constexpr int kMicrobatches = 2048;
constexpr int kFormsPerPath = 10;
constexpr auto k1f1b = PipelineSchedule::kOneForwardOneBackward;

enum class Temper {
  kEqual,   // all stages alike, transfers a twentieth of a forward: the period is as long as the
            // pipeline
  kNear,    // stages within 1e-6 of each other: the slowest takes long to prevail
  kUneven,  // stages within 20 %
};

PipelineTimes times_of(Temper temper, bool parts) {
  std::mt19937 random(64);
  const auto spread = [&](std::int64_t value) {
    const std::int64_t width = temper == Temper::kEqual  ? 0
                               : temper == Temper::kNear ? value / 1'000'000
                                                         : value / 5;
    return value + static_cast<std::int64_t>(random() % (static_cast<std::uint64_t>(width) + 1));
  };
  PipelineTimes times;
  for (int i = 0; i < kStages; ++i) {
    times.forward_ps.push_back(spread(1'000'000'000));
    times.backward_ps.push_back(spread(2'000'000'000));
    if (i + 1 == kStages) break;
    times.activation_transfer_ps.push_back(spread(50'000'000));
    times.gradient_transfer_ps.push_back(spread(50'000'000));
    if (!parts) continue;
    times.activation_send_ps.push_back(spread(2'000'000));
    times.activation_receive_ps.push_back(spread(2'000'000));
    times.gradient_send_ps.push_back(spread(2'000'000));
    times.gradient_receive_ps.push_back(spread(2'000'000));
  }
  return times;
}

/// The graph of the 64-stage 1f1b step; with `parts` it has sends and receives as tasks too, as
/// many as a program has instructions.
PipelineGraph graph_of(TransferMode mode, bool parts) {
  return build_pipeline_graph(schedule_table(k1f1b, kStages, kMicrobatches), mode, parts);
}

void report_tasks(benchmark::State& state, const TaskGraph& graph) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.task_count()));
  state.counters["inputs/task"] =
      static_cast<double>(graph.input_tasks().size()) / static_cast<double>(graph.task_count());
}

void longest_path_1f1b(benchmark::State& state, TransferMode mode, bool parts) {
  const auto pipeline = graph_of(mode, parts);
  const auto durations = pipeline_durations_ps(pipeline, times_of(Temper::kUneven, parts));
  std::vector<std::int64_t> finish(pipeline.graph.task_count());
  for (auto _ : state) benchmark::DoNotOptimize(longest_path(pipeline.graph, durations, finish));
  report_tasks(state, pipeline.graph);
}
BENCHMARK_CAPTURE(longest_path_1f1b, eager, TransferMode::kEager, false);
BENCHMARK_CAPTURE(longest_path_1f1b, rendezvous_with_parts, TransferMode::kRendezvous, true);

void event_queue_1f1b(benchmark::State& state, TransferMode mode, bool parts) {
  const auto pipeline = graph_of(mode, parts);
  const auto durations = pipeline_durations_ps(pipeline, times_of(Temper::kUneven, parts));
  std::vector<std::int64_t> start(pipeline.graph.task_count()), finish(start.size());
  EventQueue queue(pipeline.graph);
  for (auto _ : state) benchmark::DoNotOptimize(queue.run(durations, start, finish));
  report_tasks(state, pipeline.graph);
}
BENCHMARK_CAPTURE(event_queue_1f1b, eager, TransferMode::kEager, false);
BENCHMARK_CAPTURE(event_queue_1f1b, rendezvous_with_parts, TransferMode::kRendezvous, true);

/// A layered random graph: 256 resources, each task after three of the last 1024.
TaskGraph random_graph() {
  std::mt19937 random(1);
  TaskGraphBuilder builder;
  for (int r = 0; r < 256; ++r) builder.add_resource();
  for (TaskIndex t = 0; t < 500'000; ++t) {
    builder.add_task(static_cast<ResourceIndex>(random() % 256));
    for (int i = 0; i < 2 && t > 0; ++i) {
      builder.add_dependency(t - 1 - static_cast<TaskIndex>(random() % std::min(t, 1024U)), t);
    }
  }
  return builder.build();
}

void longest_path_random(benchmark::State& state) {
  const TaskGraph graph = random_graph();
  std::mt19937 random(2);
  std::vector<std::int64_t> durations(graph.task_count()), finish(graph.task_count());
  for (auto& d : durations) d = static_cast<std::int64_t>(random());
  for (auto _ : state) benchmark::DoNotOptimize(longest_path(graph, durations, finish));
  report_tasks(state, graph);
}
BENCHMARK(longest_path_random);

void event_queue_random(benchmark::State& state) {
  const TaskGraph graph = random_graph();
  std::mt19937 random(2);
  std::vector<std::int64_t> durations(graph.task_count()), start(durations), finish(durations);
  for (auto& d : durations) d = static_cast<std::int64_t>(random());
  EventQueue queue(graph);
  for (auto _ : state) benchmark::DoNotOptimize(queue.run(durations, start, finish));
  report_tasks(state, graph);
}
BENCHMARK(event_queue_random);

/// Transfers of 64 senders over one link each and a core switch that all of them share.
void event_queue_shared_links(benchmark::State& state) {
  constexpr std::uint32_t kSenders = 64;
  TaskGraphBuilder builder;
  Contention contention;
  contention.pool_capacity.assign(kSenders, 1.0);
  contention.pool_capacity.push_back(16.0);
  for (std::uint32_t i = 0; i < kSenders; ++i) contention.routes.push_back({{i, kSenders}});
  std::vector<std::int64_t> durations;
  std::mt19937 random(3);
  for (std::uint32_t i = 0; i < kSenders; ++i) {
    const auto stream = builder.add_resource();
    for (int k = 0; k < 200; ++k) {
      builder.add_task(stream);
      contention.route_of_task.push_back(i);
      durations.push_back(1'000'000 + static_cast<std::int64_t>(random() % 1'000'000));
    }
  }
  const TaskGraph graph = builder.build();
  std::vector<std::int64_t> start(graph.task_count()), finish(graph.task_count());
  EventQueue queue(graph, contention);
  for (auto _ : state) benchmark::DoNotOptimize(queue.run(durations, start, finish));
  report_tasks(state, graph);
}
BENCHMARK(event_queue_shared_links);

/// Processor time of this thread: a wall clock would count what else the machine does, most of all
/// in the longer of two measurements.
template <class Function>
double seconds_of(Function&& function) {
  const auto now = [] {
    std::timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  function();
  return now() - begin;
}

/// Both evaluations in turn; the ratio of the two minima.
void closed_form_over_longest_path(benchmark::State& state, Temper temper, TransferMode mode,
                                   bool parts) {
  const auto times = times_of(temper, parts);
  const auto pipeline = graph_of(mode, parts);
  const auto durations = pipeline_durations_ps(pipeline, times);
  const PipelineClosedForm form(k1f1b, kStages, kMicrobatches, mode);
  std::vector<std::int64_t> finish(pipeline.graph.task_count());
  PipelineScratch scratch;
  double path_s = std::numeric_limits<double>::infinity(), form_s = path_s;
  std::int64_t by_path = 0, by_form = 0;
  for (auto _ : state) {
    path_s = std::min(
        path_s, seconds_of([&] { by_path = longest_path(pipeline.graph, durations, finish); }));
    form_s = std::min(form_s, seconds_of([&] {
                                for (int i = 0; i < kFormsPerPath; ++i) {
                                  by_form = form.evaluate(times, scratch);
                                }
                              }) / kFormsPerPath);
  }
  if (by_path != by_form) state.SkipWithError("closed form and longest path differ");
  state.counters["path_us"] = path_s * 1e6;
  state.counters["form_us"] = form_s * 1e6;
  state.counters["ratio"] = path_s / form_s;
  state.counters["bodies"] = static_cast<double>(scratch.loop.applications) /
                             (kFormsPerPath * static_cast<double>(state.iterations()));
}
BENCHMARK_CAPTURE(closed_form_over_longest_path, equal_eager, Temper::kEqual, TransferMode::kEager,
                  false);
BENCHMARK_CAPTURE(closed_form_over_longest_path, near_eager, Temper::kNear, TransferMode::kEager,
                  false);
BENCHMARK_CAPTURE(closed_form_over_longest_path, uneven_eager, Temper::kUneven,
                  TransferMode::kEager, false);
BENCHMARK_CAPTURE(closed_form_over_longest_path, equal_posted, Temper::kEqual,
                  TransferMode::kPosted, false);
BENCHMARK_CAPTURE(closed_form_over_longest_path, uneven_posted, Temper::kUneven,
                  TransferMode::kPosted, false);
BENCHMARK_CAPTURE(closed_form_over_longest_path, uneven_posted_parts, Temper::kUneven,
                  TransferMode::kPosted, true);
BENCHMARK_CAPTURE(closed_form_over_longest_path, equal_rendezvous_parts, Temper::kEqual,
                  TransferMode::kRendezvous, true);
BENCHMARK_CAPTURE(closed_form_over_longest_path, near_rendezvous_parts, Temper::kNear,
                  TransferMode::kRendezvous, true);
BENCHMARK_CAPTURE(closed_form_over_longest_path, uneven_rendezvous_parts, Temper::kUneven,
                  TransferMode::kRendezvous, true);

/// Working out a schedule's logic, once per schedule, stages, microbatches and mode.
void closed_form_construction(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(PipelineClosedForm(k1f1b, static_cast<int>(state.range(0)),
                                                static_cast<int>(state.range(1)),
                                                TransferMode::kPosted));
  }
}
BENCHMARK(closed_form_construction)->Args({8, 64})->Args({64, 2048})->Args({64, 1 << 20});

}  // namespace

BENCHMARK_MAIN();
