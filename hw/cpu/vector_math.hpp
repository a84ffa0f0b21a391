#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// Elementary functions that the compiler can vectorise, and the macros that let it do so for
// several instruction sets. float: our own polynomials, a few units in the last place; double: libm
// (the float64 run is the referee of the tolerances, so it takes no short cuts). Sources that use
// them are compiled with -fno-math-errno -fno-trapping-math (neither changes a value) and
// -fopenmp-simd; see hw/CMakeLists.txt.

/// Before a function: compile it for plain x86-64, AVX2 with FMA, and AVX-512, and choose at load
/// time. Callees are compiled along only if they are inlined, so helpers carry
/// PARPLAN_ALWAYS_INLINE. Empty where the indirect functions behind it do not work: under
/// sanitizers (their runtime is not up when the choice is made) and elsewhere than in GCC on Linux.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PARPLAN_VECTOR_CLONES \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define PARPLAN_VECTOR_CLONES
#endif
#define PARPLAN_ALWAYS_INLINE inline __attribute__((always_inline))

namespace parplan::hw {

/// e^x. Relative error below 1.2e-7 (2^-23) where the result is a normal number; 0 below it (x <
/// -87.33655), infinity above (x > 88.72283). NaN stays NaN. Method: x = n ln 2 + r, |r| <= ln 2 /
/// 2; e^r = 1 + r + r^2 q(r), q the minimax polynomial of degree 4 for the relative error of e^r
/// (Remez exchange; 3.1e-9); 2^n goes into the exponent bits. ln 2 is split after Cody and Waite
/// ("Software Manual for the Elementary Functions", 1980) so that n ln 2 is exact to float
/// precision.
[[nodiscard]] PARPLAN_ALWAYS_INLINE float vector_exp(float x) {
  constexpr float kLowest = -87.33654F;   // log of the smallest normal float, rounded up
  constexpr float kHighest = 88.722832F;  // log of the largest float, rounded down
  constexpr float kRound =
      12582912.0F;  // 1.5 * 2^23: adding it leaves round(value) in the low bits
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  float bounded = x < kLowest ? kLowest : x;
  bounded = bounded > kHighest ? kHighest : bounded;
  const float shifted = bounded * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (bounded - n * kLn2High) - n * kLn2Low;
  float q = 0.0013814540579915047F;
  q = q * r + 0.00836874544620514F;
  q = q * r + 0.04166838899254799F;
  q = q * r + 0.1666652113199234F;
  q = q * r + 0.4999999403953552F;
  const float fraction = (q * r) * r + r + 1.0F;
  const std::uint32_t bits =
      std::bit_cast<std::uint32_t>(fraction) + (std::bit_cast<std::uint32_t>(shifted) << 23);
  float result = std::bit_cast<float>(bits);
  result = x < kLowest ? 0.0F : result;
  result = x > kHighest ? HUGE_VALF : result;
  return result;
}
[[nodiscard]] PARPLAN_ALWAYS_INLINE double vector_exp(double x) { return std::exp(x); }

/// 1 / (1 + e^-x).
template <class T>
[[nodiscard]] PARPLAN_ALWAYS_INLINE T vector_sigmoid(T x) {
  return T{1} / (T{1} + vector_exp(-x));
}

/// Standard normal distribution function at `x`, given `gauss` = e^(-x^2/2) (which the density
/// needs as well). Relative error below 3.5e-7 + 6e-8 x^2; 0 below x = -13.2.
/// Method: for z = |x| the tail is e^(-z^2/2) Q(s), s = 1 / (1 + z/2) - 1/2, Q the minimax
/// polynomial of degree 10 for the relative error on z in [0, 13.3] (Remez exchange; 1.1e-8; about
/// 1/2 its terms hardly cancel). The other side is 1 minus the tail.
[[nodiscard]] PARPLAN_ALWAYS_INLINE float vector_normal_cdf(float x, float gauss) {
  const float s = 1.0F / (1.0F + 0.5F * std::fabs(x)) - 0.5F;
  float q = -0.04358643665909767F;
  q = q * s + 0.0714283362030983F;
  q = q * s - 0.004168604034930468F;
  q = q * s - 0.08581682294607162F;
  q = q * s + 0.07699072360992432F;
  q = q * s + 0.049907755106687546F;
  q = q * s - 0.14877949655056F;
  q = q * s - 0.015838125720620155F;
  q = q * s + 0.3602023124694824F;
  q = q * s + 0.5019062161445618F;
  q = q * s + 0.16810199618339539F;
  const float tail = gauss * q;
  return x > 0.0F ? 1.0F - tail : tail;
}
[[nodiscard]] PARPLAN_ALWAYS_INLINE double vector_normal_cdf(double x, double /*gauss*/) {
  return 0.5 * std::erfc(x * -0.70710678118654752440);
}

}  // namespace parplan::hw
