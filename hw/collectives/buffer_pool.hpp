#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace parplan::hw {

/// Scratch buffers of one rank, kept for the next operation: fresh pages cost more than the
/// transfer. Not thread-safe.
class BufferPool {
 public:
  static constexpr std::size_t kAlignment = 64;

  /// A buffer on loan. Move-only; goes back at destruction.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), slot_(std::exchange(other.slot_, {})) {}
    Buffer& operator=(Buffer&& other) noexcept {
      if (this != &other) {
        give_back();
        pool_ = std::exchange(other.pool_, nullptr);
        slot_ = std::exchange(other.slot_, {});
      }
      return *this;
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { give_back(); }

    [[nodiscard]] std::byte* data() const { return slot_.memory.get(); }
    [[nodiscard]] std::span<std::byte> first(std::size_t bytes) const { return {data(), bytes}; }

   private:
    friend class BufferPool;
    struct Free {
      void operator()(std::byte* p) const { std::free(p); }
    };
    struct Slot {
      std::unique_ptr<std::byte, Free> memory;
      std::size_t bytes = 0;
    };
    Buffer(BufferPool& pool, Slot slot) : pool_(&pool), slot_(std::move(slot)) {}
    void give_back() noexcept;

    BufferPool* pool_ = nullptr;
    Slot slot_;
  };

  /// At least `bytes`, aligned for vector instructions, content undefined.
  [[nodiscard]] Buffer take(std::size_t bytes);

 private:
  std::vector<Buffer::Slot> free_;
};

}  // namespace parplan::hw
