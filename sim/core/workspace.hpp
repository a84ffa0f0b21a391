#pragma once

#include "sim/core/dtype.hpp"
#include "sim/core/op_code.hpp"
#include "sim/core/units.hpp"

namespace parplan {

/// Query rows of one head that attention works on at a time.
inline constexpr std::int64_t kAttentionQueryTile = 128;

/// Scratch that one operation needs beside its operands; 0 for most. Every device keeps to it, so
/// that predicted memory is exact:
/// - layer norm backward: partial sums of dgamma and dbeta, 2 x columns elements; RMS norm:
/// columns;
/// - attention forward: a tile of scores, min(queries, kAttentionQueryTile) x keys elements;
///   backward: the tile of probabilities, the tile of their gradients, and one element per row.
Bytes workspace_bytes(OpCode code, const OpShape& shape, DType dtype);

}  // namespace parplan
