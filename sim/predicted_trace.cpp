#include "sim/predicted_trace.hpp"

#include <algorithm>

#include "sim/core/plan_json.hpp"

namespace parplan::sim {
namespace {

constexpr int kMostTracedRanks = 64;

class PredictedTraceBuilder {
 public:
  PredictedTraceBuilder(const Plan& plan, const Program& program, const StepGraph& step,
                        const Timeline& line)
      : plan_(plan), program_(program), step_(step), line_(line) {}

  std::vector<TraceEvent> events(std::int32_t c) {
    class_ = c;
    events_.clear();
    with_cpu_.clear();
    const RankClass& rank_class = program_.classes[c];
    posted_ps_.assign(rank_class.instructions.size(), line_.begin_ps[c]);
    cpu_ps_.assign(rank_class.instructions.size(), 0);
    for (std::size_t t = 0; t < step_.tasks.size(); ++t) visit(t);
    for (const auto& [event, index] : with_cpu_) events_[event].cpu = Picoseconds{cpu_ps_[index]};
    TraceEvent whole;
    whole.key = Key(Phase::kStep, 0, 0, Key::kNone, 0, Key::kWholeInstruction);
    whole.start = Picoseconds{line_.begin_ps[c]};
    whole.end = Picoseconds{line_.begin_ps[c] + line_.period_ps};
    events_.push_back(whole);
    std::stable_sort(events_.begin(), events_.end(),
                     [](const TraceEvent& a, const TraceEvent& b) { return a.start < b.start; });
    return events_;
  }

 private:
  const Instruction& instruction(std::int32_t c, std::int32_t i) const {
    return program_.classes[c].instructions[i];
  }

  void visit(std::size_t t) {
    const StepTask& task = step_.tasks[t];
    const bool own = task.rank_class == class_;
    switch (task.part) {
      case StepTask::Part::kStepStart:
        break;
      case StepTask::Part::kOverhead:
        if (own) posted_ps_[task.instruction] = line_.finish_ps[t];
        break;
      case StepTask::Part::kOperation:
        if (own) add_operation(t);
        break;
      case StepTask::Part::kOperationCpu:
        if (own) finish_operation(t);
        break;
      case StepTask::Part::kOptimizer:
      case StepTask::Part::kGradientNorm:
        if (own) add_event(t, instruction(class_, task.instruction), line_.start_ps[t]);
        break;
      case StepTask::Part::kCollective:
        if (own && instruction(class_, task.instruction).kind == InstructionKind::kReduce) {
          add(t, task.instruction);
        }
        break;
      case StepTask::Part::kTransfer:
        if (own) add(t, task.instruction);
        if (task.peer_class == class_) add(t, task.peer_instruction);
        break;
      case StepTask::Part::kSendCpu:
      case StepTask::Part::kReceiveCpu:
      case StepTask::Part::kCollectiveCpu:
        if (own) cpu_ps_[task.instruction] += line_.finish_ps[t] - line_.start_ps[t];
        break;
      case StepTask::Part::kAwait:
        if (own) add_joint_reduction(t);
        break;
      case StepTask::Part::kTransferStart:
        break;
    }
  }

  void add_operation(std::size_t t) {
    const StepTask& task = step_.tasks[t];
    const RankClass& c = program_.classes[class_];
    const Operation& operation =
        c.bodies[instruction(class_, task.instruction).body].operations[task.operation];
    TraceEvent event;
    event.key = key_of(c, task.instruction, task.operation, plan_.model);
    event.start = Picoseconds{line_.start_ps[t]};
    event.end = Picoseconds{line_.finish_ps[t]};
    event.bytes = operation.bytes;
    event.flop = operation.flop;
    events_.push_back(event);
  }

  /// An event of a whole instruction that ends with the task.
  TraceEvent& add_event(std::size_t t, const Instruction& i, std::int64_t start_ps) {
    TraceEvent event;
    event.key = i.key;
    event.stream = i.stream;
    event.start = Picoseconds{start_ps};
    event.end = Picoseconds{line_.finish_ps[t]};
    event.bytes = i.bytes;
    return events_.emplace_back(event);
  }

  /// The core share comes straight after the rest of its operation, whose event is the last one on
  /// the compute stream.
  void finish_operation(std::size_t t) {
    const auto event = std::find_if(events_.rbegin(), events_.rend(), [](const TraceEvent& e) {
      return e.stream == Stream::kCompute;
    });
    event->end = Picoseconds{line_.finish_ps[t]};
  }

  /// The event of a transfer or reduction, from when the own rank has issued it.
  void add(std::size_t t, std::int32_t instruction_index) {
    const std::int64_t posted_ps = posted_ps_[instruction_index];
    with_cpu_.emplace_back(events_.size(), instruction_index);
    add_event(t, instruction(class_, instruction_index), posted_ps).waiting =
        Picoseconds{std::max<std::int64_t>(0, line_.start_ps[t] - posted_ps)};
  }

  /// A reduction over positions has one task for all; each position's event is made where it waits.
  void add_joint_reduction(std::size_t t) {
    const std::int32_t index = step_.tasks[t].instruction;
    const InstructionKind kind = instruction(class_, index).kind;
    if (kind != InstructionKind::kReduceTied && kind != InstructionKind::kReduceNorm) return;
    for (const TaskIndex input : step_.graph.inputs(static_cast<TaskIndex>(t))) {
      if (step_.tasks[input].part == StepTask::Part::kCollective) add(input, index);
    }
  }

  const Plan& plan_;
  const Program& program_;
  const StepGraph& step_;
  const Timeline& line_;
  std::int32_t class_ = 0;
  std::vector<std::int64_t> posted_ps_;  ///< by instruction
  std::vector<std::int64_t> cpu_ps_;     ///< by instruction: its core share
  /// Events of transfers and reductions, and their instructions.
  std::vector<std::pair<std::size_t, std::int32_t>> with_cpu_;
  std::vector<TraceEvent> events_;
};

/// Memory points in time: a point holds from the start of its operation or instruction.
std::vector<MemorySample> memory_over_time(const RankClass& rank_class, std::int32_t c,
                                           const MemoryReplay& replay, const StepGraph& step,
                                           const Timeline& line) {
  std::vector<std::int64_t> issue(rank_class.instructions.size(), 0);
  std::vector<std::vector<std::int64_t>> starts(rank_class.instructions.size());
  for (std::size_t t = 0; t < step.tasks.size(); ++t) {
    const StepTask& task = step.tasks[t];
    if (task.rank_class != c) continue;
    if (task.part == StepTask::Part::kOverhead) issue[task.instruction] = line.start_ps[t];
    if (task.part == StepTask::Part::kOperation) {
      auto& list = starts[task.instruction];
      const auto index = static_cast<std::size_t>(
          task.operation - rank_class.instructions[task.instruction].op_begin);
      if (list.size() <= index) list.resize(index + 1);
      list[index] = line.start_ps[t];
    }
  }
  std::vector<MemorySample> samples;
  for (const MemoryPoint& point : replay.points) {
    MemorySample sample = sample_of(point.live);
    const Instruction& i = rank_class.instructions[point.instruction];
    sample.time = Picoseconds{
        point.operation < 0
            ? issue[point.instruction]
            : starts[point.instruction][static_cast<std::size_t>(point.operation - i.op_begin)]};
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace

Key key_of(const RankClass& rank_class, std::int32_t instruction, std::int32_t operation,
           const Model& model) {
  const Instruction& i = rank_class.instructions[instruction];
  if (operation < 0) return i.key;
  const Operation& o = rank_class.bodies[i.body].operations[operation];
  const std::uint32_t op_in_layer = o.op.index - model.layers[o.layer.index].first.index;
  return Key(i.key.phase(), i.key.chunk(), i.key.microbatch(), o.layer.index, op_in_layer,
             static_cast<std::uint32_t>(o.code));
}

Trace predicted_trace(const Plan& plan, const Program& program, const StepGraph& step,
                      const Timeline& line, const std::vector<MemoryReplay>& replays,
                      const std::vector<Bytes>& process) {
  Trace trace;
  trace.source = TraceSource::kPredicted;
  trace.plan_digest = digest_of(plan);
  trace.ranks = program.ranks();
  trace.steps = 1;
  PredictedTraceBuilder builder(plan, program, step, line);
  const bool all = program.ranks() <= kMostTracedRanks;
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    const RankClass& rank_class = program.classes[c];
    const auto events = builder.events(static_cast<std::int32_t>(c));
    const auto memory =
        memory_over_time(rank_class, static_cast<std::int32_t>(c), replays[c], step, line);
    const int copies = all ? rank_class.multiplicity : 1;
    for (int copy = 0; copy < copies; ++copy) {
      const int rank = rank_class.position * rank_class.multiplicity + copy;
      for (TraceEvent event : events) {
        event.rank = rank;
        trace.events.push_back(event);
      }
      for (MemorySample sample : memory) {
        sample.rank = rank;
        trace.memory.push_back(sample);
      }
      trace.summaries.push_back({rank, replays[c].peak.total(), process[c]});
    }
  }
  return trace;
}

}  // namespace parplan::sim
