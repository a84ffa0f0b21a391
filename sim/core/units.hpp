#pragma once

#include <compare>
#include <cstdint>

namespace parplan {

/// A number with a dimension; only operators with a physical meaning exist.
template <class Dimension, class Rep = double>
struct Quantity {
  using Representation = Rep;
  Rep value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}

  friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity{a.value + b.value};
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity{a.value - b.value};
  }
  friend constexpr Quantity operator*(Quantity a, Rep factor) { return Quantity{a.value * factor}; }
  friend constexpr Quantity operator*(Rep factor, Quantity a) { return Quantity{a.value * factor}; }
  friend constexpr Quantity operator/(Quantity a, Rep divisor) {
    return Quantity{a.value / divisor};
  }
  /// How many times `b` fits into `a`.
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
};

using Seconds = Quantity<struct TimeDimension>;
using Flop = Quantity<struct FlopDimension>;
using FlopPerSecond = Quantity<struct FlopRateDimension>;
using BytesPerSecond = Quantity<struct BandwidthDimension>;
using Bytes = Quantity<struct DataDimension, std::int64_t>;

/// No file may name a larger size, so that sums of a few stay within 63 bits.
inline constexpr Bytes kMostBytes{std::int64_t{1} << 60};

constexpr Seconds operator/(Bytes size, BytesPerSecond rate) {
  return Seconds{static_cast<double>(size.value) / rate.value};
}
constexpr Seconds operator/(Flop work, FlopPerSecond rate) {
  return Seconds{work.value / rate.value};
}
constexpr BytesPerSecond operator/(Bytes size, Seconds time) {
  return BytesPerSecond{static_cast<double>(size.value) / time.value};
}
constexpr FlopPerSecond operator/(Flop work, Seconds time) {
  return FlopPerSecond{work.value / time.value};
}

/// Event time and durations inside the engines: integer picoseconds, so that runs repeat bit for
/// bit.
using Picoseconds = Quantity<struct EventTimeDimension, std::int64_t>;

/// Rounds to the nearest picosecond. 2^63 ps are 106 days.
constexpr Picoseconds to_picoseconds(Seconds t) {
  return Picoseconds{static_cast<std::int64_t>(t.value * 1e12 + (t.value < 0 ? -0.5 : 0.5))};
}
constexpr Seconds to_seconds(Picoseconds t) {
  return Seconds{static_cast<double>(t.value) * 1e-12};
}

}  // namespace parplan
