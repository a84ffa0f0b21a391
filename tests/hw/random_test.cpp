#include "hw/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "tests/catch2_compat.hpp"

using namespace parplan::hw;

TEST_CASE("splitmix64 and fnv1a64 give their published vectors", "[hw]") {
  // SplitMix64 seeded with 1234567: first outputs as listed for the reference implementation.
  CHECK(splitmix64(1234567) == 6457827717110365317ULL);
  CHECK(splitmix64(1234567 + kGoldenGamma) == 3203168211198807973ULL);
  // FNV-1a test suite of its authors: "" is the offset basis, "a" and "foobar" are listed.
  CHECK(fnv1a64("") == 0xCBF29CE484222325ULL);
  CHECK(fnv1a64("a") == 0xAF63DC4C8601EC8CULL);
  CHECK(fnv1a64("foobar") == 0x85944171F73967E8ULL);
}

TEST_CASE("a tensor's key depends on the seed and on the name", "[hw]") {
  CHECK(tensor_key(1, "wte") == splitmix64(1 ^ fnv1a64("wte")));
  CHECK(tensor_key(1, "wte") != tensor_key(2, "wte"));
  CHECK(tensor_key(1, "wte") != tensor_key(1, "wpe"));
}

// Bounds of the three tests below: five standard deviations of the sample mean (or variance) over n
// draws, which a correct generator misses once in 1.7 million. The draws are fixed, so they pass
// always or never.
TEST_CASE("keyed uniforms have mean 1/2 and variance 1/12", "[hw]") {
  const int n = 1 << 18;
  const std::uint64_t key = tensor_key(42, "uniform");
  double sum = 0, squares = 0;
  bool inside = true;
  for (int i = 0; i < n; ++i) {
    const double u = keyed_uniform(key, static_cast<std::uint64_t>(i));
    inside = inside && u >= 0.0 && u < 1.0;
    sum += u;
    squares += (u - 0.5) * (u - 0.5);
  }
  CHECK(inside);
  // sd of u is sqrt(1/12); sd of (u - 1/2)^2 is sqrt(1/80 - 1/144) = sqrt(1/180).
  CHECK(std::abs(sum / n - 0.5) < 5 * std::sqrt(1.0 / 12 / n));
  CHECK(std::abs(squares / n - 1.0 / 12) < 5 * std::sqrt(1.0 / 180 / n));
}

TEST_CASE("keyed normals have mean 0, variance 1, kurtosis 3 and no neighbour correlation",
          "[hw]") {
  const int n = 1 << 17;
  const std::uint64_t key = tensor_key(42, "normal");
  double sum = 0, squares = 0, fourth = 0, neighbour = 0, before = 0;
  for (int i = 0; i < n; ++i) {
    const double x = keyed_normal(key, static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    neighbour += x * before;
    before = x;
  }
  // var x = 1, var x^2 = 3 - 1 = 2, var x^4 = 105 - 9 = 96, var of a product of two = 1.
  CHECK(std::abs(sum / n) < 5 * std::sqrt(1.0 / n));
  CHECK(std::abs(squares / n - 1) < 5 * std::sqrt(2.0 / n));
  CHECK(std::abs(fourth / n - 3) < 5 * std::sqrt(96.0 / n));
  CHECK(std::abs(neighbour / n) < 5 * std::sqrt(1.0 / n));
}

/// How far `found` is from what the C library says in long double, relative to the larger of 1 and
/// that.
static double error_of_normal(double found, std::uint64_t key, std::uint64_t i) {
  const long double u = keyed_uniform(key, 2 * i);
  const long double v = keyed_uniform(key, 2 * i + 1);
  const long double exact =
      std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * std::numbers::pi_v<long double> * v);
  return static_cast<double>(std::abs(found - exact) / std::max(1.0L, std::abs(exact)));
}

TEST_CASE("keyed normals are Box and Muller's of their uniforms", "[hw]") {
  const std::uint64_t key = tensor_key(3, "normal");
  constexpr std::uint64_t kFirst = 5;
  std::vector<double> filled(1 << 17);
  fill_normals(filled.data(), static_cast<std::int64_t>(filled.size()), key, kFirst);
  double worst = 0;
  int different = 0;
  for (std::size_t i = 0; i < filled.size(); ++i) {
    worst = std::max(worst, error_of_normal(filled[i], key, kFirst + i));
    // The loop of many runs in other instructions than that of one.
    different += filled[i] != keyed_normal(key, kFirst + i) ? 1 : 0;
  }
  CHECK(worst < 1e-15);
  CHECK(different == 0);
}

TEST_CASE("keyed normals are right at both ends of the uniforms", "[hw]") {
  // splitmix64 is a bijection; these keys give the number 0 the bits 00..0 and 11..1.
  const std::uint64_t zeros = 0 - kGoldenGamma;
  const std::uint64_t ones = 0x31628AF67B2131ABULL;
  REQUIRE(keyed_uniform(zeros, 0) == 0.0);
  REQUIRE(keyed_uniform(ones, 0) == 1.0 - 0x1p-53);
  CHECK(keyed_normal(zeros, 0) == 0.0);
  CHECK(error_of_normal(keyed_normal(ones, 0), ones, 0) < 1e-15);
}

TEST_CASE("dropout drops the share p, independently along rows and columns", "[hw]") {
  const double p = GENERATE(0.1, 0.5, 0.9);
  const std::uint64_t key = tensor_key(7, "dropout");
  const std::uint32_t threshold = dropout_threshold(p);
  const int rows = 512, cols = 512;
  std::vector<char> dropped(static_cast<std::size_t>(rows) * cols);
  double total = 0, along_row = 0, along_col = 0;
  for (int r = 0; r < rows; ++r) {
    const DropoutKey row = dropout_row_key(key, static_cast<std::uint64_t>(r));
    for (int c = 0; c < cols; ++c) {
      const auto at = static_cast<std::size_t>(r) * cols + static_cast<std::size_t>(c);
      dropped[at] = dropout_hash(row, static_cast<std::uint32_t>(c)) < threshold;
      total += dropped[at];
      along_row += (c > 0 && dropped[at] && dropped[at - 1]);
      along_col += (r > 0 && dropped[at] && dropped[at - cols]);
    }
  }
  const double n = rows * cols;
  const double pairs = n - rows;
  CHECK(std::abs(total / n - p) < 5 * std::sqrt(p * (1 - p) / n));
  // Both of a pair: mean p^2; neighbouring pairs share an element, so the variance of the count is
  // n (p^2 - p^4) + 2 n (p^3 - p^4).
  const double variance = p * p * (1 - p * p) + 2 * p * p * p * (1 - p);
  CHECK(std::abs(along_row / pairs - p * p) < 5 * std::sqrt(variance / pairs));
  CHECK(std::abs(along_col / pairs - p * p) < 5 * std::sqrt(variance / pairs));
}

TEST_CASE("a threshold of zero drops nothing", "[hw]") {
  CHECK(dropout_threshold(0.0) == 0);
  CHECK(dropout_threshold(0.5) == 0x80000000U);
  CHECK(dropout_threshold(0.25) == 0x40000000U);
}

TEMPLATE_TEST_CASE("shards of a parameter hold the elements of the whole, padding is zero", "[hw]",
                   float, double) {
  const auto kind = GENERATE(InitKind::kConstant, InitKind::kNormal, InitKind::kUniform);
  const Initializer init{kind, 0.02};
  const std::uint64_t key = tensor_key(3, "layer.0.weight");
  const std::int64_t rows = 7, cols = 10;
  std::vector<TestType> whole(static_cast<std::size_t>(rows * cols));
  fill_parameter(whole.data(), {rows, cols, 0, 0, rows, cols}, init, key);
  CHECK(whole[0] != TestType{0});
  if (kind == InitKind::kNormal) {
    CHECK(whole[13] == static_cast<TestType>(0.02 * keyed_normal(key, 13)));
    fill_parameter(whole.data(), {rows, cols, 0, 0, rows, cols}, {kind, 0.02, 1.0}, key);
    CHECK(whole[13] == static_cast<TestType>(1.0 + 0.02 * keyed_normal(key, 13)));
    fill_parameter(whole.data(), {rows, cols, 0, 0, rows, cols}, init, key);
  }
  if (kind == InitKind::kUniform) {
    CHECK(whole[13] == static_cast<TestType>(0.02 * (2 * keyed_uniform(key, 13) - 1)));
  }
  // Two row shards of 4 (one padded row) by three column shards of 4 (two padded columns).
  for (std::int64_t rs = 0; rs < 2; ++rs) {
    for (std::int64_t cs = 0; cs < 3; ++cs) {
      std::vector<TestType> part(16, TestType{99});
      fill_parameter(part.data(), {rows, cols, rs * 4, cs * 4, 4, 4}, init, key);
      for (std::int64_t r = 0; r < 4; ++r) {
        for (std::int64_t c = 0; c < 4; ++c) {
          const bool real = rs * 4 + r < rows && cs * 4 + c < cols;
          const auto at = static_cast<std::size_t>((rs * 4 + r) * cols + cs * 4 + c);
          CHECK(part[static_cast<std::size_t>(r * 4 + c)] == (real ? whole[at] : TestType{0}));
        }
      }
    }
  }
}
