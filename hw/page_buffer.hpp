#pragma once

#include <cstddef>
#include <utility>

#include "sim/core/resident_memory.hpp"

namespace parplan::hw {

/// Zeroed memory straight from the kernel, resident once touched: `resident_bytes` says how much.
/// From kLeastHugeBuffer on it is aligned to huge pages and advised to lie in them: random access
/// to tens of megabytes otherwise pays a miss of the TLB per row, and so does every page after a
/// pause, which in a virtual machine is dear.
class PageBuffer {
 public:
  PageBuffer() = default;
  /// Throws HwError when the kernel refuses.
  explicit PageBuffer(std::size_t bytes);
  PageBuffer(PageBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~PageBuffer();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  /// Gives the memory away; `unmap_pages` frees it.
  [[nodiscard]] std::byte* release() {
    size_ = 0;
    return std::exchange(data_, nullptr);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Frees what PageBuffer::release gave, of the size it had. Null is fine.
void unmap_pages(std::byte* data, std::size_t bytes) noexcept;

}  // namespace parplan::hw
