#include "hw/page_buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

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

}  // namespace

PageBuffer::PageBuffer(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  if (bytes < kHugePage) {
    data_ = map(bytes);
    return;
  }
  // One huge page more than needed, and back what lies before and behind the aligned part.
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t used = (bytes + page - 1) / page * page;
  std::byte* const memory = map(used + kHugePage);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(memory) % kHugePage;
  const std::size_t before = past == 0 ? 0 : kHugePage - past;
  data_ = memory + before;
  if (before > 0) munmap(memory, before);
  if (before < kHugePage) munmap(data_ + used, kHugePage - before);
  madvise(data_, bytes, MADV_HUGEPAGE);  // advice: without it everything works, slower
}

PageBuffer::~PageBuffer() { unmap_pages(data_, size_); }

void unmap_pages(std::byte* data, std::size_t bytes) noexcept {
  if (data != nullptr) munmap(data, bytes);
}

}  // namespace parplan::hw
