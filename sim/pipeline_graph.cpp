#include "sim/pipeline_graph.hpp"

#include <algorithm>
#include <cstddef>

#include "sim/core/error.hpp"

namespace parplan::sim {
namespace {

using Part = PipelineTask::Part;

/// Adds the tasks stage by stage; `tasks_` has them as added.
class Generator {
 public:
  Generator(const ScheduleTable& table, TransferMode mode, bool stream_parts)
      : table_(table), mode_(mode), stream_parts_(stream_parts) {
    const std::size_t stages = table.size();
    for (std::size_t i = 0; i < 3 * stages - 2; ++i) builder_.add_resource();
    const std::size_t steps = stages * table[0].size();
    builder_.reserve(steps * (stream_parts ? 4 : 2), steps * 4);
    tasks_.reserve(steps * (stream_parts ? 4 : 2));
    for (auto* ends : {&arrivals_up_, &arrivals_down_}) {
      ends->assign(stages, std::vector<TaskIndex>(table[0].size() / 2, kNoTask));
    }
  }

  PipelineGraph run() {
    // Transfers first, so that a stage can name those it waits for before their senders are
    // reached.
    for (std::size_t stage = 0; stage < table_.size(); ++stage) add_transfers(stage);
    for (std::size_t stage = 0; stage < table_.size(); ++stage) add_stage(stage);
    PipelineGraph pipeline;
    pipeline.stages = table_.size();
    pipeline.stream_parts = stream_parts_;
    pipeline.graph = builder_.build([&](TaskIndex t) { return describe(tasks_[t]); });
    pipeline.tasks.resize(tasks_.size());
    for (TaskIndex t = 0; t < tasks_.size(); ++t) {
      pipeline.tasks[pipeline.graph.task_of(t)] = tasks_[t];
    }
    return pipeline;
  }

 private:
  TaskIndex add(Part part, const ScheduleStep& step, std::size_t stage, std::size_t resource) {
    tasks_.push_back({part, step, static_cast<int>(stage)});
    return builder_.add_task(static_cast<ResourceIndex>(resource));
  }

  bool sends(StepKind kind, std::size_t stage) const {
    return kind == StepKind::kForward ? stage + 1 < table_.size() : stage > 0;
  }
  bool receives(StepKind kind, std::size_t stage) const {
    return kind == StepKind::kForward ? stage > 0 : stage + 1 < table_.size();
  }
  /// The transfer of `step` that arrives at `stage`.
  TaskIndex& arrival(const ScheduleStep& step, std::size_t stage) {
    auto& arrivals = step.kind == StepKind::kForward ? arrivals_up_ : arrivals_down_;
    return arrivals[stage][static_cast<std::size_t>(step.microbatch)];
  }
  static std::size_t target(StepKind kind, std::size_t stage) {
    return kind == StepKind::kForward ? stage + 1 : stage - 1;
  }

  void add_transfers(std::size_t stage) {
    const std::size_t stages = table_.size();
    for (const ScheduleStep& step : table_[stage]) {
      if (!sends(step.kind, stage)) continue;
      const std::size_t link =
          step.kind == StepKind::kForward ? stages + stage : 2 * stages - 1 + stage - 1;
      arrival(step, target(step.kind, stage)) = add(Part::kTransfer, step, stage, link);
    }
  }

  void add_stage(std::size_t stage) {
    const auto& order = table_[stage];
    const bool holds = mode_ != TransferMode::kEager;
    const auto overlap = static_cast<std::size_t>(step_overlap(mode_));
    std::vector<TaskIndex> last(order.size());           // task of each step on the stream
    std::vector<TaskIndex> sent(order.size(), kNoTask);  // transfer of what each step made
    for (std::size_t k = 0; k < order.size(); ++k) {
      const ScheduleStep& step = order[k];
      const bool receives_it = receives(step.kind, stage), sends_it = sends(step.kind, stage);
      const bool has_receive = stream_parts_ && receives_it;
      const TaskIndex first =
          add(has_receive ? Part::kReceive : Part::kCompute, step, stage, stage);
      if (receives_it) {
        const TaskIndex transfer = arrival(step, stage);
        builder_.add_dependency(transfer, first);
        if (holds && k >= overlap) builder_.add_dependency(last[k - overlap], transfer);
      }
      if (holds && k >= overlap && sent[k - overlap] != kNoTask) {
        builder_.add_dependency(sent[k - overlap], first);
      }
      last[k] = has_receive ? add(Part::kCompute, step, stage, stage) : first;
      if (!sends_it) continue;
      if (stream_parts_) last[k] = add(Part::kSend, step, stage, stage);
      sent[k] = arrival(step, target(step.kind, stage));
      builder_.add_dependency(last[k], sent[k]);
    }
  }

  const ScheduleTable& table_;
  const TransferMode mode_;
  const bool stream_parts_;
  TaskGraphBuilder builder_;
  std::vector<PipelineTask> tasks_;
  std::vector<std::vector<TaskIndex>> arrivals_up_, arrivals_down_;  // [stage][microbatch]
};

std::int64_t duration(const PipelineTask& task, const PipelineTimes& times) {
  const auto stage = static_cast<std::size_t>(task.stage);
  const bool up = task.step.kind == StepKind::kForward;
  switch (task.part) {
    case Part::kCompute:
      return (up ? times.forward_ps : times.backward_ps)[stage];
    case Part::kReceive:
      return up ? at_boundary(times.activation_receive_ps, stage - 1)
                : at_boundary(times.gradient_receive_ps, stage);
    case Part::kSend:
      return up ? at_boundary(times.activation_send_ps, stage)
                : at_boundary(times.gradient_send_ps, stage - 1);
    case Part::kTransfer:
      return up ? times.activation_transfer_ps[stage] : times.gradient_transfer_ps[stage - 1];
  }
  throw InternalError("unknown part of a pipeline task.");
}

}  // namespace

int step_overlap(TransferMode mode) { return mode == TransferMode::kPosted ? 2 : 1; }

void check_pipeline_times(const PipelineTimes& times, std::size_t stages) {
  const auto check = [](const std::vector<std::int64_t>& values, std::size_t size, bool optional) {
    ensure(values.size() == size || (optional && values.empty()),
           "pipeline times have one entry per stage or boundary");
    ensure(std::all_of(values.begin(), values.end(), [](std::int64_t v) { return v >= 0; }),
           "pipeline times are not negative");
  };
  ensure(stages >= 1, "a pipeline has a stage");
  check(times.forward_ps, stages, false);
  check(times.backward_ps, stages, false);
  check(times.activation_transfer_ps, stages - 1, false);
  check(times.gradient_transfer_ps, stages - 1, false);
  check(times.activation_send_ps, stages - 1, true);
  check(times.activation_receive_ps, stages - 1, true);
  check(times.gradient_send_ps, stages - 1, true);
  check(times.gradient_receive_ps, stages - 1, true);
}

std::string describe(const PipelineTask& task) {
  const std::string step =
      std::string(task.step.kind == StepKind::kForward ? "forward" : "backward") +
      " of microbatch " + std::to_string(task.step.microbatch);
  const std::string stage = " stage " + std::to_string(task.stage);
  switch (task.part) {
    case Part::kCompute:
      return step + " on" + stage;
    case Part::kReceive:
      return "receive for the " + step + " on" + stage;
    case Part::kSend:
      return "send after the " + step + " on" + stage;
    case Part::kTransfer:
      return "transfer of the " + step + " from" + stage;
  }
  throw InternalError("unknown part of a pipeline task.");
}

PipelineGraph build_pipeline_graph(const ScheduleTable& table, TransferMode mode,
                                   bool stream_parts) {
  if (const auto problem = schedule_defect(table)) throw InputError(*problem);
  return Generator(table, mode, stream_parts).run();
}

std::vector<std::int64_t> pipeline_durations_ps(const PipelineGraph& pipeline,
                                                const PipelineTimes& times) {
  check_pipeline_times(times, pipeline.stages);
  ensure(pipeline.stream_parts ||
             (times.activation_send_ps.empty() && times.gradient_send_ps.empty() &&
              times.activation_receive_ps.empty() && times.gradient_receive_ps.empty()),
         "times of a pipeline graph without stream parts have none");
  std::vector<std::int64_t> durations_ps;
  durations_ps.reserve(pipeline.tasks.size());
  for (const PipelineTask& task : pipeline.tasks) durations_ps.push_back(duration(task, times));
  return durations_ps;
}

}  // namespace parplan::sim
