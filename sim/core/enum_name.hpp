#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace parplan {

/// One row of the table that gives an enumeration its names in files, on the command line and in
/// messages. A table holds every enumerator once:
///   inline constexpr std::array kDTypeNames{EnumName<DType>{"float32", DType::kFloat32}, ...};
template <class E>
struct EnumName {
  std::string_view name;
  E value;
};

/// The table of an enumeration that has a function name_of(E), of all its values:
///   enum_names(DType::kFloat32, DType::kBFloat16)
template <class E, std::same_as<E>... Others>
[[nodiscard]] constexpr std::array<EnumName<E>, 1 + sizeof...(Others)> enum_names(
    E first, Others... others) {
  return {EnumName<E>{name_of(first), first}, EnumName<E>{name_of(others), others}...};
}

/// The first name of `value`; empty when the table lacks it.
template <class E>
[[nodiscard]] constexpr std::string_view name_of(
    E value, std::type_identity_t<std::span<const EnumName<E>>> table) {
  for (const EnumName<E>& row : table) {
    if (row.value == value) return row.name;
  }
  return {};
}

/// The value that `name` stands for, compared exactly.
template <class E>
[[nodiscard]] constexpr std::optional<E> value_of(std::string_view name,
                                                  std::span<const EnumName<E>> table) {
  for (const EnumName<E>& row : table) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}

}  // namespace parplan
