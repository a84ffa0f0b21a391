#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "hw/cpu/gemm_isa.hpp"
#include "hw/random.hpp"

// What the tests of the CPU kernels share: inputs, the naive dropout, and the yardstick for errors.

namespace parplan::hw::test {

/// `count` normal numbers; the same ones for float (rounded) and double.
template <class T>
std::vector<T> draws(std::int64_t count, std::string_view name, double sd = 1.0) {
  std::vector<T> values(static_cast<std::size_t>(count));
  fill_parameter(values.data(), {1, count, 0, 0, 1, count}, {InitKind::kNormal, sd},
                 tensor_key(1, name));
  return values;
}

template <class To, class From>
std::vector<To> cast(const std::vector<From>& values) {
  return std::vector<To>(values.begin(), values.end());
}

/// Factor of element (r, c) under `spec`: 0 or 1 / (1 - p). Written from the definition in
/// hw/random.hpp.
inline double dropout_factor(const DropoutSpec& spec, std::int64_t r, std::int64_t c) {
  const DropoutKey key = dropout_row_key(spec.key, static_cast<std::uint64_t>(spec.row_offset + r));
  const bool dropped = dropout_hash(key, static_cast<std::uint32_t>(spec.col_offset + c)) <
                       dropout_threshold(spec.p);
  return dropped ? 0.0 : 1.0 / (1.0 - spec.p);
}

/// Largest |actual - expected| in units of epsilon(T) * max(1, |expected|).
template <class T, class U>
double worst_error(const std::vector<T>& actual, const std::vector<U>& expected) {
  double worst = actual.size() == expected.size() ? 0.0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    const double e = static_cast<double>(expected[i]);
    const double unit =
        static_cast<double>(std::numeric_limits<T>::epsilon()) * std::max(1.0, std::abs(e));
    const double error = std::abs(static_cast<double>(actual[i]) - e) / unit;
    worst = error <= worst ? worst : error;  // NaN replaces
    if (std::isnan(error)) {
      return HUGE_VAL;
    }
  }
  return worst;
}

/// Central difference of `f` in `x`. With values around 1 in double its error is near 1e-10.
template <class F>
double slope_of(F f, double& x) {
  const double at = x;
  const double h = 1e-5 * std::max(1.0, std::abs(at));
  x = at + h;
  const double above = f();
  x = at - h;
  const double below = f();
  x = at;
  return (above - below) / (2 * h);
}

/// Gradient of `f` by every element of `x`.
template <class F>
std::vector<double> gradient_of(F f, std::vector<double>& x) {
  std::vector<double> gradient;
  for (double& value : x) {
    gradient.push_back(slope_of(f, value));
  }
  return gradient;
}

/// Largest |a - b|, relative where values exceed 1.
inline double worst_difference(const std::vector<double>& a, const std::vector<double>& b) {
  return worst_error(a, b) * std::numeric_limits<double>::epsilon();
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

/// `count` numbers in [-1, 1), the same for float (rounded) and double.
template <class T>
std::vector<T> random_values(std::int64_t count, std::uint64_t key) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(2.0 * keyed_uniform(key, i) - 1.0);
  }
  return values;
}

/// For a KernelContext whose state is an int.
inline void count_call(void* state) noexcept { ++*static_cast<int*>(state); }

/// The instruction sets that this processor has.
inline std::vector<Isa> usable_levels() {
  std::vector<Isa> levels;
  for (const Isa isa : {Isa::kBase, Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= host_isa()) levels.push_back(isa);
  }
  return levels;
}

}  // namespace parplan::hw::test
