#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "sim/core/units.hpp"

namespace parplan {

/// Hands out places in one address range that starts at 0 and grows at its end. It owns no memory,
/// so the simulator replays what the executor does and gets the same places, to the byte.
///
/// Deterministic best fit: the smallest free block that holds the request, the lowest such block on
/// a tie; with none, the end of the range moves up. Freed blocks merge with their free neighbours
/// at once, and at the end of the range they lower it. Every size counts as a multiple of
/// kAlignment and at least that. Logarithmic in the number of free blocks. Not thread-safe.
class OffsetAllocator {
 public:
  static constexpr std::int64_t kAlignment = 64;  ///< bytes: a cache line, and an AVX-512 register

  /// What a request of `size` >= 0 takes.
  static constexpr std::int64_t rounded(Bytes size) {
    const std::int64_t units = (size.value + kAlignment - 1) / kAlignment;
    return (units > 0 ? units : 1) * kAlignment;
  }

  /// The first byte of a block for `size` bytes, a multiple of kAlignment.
  std::int64_t allocate(Bytes size);
  /// Gives back what `allocate` returned for the same size. InternalError where it overlaps what is
  /// free already or lies outside the range.
  void release(std::int64_t offset, Bytes size);

  Bytes in_use() const { return Bytes{in_use_}; }  ///< rounded sizes
  Bytes extent() const { return Bytes{extent_}; }  ///< highest end ever handed out
  bool empty() const { return in_use_ == 0; }

 private:
  using Block = std::pair<std::int64_t, std::int64_t>;

  void insert(std::int64_t offset, std::int64_t size);
  void erase(std::map<std::int64_t, std::int64_t>::iterator block);

  std::map<std::int64_t, std::int64_t> by_offset_;  ///< free blocks below end_: offset -> size
  std::set<Block> by_size_;                         ///< the same blocks as (size, offset)
  std::int64_t end_ = 0;                            ///< everything from here on is free
  std::int64_t extent_ = 0;
  std::int64_t in_use_ = 0;
};

}  // namespace parplan
