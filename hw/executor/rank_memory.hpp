#pragma once

#include <utility>

#include "hw/device.hpp"
#include "sim/core/resident_memory.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace parplan::hw {

/// Under the address sanitizer, uses of arena memory that no live tensor covers are errors.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kPoisonsFreedMemory = true;
inline void poison(const std::byte* memory, Bytes size) {
  ASAN_POISON_MEMORY_REGION(memory, static_cast<std::size_t>(size.value));
}
inline void unpoison(const std::byte* memory, Bytes size) {
  ASAN_UNPOISON_MEMORY_REGION(memory, static_cast<std::size_t>(size.value));
}
#else
inline constexpr bool kPoisonsFreedMemory = false;
inline void poison(const std::byte* /*memory*/, Bytes /*size*/) {}
inline void unpoison(const std::byte* /*memory*/, Bytes /*size*/) {}
#endif

/// A reserved range of device memory.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device& device, Bytes size)
      : device_(&device), data_(device.reserve(size)), size_(size) {}
  ~DeviceMemory() { reset(); }
  DeviceMemory(DeviceMemory&& other) noexcept
      : device_(other.device_), data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    reset();
    device_ = other.device_;
    data_ = std::exchange(other.data_, nullptr);
    size_ = other.size_;
    return *this;
  }
  std::byte* data() const { return data_; }
  Bytes size() const { return size_; }

 private:
  void reset() noexcept {
    if (data_ == nullptr) return;
    unpoison(data_, size_);  // the addresses may be handed out again for something else
    device_->release(data_, size_);
    data_ = nullptr;
  }

  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  Bytes size_{0};
};

/// A part of reserved memory.
class DeviceRange {
 public:
  DeviceRange(std::byte* data, Bytes size) : data_(data), size_(size) {}
  std::byte* data() const { return data_; }
  Bytes size() const { return size_; }

 private:
  std::byte* data_;
  Bytes size_;
};

/// Everything a rank owns for the whole run, see FlatBuffers. All of it lies in one block
/// (`rank_block`), which fills large pages best.
class RankMemory {
 public:
  RankMemory(Device& device, const FlatBuffers& flat, Bytes arena_size)
      : RankMemory(device, rank_block(flat, arena_size), flat, arena_size) {}

  /// What the optimizer moves: the master weights, or the parameters where there are none.
  const DeviceRange& exact_parameters() const {
    return master_weights.size().value > 0 ? master_weights : parameters;
  }

 private:
  RankMemory(Device& device, const RankBlock& places, const FlatBuffers& flat, Bytes arena_size)
      : block_(device, places.size),
        parameters(block_.data() + places.parameters.value, flat.parameters),
        master_weights(block_.data() + places.master_weights.value, flat.master_weights),
        gradients(block_.data() + places.gradients.value, flat.gradients),
        first_moment(block_.data() + places.first_moment.value, flat.moment),
        second_moment(block_.data() + places.second_moment.value, flat.moment),
        arena(block_.data() + places.arena.value, arena_size) {}

  DeviceMemory block_;

 public:
  DeviceRange parameters;
  DeviceRange master_weights;
  DeviceRange gradients;
  DeviceRange first_moment;
  DeviceRange second_moment;
  DeviceRange arena;
};

}  // namespace parplan::hw
