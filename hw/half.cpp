#include "hw/half.hpp"

#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

PARPLAN_VECTOR_CLONES void widen_bfloat16(float* out, const std::uint16_t* in, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) out[i] = float_of_bfloat16(in[i]);
}

PARPLAN_VECTOR_CLONES void widen_float16(float* out, const std::uint16_t* in, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) out[i] = float_of_float16(in[i]);
}

PARPLAN_VECTOR_CLONES void narrow_bfloat16(std::uint16_t* out, const float* in,
                                           std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) out[i] = bfloat16_bits(in[i]);
}

PARPLAN_VECTOR_CLONES void narrow_float16(std::uint16_t* out, const float* in, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) out[i] = float16_bits(in[i]);
}

}  // namespace

void widen(float* out, const std::byte* in, DType type, std::int64_t count) {
  ensure(is_half(type), "only 16-bit types are widened");
  const auto* bits = reinterpret_cast<const std::uint16_t*>(in);
  type == DType::kBFloat16 ? widen_bfloat16(out, bits, count) : widen_float16(out, bits, count);
}

void narrow(std::byte* out, DType type, const float* in, std::int64_t count) {
  ensure(is_half(type), "floats are narrowed to 16-bit types");
  auto* bits = reinterpret_cast<std::uint16_t*>(out);
  type == DType::kBFloat16 ? narrow_bfloat16(bits, in, count) : narrow_float16(bits, in, count);
}

}  // namespace parplan::hw
