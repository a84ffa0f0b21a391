#pragma once

#include <cstdint>
#include <string_view>

namespace parplan {

/// Element type of a tensor. kFloat16 is IEEE 754 binary16, kBFloat16 the upper half of a float32.
enum class DType : std::uint8_t { kFloat32, kFloat64, kInt32, kBFloat16, kFloat16 };

constexpr std::int64_t bytes_of(DType type) {
  switch (type) {
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat64:
      return 8;
  }
  return 0;
}

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kInt32:
      return "int32";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
  }
  return "";
}

constexpr bool is_half(DType type) { return type == DType::kBFloat16 || type == DType::kFloat16; }

/// Training in a 16-bit precision keeps weights and activations in it, and in float32 what sums of
/// many terms go into: gradients of parameters, the master weights that the optimizer moves, its
/// moments, statistics of rows, workspace (Micikevicius et al., "Mixed precision training", 2018).
/// In the other precisions all of that has the precision itself, and there are no master weights.
constexpr DType state_type(DType precision) {
  return is_half(precision) ? DType::kFloat32 : precision;
}

}  // namespace parplan
