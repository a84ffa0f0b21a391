#include "sim/step_graph.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/core/memory_replay.hpp"
#include "sim/core_sharing.hpp"

namespace parplan::sim {
bool blocks_on_tensor_group(const StepTask& task, const Program& program) {
  if (task.part == StepTask::Part::kOperationCpu) return true;
  if (task.part != StepTask::Part::kOperation) return false;
  const RankClass& c = program.classes[task.rank_class];
  const Instruction& i = c.instructions[task.instruction];
  return is_tensor_collective(c.bodies[i.body].operations[task.operation].code);
}

namespace {

/// One transfer, named alike on both sides.
using TransferName = std::tuple<bool, std::uint32_t, std::int32_t, int, int>;

TransferName name_of_transfer(const Instruction& i, int position) {
  const Phase phase = i.key.phase();
  const bool gradient = phase == Phase::kSendGradient || phase == Phase::kReceiveGradient;
  const bool sends = i.kind == InstructionKind::kSend;
  return {gradient, i.key.op(), i.microbatch, sends ? position : i.peer, sends ? i.peer : position};
}

/// Builds the tasks of a step class by class, then joins what lies between classes.
class StepGraphBuilder {
 public:
  StepGraphBuilder(const Model& model, const Program& program, const CostModel& costs,
                   const std::vector<MemoryReplay>& replays)
      : model_(model),
        program_(program),
        costs_(costs),
        cores_(share_cores(program.layout, costs.cluster())) {
    for (std::size_t c = 0; c < program.classes.size(); ++c) {
      conditions_.push_back(
          {busy_ranks_of(program.layout, costs.cluster(), program.classes[c].position),
           replays[c].working_set()});
    }
  }

  StepGraph build() {
    for (std::size_t c = 0; c < program_.classes.size(); ++c) {
      result_.compute.push_back(builder_.add_resource());
      data_stream_.push_back(builder_.add_resource());
    }
    for (std::size_t c = 0; c < program_.classes.size(); ++c) {
      lower_class(static_cast<std::int32_t>(c));
    }
    join();
    auto built = builder_.try_build();
    if (auto* deadlock = std::get_if<Deadlock>(&built)) {
      throw InputError("the plan deadlocks: " + describe(*deadlock, [this](TaskIndex added) {
                         return task_name(result_.tasks[added]);
                       }));
    }
    result_.graph = std::get<TaskGraph>(std::move(built));
    renumber();
    if (!cores_.empty()) draw_on_cores();
    return std::move(result_);
  }

 private:
  /// What later instructions of a class wait for, by instruction.
  struct Communication {
    TaskIndex task = kNoTask;  ///< of a receive it is not known before all classes are lowered
    Seconds receive_cpu;
    bool awaited = false;
  };

  TaskIndex add(ResourceIndex resource, StepTask task, Seconds duration, CostSource source) {
    work_ += duration;
    if (!(work_ < kMostWork)) {
      throw InputError(
          "a step of this plan takes more than the " +
          std::to_string(static_cast<std::int64_t>(kMostWork.value)) +
          " s that can be simulated; make the batch, the sequence or the model smaller, use more "
          "devices, or correct the times and rates of the machine file");
    }
    result_.tasks.push_back(task);
    result_.durations_ps.push_back(to_picoseconds(duration).value);
    result_.sources.push_back(source);
    return builder_.add_task(resource);
  }

  TaskIndex compute(StepTask::Part part, std::int32_t instruction, Seconds duration,
                    CostSource source = CostSource::kMeasured, std::int32_t operation = -1) {
    StepTask task;
    task.part = part;
    task.rank_class = class_;
    task.instruction = instruction;
    task.operation = operation;
    last_ = add(result_.compute[class_], task, duration, source);
    return last_;
  }

  void lower_class(std::int32_t c) {
    class_ = c;
    const RankClass& rank_class = program_.classes[c];
    communications_.assign(rank_class.instructions.size(), {});
    if (shares_core()) {
      // Waiting for the step to start takes no core, its overhead does.
      compute(StepTask::Part::kStepStart, 0, Seconds{});
      compute(StepTask::Part::kOverhead, 0, costs_.step_overhead());
    } else {
      compute(StepTask::Part::kStepStart, 0, costs_.step_overhead());
    }
    for (std::size_t i = 0; i < rank_class.instructions.size(); ++i) {
      const Instruction& instruction = rank_class.instructions[i];
      wait_for(instruction);
      compute(StepTask::Part::kOverhead, static_cast<std::int32_t>(i),
              costs_.instruction_overhead());
      issue(instruction, static_cast<std::int32_t>(i));
    }
    // The step ends when all its communication does.
    Instruction end;
    for (std::size_t i = 0; i < communications_.size(); ++i) {
      if (communications_[i].task != kNoTask || pending_receive(i)) {
        end.waits.push_back(static_cast<std::uint32_t>(i));
      }
    }
    wait_for(end);
  }

  bool pending_receive(std::size_t i) const {
    return program_.classes[class_].instructions[i].kind == InstructionKind::kReceive &&
           !communications_[i].awaited;
  }

  /// Waits become tasks on the compute stream, each transfer's once.
  void wait_for(const Instruction& instruction) {
    for (const std::uint32_t w : instruction.waits) {
      Communication& communication = communications_[w];
      if (communication.awaited) continue;
      communication.awaited = true;
      const auto index = static_cast<std::int32_t>(w);
      if (communication.task != kNoTask) {
        builder_.add_dependency(communication.task,
                                compute(StepTask::Part::kAwait, index, Seconds{}));
        continue;
      }
      const Instruction& source = program_.classes[class_].instructions[w];
      const TaskIndex copy = compute(StepTask::Part::kReceiveCpu, index, communication.receive_cpu);
      const TaskIndex done = compute(StepTask::Part::kAwait, index, Seconds{});
      awaited_receives_.push_back({name_of_transfer(source, position()), copy, done});
    }
  }

  int position() const { return program_.classes[class_].position; }

  void issue(const Instruction& instruction, std::int32_t index) {
    switch (instruction.kind) {
      case InstructionKind::kRun:
        run(instruction, index);
        break;
      case InstructionKind::kSend:
        send(instruction, index);
        break;
      case InstructionKind::kReceive: {
        const TransferCost cost =
            costs_.point_to_point(instruction.bytes, span_to(instruction.peer));
        communications_[index].receive_cpu = cost.cpu;
        receives_[name_of_transfer(instruction, position())] = {last_, class_, index};
        break;
      }
      case InstructionKind::kReduce:
        reduce(instruction, index);
        break;
      case InstructionKind::kReduceTied:
        reduce_tied(instruction, index);
        break;
      case InstructionKind::kOptimizer: {
        const OperationCost cost = costs_.adam(instruction.flat_end - instruction.flat_begin,
                                               program_.precision, conditions_[class_]);
        compute(StepTask::Part::kOptimizer, index, cost.time, cost.source);
        break;
      }
      case InstructionKind::kGradientNorm: {
        const OperationCost cost =
            costs_.price(OpCode::kGradientNorm,
                         {.rows = 1, .columns = instruction.flat_end - instruction.flat_begin}, {},
                         program_.precision, conditions_[class_]);
        compute(StepTask::Part::kGradientNorm, index, cost.time, cost.source);
        break;
      }
      case InstructionKind::kReduceNorm:
        reduce_norm(instruction, index);
        break;
    }
  }

  Span span_to(int peer) const {
    return span_of_positions(program_.layout, costs_.cluster(), position(), peer);
  }

  void run(const Instruction& instruction, std::int32_t index) {
    const Body& body = program_.classes[class_].bodies[instruction.body];
    for (std::int32_t o = instruction.op_begin; o < instruction.op_end; ++o) {
      const Operation& operation = body.operations[o];
      if (is_tensor_collective(operation.code)) {
        run_collective(operation, index, o);
        continue;
      }
      const OperationCost cost =
          costs_.operation(operation, model_.op(operation.op).body, program_.precision,
                           instruction.microbatch, conditions_[class_]);
      compute(StepTask::Part::kOperation, index, cost.time + costs_.operation_overhead(),
              cost.source, o);
    }
  }

  void run_collective(const Operation& operation, std::int32_t index, std::int32_t o) {
    const int tp = program_.layout.tp;
    const bool reduces = operation.code == OpCode::kTensorAllReduce;
    const Bytes size{operation.bytes.value * (reduces ? 1 : tp)};
    const TransferCost cost =
        costs_.collective(reduces ? CollectiveKind::kAllReduce : CollectiveKind::kAllGather, tp,
                          size, span_of_tensor_group(program_.layout, costs_.cluster()));
    if (!shares_core()) {
      compute(StepTask::Part::kOperation, index, cost.wall + costs_.operation_overhead(),
              cost.source, o);
      return;
    }
    compute(StepTask::Part::kOperation, index, cost.wall - cost.cpu, cost.source, o);
    compute(StepTask::Part::kOperationCpu, index, cost.cpu + costs_.operation_overhead(),
            cost.source, o);
  }

  const LinkSpec& link_to(int peer) const {
    const Cluster& cluster = costs_.cluster();
    return span_to(peer) == Span::kOneNode ? cluster.intra_node : cluster.inter_node;
  }

  /// A link direction between two positions; one resource for both when the link is half-duplex,
  /// one for all links of its kind when they share a medium.
  ResourceIndex link(int from, int to) {
    const LinkSpec& spec = link_to(to);
    std::pair<int, int> ends{from, to};
    if (spec.half_duplex && ends.first > ends.second) std::swap(ends.first, ends.second);
    if (spec.shared) ends = {-1, static_cast<int>(span_to(to))};
    const auto known = links_.find(ends);
    if (known != links_.end()) return known->second;
    const bool contended = spec.half_duplex || spec.shared;
    const ResourceIndex made =
        builder_.add_resource(contended ? ResourceOrder::kUnordered : ResourceOrder::kIssueOrder);
    return links_.emplace(ends, made).first->second;
  }

  /// How many ranks of a position send at once over one medium: replicas and tensor ranks do the
  /// same at the same time.
  int senders_at_once(int peer) const {
    const int alike = program_.layout.dp * program_.layout.tp;
    return link_to(peer).shared ? std::min(alike, costs_.cluster().devices_per_node) : 1;
  }

  void send(const Instruction& instruction, std::int32_t index) {
    const TransferCost cost = costs_.point_to_point(instruction.bytes, span_to(instruction.peer));
    const ResourceIndex wire = link(position(), instruction.peer);
    StepTask task;
    task.part = StepTask::Part::kTransferStart;
    task.rank_class = class_;
    task.instruction = index;
    const TaskIndex start = add(wire, task, Seconds{}, CostSource::kInterpolated);
    builder_.add_dependency(last_, start);
    task.part = StepTask::Part::kTransfer;
    // What cores do is done for each sender on cores of its own.
    const Seconds copies = std::min(cost.wall, cost.cpu + cost.sender_cpu);
    const Seconds time = copies + (cost.wall - copies) * senders_at_once(instruction.peer);
    const TaskIndex transfer = add(wire, task, time, CostSource::kInterpolated);
    builder_.add_dependency(start, transfer);
    communications_[index].task = transfer;
    sends_[name_of_transfer(instruction, position())] = {start, transfer};
    compute(StepTask::Part::kSendCpu, index, cost.sender_cpu);
  }

  void reduce(const Instruction& instruction, std::int32_t index) {
    const TransferCost cost =
        costs_.collective(CollectiveKind::kAllReduce, program_.layout.dp, instruction.bytes,
                          span_of_data_group(program_.layout, costs_.cluster()), Waits::kLater);
    StepTask task;
    task.part = StepTask::Part::kCollective;
    task.rank_class = class_;
    task.instruction = index;
    const TaskIndex collective =
        add(data_stream_[class_], task, cost.wall, CostSource::kInterpolated);
    builder_.add_dependency(last_, collective);
    communications_[index].task = collective;
    compute(StepTask::Part::kCollectiveCpu, index, cost.cpu);
  }

  void reduce_tied(const Instruction& instruction, std::int32_t index) {
    const auto& group = instruction.group_positions;
    const TransferCost cost = costs_.collective(
        CollectiveKind::kAllReduce, static_cast<int>(group.size()), instruction.bytes,
        span_of_positions(program_.layout, costs_.cluster(), group.front(), group.back()));
    reduce_jointly(tied_[instruction.key.op()], cost, index);
  }

  /// Over all positions and tensor ranks of a replica.
  void reduce_norm(const Instruction& instruction, std::int32_t index) {
    const Layout& layout = program_.layout;
    const Span span = layout.positions() > 1
                          ? span_of_positions(layout, costs_.cluster(), 0, layout.positions() - 1)
                          : span_of_tensor_group(layout, costs_.cluster());
    const TransferCost cost = costs_.collective(
        CollectiveKind::kAllReduce, layout.tp * layout.positions(), instruction.bytes, span);
    reduce_jointly(norm_, cost, index);
  }

  /// One task for all positions of the group, which the first of them adds.
  void reduce_jointly(std::optional<TaskIndex>& joint, const TransferCost& cost,
                      std::int32_t index) {
    if (!joint) {
      StepTask task;
      task.part = StepTask::Part::kCollective;
      task.rank_class = class_;
      task.instruction = index;
      joint = add(kNoResource, task, cost.wall, CostSource::kInterpolated);
    }
    builder_.add_dependency(last_, *joint);
    communications_[index].task = *joint;
    compute(StepTask::Part::kCollectiveCpu, index, cost.cpu);
  }

  void join() {
    for (const auto& [name, sent] : sends_) {
      const auto receive = receives_.find(name);
      ensure(receive != receives_.end(), "every send has its receive");
      builder_.add_dependency(receive->second.posted_after, sent.start);
      result_.tasks[sent.transfer].peer_class = receive->second.rank_class;
      result_.tasks[sent.transfer].peer_instruction = receive->second.instruction;
    }
    for (const AwaitedReceive& awaited : awaited_receives_) {
      const auto send = sends_.find(awaited.name);
      ensure(send != sends_.end(), "every receive has its send");
      builder_.add_dependency(send->second.start, awaited.copy);
      builder_.add_dependency(send->second.transfer, awaited.done);
    }
  }

  bool shares_core() const { return !cores_.empty() && cores_.route_of_class[class_] != kNoRoute; }

  static bool needs_core(const StepTask& task, const Program& program) {
    switch (task.part) {
      case StepTask::Part::kOverhead:
      case StepTask::Part::kOperationCpu:
      case StepTask::Part::kSendCpu:
      case StepTask::Part::kReceiveCpu:
      case StepTask::Part::kCollectiveCpu:
      case StepTask::Part::kOptimizer:
      case StepTask::Part::kGradientNorm:
        return true;
      case StepTask::Part::kOperation:
        return !blocks_on_tensor_group(task, program);
      case StepTask::Part::kStepStart:
      case StepTask::Part::kTransferStart:
      case StepTask::Part::kTransfer:
      case StepTask::Part::kCollective:
      case StepTask::Part::kAwait:
        return false;
    }
    return false;
  }

  void draw_on_cores() {
    Contention& contention = result_.contention;
    contention.pool_capacity = cores_.pool_capacity;
    contention.routes = cores_.routes;
    for (const StepTask& task : result_.tasks) {
      contention.route_of_task.push_back(
          needs_core(task, program_) ? cores_.route_of_class[task.rank_class] : kNoRoute);
    }
  }

  std::string task_name(const StepTask& task) const {
    const Instruction& i = program_.classes[task.rank_class].instructions[task.instruction];
    return to_string(i.key, model_) + " of position " +
           std::to_string(program_.classes[task.rank_class].position);
  }

  /// The graph may have renumbered tasks; the columns follow.
  void renumber() {
    const std::size_t count = result_.tasks.size();
    std::vector<StepTask> tasks(count);
    std::vector<std::int64_t> durations(count);
    std::vector<CostSource> sources(count);
    for (std::size_t added = 0; added < count; ++added) {
      const TaskIndex now = result_.graph.task_of(static_cast<TaskIndex>(added));
      tasks[now] = result_.tasks[added];
      durations[now] = result_.durations_ps[added];
      sources[now] = result_.sources[added];
    }
    result_.tasks = std::move(tasks);
    result_.durations_ps = std::move(durations);
    result_.sources = std::move(sources);
  }

  struct Sent {
    TaskIndex start = kNoTask;
    TaskIndex transfer = kNoTask;
  };

  struct AwaitedReceive {
    TransferName name;
    TaskIndex copy = kNoTask;
    TaskIndex done = kNoTask;
  };

  struct PostedReceive {
    TaskIndex posted_after = kNoTask;
    std::int32_t rank_class = 0;
    std::int32_t instruction = 0;
  };

  Seconds work_;  ///< of all tasks so far
  const Model& model_;
  const Program& program_;
  const CostModel& costs_;
  CoreSharing cores_;
  std::vector<Conditions> conditions_;  ///< per class
  TaskGraphBuilder builder_;
  StepGraph result_;
  std::vector<ResourceIndex> data_stream_;
  std::map<std::pair<int, int>, ResourceIndex> links_;
  std::map<TransferName, Sent> sends_;
  std::map<TransferName, PostedReceive> receives_;
  std::vector<AwaitedReceive> awaited_receives_;
  std::map<std::uint32_t, std::optional<TaskIndex>> tied_;  ///< by parameter
  std::optional<TaskIndex> norm_;
  std::vector<Communication> communications_;
  std::int32_t class_ = 0;
  TaskIndex last_ = kNoTask;
};

}  // namespace

StepGraph build_step_graph(const Model& model, const Program& program, const CostModel& costs,
                           const std::vector<MemoryReplay>& replays) {
  return StepGraphBuilder(model, program, costs, replays).build();
}

}  // namespace parplan::sim
