#include "sim/core/class_emitter.hpp"
#include "sim/core/op_work.hpp"

namespace parplan {

void ClassEmitter::forward(OpId op) {
  current_ = op;
  std::visit([this](const auto& body) { forward_body(body); }, this->op().body);
}

void ClassEmitter::forward_body(const EmbeddingOp&) {
  const ParameterId table = op().parameters[0];
  OpShape shape = matrix(out());
  shape.inner = context_.sharding.local_rows(table);
  const TensorId tokens = value_tensor(in(0));
  const TensorId y = value_tensor(out());
  emit(OpCode::kEmbeddingForward, shape, {tokens, weight(table)}, {{y}});
  if (context_.layout.tp > 1) all_reduce(y);
}

void ClassEmitter::forward_body(const PositionEmbeddingOp&) {
  emit(OpCode::kPositionForward, matrix(out()), {value_tensor(in(0)), weight(op().parameters[0])},
       {{value_tensor(out())}});
}

void ClassEmitter::forward_body(const LinearOp& body) {
  const bool parallel = context_.layout.tp > 1;
  const ParameterId w = op().parameters[0];
  OpShape shape = matrix(out());
  shape.columns = context_.sharding.local_rows(w);
  shape.inner = context_.sharding.local_columns(w);
  TensorId x = value_tensor(in(0));
  if (parallel && body.parallel == LinearParallel::kRow && !context_.sharding.split(in(0))) {
    const TensorId own =
        extra(shape.rows, shape.inner, TensorKind::kActivation, Sharding::kColumns);
    emit(OpCode::kSliceColumns, {.rows = shape.rows, .columns = shape.inner}, {x}, {{own}});
    x = own;
  }
  saved_[current_.index] = {x};
  const bool summed = parallel && body.parallel == LinearParallel::kRow;
  const bool gathered = parallel && body.parallel == LinearParallel::kColumnGather;
  std::vector<TensorId> inputs{x, weight(w)};
  if (body.bias && !summed) inputs.push_back(weight(op().parameters[1]));
  const TensorId y =
      gathered ? extra(shape.rows, shape.columns, TensorKind::kActivation, Sharding::kColumns)
               : value_tensor(out());
  emit(OpCode::kLinearForward, shape, std::move(inputs), {{y}});
  if (gathered) gather_columns(y, shape.rows, shape.columns, {value_tensor(out())});
  if (summed) {
    all_reduce(y);
    if (body.bias) {
      emit(OpCode::kBiasForward, matrix(out()), {y, weight(op().parameters[1])}, {{y}});
    }
  }
}

void ClassEmitter::forward_body(const ActivationOp& body) {
  const TensorId x = value_tensor(in(0));
  const TensorId y = value_tensor(out());
  saved_[current_.index] = {body.function == Activation::kRelu ? y : x};
  emit(OpCode::kActivationForward, matrix(out()), {x}, {{y}});
}

void ClassEmitter::forward_body(const SwigluOp&) {
  const TensorId gate = value_tensor(in(0));
  const TensorId up = value_tensor(in(1));
  saved_[current_.index] = {gate, up};
  emit(OpCode::kSwigluForward, matrix(out()), {gate, up}, {{value_tensor(out())}});
}

void ClassEmitter::forward_body(const ResidualOp&) {
  emit(OpCode::kResidualForward, matrix(out()), {value_tensor(in(0)), value_tensor(in(1))},
       {{value_tensor(out())}});
}

void ClassEmitter::forward_body(const DropoutOp&) {
  emit(OpCode::kDropoutForward, matrix(out()), {value_tensor(in(0))}, {{value_tensor(out())}});
}

void ClassEmitter::forward_body(const LayerNormOp&) {
  const TensorId x = value_tensor(in(0));
  const TensorId mean = statistics(rows_of(out()), 1, TensorKind::kActivation);
  const TensorId rstd = statistics(rows_of(out()), 1, TensorKind::kActivation);
  saved_[current_.index] = {x, mean, rstd};
  emit(OpCode::kLayerNormForward, matrix(out()),
       {x, weight(op().parameters[0]), weight(op().parameters[1])},
       {{value_tensor(out())}, {mean}, {rstd}});
}

void ClassEmitter::forward_body(const RmsNormOp&) {
  const TensorId x = value_tensor(in(0));
  const TensorId rstd = statistics(rows_of(out()), 1, TensorKind::kActivation);
  saved_[current_.index] = {x, rstd};
  emit(OpCode::kRmsNormForward, matrix(out()), {x, weight(op().parameters[0])},
       {{value_tensor(out())}, {rstd}});
}

void ClassEmitter::forward_body(const RotaryOp& body) {
  emit(OpCode::kRotaryForward, rotary_shape(body, out()), {value_tensor(in(0))},
       {{value_tensor(out())}});
}

void ClassEmitter::forward_body(const AttentionOp& body) {
  const auto [shape, causal] = attention_shape(body);
  const TensorId q = value_tensor(in(0));
  const TensorId k = value_tensor(in(1));
  const TensorId v = value_tensor(in(2));
  const TensorId y = value_tensor(out());
  const TensorId lse = statistics(shape.batch * shape.heads, shape.queries, TensorKind::kActivation,
                                  Sharding::kRows);
  saved_[current_.index] = {q, k, v, y, lse};
  emit(OpCode::kAttentionForward, shape, {q, k, v}, {{y}, {lse}}).flop =
      flop_of(OpCode::kAttentionForward, shape, causal);
}

void ClassEmitter::forward_body(const CrossEntropyOp&) {
  const TensorId logits = value_tensor(in(0));
  const TensorId classes = value_tensor(in(1));
  const std::int64_t rows = rows_of(in(0));
  const std::int64_t shards = context_.sharding.split(in(0)) ? context_.layout.tp : 1;
  const OpShape shape{.rows = rows, .columns = local_features(in(0))};
  TensorId stats = statistics(rows, 3, TensorKind::kWorkspace);
  emit(OpCode::kCrossEntropyStats, shape, {logits, classes}, {{stats}});
  if (shards > 1) {
    const TensorId gathered = statistics(shards * rows, 3, TensorKind::kCommunication);
    emit(OpCode::kTensorAllGather, {.rows = rows, .columns = 3}, {stats}, {{gathered}});
    stats = gathered;
  }
  const TensorId lse = statistics(rows, 1, TensorKind::kActivation);
  saved_[current_.index] = {logits, classes, lse};
  emit(OpCode::kCrossEntropyLoss, {.rows = rows, .columns = 3 * shards}, {stats, classes}, {{lse}});
  lowered_.rank_class.computes_loss = true;
}

void ClassEmitter::forward_body(const SquaredErrorOp&) {
  const TensorId prediction = value_tensor(in(0));
  const TensorId target = value_tensor(in(1));
  saved_[current_.index] = {prediction, target};
  emit(OpCode::kSquaredErrorForward, matrix(in(0)), {prediction, target}, {});
  lowered_.rank_class.computes_loss = true;
}

}  // namespace parplan
