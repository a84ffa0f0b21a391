#include "sim/core/class_emitter.hpp"
#include "sim/core/op_work.hpp"

namespace parplan {

void ClassEmitter::backward(OpId op) {
  current_ = op;
  std::visit([this](const auto& body) { backward_body(body); }, this->op().body);
}

void ClassEmitter::backward_body(const EmbeddingOp&) {
  const TensorId dy = gradient_of(out());
  const ParameterId table = op().parameters[0];
  OpShape shape = matrix(out());
  shape.inner = context_.sharding.local_rows(table);
  const TensorId tokens = value_tensor(in(0));
  emit(OpCode::kEmbeddingBackward, shape, {tokens, dy}, {weight_gradient(table)});
}

void ClassEmitter::backward_body(const PositionEmbeddingOp&) {
  const TensorId dy = gradient_of(out());
  emit(OpCode::kPositionBackward, matrix(out()), {dy}, {weight_gradient(op().parameters[0])});
  pass_through(in(0), dy, true);
}

void ClassEmitter::linear_weight_gradient(const LinearOp& body, TensorId x, TensorId dy,
                                          std::int64_t columns, std::int64_t inner) {
  std::vector<Output> outputs{weight_gradient(op().parameters[0])};
  if (body.bias) outputs.push_back(weight_gradient(op().parameters[1]));
  emit(OpCode::kLinearBackwardWeight, {.rows = rows_of(out()), .columns = columns, .inner = inner},
       {x, dy}, std::move(outputs));
}

void ClassEmitter::backward_body(const LinearOp& body) {
  const bool parallel = context_.layout.tp > 1;
  const ParameterId w = op().parameters[0];
  const std::int64_t columns = context_.sharding.local_rows(w);
  const std::int64_t inner = context_.sharding.local_columns(w);
  const OpShape shape{.rows = rows_of(out()), .columns = columns, .inner = inner};
  TensorId dy = gradient_of(out());
  if (parallel && body.parallel == LinearParallel::kColumnGather) {
    const TensorId own =
        extra(shape.rows, columns, TensorKind::kActivationGradient, Sharding::kColumns);
    emit(OpCode::kSliceColumns, {.rows = shape.rows, .columns = columns}, {dy}, {{own}});
    dy = own;
  }
  const TensorId x = saved(current_, 0);
  if (wants_gradient(in(0))) {
    const bool split_weight = parallel && body.parallel != LinearParallel::kReplicated;
    if (split_weight && body.parallel == LinearParallel::kRow && !context_.sharding.split(in(0))) {
      const TensorId own =
          extra(shape.rows, inner, TensorKind::kActivationGradient, Sharding::kColumns);
      emit(OpCode::kLinearBackwardInput, shape, {dy, weight(w)}, {{own}});
      gather_columns(own, shape.rows, inner, contribution(in(0), false));
    } else {
      const bool partial = split_weight && body.parallel != LinearParallel::kRow;
      emit(OpCode::kLinearBackwardInput, shape, {dy, weight(w)}, {contribution(in(0), partial)});
    }
  }
  linear_weight_gradient(body, x, dy, columns, inner);
}

void ClassEmitter::backward_body(const ActivationOp&) {
  const TensorId dy = gradient_of(out());
  if (!wants_gradient(in(0))) return;
  emit(OpCode::kActivationBackward, matrix(out()), {saved(current_, 0), dy},
       {contribution(in(0), false)});
}

void ClassEmitter::backward_body(const SwigluOp&) {
  const TensorId dy = gradient_of(out());
  if (!wants_gradient(in(0)) && !wants_gradient(in(1))) return;
  const Output dgate = contribution(in(0), false);
  const Output dup = contribution(in(1), false);
  emit(OpCode::kSwigluBackward, matrix(out()), {saved(current_, 0), saved(current_, 1), dy},
       {dgate, dup});
}

void ClassEmitter::backward_body(const ResidualOp& body) {
  const TensorId dy = gradient_of(out());
  // The dropped side first: afterwards the incoming gradient itself can serve as the other side's.
  if (body.dropout > 0.0 && wants_gradient(in(1))) {
    emit(OpCode::kDropoutBackward, matrix(out()), {dy}, {contribution(in(1), false)});
  } else {
    pass_through(in(1), dy, !wants_gradient(in(0)));
  }
  pass_through(in(0), dy, true);
}

void ClassEmitter::backward_body(const DropoutOp& body) {
  const TensorId dy = gradient_of(out());
  if (!wants_gradient(in(0))) return;
  if (body.dropout > 0.0) {
    emit(OpCode::kDropoutBackward, matrix(out()), {dy}, {contribution(in(0), false)});
  } else {
    pass_through(in(0), dy, true);
  }
}

void ClassEmitter::backward_body(const LayerNormOp&) {
  const TensorId dy = gradient_of(out());
  const Output dx = contribution(in(0), false);
  const Output dgamma = weight_gradient(op().parameters[0]);
  const Output dbeta = weight_gradient(op().parameters[1]);
  emit(OpCode::kLayerNormBackward, matrix(out()),
       {saved(current_, 0), weight(op().parameters[0]), saved(current_, 1), saved(current_, 2), dy},
       {dx, dgamma, dbeta});
}

void ClassEmitter::backward_body(const RmsNormOp&) {
  const TensorId dy = gradient_of(out());
  const Output dx = contribution(in(0), false);
  const Output dgamma = weight_gradient(op().parameters[0]);
  emit(OpCode::kRmsNormBackward, matrix(out()),
       {saved(current_, 0), weight(op().parameters[0]), saved(current_, 1), dy}, {dx, dgamma});
}

void ClassEmitter::backward_body(const RotaryOp& body) {
  const TensorId dy = gradient_of(out());
  if (!wants_gradient(in(0))) return;
  emit(OpCode::kRotaryBackward, rotary_shape(body, out()), {dy}, {contribution(in(0), false)});
}

void ClassEmitter::backward_body(const AttentionOp& body) {
  const TensorId dy = gradient_of(out());
  const auto [shape, causal] = attention_shape(body);
  const auto& kept = saved_[current_.index];
  const Output dq = contribution(in(0), false);
  const Output dk = contribution(in(1), false);
  const Output dv = contribution(in(2), false);
  emit(OpCode::kAttentionBackward, shape, {kept[0], kept[1], kept[2], kept[3], kept[4], dy},
       {dq, dk, dv})
      .flop = flop_of(OpCode::kAttentionBackward, shape, causal);
}

void ClassEmitter::backward_body(const CrossEntropyOp&) {
  const TensorId logits = saved(current_, 0);
  const OpShape shape{.rows = rows_of(in(0)), .columns = local_features(in(0))};
  emit(OpCode::kCrossEntropyBackward, shape, {logits, saved(current_, 1), saved(current_, 2)},
       {{logits}});
  full_[in(0).index] = logits;
}

void ClassEmitter::backward_body(const SquaredErrorOp&) {
  if (!wants_gradient(in(0))) return;
  emit(OpCode::kSquaredErrorBackward, matrix(in(0)), {saved(current_, 0), saved(current_, 1)},
       {contribution(in(0), false)});
}

}  // namespace parplan
