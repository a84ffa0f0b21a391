#include "sim/core/op_work.hpp"

namespace parplan {
namespace {

/// Operands of rows x columns that an element-wise code reads and writes.
int matrices_touched(OpCode code) {
  switch (code) {
    case OpCode::kBiasForward:
    case OpCode::kActivationForward:
    case OpCode::kDropoutForward:
    case OpCode::kDropoutBackward:
    case OpCode::kRotaryForward:
    case OpCode::kRotaryBackward:
    case OpCode::kLayerNormForward:
    case OpCode::kRmsNormForward:
    case OpCode::kPositionForward:
    case OpCode::kSliceColumns:
    case OpCode::kInterleaveColumns:
    case OpCode::kEmbeddingForward:
    case OpCode::kEmbeddingBackward:
    case OpCode::kCrossEntropyBackward:
    case OpCode::kAdd:
      return 2;
    case OpCode::kActivationBackward:
    case OpCode::kSwigluForward:
    case OpCode::kResidualForward:
    case OpCode::kLayerNormBackward:
    case OpCode::kRmsNormBackward:
    case OpCode::kSquaredErrorBackward:
      return 3;
    case OpCode::kSwigluBackward:
      return 5;
    case OpCode::kSquaredErrorForward:
      return 2;
    case OpCode::kAdam:
      return 7;  // reads parameter, gradient, two moments; writes three of them
    case OpCode::kLoadInput:
    case OpCode::kGradientNorm:
    case OpCode::kPositionBackward:
    case OpCode::kCrossEntropyStats:
    case OpCode::kCrossEntropyLoss:
    case OpCode::kTensorAllReduce:
    case OpCode::kTensorAllGather:
      return 1;
    case OpCode::kLinearForward:
    case OpCode::kLinearBackwardInput:
    case OpCode::kLinearBackwardWeight:
    case OpCode::kAttentionForward:
    case OpCode::kAttentionBackward:
    case OpCode::kCount:
      break;
  }
  return 0;
}

double product_elements(const OpShape& s) {
  return static_cast<double>(s.rows) * static_cast<double>(s.columns) *
         static_cast<double>(s.inner);
}

double score_products(const OpShape& s, bool causal) {
  const double one = 2.0 * static_cast<double>(s.batch) * static_cast<double>(s.heads) *
                     static_cast<double>(s.queries) * static_cast<double>(s.keys) *
                     static_cast<double>(s.head_dim);
  return causal ? one / 2 : one;
}

}  // namespace

Flop flop_of(OpCode code, const OpShape& shape, bool causal) {
  const auto elements = static_cast<double>(shape.rows) * static_cast<double>(shape.columns);
  switch (code) {
    case OpCode::kLinearForward:
    case OpCode::kLinearBackwardInput:
    case OpCode::kLinearBackwardWeight:
      return Flop{2.0 * product_elements(shape)};
    case OpCode::kAttentionForward:
      return Flop{2.0 * score_products(shape, causal)};
    case OpCode::kAttentionBackward:
      return Flop{5.0 * score_products(shape, causal)};
    case OpCode::kLoadInput:
    case OpCode::kEmbeddingForward:
    case OpCode::kInterleaveColumns:
    case OpCode::kSliceColumns:
    case OpCode::kTensorAllReduce:
    case OpCode::kTensorAllGather:
    case OpCode::kCount:
      return Flop{0.0};
    case OpCode::kAdam:
      return Flop{12.0 * elements};
    default:
      return Flop{static_cast<double>(matrices_touched(code)) * elements};
  }
}

Bytes traffic_of(OpCode code, const OpShape& s, DType dtype) {
  const std::int64_t element = bytes_of(dtype);
  const std::int64_t state = bytes_of(state_type(dtype));
  const std::int64_t matrix = s.rows * s.columns;
  switch (code) {
    case OpCode::kLinearForward:
    case OpCode::kLinearBackwardInput:
      return Bytes{element * (matrix + s.rows * s.inner + s.columns * s.inner)};
    case OpCode::kLinearBackwardWeight:
      return Bytes{element * (matrix + s.rows * s.inner) + state * s.columns * s.inner};
    case OpCode::kAdam:
      return Bytes{matrix * (state * matrices_touched(code) + (is_half(dtype) ? element : 0))};
    case OpCode::kGradientNorm:
      return Bytes{state * matrix};
    case OpCode::kAttentionForward:
    case OpCode::kAttentionBackward: {
      const std::int64_t queries = s.batch * s.queries * s.heads * s.head_dim;
      const std::int64_t keys = s.batch * s.keys * s.kv_heads * s.head_dim;
      const bool forward = code == OpCode::kAttentionForward;
      return Bytes{element * (forward ? 2 * queries + 2 * keys : 4 * queries + 4 * keys)};
    }
    case OpCode::kEmbeddingBackward:
      return Bytes{element * 2 * matrix + state * s.inner * s.columns};
    default:
      return Bytes{element * matrix * matrices_touched(code)};
  }
}

}  // namespace parplan
