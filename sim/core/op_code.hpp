#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace parplan {

/// What a device executes: the operation level of a Program. Operand order is fixed per code and
/// listed here as (inputs -> outputs); [x] is optional. All matrices are row-major, rows x columns.
enum class OpCode : std::uint8_t {
  kLoadInput,             ///< -> tokens, features, classes or targets of the microbatch
  kEmbeddingForward,      ///< tokens, table -> y           (ids outside the local rows give 0)
  kEmbeddingBackward,     ///< tokens, dy -> dtable
  kPositionForward,       ///< x, table -> y
  kPositionBackward,      ///< dy -> dtable
  kLinearForward,         ///< x, w, [bias] -> y
  kLinearBackwardInput,   ///< dy, w -> dx
  kLinearBackwardWeight,  ///< x, dy -> dw, [dbias]
  kBiasForward,           ///< y, bias -> y                 (in place; row-parallel, after the sum)
  kActivationForward,     ///< x -> y
  kActivationBackward,    ///< saved, dy -> dx              (saved: y for relu, x otherwise)
  kSwigluForward,         ///< gate, up -> y
  kSwigluBackward,        ///< gate, up, dy -> dgate, dup
  kResidualForward,       ///< a, b -> y
  kDropoutForward,        ///< x -> y
  kDropoutBackward,       ///< dy -> dx                     (also the b side of a residual)
  kLayerNormForward,      ///< x, gamma, beta -> y, mean, rstd
  kLayerNormBackward,     ///< x, gamma, mean, rstd, dy -> dx, dgamma, dbeta
  kRmsNormForward,        ///< x, gamma -> y, rstd
  kRmsNormBackward,       ///< x, gamma, rstd, dy -> dx, dgamma
  kRotaryForward,         ///< x -> y
  kRotaryBackward,        ///< dy -> dx
  kAttentionForward,      ///< q, k, v -> out, lse
  kAttentionBackward,     ///< q, k, v, out, lse, dout -> dq, dk, dv
  kCrossEntropyStats,     ///< logits, classes -> stats     (per row: max, sum of exp, target logit)
  kCrossEntropyLoss,      ///< stats of all shards, classes -> lse   (adds to the step's loss)
  kCrossEntropyBackward,  ///< logits, classes, lse -> dlogits (the same storage as logits)
  kSquaredErrorForward,   ///< prediction, target ->        (adds to the step's loss)
  kSquaredErrorBackward,  ///< prediction, target -> dprediction
  kAdd,                   ///< x -> y                       (y += x when accumulating, else copy)
  kInterleaveColumns,     ///< gathered [shards, rows, c] -> y [rows, shards*c]
  kSliceColumns,          ///< x [rows, shards*c] -> y [rows, c], the own shard
  kTensorAllReduce,       ///< x -> x over the tensor group
  kTensorAllGather,       ///< x -> gathered [shards, ...] over the tensor group
  kAdam,                  ///< a range of the flat parameters, gradients and moments
  kGradientNorm,          ///< the flat gradients -> this rank's share of their squared norm
  kCount
};

std::string_view name_of(OpCode code);
std::optional<OpCode> op_code_from_name(std::string_view name);

/// Whether all ranks of a tensor-parallel group stop for it and exchange data.
constexpr bool is_tensor_collective(OpCode code) {
  return code == OpCode::kTensorAllReduce || code == OpCode::kTensorAllGather;
}

/// Local sizes of one operation, per microbatch. Fields that a code does not use are 0.
struct OpShape {
  std::int64_t rows = 0;     ///< samples x positions
  std::int64_t columns = 0;  ///< features of the output (linear: out; embedding: features)
  std::int64_t inner = 0;    ///< linear: in features; embedding, cross-entropy: local vocabulary
  std::int64_t batch = 0;    ///< attention, rotary: samples
  std::int64_t queries = 0;  ///< attention: query positions; rotary, position: positions per sample
  std::int64_t keys = 0;     ///< attention: key positions
  std::int64_t heads = 0;    ///< attention, rotary: local heads
  std::int64_t kv_heads = 0;  ///< attention: local key/value heads
  std::int64_t head_dim = 0;  ///< attention, rotary
  friend constexpr auto operator<=>(const OpShape&, const OpShape&) = default;
};

enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kSendReceive,
};
std::string_view name_of(CollectiveKind kind);
std::optional<CollectiveKind> collective_from_name(std::string_view name);

}  // namespace parplan
