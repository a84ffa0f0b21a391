#pragma once

#include "hw/device.hpp"
#include "hw/page_buffer.hpp"

namespace parplan::hw {

struct KernelState;

/// Memory for widened operands; grows to what the largest call needs (widening_bytes).
class WideningScratch {
 public:
  float* floats(std::int64_t count);

 private:
  PageBuffer buffer_;
};

/// to[i] = from[i], rounded, for all elements of a 16-bit type.
void round_into(const Elements& to, const float* from, const KernelContext& context);

/// Runs a call of a 16-bit precision: its 16-bit operands become float32, the float32 kernel runs,
/// and what it wrote into 16-bit outputs is rounded once. Operands that are one place stay one.
void run_widened(const KernelCall& call, WideningScratch& scratch, KernelState& state,
                 const KernelContext& context);

}  // namespace parplan::hw
