#pragma once

#include <cstdint>
#include <string_view>

namespace parplan::hw {

// Keyed random numbers. Every number is a pure function of (seed, tensor name, logical element),
// never of a generator's history, so that one process and any sharding of it draw the same number
// for the same logical element. Everything here is stateless and thread-safe.

/// The increment of SplitMix64: 2^64 divided by the golden ratio.
inline constexpr std::uint64_t kGoldenGamma = 0x9E3779B97F4A7C15ULL;

/// One output of SplitMix64 from state `x` (Steele, Lea, Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014; constants: David Stafford's mix 13). A bijection of the 64-bit
/// integers.
[[nodiscard]] constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += kGoldenGamma;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// FNV-1a with 64 bits over the bytes of `name` (Fowler, Noll, Vo; offset basis and prime as
/// published).
[[nodiscard]] constexpr std::uint64_t fnv1a64(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : name) {
    hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x00000100000001B3ULL;
  }
  return hash;
}

/// The key of the logical tensor `name` in the run started from `seed`.
[[nodiscard]] constexpr std::uint64_t tensor_key(std::uint64_t seed, std::string_view name) {
  return splitmix64(seed ^ fnv1a64(name));
}

/// 64 random bits for element `i`.
[[nodiscard]] constexpr std::uint64_t keyed_u64(std::uint64_t key, std::uint64_t i) {
  return splitmix64(key + i * kGoldenGamma);
}

/// Uniform in [0, 1), a multiple of 2^-53.
[[nodiscard]] constexpr double keyed_uniform(std::uint64_t key, std::uint64_t i) {
  return static_cast<double>(keyed_u64(key, i) >> 11) * 0x1p-53;
}

/// Standard normal by Box and Muller's transform (Ann. Math. Statist. 29, 1958) of the uniforms 2i
/// and 2i+1, within 1e-15 of the exact value relative to the larger of 1 and it. |value| <=
/// sqrt(2 * 53 * ln 2) < 8.58. The same bits on every processor: only additions, products,
/// quotients and square roots as IEEE 754 rounds them.
[[nodiscard]] double keyed_normal(std::uint64_t key, std::uint64_t i);

/// out[j] = centre + scale * keyed_normal(key, first + j) for j < count, computed in double and
/// rounded to T; many times as fast as one by one. T: float, double.
template <class T>
void fill_normals(T* out, std::int64_t count, std::uint64_t key, std::uint64_t first,
                  double scale = 1.0, double centre = 0.0);

// Dropout. The mask of element (row, col) of a tensor is a 32-bit hash compared with a threshold;
// forward and backward compute it again, no mask is stored. Per row one 64-bit key, per element
// 32-bit arithmetic only (it vectorises).

/// Key of one logical row: `a` is added before, `b` is folded in after the mixing of the column.
struct DropoutKey {
  std::uint32_t a;
  std::uint32_t b;
  bool operator==(const DropoutKey&) const = default;
};

/// Key of logical row `row` of the tensor whose key is `key` (see `tensor_key`).
[[nodiscard]] constexpr DropoutKey dropout_row_key(std::uint64_t key, std::uint64_t row) {
  const std::uint64_t r = splitmix64(key ^ splitmix64(row));
  return {static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(r >> 32)};
}

/// Hash of logical column `col` (below 2^32) in the row of `key`; MurmurHash3's 32-bit finaliser
/// between the two halves of the key. The element is dropped if and only if the hash is below
/// `dropout_threshold(p)`.
[[nodiscard]] constexpr std::uint32_t dropout_hash(DropoutKey key, std::uint32_t col) {
  std::uint32_t h = col * 0x9E3779B1U + key.a;
  h ^= h >> 16;
  h *= 0x85EBCA6BU;
  h ^= h >> 13;
  h *= 0xC2B2AE35U;
  h ^= h >> 16;
  return h ^ key.b;
}

/// Threshold of drop probability `p` in [0, 1): floor(p * 2^32). 0 drops nothing.
[[nodiscard]] constexpr std::uint32_t dropout_threshold(double p) {
  return static_cast<std::uint32_t>(p * 0x1p32);
}

/// Which elements of a local block [rows, cols] are dropped, with probability `p` in [0, 1). The
/// logical row of local row r is row_offset + r, the logical column of local column c is col_offset
/// + c, so any sharding of either gives the mask of the whole tensor. Kept elements are multiplied
/// by 1 / (1 - p). The default drops nothing.
struct DropoutSpec {
  double p = 0.0;
  std::uint64_t key = 0;
  std::int64_t row_offset = 0;
  std::int64_t col_offset = 0;
};

/// How a parameter starts; `value` is the standard deviation, the bound, or the constant, `centre`
/// is added to random values.
enum class InitKind { kConstant, kNormal, kUniform };
struct Initializer {
  InitKind kind = InitKind::kConstant;
  double value = 0.0;
  double centre = 0.0;
};

/// A rank's block [rows, cols] of a logical parameter [global_rows, global_cols] (a vector is one
/// row or one column). The block may reach beyond the logical shape (padding to a multiple of the
/// shards).
struct ParameterShard {
  std::int64_t global_rows;
  std::int64_t global_cols;
  std::int64_t row_offset;
  std::int64_t col_offset;
  std::int64_t rows;
  std::int64_t cols;
};

/// Fills `out` [shard.rows, shard.cols] of the parameter with key `key`: the number of logical
/// element (r, c) is drawn at index r * global_cols + c, in double, and rounded to T. Normal:
/// centre
/// + value * keyed_normal; uniform: centre + value * (2 * keyed_uniform - 1). Padding is zero.
/// T: float, double.
template <class T>
void fill_parameter(T* out, const ParameterShard& shard, const Initializer& init,
                    std::uint64_t key);

}  // namespace parplan::hw
