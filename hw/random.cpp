#include "hw/random.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "hw/cpu/vector_math.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

// For a double that holds a small integer in its low bits: its value is 2^52 more than the integer.
constexpr std::uint64_t kIntegerBits = 0x4330000000000000ULL;
constexpr double kIntegerBase = 0x1p52;

/// The integer, below 2^52, as double. (Conversions of 64-bit integers have no vector form before
/// AVX-512.)
PARPLAN_ALWAYS_INLINE double from_integer(std::uint64_t integer) {
  return std::bit_cast<double>(integer | kIntegerBits) - kIntegerBase;
}

/// keyed_uniform, the same value.
PARPLAN_ALWAYS_INLINE double uniform(std::uint64_t key, std::uint64_t i) {
  const std::uint64_t bits = keyed_u64(key, i) >> 11;
  return (from_integer(bits >> 32) * 0x1p32 + from_integer(bits & 0xFFFFFFFFULL)) * 0x1p-53;
}

/// The polynomial in z with these coefficients, that of the highest power first (Horner's scheme).
PARPLAN_ALWAYS_INLINE double polynomial(double, double sum) { return sum; }
template <class... Lower>
PARPLAN_ALWAYS_INLINE double polynomial(double z, double sum, double next, Lower... lower) {
  return polynomial(z, sum * z + next, lower...);
}

/// ln x of a normal number in (0, 1]; relative error below 5e-16. Method: x = 2^k m with m in
/// [sqrt(1/2), sqrt 2), ln m = 2 artanh s with s = (m - 1) / (m + 1), |s| < 0.1716, by its power
/// series, whose term of s^25 is below 1e-20. ln 2 is split so that its first part times k is
/// exact.
PARPLAN_ALWAYS_INLINE double natural_log(double x) {
  constexpr std::uint64_t kOne = 0x3FF0000000000000ULL;
  constexpr std::uint64_t kRootOfHalf = 0x3FE6A09E667F3BCDULL;  // bits of sqrt(1/2)
  constexpr std::uint64_t kFraction = 0x000FFFFFFFFFFFFFULL;
  constexpr double kLn2High = 0x1.62e42fefa0000p-1;  // 36 bits
  constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;
  const std::uint64_t scaled = std::bit_cast<std::uint64_t>(x) + (kOne - kRootOfHalf);
  const double k = from_integer(scaled >> 52) - 1023.0;
  const double m = std::bit_cast<double>((scaled & kFraction) + kRootOfHalf);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  const double series =
      polynomial(z, 2.0 / 23.0, 2.0 / 21.0, 2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0,
                 2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0);
  return k * kLn2High + (k * kLn2Low + (series * z * s + 2.0 * s));
}

/// cos(2 pi u) for u in [0, 1); absolute error below 3e-16. Method: the nearest quarter turn, and
/// the power series of sine and cosine for the rest, at most pi/4, whose next terms are below
/// 1e-17.
PARPLAN_ALWAYS_INLINE double cosine_of_turn(double u) {
  constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  const double shifted = 4.0 * u + kRound;
  const std::uint64_t quarter = std::bit_cast<std::uint64_t>(shifted) & 3;
  const double r = (4.0 * u - (shifted - kRound)) * (std::numbers::pi / 2.0);
  const double z = r * r;
  // From 1 / 17! and 1 / 16! down.
  const double sine =
      polynomial(z, 1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0,
                 -1.0 / 39916800.0, 1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0) *
          z * r +
      r;
  const double cosine =
      polynomial(z, 1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0,
                 -1.0 / 3628800.0, 1.0 / 40320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0);
  // After quarter turns: cosine, -sine, -cosine, sine.
  const std::uint64_t odd = 0 - (quarter & 1);
  const std::uint64_t sign = ((quarter + 1) & 2) << 62;
  return std::bit_cast<double>(
      ((std::bit_cast<std::uint64_t>(sine) & odd) | (std::bit_cast<std::uint64_t>(cosine) & ~odd)) ^
      sign);
}

PARPLAN_ALWAYS_INLINE double normal(std::uint64_t key, std::uint64_t i) {
  return std::sqrt(-2.0 * natural_log(1.0 - uniform(key, 2 * i))) *
         cosine_of_turn(uniform(key, 2 * i + 1));
}

PARPLAN_VECTOR_CLONES void normals(double* out, std::int64_t count, std::uint64_t key,
                                   std::uint64_t first) {
  for (std::int64_t j = 0; j < count; ++j) {
    out[j] = normal(key, first + static_cast<std::uint64_t>(j));
  }
}

/// One row of a parameter, from logical element `first` on.
template <class T>
void fill_row(T* out, std::int64_t count, const Initializer& init, std::uint64_t key,
              std::uint64_t first) {
  switch (init.kind) {
    case InitKind::kConstant:
      std::fill_n(out, count, static_cast<T>(init.value));
      return;
    case InitKind::kNormal:
      fill_normals(out, count, key, first, init.value, init.centre);
      return;
    case InitKind::kUniform:
      for (std::int64_t j = 0; j < count; ++j) {
        const double u = keyed_uniform(key, first + static_cast<std::uint64_t>(j));
        out[j] = static_cast<T>(init.centre + init.value * (2.0 * u - 1.0));
      }
      return;
  }
  throw InternalError("internal error: unknown initialiser kind");
}

}  // namespace

double keyed_normal(std::uint64_t key, std::uint64_t i) { return normal(key, i); }

template <class T>
void fill_normals(T* out, std::int64_t count, std::uint64_t key, std::uint64_t first, double scale,
                  double centre) {
  constexpr std::int64_t kBlock = 512;
  std::array<double, kBlock> block;
  for (std::int64_t done = 0; done < count; done += kBlock) {
    const std::int64_t size = std::min(kBlock, count - done);
    normals(block.data(), size, key, first + static_cast<std::uint64_t>(done));
    std::transform(block.begin(), block.begin() + size, out + done,
                   [&](double x) { return static_cast<T>(centre + scale * x); });
  }
}

template <class T>
void fill_parameter(T* out, const ParameterShard& shard, const Initializer& init,
                    std::uint64_t key) {
  ensure(shard.row_offset >= 0 && shard.col_offset >= 0, "a shard starts inside its parameter");
  const std::int64_t rows =
      std::clamp<std::int64_t>(shard.global_rows - shard.row_offset, 0, shard.rows);
  const std::int64_t cols =
      std::clamp<std::int64_t>(shard.global_cols - shard.col_offset, 0, shard.cols);
  for (std::int64_t r = 0; r < shard.rows; ++r) {
    T* line = out + r * shard.cols;
    const std::int64_t real = r < rows ? cols : 0;
    const auto first =
        static_cast<std::uint64_t>((shard.row_offset + r) * shard.global_cols + shard.col_offset);
    fill_row(line, real, init, key, first);
    std::fill(line + real, line + shard.cols, T{0});
  }
}

template void fill_normals<float>(float*, std::int64_t, std::uint64_t, std::uint64_t, double,
                                  double);
template void fill_normals<double>(double*, std::int64_t, std::uint64_t, std::uint64_t, double,
                                   double);
template void fill_parameter<float>(float*, const ParameterShard&, const Initializer&,
                                    std::uint64_t);
template void fill_parameter<double>(double*, const ParameterShard&, const Initializer&,
                                     std::uint64_t);

}  // namespace parplan::hw
