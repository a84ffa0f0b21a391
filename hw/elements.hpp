#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>

namespace parplan::hw {

/// Element types that travel between ranks. Sums exist for the floating types only.
enum class ElementType : std::uint8_t { kFloat32, kFloat64, kInt32, kByte };

[[nodiscard]] constexpr std::size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
    case ElementType::kInt32:
      return 4;
    case ElementType::kFloat64:
      return 8;
    case ElementType::kByte:
      return 1;
  }
  return 0;
}

[[nodiscard]] std::string_view name_of(ElementType type);

template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, double> ||
    std::same_as<T, std::int32_t> || std::same_as<T, std::byte>;

template <Element T>
[[nodiscard]] constexpr ElementType element_type_of() {
  if constexpr (std::same_as<T, float>) {
    return ElementType::kFloat32;
  } else if constexpr (std::same_as<T, double>) {
    return ElementType::kFloat64;
  } else if constexpr (std::same_as<T, std::int32_t>) {
    return ElementType::kInt32;
  } else {
    return ElementType::kByte;
  }
}

/// A borrowed, contiguous, mutable run of elements. Made implicitly from a span, a vector or an
/// array of `float`, `double`, `std::int32_t` or `std::byte`.
struct Elements {
  std::byte* data = nullptr;
  std::size_t count = 0;  ///< elements, not bytes
  ElementType type = ElementType::kByte;

  Elements() = default;
  Elements(std::byte* first, std::size_t n, ElementType t) : data(first), count(n), type(t) {}
  template <std::ranges::contiguous_range Range>
  requires Element<std::ranges::range_value_t<Range>> &&
      (!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>)
          Elements(Range&& range)  // NOLINT(google-explicit-constructor): a view, like std::span
      : data(reinterpret_cast<std::byte*>(std::ranges::data(range))),
        count(std::ranges::size(range)),
        type(element_type_of<std::ranges::range_value_t<Range>>()) {}

  [[nodiscard]] std::size_t bytes() const { return count * size_of(type); }
};

/// The same, read only; every Elements is one.
struct ConstElements {
  const std::byte* data = nullptr;
  std::size_t count = 0;
  ElementType type = ElementType::kByte;

  ConstElements() = default;
  ConstElements(const std::byte* first, std::size_t n, ElementType t)
      : data(first), count(n), type(t) {}
  ConstElements(const Elements& e)  // NOLINT(google-explicit-constructor)
      : data(e.data), count(e.count), type(e.type) {}
  template <std::ranges::contiguous_range Range>
  requires Element<std::ranges::range_value_t<Range>> ConstElements(
      const Range& range)  // NOLINT(google-explicit-constructor)
      : data(reinterpret_cast<const std::byte*>(std::ranges::data(range))),
        count(std::ranges::size(range)),
        type(element_type_of<std::ranges::range_value_t<Range>>()) {}

  [[nodiscard]] std::size_t bytes() const { return count * size_of(type); }
};

/// The balanced partition of `count` elements over `parts`: the first `count % parts` parts hold
/// one element more. All-reduce, all-gather and reduce-scatter cut their data this way, and a shard
/// of an optimizer that follows it needs no padding.
struct Part {
  std::size_t offset = 0;
  std::size_t count = 0;
};
[[nodiscard]] constexpr Part balanced_part(std::size_t count, int parts, int index) {
  const auto n = static_cast<std::size_t>(parts);
  const auto i = static_cast<std::size_t>(index);
  const std::size_t base = count / n;
  const std::size_t longer = count % n;
  return {i * base + (i < longer ? i : longer), base + (i < longer ? 1 : 0)};
}

}  // namespace parplan::hw
