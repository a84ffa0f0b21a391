#include "sim/core/workspace.hpp"

#include <algorithm>

namespace parplan {

Bytes workspace_bytes(OpCode code, const OpShape& shape, DType dtype) {
  const std::int64_t tile_rows = std::min(shape.queries, kAttentionQueryTile);
  const std::int64_t tile = tile_rows * shape.keys;
  std::int64_t elements = 0;
  if (code == OpCode::kLayerNormBackward) elements = 2 * shape.columns;
  if (code == OpCode::kRmsNormBackward) elements = shape.columns;
  if (code == OpCode::kAttentionForward) elements = tile;
  if (code == OpCode::kAttentionBackward) elements = 2 * tile + tile_rows;
  return Bytes{elements * bytes_of(dtype)};
}

}  // namespace parplan
