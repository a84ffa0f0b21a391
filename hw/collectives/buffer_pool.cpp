#include "hw/collectives/buffer_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "hw/page_buffer.hpp"

namespace parplan::hw {

namespace {
// More buffers than outstanding operations are of no use; sizes are powers of two, so they fit
// again.
constexpr std::size_t kKept = 32;
constexpr std::size_t kSmallest = 256;
}  // namespace

BufferPool::Buffer BufferPool::take(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes, kSmallest));
  const auto fitting = std::find_if(free_.begin(), free_.end(),
                                    [&](const auto& slot) { return slot.bytes == size; });
  if (fitting != free_.end()) {
    Buffer::Slot slot = std::move(*fitting);
    *fitting = std::move(free_.back());
    free_.pop_back();
    return {*this, std::move(slot)};
  }
  const auto huge_page = static_cast<std::size_t>(kHugePage.value);
  const bool huge = size >= huge_page;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(huge ? huge_page : kAlignment, size));
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  if (huge) {
    // Advice only: without it everything works, slower. Not for the rest, of which little is used.
    madvise(memory, std::max(bytes / huge_page, std::size_t{1}) * huge_page, MADV_HUGEPAGE);
  }
  Buffer::Slot slot;
  slot.memory.reset(memory);
  slot.bytes = size;
  free_.reserve(kKept);
  return {*this, std::move(slot)};
}

void BufferPool::Buffer::give_back() noexcept {
  if (pool_ != nullptr && slot_.memory != nullptr && pool_->free_.size() < kKept) {
    pool_->free_.push_back(std::move(slot_));  // within the reserved capacity
  }
  pool_ = nullptr;
  slot_ = {};
}

}  // namespace parplan::hw
