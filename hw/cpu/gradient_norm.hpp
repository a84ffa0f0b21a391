#pragma once

#include <cstdint>
#include <span>

#include "hw/cpu/kernel_context.hpp"
#include "sim/core/program.hpp"

namespace parplan::hw {

/// Sum over the ranges of share * g^2, with `gradients` the flat buffer that they are ranges of.
/// T: float, double. Squares and sums in double and in an order that depends on the ranges alone,
/// without fused multiply-adds: the same bits on every processor.
template <class T>
[[nodiscard]] double squared_norm(const T* gradients, std::span<const NormRange> ranges,
                                  const KernelContext& context = {});

}  // namespace parplan::hw
