#pragma once

#include <cstdint>
#include <string_view>

namespace parplan {

/// Element type of a tensor.
enum class DType : std::uint8_t { kFloat32, kFloat64, kInt32 };

constexpr std::int64_t bytes_of(DType type) {
  switch (type) {
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
  }
  return "";
}

}  // namespace parplan
