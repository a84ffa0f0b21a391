#pragma once

#include <cstddef>
#include <cstring>

namespace parplan::hw {

/// std::memcpy that takes null pointers where nothing is copied, as empty buffers have them.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace parplan::hw
