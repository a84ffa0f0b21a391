// How long the planner searches, on one thread: all layouts of a model on a cluster, with the
// counts of what was simulated and what bounds of time and memory left out.
//
//   cmake --preset release && cmake --build --preset release --target search_bench
//   build/release/bin/search_bench
#include <benchmark/benchmark.h>

#include <optional>

#include "planner/search.hpp"
#include "sim/core/cluster_presets.hpp"
#include "sim/core/model_presets.hpp"

namespace {

using namespace parplan;
using namespace parplan::planner;

void search_of(benchmark::State& state, const char* model_name, const char* cluster_name, int nodes,
               std::int64_t batch, std::int64_t sequence) {
  const Model model = *make_preset(model_name);
  const Cluster cluster = *make_cluster_preset(cluster_name, nodes);
  Workload workload;
  workload.global_batch = batch;
  workload.sequence = sequence;
  SearchResult result;
  for (auto _ : state) {
    result = search({model, workload, cluster, std::nullopt, {}, {}});
    benchmark::DoNotOptimize(result);
  }
  const auto count = [&state](const char* name, std::int64_t value) {
    state.counters[name] = static_cast<double>(value);
  };
  count("layouts", result.considered);
  count("simulated", result.simulated);
  count("pruned", result.pruned);
  count("cannot_fit", result.cannot_fit);
}

BENCHMARK_CAPTURE(search_of, gpt2_on_8, "gpt2", "dgx-h100", 1, 64, 1024)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search_of, llama_8b_on_64, "llama-3.1-8b", "dgx-h100", 8, 512, 8192)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search_of, llama_70b_on_128, "llama-2-70b", "dgx-h100", 16, 256, 4096)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search_of, llama_70b_on_1024, "llama-2-70b", "dgx-h100", 128, 1024, 4096)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
