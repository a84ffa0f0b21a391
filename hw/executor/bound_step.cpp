#include "hw/executor/bound_step.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "hw/random.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

/// Both ends of a transfer derive the same number: the receiver's key.
std::uint64_t transfer_key(Key key) {
  Phase phase = key.phase();
  if (phase == Phase::kSendActivation) phase = Phase::kReceiveActivation;
  if (phase == Phase::kSendGradient) phase = Phase::kReceiveGradient;
  return Key(phase, key.chunk(), key.microbatch(), key.layer(), key.op(), key.code()).packed;
}

/// Transfers between the same two ranks that may be outstanding together differ in value, direction
/// or microbatch; equal tags meet in the order in which they were posted, which both lists share.
int transfer_tag(Key key) {
  const bool gradient =
      transfer_key(key) >> 60 == static_cast<std::uint64_t>(Phase::kReceiveGradient);
  const std::uint32_t tag =
      ((key.microbatch() & 0x1FU) << 15) | (gradient ? 1U << 14 : 0U) | (key.op() & 0x3FFFU);
  static_assert((0x1F << 15 | 1 << 14 | 0x3FFF) < Communicator::kTagLimit);
  return static_cast<int>(tag);
}

double dropout_of(const OpBody& body) {
  if (const auto* op = std::get_if<ActivationOp>(&body)) return op->dropout;
  if (const auto* op = std::get_if<ResidualOp>(&body)) return op->dropout;
  if (const auto* op = std::get_if<DropoutOp>(&body)) return op->dropout;
  if (const auto* op = std::get_if<AttentionOp>(&body)) return op->dropout;
  return 0.0;
}

class StepBinder {
 public:
  StepBinder(const Binding& binding, const Device& device)
      : binding_(binding),
        device_(device),
        rank_class_(binding.program.classes.at(static_cast<std::size_t>(binding.where.position))),
        cursor_(rank_class_, binding.program.precision) {}

  BoundStep bind() {
    for (std::size_t i = 0; i < rank_class_.instructions.size(); ++i) {
      bind_instruction(rank_class_.instructions[i], static_cast<std::uint32_t>(i));
    }
    if (scales()) {
      step_.loss_scale = LossScaleCall{binding_.gradient, &binding_.plan.workload.loss_scaling};
    }
    return std::move(step_);
  }

 private:
  const Layout& layout() const { return binding_.program.layout; }
  DType precision() const { return binding_.program.precision; }
  const Tensor& tensor(TensorId id) const { return rank_class_.tensors.at(id.index); }

  // Memory.
  std::byte* place(TensorInstance instance) const {
    const Tensor& t = tensor(instance.tensor);
    const std::int64_t flat = t.flat_offset * bytes_of(t.dtype);
    if (t.kind == TensorKind::kParameter) return binding_.memory.parameters.data() + flat;
    if (t.kind == TensorKind::kGradient) return binding_.memory.gradients.data() + flat;
    return binding_.memory.arena.data() + cursor_.offset(instance);
  }
  Elements elements(TensorInstance instance) const {
    const Tensor& t = tensor(instance.tensor);
    return {place(instance), static_cast<std::size_t>(t.elements()), t.dtype};
  }
  void note_lifetime(TensorInstance instance, bool begins) {
    if (!kPoisonsFreedMemory) return;
    step_.lifetimes.push_back({place(instance), tensor(instance.tensor).bytes(), begins});
  }
  std::int32_t lifetimes() const { return static_cast<std::int32_t>(step_.lifetimes.size()); }

  void bind_instruction(const Instruction& instruction, std::uint32_t index) {
    BoundInstruction bound;
    bound.kind = instruction.kind;
    bound.wait_begin = static_cast<std::int32_t>(step_.waits.size());
    for (const std::uint32_t wait : instruction.waits) {
      step_.waits.push_back(wait);
      outstanding_.erase(wait);
    }
    bound.wait_end = static_cast<std::int32_t>(step_.waits.size());
    bound.lifetime_begin = lifetimes();
    for (const TensorInstance& freed : instruction.frees_before) note_lifetime(freed, false);
    cursor_.begin(instruction);
    for (const TensorId id : instruction.allocates) {
      note_lifetime({id, instruction.microbatch}, true);
    }
    bound.lifetime_end = lifetimes();
    switch (instruction.kind) {
      case InstructionKind::kRun:
        bind_run(instruction, bound);
        break;
      case InstructionKind::kSend:
      case InstructionKind::kReceive:
        bind_transfer(instruction, bound);
        break;
      case InstructionKind::kReduce:
      case InstructionKind::kReduceTied:
        bind_reduction(instruction, bound);
        break;
      case InstructionKind::kOptimizer:
        bind_optimizer(instruction, bound);
        break;
      case InstructionKind::kGradientNorm:
        bound.norm = {state(), binding_.memory.gradients.data(), rank_class_.norm_ranges,
                      squared_norm()};
        bound.polls = !outstanding_.empty();
        break;
      case InstructionKind::kReduceNorm:
        bind_norm_reduction(instruction, bound);
        break;
    }
    if (is_communication(instruction.kind)) {
      bound.comm_slot = step_.comm_slots++;
      outstanding_.insert(index);
    }
    step_.instructions.push_back(bound);
  }

  void bind_transfer(const Instruction& instruction, BoundInstruction& bound) {
    bound.group = binding_.groups.positions.get();
    ensure(bound.group != nullptr, "transfers happen between several positions");
    bound.data = elements({instruction.tensor, instruction.microbatch});
    bound.peer = instruction.peer;
    bound.tag = transfer_tag(instruction.key);
    bound.comm_key = transfer_key(instruction.key);
  }

  bool scales() const { return scales_loss(precision()); }
  double* squared_norm() const { return &binding_.gradient->squared_norm; }
  DType state() const { return state_type(precision()); }
  /// A place in a flat buffer of state_type.
  std::byte* flat(const DeviceRange& buffer, std::int64_t element) const {
    return buffer.data() + element * bytes_of(state());
  }

  void bind_reduction(const Instruction& instruction, BoundInstruction& bound) {
    if (instruction.kind == InstructionKind::kReduce) {
      bound.group = binding_.groups.data.get();
    } else {
      bound.group = binding_.groups.tied.at(instruction.group_positions).get();
    }
    ensure(bound.group != nullptr, "a reduction has a group that this rank is in");
    bound.data = {flat(binding_.memory.gradients, instruction.flat_begin),
                  static_cast<std::size_t>(instruction.flat_end - instruction.flat_begin), state()};
    bound.comm_key = instruction.key.packed;
  }

  void bind_norm_reduction(const Instruction& instruction, BoundInstruction& bound) {
    bound.group = binding_.groups.replica.get();
    ensure(bound.group != nullptr, "a norm is reduced over several ranks of a replica");
    bound.data = {reinterpret_cast<std::byte*>(squared_norm()), 1, DType::kFloat64};
    bound.comm_key = instruction.key.packed;
  }

  void bind_optimizer(const Instruction& instruction, BoundInstruction& bound) {
    const std::int64_t begin = instruction.flat_begin;
    bound.adam = {state(),
                  flat(binding_.memory.exact_parameters(), begin),
                  rounded_parameters(begin, instruction.flat_end),
                  flat(binding_.memory.gradients, begin),
                  flat(binding_.memory.first_moment, begin),
                  flat(binding_.memory.second_moment, begin),
                  instruction.flat_end - begin,
                  &binding_.plan.workload.optimizer,
                  1,
                  rank_class_.norm_ranges.empty() ? nullptr : binding_.gradient,
                  scales()};
    bound.polls = !outstanding_.empty();
  }

  /// The parameters in the precision of the run, where master weights are kept beside them.
  Elements rounded_parameters(std::int64_t begin, std::int64_t end) const {
    if (!is_half(precision())) return {};
    return {binding_.memory.parameters.data() + begin * bytes_of(precision()),
            static_cast<std::size_t>(end - begin), precision()};
  }

  void bind_run(const Instruction& instruction, BoundInstruction& bound) {
    const Body& body = rank_class_.bodies.at(static_cast<std::size_t>(instruction.body));
    bound.op_begin = static_cast<std::int32_t>(step_.operations.size());
    for (std::int32_t k = instruction.op_begin; k < instruction.op_end; ++k) {
      const parplan::Operation& operation = body.operations.at(static_cast<std::size_t>(k));
      const std::int32_t begin = lifetimes();
      cursor_.begin(operation, instruction.microbatch);
      note_lifetimes(operation, operation.allocates, instruction.microbatch, true);
      const std::int32_t middle = lifetimes();
      BoundOperation result = bind_operation(operation, body, instruction.microbatch);
      note_lifetimes(operation, operation.frees, instruction.microbatch, false);
      cursor_.end(operation, instruction.microbatch);
      result.lifetime_begin = begin;
      result.lifetime_middle = middle;
      result.lifetime_end = lifetimes();
      step_.operations.push_back(result);
    }
    bound.op_end = static_cast<std::int32_t>(step_.operations.size());
  }

  void note_lifetimes(const parplan::Operation& operation, const std::vector<TensorId>& tensors,
                      std::int32_t microbatch, bool begins) {
    for (const TensorId id : tensors) note_lifetime({id, microbatch}, begins);
    if (operation.workspace && std::find(operation.allocates.begin(), operation.allocates.end(),
                                         *operation.workspace) == operation.allocates.end()) {
      note_lifetime({*operation.workspace, microbatch}, begins);
    }
  }

  BoundOperation bind_operation(const parplan::Operation& operation, const Body& body,
                                std::int32_t microbatch) {
    BoundOperation bound;
    bound.polls = !outstanding_.empty();
    if (operation.code == OpCode::kLoadInput) {
      bind_load(operation, microbatch, bound);
    } else if (is_tensor_collective(operation.code)) {
      bind_collective(operation, body, microbatch, bound);
    } else {
      bind_kernel(operation, microbatch, bound);
    }
    return bound;
  }

  /// Place of a microbatch's first sample in the global batch.
  std::int64_t first_sample(std::int32_t microbatch) const {
    const std::int64_t replica_samples = binding_.plan.workload.global_batch / layout().dp;
    return binding_.where.replica * replica_samples +
           microbatch * binding_.program.microbatch_samples;
  }
  std::int64_t rows_per_sample(std::int64_t rows) const {
    return rows / binding_.program.microbatch_samples;
  }

  void bind_load(const parplan::Operation& operation, std::int32_t microbatch,
                 BoundOperation& bound) {
    bound.kind = BoundOperation::Kind::kLoad;
    const TensorId target = operation.outputs.at(0).tensor;
    ensure(tensor(target).value.has_value(), "an input tensor names its value");
    bound.value = *tensor(target).value;
    bound.first_sample = first_sample(microbatch);
    bound.target = place({target, microbatch});
    bound.bytes = tensor(target).bytes();
  }

  void bind_collective(const parplan::Operation& operation, const Body& body,
                       std::int32_t microbatch, BoundOperation& bound) {
    ensure(binding_.groups.tensor != nullptr, "tensor collectives need several tensor ranks");
    const bool gather = operation.code == OpCode::kTensorAllGather;
    bound.kind = gather ? BoundOperation::Kind::kAllGather : BoundOperation::Kind::kAllReduce;
    bound.part = elements({operation.inputs.at(0), microbatch});
    bound.whole = elements({operation.outputs.at(0).tensor, microbatch});
    bound.comm_key = operation_key(binding_.plan.model, body, operation, microbatch).packed;
    bound.comm_slot = step_.comm_slots++;
    bound.group = binding_.groups.tensor.get();
  }

  void bind_kernel(const parplan::Operation& operation, std::int32_t microbatch,
                   BoundOperation& bound) {
    if (!device_.supports(operation.code, precision())) {
      throw HwError("device " + std::string(device_.name()) + " has no " +
                    std::string(name_of(operation.code)) + " in " +
                    std::string(name_of(precision())));
    }
    KernelCall& call = bound.call;
    call.code = operation.code;
    call.dtype = precision();
    call.body = &binding_.plan.model.op(operation.op).body;
    call.shape = operation.shape;
    ensure(operation.inputs.size() <= call.inputs.size() &&
               operation.outputs.size() <= call.outputs.size(),
           "an operation has at most six inputs and three outputs");
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      call.inputs[i] = elements({operation.inputs[i], microbatch});
    }
    for (std::size_t i = 0; i < operation.outputs.size(); ++i) {
      const Output& output = operation.outputs[i];
      call.outputs[i] = elements({output.tensor, microbatch});
      call.accumulate[i] = output.write == Write::kAccumulate ||
                           (output.write == Write::kOverwriteFirst && microbatch != 0);
    }
    if (operation.workspace) call.workspace = place({*operation.workspace, microbatch});
    call.place = logical_place(operation, microbatch);
    call.scale = mean_scale(operation);
    call.loss = binding_.loss;
    if (scales()) call.gradient = binding_.gradient;
    bound.drops = dropout_of(*call.body) > 0.0;
    bound.dropout_name = fnv1a64(op_path(operation));
  }

  std::string op_path(const parplan::Operation& operation) const {
    return binding_.plan.model.layers[operation.layer.index].name + "/" +
           binding_.plan.model.op(operation.op).name;
  }

  LogicalPlace logical_place(const parplan::Operation& operation, std::int32_t microbatch) const {
    LogicalPlace where;
    where.shard = binding_.where.tensor;
    where.shards = layout().tp;
    const OpShape& shape = operation.shape;
    const bool attention =
        operation.code == OpCode::kAttentionForward || operation.code == OpCode::kAttentionBackward;
    where.row_offset = first_sample(microbatch) * (attention ? 1 : rows_per_sample(shape.rows));
    where.column_offset = binding_.where.tensor * local_columns(operation);
    return where;
  }

  /// Local extent of the dimension that is split over tensor ranks; 0 where the operation's is
  /// whole.
  std::int64_t local_columns(const parplan::Operation& operation) const {
    const OpShape& shape = operation.shape;
    switch (operation.code) {
      case OpCode::kEmbeddingForward:
        return tensor(operation.inputs.at(1)).sharding == Sharding::kRows ? shape.inner : 0;
      case OpCode::kEmbeddingBackward:
        return tensor(operation.outputs.at(0).tensor).sharding == Sharding::kRows ? shape.inner : 0;
      case OpCode::kAttentionForward:
      case OpCode::kAttentionBackward:
        return splits_columns(operation.inputs.at(0)) ? shape.heads : 0;
      case OpCode::kCrossEntropyStats:
      case OpCode::kCrossEntropyBackward:
        return splits_columns(operation.inputs.at(0)) ? shape.columns : 0;
      case OpCode::kActivationForward:
      case OpCode::kActivationBackward:
      case OpCode::kResidualForward:
      case OpCode::kDropoutForward:
      case OpCode::kDropoutBackward:
        return splits_columns(operation.outputs.at(0).tensor) ? shape.columns : 0;
      default:
        return 0;  // knows no columns of the logical tensor
    }
  }
  bool splits_columns(TensorId id) const { return tensor(id).sharding == Sharding::kColumns; }

  /// 1 / elements of the global batch that the loss is the mean of.
  double mean_scale(const parplan::Operation& operation) const {
    const Op& op = binding_.plan.model.op(operation.op);
    const bool squared = std::holds_alternative<SquaredErrorOp>(op.body);
    if (!squared && !std::holds_alternative<CrossEntropyOp>(op.body)) return 1.0;
    const std::int64_t features = squared ? binding_.plan.model.value(op.inputs.at(0)).features : 1;
    return 1.0 / static_cast<double>(binding_.plan.workload.global_batch *
                                     rows_per_sample(operation.shape.rows) * features);
  }

  const Binding& binding_;
  const Device& device_;
  const RankClass& rank_class_;
  MemoryCursor cursor_;
  std::set<std::uint32_t> outstanding_;  ///< communication posted and not yet waited for
  BoundStep step_;
};

}  // namespace

BoundStep bind_step(const Binding& binding, const Device& device) {
  return StepBinder(binding, device).bind();
}

}  // namespace parplan::hw
