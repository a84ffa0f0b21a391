// Speed of the three evaluators of a step. Counters: tasks/s on one core.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "sim/event_queue.hpp"
#include "sim/longest_path.hpp"
#include "sim/pipeline_graph.hpp"

namespace {

using namespace parplan;
using namespace parplan::sim;

PipelineTimes even_times(std::size_t stages, bool parts) {
  PipelineTimes times;
  times.forward_ps.assign(stages, 1'000'000'000);
  times.backward_ps.assign(stages, 2'000'000'000);
  times.activation_transfer_ps.assign(stages - 1, 50'000'000);
  times.gradient_transfer_ps.assign(stages - 1, 50'000'000);
  if (parts) {
    times.activation_send_ps.assign(stages - 1, 2'000'000);
    times.activation_receive_ps = times.gradient_send_ps = times.gradient_receive_ps =
        times.activation_send_ps;
  }
  return times;
}

/// state: stages, microbatches, rendezvous with send and receive parts or plain eager transfers.
PipelineGraph graph_of(const benchmark::State& state) {
  const bool parts = state.range(2) != 0;
  return build_pipeline_graph(
      schedule_table(PipelineSchedule::kOneForwardOneBackward, static_cast<int>(state.range(0)),
                     static_cast<int>(state.range(1))),
      parts ? TransferMode::kRendezvous : TransferMode::kEager, parts);
}

void report_tasks(benchmark::State& state, const TaskGraph& graph) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.task_count()));
  state.counters["inputs/task"] =
      static_cast<double>(graph.input_tasks().size()) / static_cast<double>(graph.task_count());
}

void longest_path_1f1b(benchmark::State& state) {
  const auto pipeline = graph_of(state);
  const auto durations =
      pipeline_durations_ps(pipeline, even_times(pipeline.stages, pipeline.stream_parts));
  std::vector<std::int64_t> finish(pipeline.graph.task_count());
  for (auto _ : state) {
    benchmark::DoNotOptimize(longest_path(pipeline.graph, durations, finish));
  }
  report_tasks(state, pipeline.graph);
}
BENCHMARK(longest_path_1f1b)->Args({64, 2048, 0})->Args({64, 2048, 1})->Args({8, 512, 0});

void event_queue_1f1b(benchmark::State& state) {
  const auto pipeline = graph_of(state);
  const auto durations =
      pipeline_durations_ps(pipeline, even_times(pipeline.stages, pipeline.stream_parts));
  std::vector<std::int64_t> start(pipeline.graph.task_count()), finish(start.size());
  EventQueue queue(pipeline.graph);
  for (auto _ : state) benchmark::DoNotOptimize(queue.run(durations, start, finish));
  report_tasks(state, pipeline.graph);
}
BENCHMARK(event_queue_1f1b)->Args({64, 2048, 0})->Args({64, 2048, 1})->Args({8, 512, 0});

}  // namespace

BENCHMARK_MAIN();
