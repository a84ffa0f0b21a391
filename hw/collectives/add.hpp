#pragma once

#include <cstddef>

#include "sim/core/dtype.hpp"

namespace parplan::hw {

/// out[i] = a[i] + b[i] for `count` elements of a floating type; `out` may be `a` or `b`.
/// Vectorised for the CPU it runs on; the result does not depend on which instructions are used.
void add(std::byte* out, const std::byte* a, const std::byte* b, std::size_t count, DType type);

}  // namespace parplan::hw
