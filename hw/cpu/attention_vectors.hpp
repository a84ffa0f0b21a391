#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

#include "hw/cpu/gemm_micro.hpp"

// Element-wise steps of attention on vector registers. Internal to hw/cpu; everything is inlined
// into functions compiled for `kIsa`.

#define PARPLAN_INLINE inline __attribute__((always_inline))

namespace parplan::hw {

/// The integers that go with the lanes of T: masks and exponents, and 32-bit hashes.
template <class T, Isa kIsa>
struct IntegerLanes {
  using Signed = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  static constexpr int kHashBytes = 4 * Lanes<T, kIsa>::kLength;
  using Mask __attribute__((vector_size(vector_bytes(kIsa)))) = Signed;
  using Hash __attribute__((vector_size(kHashBytes), aligned(4), may_alias)) = std::uint32_t;
};

template <class T, Isa kIsa>
using VectorType = typename Lanes<T, kIsa>::Type;

template <class T, Isa kIsa>
PARPLAN_INLINE VectorType<T, kIsa>& at(T* data) {
  return *reinterpret_cast<VectorType<T, kIsa>*>(data);
}
template <class T, Isa kIsa>
PARPLAN_INLINE const VectorType<T, kIsa>& at(const T* data) {
  return *reinterpret_cast<const VectorType<T, kIsa>*>(data);
}

/// Constants of exp2: 2^r = 1 + r * (c[0] + c[1] r + ...) for |r| <= 1/2.
template <class T>
struct Exp2;
/// Interpolation at the Chebyshev points; relative error 9.2e-9, a seventh of half a unit.
template <>
struct Exp2<float> {
  static constexpr float kCoefficients[] = {0.6931471824645996F,    0.24022650718688965F,
                                            0.055503569543361664F,  0.009618083015084267F,
                                            0.0013390863314270973F, 0.00015453163359779865F};
  static constexpr float kRound = 0x1.8p23F;  // adding it leaves the rounded value in the low bits
  static constexpr int kMantissaBits = 23;
  static constexpr float kLowest = -126.0F;  // exponent of the smallest normal number
};
/// Taylor series (ln 2)^k / k!; the next term is below 5.9e-18.
template <>
struct Exp2<double> {
  static constexpr double kCoefficients[] = {
      0.6931471805599453,    0.24022650695910072,   0.05550410866482158,    0.009618129107628477,
      0.0013333558146428443, 0.0001540353039338161, 1.5252733804059841e-05, 1.321548679014431e-06,
      1.01780860092397e-07,  7.054911620801123e-09, 4.4455382718708116e-10, 2.5678435993488206e-11,
      1.3691488853904128e-12};
  static constexpr double kRound = 0x1.8p52;
  static constexpr int kMantissaBits = 52;
  static constexpr double kLowest = -1022.0;
};

/// 2^x for x <= 1 in each lane, within 2 units in the last place; 0 where the result would be below
/// the normal numbers. NaN stays NaN.
template <class T, Isa kIsa>
PARPLAN_INLINE VectorType<T, kIsa> exp2_lanes(const VectorType<T, kIsa>& x) {
  using V = VectorType<T, kIsa>;
  using Mask = typename IntegerLanes<T, kIsa>::Mask;
  using Constants = Exp2<T>;
  constexpr int kCount = static_cast<int>(std::size(Constants::kCoefficients));
  // Far below, adding the exponent to the bits would overflow; those lanes become 0 in the end.
  const V within = x < Constants::kLowest ? V{} + Constants::kLowest : x;
  const V shifted = within + Constants::kRound;
  const V r = within - (shifted - Constants::kRound);
  V sum = V{} + Constants::kCoefficients[kCount - 1];
#pragma GCC unroll 16
  for (int i = kCount - 2; i >= 0; --i) {
    sum = sum * r + Constants::kCoefficients[i];
  }
  sum = sum * r + T{1};
  const Mask bits =
      reinterpret_cast<Mask>(sum) + (reinterpret_cast<Mask>(shifted) << Constants::kMantissaBits);
  const V result = reinterpret_cast<V>(bits);
  return x < Constants::kLowest ? V{} : result;
}

template <class T, Isa kIsa>
PARPLAN_INLINE VectorType<T, kIsa> larger(const VectorType<T, kIsa>& a,
                                          const VectorType<T, kIsa>& b) {
  return a > b ? a : b;
}

/// The dropout mask of one key for a vector of queries, whose row keys' halves lie at `a` and `b`.
class DropoutLanes {
 public:
  PARPLAN_INLINE DropoutLanes(const std::uint32_t* a, const std::uint32_t* b,
                              std::uint32_t threshold)
      : a_(a), b_(b), threshold_(threshold) {}

  /// All bits set in the lanes whose element in column `col` is dropped; see dropout_hash.
  template <class T, Isa kIsa>
  [[nodiscard]] PARPLAN_INLINE typename IntegerLanes<T, kIsa>::Mask dropped(
      std::uint32_t col) const {
    using Integers = IntegerLanes<T, kIsa>;
    using Hash = typename Integers::Hash;
    Hash h = *reinterpret_cast<const Hash*>(a_) + col * 0x9E3779B1U;
    h ^= h >> 16;
    h *= 0x85EBCA6BU;
    h ^= h >> 13;
    h *= 0xC2B2AE35U;
    h ^= h >> 16;
    h ^= *reinterpret_cast<const Hash*>(b_);
    return __builtin_convertvector(h < threshold_, typename Integers::Mask);
  }

 private:
  const std::uint32_t* a_;
  const std::uint32_t* b_;
  std::uint32_t threshold_;
};

// Moving blocks of rows between tensors and tiles.

template <class V, std::size_t... kLane>
PARPLAN_INLINE V interleave_low(const V& a, const V& b, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(a, b, (kLane % 2 * sizeof...(kLane) + kLane / 2)...);
}
template <class V, std::size_t... kLane>
PARPLAN_INLINE V interleave_high(const V& a, const V& b, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(
      a, b, (kLane % 2 * sizeof...(kLane) + kLane / 2 + sizeof...(kLane) / 2)...);
}

/// to[c * to_stride + r] = factor * from[r * from_stride + c] for a square of vector length.
/// Interleaving the first half of the rows with the second, log2(length) times, transposes.
template <class T, Isa kIsa>
PARPLAN_INLINE void transpose_square(const T* from, std::int64_t from_stride, T factor, T* to,
                                     std::int64_t to_stride) {
  using V = VectorType<T, kIsa>;
  constexpr int kLength = Lanes<T, kIsa>::kLength;
  constexpr auto kLanes = std::make_index_sequence<kLength>{};
  V rows[kLength];
#pragma GCC unroll 16
  for (int r = 0; r < kLength; ++r) {
    rows[r] = at<T, kIsa>(from + r * from_stride) * factor;
  }
#pragma GCC unroll 4
  for (int round = 1; round < kLength; round *= 2) {
    V next[kLength];
#pragma GCC unroll 8
    for (int r = 0; r < kLength / 2; ++r) {
      next[2 * r] = interleave_low(rows[r], rows[r + kLength / 2], kLanes);
      next[2 * r + 1] = interleave_high(rows[r], rows[r + kLength / 2], kLanes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kLength; ++r) {
      rows[r] = next[r];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kLength; ++r) {
    at<T, kIsa>(to + r * to_stride) = rows[r];
  }
}

/// A block of rows of a tensor, `stride` elements apart.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

/// to[cols, to_stride] = factor * (the rows transposed), columns beyond `rows` zero. to_stride is a
/// multiple of the vector length.
template <class T, Isa kIsa>
PARPLAN_INLINE void transpose_rows(const Rows<const T>& from, T factor, T* to,
                                   std::int64_t to_stride) {
  constexpr std::int64_t kLength = Lanes<T, kIsa>::kLength;
  const std::int64_t whole_cols = from.cols / kLength * kLength;
  std::int64_t r = 0;
  for (; r + kLength <= from.rows; r += kLength) {
    const T* block = from.data + r * from.stride;
    for (std::int64_t c = 0; c < whole_cols; c += kLength) {
      transpose_square<T, kIsa>(block + c, from.stride, factor, to + c * to_stride + r, to_stride);
    }
    for (std::int64_t c = whole_cols; c < from.cols; ++c) {
      for (std::int64_t i = 0; i < kLength; ++i) {
        to[c * to_stride + r + i] = factor * block[i * from.stride + c];
      }
    }
  }
  for (std::int64_t c = 0; r < to_stride && c < from.cols; ++c) {
    for (std::int64_t i = r; i < to_stride; ++i) {
      to[c * to_stride + i] = i < from.rows ? factor * from.data[i * from.stride + c] : T{0};
    }
  }
}

/// to[rows, to_stride] = the rows, columns beyond `cols` zero. to_stride is a multiple of the
/// vector length.
template <class T, Isa kIsa>
PARPLAN_INLINE void copy_rows(const Rows<const T>& from, T* to, std::int64_t to_stride) {
  constexpr std::int64_t kLength = Lanes<T, kIsa>::kLength;
  for (std::int64_t r = 0; r < from.rows; ++r) {
    const T* source = from.data + r * from.stride;
    T* line = to + r * to_stride;
    std::int64_t c = 0;
    for (; c + kLength <= from.cols; c += kLength) {
      at<T, kIsa>(line + c) = at<T, kIsa>(source + c);
    }
    for (; c < to_stride; ++c) {
      line[c] = c < from.cols ? source[c] : T{0};
    }
  }
}

/// to = factor * from[rows, from_stride], added to what is there if `accumulate`.
template <class T, Isa kIsa>
PARPLAN_INLINE void write_rows(const T* from, std::int64_t from_stride, T factor, const Rows<T>& to,
                               bool accumulate) {
  constexpr std::int64_t kLength = Lanes<T, kIsa>::kLength;
  for (std::int64_t r = 0; r < to.rows; ++r) {
    const T* source = from + r * from_stride;
    T* line = to.data + r * to.stride;
    std::int64_t c = 0;
    for (; c + kLength <= to.cols; c += kLength) {
      const auto value = at<T, kIsa>(source + c) * factor;
      at<T, kIsa>(line + c) = accumulate ? at<T, kIsa>(line + c) + value : value;
    }
    for (; c < to.cols; ++c) {
      line[c] = accumulate ? line[c] + source[c] * factor : source[c] * factor;
    }
  }
}

}  // namespace parplan::hw
