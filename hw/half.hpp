#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "hw/cpu/vector_math.hpp"
#include "sim/core/dtype.hpp"

namespace parplan::hw {

// The two types of 16 bits. float to them rounds to nearest, ties to even; back is exact.

/// bfloat16: the upper half of a float. NaN stays NaN (quiet).
[[nodiscard]] PARPLAN_ALWAYS_INLINE std::uint16_t bfloat16_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
  const std::uint32_t quiet = bits | 0x400000U;
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return static_cast<std::uint16_t>((is_nan ? quiet : rounded) >> 16);
}
[[nodiscard]] PARPLAN_ALWAYS_INLINE float float_of_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// IEEE 754 binary16: 5 bits of exponent, 10 of fraction; from 65520 on infinity.
[[nodiscard]] PARPLAN_ALWAYS_INLINE std::uint16_t float16_bits(float x) {
  constexpr std::uint32_t kInfinity = 0x7F800000U;
  constexpr std::uint32_t kTwoTo16 = 0x47800000U;
  constexpr std::uint32_t kLeastNormal = 0x38800000U;  // 2^-14
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  // The exponent's bias goes from 127 to 15; a carry out of the fraction goes where it belongs.
  const std::uint32_t normal = (magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  // Multiples of 2^-24: adding 1/2 leaves them in the last bits, rounded by the addition.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
  const std::uint32_t special = magnitude > kInfinity ? 0x7E00U : 0x7C00U;
  const std::uint32_t half = magnitude >= kTwoTo16       ? special
                             : magnitude >= kLeastNormal ? normal
                                                         : subnormal;
  return static_cast<std::uint16_t>(half | ((bits >> 16) & 0x8000U));
}
[[nodiscard]] PARPLAN_ALWAYS_INLINE float float_of_float16(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7FFFU;
  const std::uint32_t sign = (static_cast<std::uint32_t>(half) & 0x8000U) << 16;
  const std::uint32_t normal = (magnitude << 13) + (112U << 23);
  const std::uint32_t special = (magnitude << 13) + (224U << 23);  // infinity and NaN
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  const std::uint32_t bits = magnitude >= 0x7C00U   ? special
                             : magnitude >= 0x0400U ? normal
                                                    : subnormal;
  return std::bit_cast<float>(bits | sign);
}

/// out[i] = in[i] for `count` elements of a 16-bit type. They do not overlap.
void widen(float* out, const std::byte* in, DType type, std::int64_t count);
/// The other way, rounded.
void narrow(std::byte* out, DType type, const float* in, std::int64_t count);

}  // namespace parplan::hw
