// Speed of the three evaluators of a step. Counters: tasks/s on one core.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

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

void longest_path_1f1b(benchmark::State& state) {
  const auto stages = static_cast<int>(state.range(0));
  const auto microbatches = static_cast<int>(state.range(1));
  const bool parts = state.range(2) != 0;
  const auto pipeline = build_pipeline_graph(
      schedule_table(PipelineSchedule::kOneForwardOneBackward, stages, microbatches),
      parts ? TransferMode::kRendezvous : TransferMode::kEager, parts);
  const auto durations = pipeline_durations_ps(pipeline, even_times(pipeline.stages, parts));
  std::vector<std::int64_t> finish(pipeline.graph.task_count());
  for (auto _ : state) {
    benchmark::DoNotOptimize(longest_path(pipeline.graph, durations, finish));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(finish.size()));
  state.counters["inputs/task"] =
      static_cast<double>(pipeline.graph.input_tasks().size()) / static_cast<double>(finish.size());
}
BENCHMARK(longest_path_1f1b)->Args({64, 2048, 0})->Args({64, 2048, 1})->Args({8, 512, 0});

}  // namespace

BENCHMARK_MAIN();
