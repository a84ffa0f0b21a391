#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>

#include "sim/core/dtype.hpp"

namespace parplan::hw {

template <class T>
concept Element =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t>;

/// Something whose elements stay where they are after the full expression: an lvalue or a view. A
/// temporary vector is refused, because operations outlive the call.
template <class Range>
concept ElementRange = std::ranges::contiguous_range<Range> && std::ranges::borrowed_range<Range> &&
    Element<std::ranges::range_value_t<Range>>;

template <class Range>
concept MutableElementRange = ElementRange<Range> &&
    (!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>);

template <Element T>
[[nodiscard]] constexpr DType dtype_of() {
  if constexpr (std::same_as<T, float>) {
    return DType::kFloat32;
  } else if constexpr (std::same_as<T, double>) {
    return DType::kFloat64;
  } else {
    return DType::kInt32;
  }
}

[[nodiscard]] constexpr std::size_t size_of(DType type) {
  return static_cast<std::size_t>(bytes_of(type));
}

/// A borrowed, contiguous, mutable run of elements. Made implicitly from a span, a vector or an
/// array of `float`, `double` or `std::int32_t`.
struct Elements {
  std::byte* data = nullptr;
  std::size_t count = 0;  ///< elements, not bytes
  DType type = DType::kFloat32;

  Elements() = default;
  Elements(std::byte* first, std::size_t n, DType t) : data(first), count(n), type(t) {}
  template <MutableElementRange Range>
  Elements(Range&& range)  // NOLINT(google-explicit-constructor): a view, like std::span
      : data(reinterpret_cast<std::byte*>(std::ranges::data(range))),
        count(std::ranges::size(range)),
        type(dtype_of<std::ranges::range_value_t<Range>>()) {}

  [[nodiscard]] std::size_t bytes() const { return count * size_of(type); }
};

/// The same, read only; every Elements is one.
struct ConstElements {
  const std::byte* data = nullptr;
  std::size_t count = 0;
  DType type = DType::kFloat32;

  ConstElements() = default;
  ConstElements(const std::byte* first, std::size_t n, DType t) : data(first), count(n), type(t) {}
  ConstElements(const Elements& e)  // NOLINT(google-explicit-constructor)
      : data(e.data), count(e.count), type(e.type) {}
  template <ElementRange Range>
  ConstElements(Range&& range)  // NOLINT(google-explicit-constructor)
      : data(reinterpret_cast<const std::byte*>(std::ranges::data(range))),
        count(std::ranges::size(range)),
        type(dtype_of<std::ranges::range_value_t<Range>>()) {}

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
