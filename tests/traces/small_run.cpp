#include "tests/traces/small_run.hpp"

#include <algorithm>

#include "sim/core/model_presets.hpp"
#include "sim/simulate.hpp"

namespace parplan::test {

Cluster round_machine() {
  Cluster c;
  c.name = "round";
  c.devices_per_node = 2;
  c.cores_per_node = 2;
  c.device.name = "round numbers";
  c.device.memory = Bytes{std::int64_t{8} << 30};
  c.device.peak[DType::kFloat32] = FlopPerSecond{1e11};
  c.device.memory_bandwidth = BytesPerSecond{2e10};
  c.device.operation_overhead = Seconds{2e-6};
  c.device.step_overhead = Seconds{1e-4};
  c.device.process_bytes = Bytes{30 << 20};
  c.intra_node.latency = Seconds{2e-6};
  c.intra_node.bandwidth = BytesPerSecond{4e9};
  c.provenance = {"2026-01-02T03:04:05Z", "host-a", "library 1.0", "by hand", {}};
  return c;
}

Plan tiny_plan(const std::string& layout) {
  Plan plan;
  plan.model = make_preset("gpt2-tiny", 0.0).value();
  plan.workload.global_batch = 8;
  plan.workload.sequence = 32;
  plan.layout = place_layers(plan.model, plan.workload, parse_layout(layout));
  plan.cluster_name = "round";
  plan.cluster_digest = "0123456789abcdef";
  return plan;
}

traces::TraceFile predicted_of(const Plan& plan, const Cluster& cluster) {
  return {sim::simulate(plan, cluster).trace, plan};
}

traces::TraceFile measured_on(const Plan& plan, const Cluster& cluster, int steps) {
  const traces::TraceFile predicted = predicted_of(plan, cluster);
  traces::TraceFile file = predicted;
  file.trace.source = TraceSource::kMeasured;
  file.trace.steps = steps;
  file.trace.events.clear();
  file.trace.memory.clear();
  Picoseconds last;
  for (const TraceEvent& e : predicted.trace.events) last = std::max(last, e.end);
  for (int s = 0; s < steps; ++s) {
    const Picoseconds offset = last * std::int64_t{2} * s;
    for (TraceEvent e : predicted.trace.events) {
      e.step = s;
      e.start += offset;
      e.end += offset;
      file.trace.events.push_back(e);
    }
    for (MemorySample m : predicted.trace.memory) {
      m.step = s;
      m.time += offset;
      file.trace.memory.push_back(m);
    }
    file.trace.losses.push_back(7.0 / (1.0 + s));
  }
  return file;
}

}  // namespace parplan::test
