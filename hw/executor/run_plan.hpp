#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hw/device.hpp"
#include "hw/executor/parameters.hpp"
#include "hw/world.hpp"
#include "sim/core/memory_replay.hpp"
#include "sim/core/plan.hpp"
#include "sim/core/trace.hpp"
#include "sim/core/units.hpp"

namespace parplan::hw {

enum class DeviceKind : std::uint8_t { kCpu };

struct RunProgress {
  std::int64_t step = 0;   ///< steps done
  std::int64_t steps = 0;  ///< steps to do
  Seconds step_time;       ///< of the last step on rank 0
};

/// The same on every rank, except for `progress` and `interrupt`.
struct RunOptions {
  /// Steps to run; without it `epochs` times the steps of an epoch.
  std::optional<std::int64_t> steps;
  std::int64_t epochs = 1;
  DeviceKind device = DeviceKind::kCpu;
  int threads = 1;  ///< per rank
  /// Record the last `trace_steps` steps; 0 records nothing.
  std::int64_t trace_steps = 0;
  /// After each of these steps (1 for the first), gather all parameters, and the gradients that
  /// made them, on rank 0. For tests and small models: everything passes through rank 0's memory.
  std::vector<std::int64_t> snapshot_after;
  /// Initial values instead of drawn ones, one tensor per parameter in model order (a snapshot's).
  /// Outlives the run.
  const std::vector<LogicalTensor>* initial_parameters = nullptr;
  /// Called on rank 0 after every step.
  std::function<void(const RunProgress&)> progress;
  /// Set from a signal handler or another thread of any rank: all ranks stop after the same step,
  /// within about kInterruptLatency or two steps, and what was done so far is returned.
  const std::atomic<bool>* interrupt = nullptr;
};

/// Longest time between two looks at whether a rank wants to stop, if a step is shorter than that.
inline constexpr Seconds kInterruptLatency{0.25};

/// The model's tensors after one step.
struct Snapshot {
  std::int64_t after_step = 0;
  std::vector<LogicalTensor> parameters;
  std::vector<LogicalTensor> gradients;
};

/// What the sampler makes of the data set.
struct EpochFacts {
  std::int64_t samples = 0;
  std::int64_t steps = 0;
  std::int64_t padded = 0;   ///< places of an epoch that repeat a sample
  std::int64_t dropped = 0;  ///< samples of an epoch that are not used
};

/// Filled on rank 0; other ranks know their own `steps`, `interrupted`, `epoch` and `memory`.
struct RunResult {
  std::int64_t steps = 0;  ///< done
  bool interrupted = false;
  EpochFacts epoch;
  std::vector<double> losses;  ///< per step, mean over the global batch
  /// Per step, before it was clipped; empty where neither the optimizer clips nor the loss is
  /// scaled.
  std::vector<double> gradient_norms;
  std::vector<double> loss_scales;     ///< per step; empty where the loss is not scaled
  std::vector<Seconds> step_times;     ///< per step, of the slowest rank
  MemoryReplay memory;                 ///< of this rank
  std::vector<RankSummary> summaries;  ///< per rank
  Trace trace;                         ///< empty without trace_steps
  std::vector<Snapshot> snapshots;
};

/// Trains the plan on all ranks of the world. Collective; leaves the world usable (World::finish is
/// the caller's). Errors:
/// - InputError: the world has another size than the layout, the ranks were given different plans
/// or
///   options (both name the numbers), the layout breaks a rule, the data do not fit the model;
/// - HwError: a device or another rank failed.
RunResult run_plan(World& world, const Plan& plan, const RunOptions& options = {});

}  // namespace parplan::hw
