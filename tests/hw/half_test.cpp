#include "hw/half.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "hw/random.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;
using namespace parplan::hw;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float widened(std::uint16_t bits, DType type) {
  return type == DType::kBFloat16 ? float_of_bfloat16(bits) : float_of_float16(bits);
}
std::uint16_t narrowed(float x, DType type) {
  return type == DType::kBFloat16 ? bfloat16_bits(x) : float16_bits(x);
}

/// The value by the definition of the formats: sign, exponent with its bias, fraction.
double value_of(std::uint16_t bits, DType type) {
  const int fraction_bits = type == DType::kBFloat16 ? 7 : 10;
  const int bias = type == DType::kBFloat16 ? 127 : 15;
  const int exponent = (bits & 0x7FFF) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int last = exponent == 0 ? 1 : exponent;
  const double whole = exponent == 0 ? 0.0 : std::ldexp(1.0, fraction_bits);
  return sign * std::ldexp(whole + fraction, last - bias - fraction_bits);
}

bool is_finite(std::uint16_t bits, DType type) {
  const int mask = type == DType::kBFloat16 ? 0x7F80 : 0x7C00;
  return (bits & mask) != mask;
}

}  // namespace

TEST_CASE("all 65,536 values of a 16-bit type widen exactly and come back", "[hw]") {
  for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
    for (std::uint32_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const float wide = widened(bits, type);
      if (is_finite(bits, type)) {
        REQUIRE(static_cast<double>(wide) == value_of(bits, type));
        REQUIRE(std::signbit(wide) == ((bits & 0x8000) != 0));
        REQUIRE(narrowed(wide, type) == bits);
      } else if (std::isinf(wide)) {
        REQUIRE(narrowed(wide, type) == bits);
      } else {
        REQUIRE(std::isnan(wide));
        REQUIRE(std::isnan(widened(narrowed(wide, type), type)));
      }
    }
  }
}

TEST_CASE("floats round to the nearest value, between two of them to the even one", "[hw]") {
  for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
    // Neighbours of either sign, the middle between them, and what is just beside it.
    for (std::uint16_t bits = 0; is_finite(static_cast<std::uint16_t>(bits + 1), type); ++bits) {
      const double low = value_of(bits, type);
      const double high = value_of(static_cast<std::uint16_t>(bits + 1), type);
      const auto middle = static_cast<float>((low + high) / 2);
      if (static_cast<double>(middle) != (low + high) / 2) continue;  // between subnormal bfloat16s
      const auto even = static_cast<std::uint16_t>(bits % 2 == 0 ? bits : bits + 1);
      REQUIRE(narrowed(middle, type) == even);
      REQUIRE(narrowed(-middle, type) == (even | 0x8000));
      REQUIRE(narrowed(std::nextafterf(middle, 0.0F), type) == bits);
      REQUIRE(narrowed(std::nextafterf(middle, kInfinity), type) == bits + 1);
    }
  }
}

TEST_CASE("what is too large for float16 becomes infinity, from half way on", "[hw]") {
  CHECK(float16_bits(65504.0F) == 0x7BFF);
  CHECK(float16_bits(std::nextafterf(65520.0F, 0.0F)) == 0x7BFF);
  CHECK(float16_bits(65520.0F) == 0x7C00);
  CHECK(float16_bits(1e30F) == 0x7C00);
  CHECK(float16_bits(-std::numeric_limits<float>::infinity()) == 0xFC00);
  CHECK(float16_bits(0x1p-25F) == 0);
  CHECK(float16_bits(std::nextafterf(0x1p-25F, 1.0F)) == 1);
  // The largest bfloat16 is 2^128 - 2^120; half a step above it is infinity.
  CHECK(bfloat16_bits(std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(bfloat16_bits(0x1.FEFFFEp127F) == 0x7F7F);
}

TEST_CASE("arrays of any length convert as their elements do", "[hw]") {
  for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
    for (const std::int64_t count : {0, 1, 7, 16, 33, 1000}) {
      std::vector<float> x(static_cast<std::size_t>(count));
      fill_normals(x.data(), count, 17, 0);
      std::vector<std::uint16_t> half(x.size() + 1, 0x1234);
      narrow(reinterpret_cast<std::byte*>(half.data()), type, x.data(), count);
      std::vector<float> back(x.size());
      widen(back.data(), reinterpret_cast<const std::byte*>(half.data()), type, count);
      for (std::size_t i = 0; i < x.size(); ++i) {
        REQUIRE(half[i] == narrowed(x[i], type));
        REQUIRE(std::bit_cast<std::uint32_t>(back[i]) ==
                std::bit_cast<std::uint32_t>(widened(half[i], type)));
      }
      CHECK(half.back() == 0x1234);
    }
  }
}
