#pragma once

#include <cstdint>

namespace parplan::hw {

/// Which position a row has: row r of `sequence` rows per sequence is at r % sequence + offset.
struct RowPositions {
  std::int64_t sequence;
  std::int64_t offset = 0;
};

}  // namespace parplan::hw
