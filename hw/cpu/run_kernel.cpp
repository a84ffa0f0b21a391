#include <algorithm>
#include <cstring>

#include "hw/cpu/attention.hpp"
#include "hw/cpu/cpu_device.hpp"
#include "hw/cpu/elementwise.hpp"
#include "hw/cpu/embedding.hpp"
#include "hw/cpu/linear.hpp"
#include "hw/cpu/loss.hpp"
#include "hw/cpu/norm.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

Activation kernel_of(parplan::Activation function) {
  switch (function) {
    case parplan::Activation::kRelu:
      return Activation::kRelu;
    case parplan::Activation::kGeluErf:
      return Activation::kGeluErf;
    case parplan::Activation::kGeluTanh:
      return Activation::kGeluTanh;
    case parplan::Activation::kSilu:
      return Activation::kSilu;
  }
  throw InternalError("every activation function has a kernel");
}

/// Translates one call into the kernel's own arguments. Outputs that a kernel cannot accumulate
/// into are made in pieces on the stack and added.
template <class T>
class KernelRunner {
 public:
  KernelRunner(const KernelCall& call, KernelState& state, const KernelContext& context)
      : call_(call), tables_(state.rotary), scratch_(state.scratch), context_(context) {}

  void run() {
    switch (call_.code) {
      case OpCode::kEmbeddingForward:
        return embedding_forward<T>({ids(0), in(1), out(0), matrix(), vocabulary()}, context_);
      case OpCode::kEmbeddingBackward:
        return embedding_backward<T>({ids(0), in(1), out(0), matrix(), vocabulary(), accumulate(0)},
                                     context_);
      case OpCode::kPositionForward:
        return position_forward<T>(
            {in(0), in(1), out(0), matrix(), position_rows(), positions(), {}}, context_);
      case OpCode::kPositionBackward:
        return position_backward<T>(
            {in(0), nullptr, out(0), matrix(), position_rows(), positions(), {}, accumulate(0)},
            context_);
      case OpCode::kLinearForward:
        return linear_forward<T>(context_, {linear(), in(0), in(1), in(2), out(0)});
      case OpCode::kLinearBackwardInput:
        return linear_backward_input<T>(context_, {linear(), in(0), in(1), out(0), accumulate(0)});
      case OpCode::kLinearBackwardWeight:
        return linear_backward_weight();
      case OpCode::kBiasForward:
        return bias_forward();
      case OpCode::kActivationForward:
        return activation_forward<T>(
            {in(0), out(0), matrix(), kernel_of(op<ActivationOp>().function),
             dropout(op<ActivationOp>().dropout)},
            context_);
      case OpCode::kActivationBackward:
        return activation_backward<T>(
            {in(0), in(1), out(0), matrix(), kernel_of(op<ActivationOp>().function),
             dropout(op<ActivationOp>().dropout), accumulate(0)},
            context_);
      case OpCode::kSwigluForward:
        return swiglu_forward<T>({in(0), in(1), out(0), matrix(), call_.shape.columns}, context_);
      case OpCode::kSwigluBackward:
        return swiglu_backward();
      case OpCode::kResidualForward:
        return residual_forward<T>(
            {in(0), in(1), out(0), matrix(), dropout(op<ResidualOp>().dropout)}, context_);
      case OpCode::kDropoutForward:
      case OpCode::kDropoutBackward:
        // Forward and backward of a dropout are the same linear map.
        return residual_backward<T>(
            {in(0), nullptr, out(0), matrix(), dropout(probability()), false, accumulate(0)},
            context_);
      case OpCode::kLayerNormForward:
      case OpCode::kLayerNormBackward:
      case OpCode::kRmsNormForward:
      case OpCode::kRmsNormBackward:
        return norm();
      case OpCode::kRotaryForward:
        return rotate(RotaryDirection::kForward);
      case OpCode::kRotaryBackward:
        return rotate(RotaryDirection::kBackward);
      case OpCode::kAttentionForward:
      case OpCode::kAttentionBackward:
        return attention();
      case OpCode::kCrossEntropyStats:
      case OpCode::kCrossEntropyLoss:
      case OpCode::kCrossEntropyBackward:
      case OpCode::kSquaredErrorForward:
      case OpCode::kSquaredErrorBackward:
        return loss();
      case OpCode::kAdd:
        return accumulate(0) ? add_elements(out(0), in(0), count(), context_)
                             : copy_elements(out(0), in(0), count(), context_);
      case OpCode::kInterleaveColumns:
        return interleave_columns();
      case OpCode::kSliceColumns:
        return slice_columns();
      case OpCode::kLoadInput:
      case OpCode::kTensorAllReduce:
      case OpCode::kTensorAllGather:
      case OpCode::kAdam:
      case OpCode::kGradientNorm:
      case OpCode::kCount:
        break;
    }
    throw InternalError("a device runs no " + std::string(name_of(call_.code)));
  }

 private:
  // Operands and attributes.
  const T* in(std::size_t i) const { return reinterpret_cast<const T*>(call_.inputs[i].data); }
  const std::int32_t* ids(std::size_t i) const {
    return reinterpret_cast<const std::int32_t*>(call_.inputs[i].data);
  }
  T* out(std::size_t i) const { return reinterpret_cast<T*>(call_.outputs[i].data); }
  bool accumulate(std::size_t i) const { return call_.accumulate[i]; }
  T* workspace() const { return reinterpret_cast<T*>(call_.workspace); }
  MatrixShape matrix() const { return {call_.shape.rows, call_.shape.columns}; }
  std::int64_t count() const { return call_.shape.rows * call_.shape.columns; }
  template <class Body>
  const Body& op() const {
    const Body* body = call_.body == nullptr ? nullptr : std::get_if<Body>(call_.body);
    ensure(body != nullptr, "an operation runs with the attributes of its own op");
    return *body;
  }
  DropoutSpec dropout(double probability) const {
    return {probability, call_.dropout_key, call_.place.row_offset, call_.place.column_offset};
  }
  double probability() const {
    const auto* residual = std::get_if<ResidualOp>(call_.body);
    return residual != nullptr ? residual->dropout : op<DropoutOp>().dropout;
  }
  LinearShape linear() const { return {call_.shape.rows, call_.shape.inner, call_.shape.columns}; }
  VocabShard vocabulary() const {
    return {op<EmbeddingOp>().vocabulary, call_.place.column_offset, call_.shape.inner};
  }
  std::int64_t position_rows() const { return op<PositionEmbeddingOp>().max_positions; }
  RowPositions positions() const { return {call_.shape.queries, 0}; }

  void linear_backward_weight() {
    const bool with_bias = out(1) != nullptr;
    const bool together = with_bias && accumulate(0) == accumulate(1);
    hw::linear_backward_weight<T>(
        context_, {linear(), in(1), in(0), out(0), together ? out(1) : nullptr, accumulate(0)});
    if (with_bias && !together) {
      column_sums<T>(context_,
                     {call_.shape.rows, call_.shape.columns, in(1), out(1), accumulate(1)});
    }
  }

  void bias_forward() {
    const MatrixShape shape = matrix();
    for_each_row_block(shape, context_, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) {
        add_elements(out(0) + r * shape.cols, in(1), shape.cols);
      }
    });
  }

  void swiglu_backward() {
    if (!accumulate(0) && !accumulate(1)) {
      return hw::swiglu_backward<T>(
          {in(0), in(1), in(2), out(0), out(1), matrix(), call_.shape.columns}, context_);
    }
    in_pieces([&](std::int64_t at, std::int64_t length) {
      std::array<T, kPiece> dgate;
      std::array<T, kPiece> dup;
      hw::swiglu_backward<T>(
          {in(0) + at, in(1) + at, in(2) + at, dgate.data(), dup.data(), {1, length}, length});
      put(0, at, dgate.data(), length);
      put(1, at, dup.data(), length);
    });
  }

  void norm() {
    switch (call_.code) {
      case OpCode::kLayerNormForward:
        return layer_norm_forward<T>(
            {in(0), in(1), in(2), out(0), out(1), out(2), matrix(), op<LayerNormOp>().epsilon},
            context_);
      case OpCode::kLayerNormBackward:
        ensure(accumulate(1) == accumulate(2), "dgamma and dbeta are written in the same way");
        return layer_norm_backward<T>({in(0), in(4), in(1), in(2), in(3), out(0), out(1), out(2),
                                       workspace(), matrix(), accumulate(0), accumulate(1)},
                                      context_);
      case OpCode::kRmsNormForward:
        return rms_norm_forward<T>(
            {in(0), in(1), out(0), out(1), matrix(), op<RmsNormOp>().epsilon}, context_);
      default:
        return rms_norm_backward<T>({in(0), in(3), in(1), in(2), out(0), out(1), workspace(),
                                     matrix(), accumulate(0), accumulate(1)},
                                    context_);
    }
  }

  /// The kernel turns in place. To add R'dy to dx, dx goes through the rotation and back:
  /// R'(R dx + dy) = dx + R'dy.
  void rotate(RotaryDirection direction) {
    const OpShape& s = call_.shape;
    Rotary<T> args{out(0),
                   s.rows,
                   s.heads,
                   s.head_dim,
                   s.columns,
                   positions(),
                   tables_.frequencies(op<RotaryOp>()),
                   direction};
    if (accumulate(0)) {
      args.direction = direction == RotaryDirection::kForward ? RotaryDirection::kBackward
                                                              : RotaryDirection::kForward;
      rotary<T>(args, context_);
      add_elements(out(0), in(0), count(), context_);
      args.direction = direction;
    } else if (in(0) != out(0)) {
      copy_elements(out(0), in(0), count(), context_);
    }
    rotary<T>(args, context_);
  }

  void attention() {
    const AttentionOp& body = op<AttentionOp>();
    const OpShape& s = call_.shape;
    AttentionOptions options;
    options.shape = {s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.head_dim};
    options.causal = body.causal;
    options.dropout = {body.dropout, call_.dropout_key, call_.place.row_offset,
                       call_.place.column_offset, body.heads};
    if (call_.code == OpCode::kAttentionForward) {
      const std::span<std::byte> scratch =
          scratch_.for_threads(call_, attention_forward_scratch_bytes<T>(options.shape));
      return attention_forward<T>(context_,
                                  {options, {in(0)}, {in(1)}, {in(2)}, {out(0)}, out(1), scratch});
    }
    AttentionBackward<T> args;
    args.options = options;
    args.q = {in(0)};
    args.k = {in(1)};
    args.v = {in(2)};
    args.out = {in(3)};
    args.lse = in(4);
    args.dout = {in(5)};
    args.dq = {out(0)};
    args.dk = {out(1)};
    args.dv = {out(2)};
    args.accumulate_dq = accumulate(0);
    args.accumulate_dk = accumulate(1);
    args.accumulate_dv = accumulate(2);
    args.scratch = scratch_.for_threads(call_, attention_backward_scratch_bytes<T>(options.shape));
    attention_backward<T>(context_, args);
  }

  void loss() {
    switch (call_.code) {
      case OpCode::kCrossEntropyStats:
        return cross_entropy_stats<T>({in(0), ids(1), out(0), matrix(), classes()}, context_);
      case OpCode::kCrossEntropyLoss: {
        const LossSum sum = cross_entropy_combine<T>(
            {in(0), ids(1), out(0), call_.shape.rows, call_.shape.columns / 3});
        *call_.loss += call_.scale * sum.loss;
        return;
      }
      case OpCode::kCrossEntropyBackward:
        ensure(call_.inputs[0].data == call_.outputs[0].data,
               "the gradient of logits takes their place");
        return cross_entropy_backward<T>(
            {out(0), ids(1), in(2), matrix(), classes(), gradient_scale()}, context_);
      case OpCode::kSquaredErrorForward:
        *call_.loss += squared_error(in(0), in(1), count(), call_.scale);
        return;
      default:
        return squared_error_gradient();
    }
  }
  ClassShard classes() const {
    return {op<CrossEntropyOp>().vocabulary, call_.place.column_offset};
  }

  void squared_error_gradient() {
    if (!accumulate(0)) {
      return squared_error_backward(in(0), in(1), out(0), count(), gradient_scale());
    }
    in_pieces([&](std::int64_t at, std::int64_t length) {
      std::array<T, kPiece> gradient;
      squared_error_backward(in(0) + at, in(1) + at, gradient.data(), length, gradient_scale());
      put(0, at, gradient.data(), length);
    });
  }

  /// Factor of the loss's gradient.
  double gradient_scale() const {
    return call_.gradient == nullptr ? call_.scale : call_.scale * call_.gradient->loss_scale;
  }

  /// gathered [shards, rows, c] -> y [rows, shards c]
  void interleave_columns() {
    const std::int64_t columns = call_.shape.columns / call_.place.shards;
    for (std::int64_t r = 0; r < call_.shape.rows; ++r) {
      for (std::int64_t shard = 0; shard < call_.place.shards; ++shard) {
        put(0, r * call_.shape.columns + shard * columns,
            in(0) + (shard * call_.shape.rows + r) * columns, columns);
      }
    }
  }

  /// x [rows, shards c] -> y [rows, c]
  void slice_columns() {
    const std::int64_t columns = call_.shape.columns;
    const std::int64_t stride = columns * call_.place.shards;
    for (std::int64_t r = 0; r < call_.shape.rows; ++r) {
      put(0, r * columns, in(0) + r * stride + call_.place.shard * columns, columns);
    }
  }

  static constexpr std::int64_t kPiece = 1024;
  template <class Piece>
  void in_pieces(Piece piece) {
    for (std::int64_t at = 0; at < count(); at += kPiece) {
      piece(at, std::min(kPiece, count() - at));
    }
  }
  /// Stores or adds `length` elements at place `at` of an output.
  void put(std::size_t output, std::int64_t at, const T* from, std::int64_t length) {
    if (accumulate(output)) {
      add_elements(out(output) + at, from, length);
    } else {
      std::memcpy(out(output) + at, from, static_cast<std::size_t>(length) * sizeof(T));
    }
  }

  const KernelCall& call_;
  RotaryTables& tables_;
  ThreadScratch& scratch_;
  const KernelContext& context_;
};

}  // namespace

template <class T>
void run_kernel(const KernelCall& call, KernelState& state, const KernelContext& context) {
  KernelRunner<T>(call, state, context).run();
}

template void run_kernel<float>(const KernelCall&, KernelState&, const KernelContext&);
template void run_kernel<double>(const KernelCall&, KernelState&, const KernelContext&);

}  // namespace parplan::hw
