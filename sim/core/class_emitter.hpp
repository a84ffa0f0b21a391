#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/core/class_lowering.hpp"

namespace parplan {

/// Writes the operations of one class: `forward` for every op in order, then `backward` for every
/// op in reverse. Internal to the lowering.
class ClassEmitter {
 public:
  ClassEmitter(const LoweringContext& context, int position);

  /// Emits the op into the body opened last.
  void forward(OpId op);
  void backward(OpId op);
  void open_body(BodyKind kind, int chunk);
  /// Adds the gradients that other positions sent for `value` to what this position has.
  void take_received_gradient(ValueId value, int from);
  /// Sums what is still partial over tp; afterwards `gradient_of` is final.
  void finish_gradient(ValueId value);
  /// The gradient of a value whose summands are all in and summed.
  TensorId final_gradient(ValueId value) const { return *full_[value.index]; }

  LoweredClass take() { return std::move(lowered_); }

 private:
  struct Attention {
    OpShape shape;
    bool causal = false;
  };

  // Tensors.
  TensorId add_tensor(Tensor tensor);
  TensorId value_tensor(ValueId value);
  TensorId extra(std::int64_t rows, std::int64_t columns, TensorKind kind,
                 Sharding sharding = Sharding::kReplicated);
  /// The same in state_type.
  TensorId statistics(std::int64_t rows, std::int64_t columns, TensorKind kind,
                      Sharding sharding = Sharding::kReplicated);
  TensorId add_matrix(std::int64_t rows, std::int64_t columns, TensorKind kind, Sharding sharding,
                      DType dtype);
  TensorId saved(OpId op, std::size_t slot) const { return saved_[op.index][slot]; }
  TensorId weight(ParameterId parameter) const;
  Output weight_gradient(ParameterId parameter);
  std::int64_t rows_of(ValueId value) const;
  std::int64_t positions_of(ValueId value) const;
  std::int64_t local_features(ValueId value) const {
    return context_.sharding.local_features(value);
  }

  // Gradients.
  /// Where the next contribution to d(value) goes. `partial`: it must still be summed over tp.
  Output contribution(ValueId value, bool partial);
  bool wants_gradient(ValueId value) const { return context_.needs_gradient[value.index]; }
  /// The final gradient of an op's output.
  TensorId gradient_of(ValueId value);
  /// Passes `gradient` on to `value` unchanged, without a copy when `value` has none yet.
  void pass_through(ValueId value, TensorId gradient, bool may_alias);

  // Operations.
  Operation& emit(OpCode code, OpShape shape, std::vector<TensorId> inputs,
                  std::vector<Output> outputs);
  OpShape matrix(ValueId value) const;
  OpShape rotary_shape(const RotaryOp& body, ValueId value) const;
  Attention attention_shape(const AttentionOp& body) const;
  void all_reduce(TensorId tensor);
  TensorId gather_columns(TensorId local, std::int64_t rows, std::int64_t local_columns,
                          const Output& whole);

  // One overload per kind, forward and backward.
  void forward_body(const EmbeddingOp& body);
  void forward_body(const PositionEmbeddingOp& body);
  void forward_body(const LinearOp& body);
  void forward_body(const ActivationOp& body);
  void forward_body(const SwigluOp& body);
  void forward_body(const ResidualOp& body);
  void forward_body(const DropoutOp& body);
  void forward_body(const LayerNormOp& body);
  void forward_body(const RmsNormOp& body);
  void forward_body(const RotaryOp& body);
  void forward_body(const AttentionOp& body);
  void forward_body(const CrossEntropyOp& body);
  void forward_body(const SquaredErrorOp& body);
  void backward_body(const EmbeddingOp& body);
  void backward_body(const PositionEmbeddingOp& body);
  void backward_body(const LinearOp& body);
  void backward_body(const ActivationOp& body);
  void backward_body(const SwigluOp& body);
  void backward_body(const ResidualOp& body);
  void backward_body(const DropoutOp& body);
  void backward_body(const LayerNormOp& body);
  void backward_body(const RmsNormOp& body);
  void backward_body(const RotaryOp& body);
  void backward_body(const AttentionOp& body);
  void backward_body(const CrossEntropyOp& body);
  void backward_body(const SquaredErrorOp& body);
  void linear_weight_gradient(const LinearOp& body, TensorId x, TensorId dy, std::int64_t columns,
                              std::int64_t inner);

  const Op& op() const { return context_.model.op(current_); }
  ValueId in(std::size_t i) const { return op().inputs[i]; }
  ValueId out() const { return op().output; }

  const LoweringContext& context_;
  LoweredClass lowered_;
  Body* body_ = nullptr;
  OpId current_;
  std::vector<std::optional<std::uint32_t>> shard_of_;  ///< per parameter: index in parameters
  std::vector<bool> contributed_;                       ///< per shard: has a gradient already
  std::vector<std::optional<TensorId>> full_;           ///< per value: its gradient
  std::vector<std::optional<TensorId>> partial_;        ///< per value: summands missing the tp sum
  std::vector<std::vector<TensorId>> saved_;            ///< per op: what forward keeps for backward
};

}  // namespace parplan
