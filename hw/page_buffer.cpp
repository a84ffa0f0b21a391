#include "hw/page_buffer.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

std::byte* map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw HwError("mmap of " + std::to_string(bytes) + " bytes failed: " + std::strerror(errno) +
                  "; end other programs, raise 'ulimit -v', or plan with more tp, pp or mp, more "
                  "microbatches or a smaller batch");
  }
  return static_cast<std::byte*>(memory);
}

/// What is mapped for a buffer of that size.
std::size_t mapped_bytes(std::size_t bytes) {
  return static_cast<std::size_t>(resident_bytes(Bytes{static_cast<std::int64_t>(bytes)}).value);
}

}  // namespace

PageBuffer::PageBuffer(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const std::size_t used = mapped_bytes(bytes);
  if (Bytes{static_cast<std::int64_t>(bytes)} < kLeastHugeBuffer) {
    data_ = map(used);
    return;
  }
  // One huge page more than needed, and back what lies before and behind the aligned part.
  const auto huge = static_cast<std::size_t>(kHugePage.value);
  std::byte* const memory = map(used + huge);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(memory) % huge;
  const std::size_t before = past == 0 ? 0 : huge - past;
  data_ = memory + before;
  if (before > 0) munmap(memory, before);
  if (before < huge) munmap(data_ + used, huge - before);
  madvise(data_, used, MADV_HUGEPAGE);  // advice: without it everything works, slower
}

PageBuffer::~PageBuffer() { unmap_pages(data_, size_); }

void unmap_pages(std::byte* data, std::size_t bytes) noexcept {
  if (data != nullptr) munmap(data, mapped_bytes(bytes));
}

}  // namespace parplan::hw
