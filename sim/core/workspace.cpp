#include "sim/core/workspace.hpp"

#include <algorithm>

namespace parplan {
namespace {

std::int64_t padded(std::int64_t count) {
  return (count + kAttentionPadding - 1) / kAttentionPadding * kAttentionPadding;
}

}  // namespace

Bytes workspace_bytes(OpCode code, const OpShape& shape, DType dtype) {
  std::int64_t elements = 0;
  if (code == OpCode::kLayerNormBackward) elements = 2 * shape.columns;
  if (code == OpCode::kRmsNormBackward) elements = shape.columns;
  if (code == OpCode::kAttentionForward || code == OpCode::kAttentionBackward) {
    const std::int64_t queries = padded(std::min(shape.queries, kAttentionQueryTile));
    const std::int64_t keys = std::min(shape.keys, kAttentionKeyTile);
    const std::int64_t transposed = shape.head_dim * queries;
    const std::int64_t rows = padded(shape.head_dim);
    elements = code == OpCode::kAttentionForward
                   ? transposed + keys * queries + (keys + queries) * rows
                   : 2 * transposed + 2 * keys * queries + 3 * (keys + queries) * rows;
  }
  return Bytes{elements * bytes_of(state_type(dtype))};
}

}  // namespace parplan
