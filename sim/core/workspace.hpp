#pragma once

#include "sim/core/dtype.hpp"
#include "sim/core/op_code.hpp"
#include "sim/core/units.hpp"

namespace parplan {

/// Attention works on tiles of one head: at most so many queries by so many keys. Rows of queries
/// and of the head dimension are padded to a multiple of kAttentionPadding elements.
inline constexpr std::int64_t kAttentionQueryTile = 128;
inline constexpr std::int64_t kAttentionKeyTile = 128;
inline constexpr std::int64_t kAttentionPadding = 16;

/// Scratch that one operation of a run in precision `dtype` needs beside its operands, with
/// elements of state_type; 0 for most. Every device keeps to it, so that predicted memory is exact:
/// - layer norm backward: partial sums of dgamma and dbeta, 2 x columns elements; RMS norm:
/// columns;
/// - attention, with Q and K the tile's queries (padded) and keys, D the head dimension, P the
/// padded
///   one: forward D Q (queries, transposed) + K Q (scores) + K P (values) + Q P (output) elements;
///   backward 2 D Q (queries and output gradients, transposed) + 2 K Q (probabilities and their
///   gradients) + 3 Q P (queries, output gradients, dq) + 3 K P (keys, dk, dv). One thread.
Bytes workspace_bytes(OpCode code, const OpShape& shape, DType dtype);

}  // namespace parplan
