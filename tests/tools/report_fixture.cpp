#include "tests/tools/report_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/simulate.hpp"

namespace parplan::test {
namespace {

/// 0 <= value < 1 from a counter (splitmix64).
double noise(std::uint64_t counter) {
  std::uint64_t z = counter * 0x9E3779B97F4A7C15U + 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

Picoseconds scaled(Picoseconds t, double factor) {
  return Picoseconds{static_cast<std::int64_t>(static_cast<double>(t.value) * factor)};
}

}  // namespace

Cluster small_machine() {
  Cluster c;
  c.name = "small machine";
  c.devices_per_node = 64;
  c.device.name = "round numbers";
  c.device.memory = Bytes{std::int64_t{64} << 30};
  c.device.peak[DType::kFloat32] = FlopPerSecond{1e11};
  c.device.memory_bandwidth = BytesPerSecond{2e10};
  c.device.operation_overhead = Seconds{2e-6};
  c.device.instruction_overhead = Seconds{5e-6};
  c.device.step_overhead = Seconds{1e-4};
  c.device.process_bytes = Bytes{30 << 20};
  c.intra_node.latency = Seconds{2e-6};
  c.intra_node.bandwidth = BytesPerSecond{5e9};
  c.provenance = {"2026-01-02T03:04:05Z", "host-a", "oneDNN 2.7", "parplan profile", {}};
  return c;
}

Plan plan_of(Model model, const std::string& layout, std::int64_t batch, std::int64_t sequence) {
  Plan plan;
  plan.model = std::move(model);
  plan.workload.global_batch = batch;
  plan.workload.sequence = sequence;
  plan.workload.source_sequence = sequence;
  plan.layout = place_layers(plan.model, plan.workload, parse_layout(layout));
  plan.cluster_name = "small machine";
  return plan;
}

traces::TraceFile predicted_for(const Plan& plan, const Cluster& cluster) {
  traces::TraceFile file{sim::simulate(plan, cluster).trace, plan};
  file.trace.plan_digest = "0123456789abcdef";
  return file;
}

traces::TraceFile measured_like(const traces::TraceFile& predicted, int steps, double stretch) {
  traces::TraceFile file = predicted;
  Trace& trace = file.trace;
  trace.source = TraceSource::kMeasured;
  trace.steps = steps;
  trace.events.clear();
  trace.memory.clear();
  Picoseconds longest;
  for (const TraceEvent& e : predicted.trace.events) longest = std::max(longest, e.end);
  std::uint64_t counter = 0;
  for (int s = 0; s < steps; ++s) {
    const double factor =
        stretch * (1.0 + 0.04 * (noise(1000000 + static_cast<std::uint64_t>(s)) - 0.5));
    const Picoseconds offset = scaled(longest, 1.3 * stretch * s);
    for (TraceEvent e : predicted.trace.events) {
      e.step = s;
      const bool operation = e.stream == Stream::kCompute && e.key.phase() != Phase::kStep;
      const Picoseconds duration = scaled(e.end - e.start, factor);
      e.start = offset + scaled(e.start, factor);
      e.end = e.start + (operation ? scaled(duration, 1.0 - 0.1 * noise(counter++)) : duration);
      e.waiting = std::min(scaled(e.waiting, factor), e.end - e.start);
      trace.events.push_back(e);
    }
    for (MemorySample m : predicted.trace.memory) {
      m.step = s;
      m.time = offset + scaled(m.time, factor);
      trace.memory.push_back(m);
    }
    trace.losses.push_back(4.0 / std::sqrt(1.0 + s));
  }
  for (RankSummary& summary : trace.summaries) {
    summary.peak_process_bytes += Bytes{3 << 20};
  }
  return file;
}

}  // namespace parplan::test
