#include "sim/core/class_emitter.hpp"

#include "sim/core/error.hpp"
#include "sim/core/op_work.hpp"
#include "sim/core/positions.hpp"
#include "sim/core/workspace.hpp"

namespace parplan {

ClassEmitter::ClassEmitter(const LoweringContext& context, int position)
    : context_(context),
      shard_of_(context.model.parameters.size()),
      full_(context.model.values.size()),
      partial_(context.model.values.size()),
      saved_(context.model.ops.size()) {
  lowered_.rank_class.position = position;
  lowered_.rank_class.multiplicity = context.layout.dp * context.layout.tp;
  lowered_.value_tensors.resize(context.model.values.size());
  const TensorSharding& sharding = context.sharding;
  for (std::size_t i = 0; i < context.model.ops.size(); ++i) {
    if (context.chunks[context.op_chunks[i]].position != position) continue;
    for (const ParameterId p : context.model.ops[i].parameters) {
      if (shard_of_[p.index]) continue;  // tied
      ParameterShard shard;
      shard.parameter = p;
      shard.split = sharding.split(p);
      shard.local_rows = sharding.local_rows(p);
      shard.local_columns = sharding.local_columns(p);
      Tensor tensor{TensorKind::kParameter, context.workload.precision};
      tensor.rows = shard.local_rows;
      tensor.columns = shard.local_columns;
      tensor.parameter = p;
      tensor.sharding = shard.split == Split::kRows      ? Sharding::kRows
                        : shard.split == Split::kColumns ? Sharding::kColumns
                                                         : Sharding::kReplicated;
      shard.weight = add_tensor(tensor);
      tensor.kind = TensorKind::kGradient;
      tensor.dtype = state_type(context.workload.precision);
      shard.gradient = add_tensor(tensor);
      shard_of_[p.index] = static_cast<std::uint32_t>(lowered_.rank_class.parameters.size());
      lowered_.rank_class.parameters.push_back(shard);
    }
  }
  contributed_.resize(lowered_.rank_class.parameters.size());
  lowered_.gradient_ready.resize(lowered_.rank_class.parameters.size());
}

TensorId ClassEmitter::add_tensor(Tensor tensor) {
  lowered_.rank_class.tensors.push_back(tensor);
  return TensorId{lowered_.rank_class.tensors.size() - 1};
}

std::int64_t ClassEmitter::positions_of(ValueId value) const {
  return parplan::positions_of(context_.model.value(value), context_.workload);
}

std::int64_t ClassEmitter::rows_of(ValueId value) const {
  return context_.microbatch_samples * positions_of(value);
}

TensorId ClassEmitter::value_tensor(ValueId value) {
  auto& slot = lowered_.value_tensors[value.index];
  if (slot) return *slot;
  const Value& v = context_.model.value(value);
  Tensor tensor{TensorKind::kActivation, context_.workload.precision};
  const bool ids = v.role == ValueRole::kTokens || v.role == ValueRole::kClasses;
  if (ids) tensor.dtype = DType::kInt32;
  const bool input = v.role != ValueRole::kActivation && v.role != ValueRole::kLoss;
  if (input) tensor.kind = TensorKind::kInput;
  tensor.sharding = context_.sharding.of(value);
  tensor.rows = rows_of(value);
  tensor.columns = ids ? 1 : local_features(value);
  tensor.value = value;
  slot = add_tensor(tensor);
  if (input) {
    emit(OpCode::kLoadInput, {.rows = tensor.rows, .columns = tensor.columns}, {}, {{*slot}});
  }
  return *slot;
}

TensorId ClassEmitter::extra(std::int64_t rows, std::int64_t columns, TensorKind kind,
                             Sharding sharding) {
  return add_matrix(rows, columns, kind, sharding, context_.workload.precision);
}

TensorId ClassEmitter::statistics(std::int64_t rows, std::int64_t columns, TensorKind kind,
                                  Sharding sharding) {
  return add_matrix(rows, columns, kind, sharding, state_type(context_.workload.precision));
}

TensorId ClassEmitter::add_matrix(std::int64_t rows, std::int64_t columns, TensorKind kind,
                                  Sharding sharding, DType dtype) {
  Tensor tensor{kind, dtype};
  tensor.rows = rows;
  tensor.columns = columns;
  tensor.sharding = sharding;
  return add_tensor(tensor);
}

TensorId ClassEmitter::weight(ParameterId parameter) const {
  return lowered_.rank_class.parameters[*shard_of_[parameter.index]].weight;
}

Output ClassEmitter::weight_gradient(ParameterId parameter) {
  const std::uint32_t shard = *shard_of_[parameter.index];
  const bool first = !contributed_[shard];
  contributed_[shard] = true;
  // The operation that is about to be emitted is the last one so far to touch this gradient.
  lowered_.gradient_ready[shard] =
      WorkPoint{static_cast<int>(lowered_.rank_class.bodies.size()) - 1,
                static_cast<int>(body_->operations.size())};
  return {lowered_.rank_class.parameters[shard].gradient,
          first ? Write::kOverwriteFirst : Write::kAccumulate};
}

Output ClassEmitter::contribution(ValueId value, bool partial) {
  // Without tensor parallelism, and for split values, nothing is partial.
  const bool summed = partial && context_.layout.tp > 1 && !context_.sharding.split(value);
  auto& slot = summed ? partial_[value.index] : full_[value.index];
  if (slot) return {*slot, Write::kAccumulate};
  Tensor tensor{TensorKind::kActivationGradient, context_.workload.precision};
  tensor.rows = rows_of(value);
  tensor.columns = local_features(value);
  tensor.sharding = context_.sharding.of(value);
  tensor.value = value;
  slot = add_tensor(tensor);
  return {*slot, Write::kOverwrite};
}

void ClassEmitter::finish_gradient(ValueId value) {
  auto& partial = partial_[value.index];
  if (!partial) return;
  all_reduce(*partial);
  auto& full = full_[value.index];
  if (full) {
    emit(OpCode::kAdd, matrix(value), {*partial}, {{*full, Write::kAccumulate}});
  } else {
    full = partial;
  }
  partial.reset();
}

TensorId ClassEmitter::gradient_of(ValueId value) {
  finish_gradient(value);
  ensure(full_[value.index].has_value(), "a value's gradient is complete before its producer runs");
  return *full_[value.index];
}

void ClassEmitter::pass_through(ValueId value, TensorId gradient, bool may_alias) {
  if (!wants_gradient(value)) return;
  auto& full = full_[value.index];
  if (!full && may_alias) {
    full = gradient;
    return;
  }
  const Output target = contribution(value, false);
  emit(OpCode::kAdd, matrix(value), {gradient}, {target});
}

void ClassEmitter::take_received_gradient(ValueId value, int from) {
  Tensor tensor{TensorKind::kActivationGradient, context_.workload.precision};
  tensor.rows = rows_of(value);
  tensor.columns = local_features(value);
  tensor.sharding = context_.sharding.of(value);
  tensor.value = value;
  const TensorId received = add_tensor(tensor);
  lowered_.received_gradients[{value.index, from}] = received;
  current_ = *context_.producers[value.index];
  if (full_[value.index]) {
    emit(OpCode::kAdd, matrix(value), {received}, {{*full_[value.index], Write::kAccumulate}});
  } else {
    full_[value.index] = received;
  }
}

void ClassEmitter::open_body(BodyKind kind, int chunk) {
  auto& bodies = lowered_.rank_class.bodies;
  lowered_.body_of[{chunk, kind}] = static_cast<int>(bodies.size());
  bodies.push_back({kind, chunk, {}});
  body_ = &bodies.back();
}

Operation& ClassEmitter::emit(OpCode code, OpShape shape, std::vector<TensorId> inputs,
                              std::vector<Output> outputs) {
  const DType dtype = context_.workload.precision;
  Operation operation;
  operation.code = code;
  operation.op = current_;
  operation.layer = context_.op_layers[current_.index];
  operation.shape = shape;
  operation.inputs = std::move(inputs);
  operation.outputs = std::move(outputs);
  operation.flop = flop_of(code, shape);
  operation.bytes = traffic_of(code, shape, dtype);
  if (const std::int64_t scratch = workspace_bytes(code, shape, dtype).value; scratch > 0) {
    const std::int64_t element = bytes_of(state_type(dtype));
    operation.workspace = statistics(1, (scratch + element - 1) / element, TensorKind::kWorkspace);
  }
  body_->operations.push_back(std::move(operation));
  return body_->operations.back();
}

OpShape ClassEmitter::matrix(ValueId value) const {
  return {.rows = rows_of(value), .columns = local_features(value), .queries = positions_of(value)};
}

void ClassEmitter::all_reduce(TensorId tensor) {
  const Tensor& t = lowered_.rank_class.tensors[tensor.index];
  emit(OpCode::kTensorAllReduce, {.rows = t.rows, .columns = t.columns}, {tensor},
       {{tensor, Write::kOverwrite}});
}

TensorId ClassEmitter::gather_columns(TensorId local, std::int64_t rows, std::int64_t local_columns,
                                      const Output& whole) {
  const std::int64_t shards = context_.layout.tp;
  const TensorId gathered = extra(shards * rows, local_columns, TensorKind::kCommunication);
  emit(OpCode::kTensorAllGather, {.rows = rows, .columns = local_columns}, {local}, {{gathered}});
  emit(OpCode::kInterleaveColumns, {.rows = rows, .columns = shards * local_columns}, {gathered},
       {whole});
  return whole.tensor;
}

OpShape ClassEmitter::rotary_shape(const RotaryOp& body, ValueId value) const {
  const std::int64_t local = local_features(value);
  return {.rows = rows_of(value),
          .columns = local,
          .batch = context_.microbatch_samples,
          .queries = positions_of(value),
          .heads = local / body.head_dim,
          .head_dim = body.head_dim};
}

ClassEmitter::Attention ClassEmitter::attention_shape(const AttentionOp& body) const {
  const std::int64_t share = context_.sharding.split(in(0)) ? context_.layout.tp : 1;
  return {{.rows = rows_of(in(0)),
           .columns = local_features(in(0)),
           .batch = context_.microbatch_samples,
           .queries = positions_of(in(0)),
           .keys = positions_of(in(1)),
           .heads = body.heads / share,
           .kv_heads = body.kv_heads / share,
           .head_dim = body.head_dim},
          body.causal};
}

}  // namespace parplan
