#pragma once

#include <cstdint>
#include <type_traits>

#include "hw/cpu/gemm_isa.hpp"

// The register-blocked matrix product that the double GEMM and attention are made of. Internal to
// hw/cpu; compiled with -O3, which its unrolling needs (see hw/CMakeLists.txt).

namespace parplan::hw {

/// c[m, n] (+)= a[m, k] * b[k, n]. Element (i, p) of `a` lies at a[i * a_row + p * a_col]; rows of
/// `b` and `c` are contiguous. n is a multiple of `vector_length`; no operand need be aligned; `c`
/// overlaps neither `a` nor `b`. Each element of c is one sum over p in ascending order, whatever
/// m, n and its place in the tile, so results do not depend on how a product is cut into tiles.
template <class T>
struct Product {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const T* a = nullptr;
  std::int64_t a_row = 0;
  std::int64_t a_col = 1;
  const T* b = nullptr;
  std::int64_t b_row = 0;
  T* c = nullptr;
  std::int64_t c_row = 0;
  bool accumulate = false;
};

/// Bytes of a vector register at each level.
[[nodiscard]] constexpr int vector_bytes(Isa isa) {
  switch (isa) {
    case Isa::kBase:
      return 16;
    case Isa::kAvx2:
      return 32;
    case Isa::kAvx512:
      return 64;
  }
  return 16;
}
/// Elements of type T in one.
template <class T>
[[nodiscard]] constexpr std::int64_t vector_length(Isa isa) {
  return vector_bytes(isa) / static_cast<int>(sizeof(T));
}

/// A vector register of elements of type T, which may lie at any address.
template <class T, Isa kIsa>
struct Lanes {
  static constexpr int kLength = static_cast<int>(vector_length<T>(kIsa));
  using Type __attribute__((vector_size(vector_bytes(kIsa)), aligned(sizeof(T)), may_alias)) = T;
};

/// Rows and vectors of c kept in registers: enough sums to hide the latency of the multiply-add
/// (4 cycles, two a cycle: 8 sums), few enough to leave registers for a and b.
template <Isa kIsa>
struct MicroTile {
  static constexpr int kRows = kIsa == Isa::kAvx512 ? 8 : (kIsa == Isa::kAvx2 ? 6 : 4);
  static constexpr int kVectors = 2;
};

/// c[kRows, kVectors vectors] from row `i` and column `j` on.
template <class T, Isa kIsa, int kRows, int kVectors>
inline __attribute__((always_inline)) void micro_kernel(const Product<T>& p, std::int64_t i,
                                                        std::int64_t j) {
  using L = Lanes<T, kIsa>;
  using V = typename L::Type;
  V sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = V{};
    }
  }
  const T* a = p.a + i * p.a_row;
  const T* b = p.b + j;
  const std::int64_t a_row = p.a_row;
  for (std::int64_t s = 0; s < p.k; ++s, a += p.a_col, b += p.b_row) {
    V line[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      line[v] = *reinterpret_cast<const V*>(b + v * L::kLength);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const T factor = a[r * a_row];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] += factor * line[v];
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      V& out = *reinterpret_cast<V*>(p.c + (i + r) * p.c_row + j + v * L::kLength);
      out = p.accumulate ? out + sum[r][v] : sum[r][v];
    }
  }
}

template <class T, Isa kIsa, int kVectors>
inline __attribute__((always_inline)) void micro_column(const Product<T>& p, std::int64_t j) {
  using Tile = MicroTile<kIsa>;
  std::int64_t i = 0;
  for (; i + Tile::kRows <= p.m; i += Tile::kRows) {
    micro_kernel<T, kIsa, Tile::kRows, kVectors>(p, i, j);
  }
  if constexpr (Tile::kRows > 4) {
    for (; i + 4 <= p.m; i += 4) {
      micro_kernel<T, kIsa, 4, kVectors>(p, i, j);
    }
  }
  for (; i < p.m; ++i) {
    micro_kernel<T, kIsa, 1, kVectors>(p, i, j);
  }
}

template <class T, Isa kIsa>
inline __attribute__((always_inline)) void multiply_inline(const Product<T>& p) {
  using L = Lanes<T, kIsa>;
  using Tile = MicroTile<kIsa>;
  std::int64_t j = 0;
  for (; j + Tile::kVectors * L::kLength <= p.n; j += Tile::kVectors * L::kLength) {
    micro_column<T, kIsa, Tile::kVectors>(p, j);
  }
  for (; j < p.n; j += L::kLength) {
    micro_column<T, kIsa, 1>(p, j);
  }
}

template <class T>
__attribute__((noinline)) void multiply_base(const Product<T>& p) {
  multiply_inline<T, Isa::kBase>(p);
}
template <class T>
PARPLAN_TARGET_AVX2 __attribute__((noinline)) void multiply_avx2(const Product<T>& p) {
  multiply_inline<T, Isa::kAvx2>(p);
}
template <class T>
PARPLAN_TARGET_AVX512 __attribute__((noinline)) void multiply_avx512(const Product<T>& p) {
  multiply_inline<T, Isa::kAvx512>(p);
}

/// Computes the product; the machine must support `kIsa`.
template <class T, Isa kIsa>
inline __attribute__((always_inline)) void multiply(const Product<T>& p) {
  if constexpr (kIsa == Isa::kAvx512) {
    multiply_avx512<T>(p);
  } else if constexpr (kIsa == Isa::kAvx2) {
    multiply_avx2<T>(p);
  } else {
    multiply_base<T>(p);
  }
}

}  // namespace parplan::hw
