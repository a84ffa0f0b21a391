#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/cluster.hpp"
#include "sim/core/memory_replay.hpp"
#include "sim/core/plan.hpp"
#include "sim/core/trace.hpp"
#include "sim/step_graph.hpp"

namespace parplan::sim {

/// Where a rank's step time goes; the parts sum to the step time.
struct StepBreakdown {
  Seconds compute;                ///< operations and optimizer
  Seconds tensor_communication;   ///< collectives inside operations, which block
  Seconds core_communication;     ///< copying that the rank's own core does for transfers
  Seconds exposed_communication;  ///< idle while a transfer or reduction it needs is under way
  Seconds bubble;                 ///< idle because a peer has not produced what is needed
  Seconds overhead;               ///< issuing instructions and per-step work

  Seconds total() const {
    return compute + tensor_communication + core_communication + exposed_communication + bubble +
           overhead;
  }
};

/// Memory of one rank class.
struct MemoryForecast {
  MemoryByKind peak;        ///< tensors, at the fullest moment
  Bytes peak_tensors;       ///< their sum
  Bytes reserved;           ///< flat buffers and arena
  Bytes process;            ///< all that is resident: sim::process_bytes
  std::string peak_moment;  ///< key of what runs at the fullest moment
};

struct ClassForecast {
  int position = 0;
  StepBreakdown breakdown;
  MemoryForecast memory;
};

/// Share of the predicted operation time that rests on each source.
struct SourceShares {
  double measured = 0.0;
  double interpolated = 0.0;
  double roofline = 0.0;
};

struct Simulation {
  Seconds step_time;  ///< in the steady state of many steps
  std::vector<ClassForecast> classes;
  SourceShares sources;
  Trace trace;  ///< one steady step of all ranks, or of one rank per class beyond 64 ranks

  Bytes peak_memory() const;  ///< process bytes of the fullest device
  bool fits(const Cluster& cluster) const;
};

struct SimulateOptions {
  bool trace = true;
};

/// Prices and evaluates one training step. Throws InputError when the plan's layout is broken.
Simulation simulate(const Plan& plan, const Cluster& cluster, const SimulateOptions& options = {});
Simulation simulate(const Plan& plan, const Program& program, const CostModel& costs,
                    const SimulateOptions& options = {});

}  // namespace parplan::sim
