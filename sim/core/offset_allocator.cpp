#include "sim/core/offset_allocator.hpp"

#include <algorithm>
#include <iterator>

#include "sim/core/error.hpp"

namespace parplan {

std::int64_t OffsetAllocator::allocate(Bytes size) {
  ensure(size.value >= 0, "an allocation has a size of at least 0 bytes");
  const std::int64_t wanted = rounded(size);
  in_use_ += wanted;
  const auto fit = by_size_.lower_bound({wanted, 0});
  if (fit == by_size_.end()) {
    const std::int64_t offset = end_;
    end_ += wanted;
    extent_ = std::max(extent_, end_);
    return offset;
  }
  const auto [block_size, offset] = *fit;
  erase(by_offset_.find(offset));
  if (block_size > wanted) insert(offset + wanted, block_size - wanted);
  return offset;
}

void OffsetAllocator::release(std::int64_t offset, Bytes size) {
  std::int64_t first = offset;
  std::int64_t last = offset + rounded(size);
  ensure(offset >= 0 && offset % kAlignment == 0 && last <= end_,
         "a released block lies inside the range in use");
  in_use_ -= last - first;
  const auto after = by_offset_.lower_bound(first);
  if (after != by_offset_.end()) {
    ensure(after->first >= last, "a released block does not overlap the free block after it");
  }
  if (after != by_offset_.begin()) {
    const auto before = std::prev(after);
    const std::int64_t before_end = before->first + before->second;
    ensure(before_end <= first, "a released block does not overlap the free block before it");
    if (before_end == first) {
      first = before->first;
      erase(before);
    }
  }
  if (after != by_offset_.end() && after->first == last) {
    last += after->second;
    erase(after);
  }
  if (last == end_) {
    end_ = first;
  } else {
    insert(first, last - first);
  }
}

void OffsetAllocator::insert(std::int64_t offset, std::int64_t size) {
  by_offset_.emplace(offset, size);
  by_size_.emplace(size, offset);
}

void OffsetAllocator::erase(std::map<std::int64_t, std::int64_t>::iterator block) {
  by_size_.erase({block->second, block->first});
  by_offset_.erase(block);
}

}  // namespace parplan
