#include "sim/simulate.hpp"

#include <algorithm>

#include "sim/predicted_trace.hpp"
#include "sim/process_memory.hpp"
#include "sim/timeline.hpp"

namespace parplan::sim {
namespace {

/// Adds up one class's compute stream: tasks by kind, gaps by what they wait for.
class BreakdownBuilder {
 public:
  BreakdownBuilder(const StepGraph& step, const Timeline& line, const Program& program)
      : step_(step), line_(line), program_(program) {}

  std::vector<StepBreakdown> build() {
    std::vector<StepBreakdown> result(program_.classes.size());
    std::vector<std::int64_t> cursor = line_.begin_ps;
    for (std::size_t t = 0; t < step_.tasks.size(); ++t) {
      const auto task = static_cast<TaskIndex>(t);
      const std::int32_t c = step_.tasks[t].rank_class;
      if (step_.graph.resource(task) != step_.compute[c]) continue;
      const std::int64_t gap = line_.start_ps[t] - cursor[c];
      if (gap > 0) account_gap(result[c], task, cursor[c], line_.start_ps[t]);
      account_task(result[c], t);
      cursor[c] = line_.finish_ps[t];
    }
    for (std::size_t c = 0; c < result.size(); ++c) {
      // What the class waits for others between its steps; less than a picosecond is rounding.
      const Seconds rest = to_seconds(Picoseconds{line_.period_ps}) - result[c].total();
      if (rest.value > 0.5e-12) result[c].bubble += rest;
    }
    return result;
  }

 private:
  void account_task(StepBreakdown& b, std::size_t t) const {
    const StepTask& task = step_.tasks[t];
    const std::int64_t start = std::max(line_.start_ps[t], line_.begin_ps[task.rank_class]);
    const Seconds time = to_seconds(Picoseconds{line_.finish_ps[t] - start});
    switch (task.part) {
      case StepTask::Part::kStepStart:
      case StepTask::Part::kOverhead:
        b.overhead += time;
        break;
      case StepTask::Part::kOperation:
      case StepTask::Part::kOperationCpu:
        (blocks_on_tensor_group(task, program_) ? b.tensor_communication : b.compute) += time;
        break;
      case StepTask::Part::kOptimizer:
      case StepTask::Part::kGradientNorm:
        b.compute += time;
        break;
      case StepTask::Part::kSendCpu:
      case StepTask::Part::kReceiveCpu:
      case StepTask::Part::kCollectiveCpu:
        b.core_communication += time;
        break;
      case StepTask::Part::kTransferStart:
      case StepTask::Part::kTransfer:
      case StepTask::Part::kCollective:
      case StepTask::Part::kAwait:
        break;
    }
  }

  /// The part of the gap in which the awaited transfer runs is exposed communication, the rest
  /// bubble.
  void account_gap(StepBreakdown& b, TaskIndex task, std::int64_t from, std::int64_t to) const {
    std::int64_t moving_from = to;
    for (const TaskIndex input : step_.graph.inputs(task)) {
      const StepTask::Part part = step_.tasks[input].part;
      if (part != StepTask::Part::kTransfer && part != StepTask::Part::kCollective) continue;
      if (line_.finish_ps[input] <= from) continue;
      moving_from = std::min(moving_from, std::max(from, line_.start_ps[input]));
    }
    b.exposed_communication += to_seconds(Picoseconds{to - moving_from});
    b.bubble += to_seconds(Picoseconds{moving_from - from});
  }

  const StepGraph& step_;
  const Timeline& line_;
  const Program& program_;
};

SourceShares shares_of(const StepGraph& step) {
  double by_source[3] = {};
  for (std::size_t t = 0; t < step.tasks.size(); ++t) {
    if (step.tasks[t].part != StepTask::Part::kOperation) continue;
    by_source[static_cast<std::size_t>(step.sources[t])] +=
        static_cast<double>(step.durations_ps[t]);
  }
  const double sum = by_source[0] + by_source[1] + by_source[2];
  if (sum <= 0.0) return {};
  return {by_source[0] / sum, by_source[1] / sum, by_source[2] / sum};
}

MemoryForecast memory_of(const Plan& plan, const RankClass& rank_class, const MemoryReplay& replay,
                         Bytes process) {
  MemoryForecast forecast;
  forecast.peak = replay.peak;
  forecast.peak_tensors = replay.peak.total();
  forecast.reserved = replay.reserved();
  forecast.process = process;
  if (replay.peak_point < replay.points.size()) {
    const MemoryPoint& point = replay.points[replay.peak_point];
    forecast.peak_moment =
        to_string(key_of(rank_class, point.instruction, point.operation, plan.model), plan.model);
  }
  return forecast;
}

}  // namespace

Bytes Simulation::peak_memory() const {
  Bytes most;
  for (const ClassForecast& c : classes) most = std::max(most, c.memory.process);
  return most;
}

bool Simulation::fits(const Cluster& cluster) const {
  return peak_memory() <= cluster.device.memory;
}

Simulation simulate(const Plan& plan, const Program& program, const CostModel& costs,
                    const SimulateOptions& options) {
  costs.require_products(plan.model, program.precision);
  std::vector<MemoryReplay> replays;
  for (const RankClass& c : program.classes) {
    replays.push_back(replay_memory(c, program.precision));
  }
  const StepGraph step = build_step_graph(plan.model, program, costs, replays);
  const Timeline line = steady_timeline(step);
  Simulation result;
  result.step_time = to_seconds(Picoseconds{line.period_ps});
  result.sources = shares_of(step);
  const std::vector<StepBreakdown> breakdowns = BreakdownBuilder(step, line, program).build();
  const std::vector<Bytes> process =
      process_bytes(plan, program, replays, step, line, costs.cluster());
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    result.classes.push_back({program.classes[c].position, breakdowns[c],
                              memory_of(plan, program.classes[c], replays[c], process[c])});
  }
  if (options.trace) {
    result.trace = predicted_trace(plan, program, step, line, replays, process);
    result.trace.machine = costs.cluster().name;
    result.trace.device = costs.cluster().device.name;
  }
  return result;
}

Simulation simulate(const Plan& plan, const Cluster& cluster, const SimulateOptions& options) {
  return simulate(plan, lower(plan), CostModel(cluster), options);
}

}  // namespace parplan::sim
