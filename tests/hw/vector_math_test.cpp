#include "hw/cpu/vector_math.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/catch2_compat.hpp"

using namespace parplan::hw;

namespace {

// The vector code of this machine's best instruction set; the plain functions are checked through
// the scalar calls.
PARPLAN_VECTOR_CLONES void exp_all(const float* x, float* y, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    y[i] = vector_exp(x[i]);
  }
}

PARPLAN_VECTOR_CLONES void cdf_all(const float* x, float* y, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    y[i] = vector_normal_cdf(x[i], vector_exp(-0.5F * x[i] * x[i]));
  }
}

/// Every `step`-th float with magnitude in [smallest, largest], both signs.
std::vector<float> floats(float smallest, float largest, std::uint32_t step) {
  std::vector<float> values;
  for (auto bits = std::bit_cast<std::uint32_t>(smallest);
       bits <= std::bit_cast<std::uint32_t>(largest); bits += step) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(-std::bit_cast<float>(bits));
  }
  return values;
}

}  // namespace

TEST_CASE("the float exponential keeps its promised relative error", "[hw]") {
  const std::vector<float> x = floats(1e-10F, 88.7228F, 977);
  std::vector<float> y(x.size());
  exp_all(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  double worst = 0, worst_scalar = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    if (x[i] > -87.336F) {
      worst = std::max(worst, std::abs(y[i] / exact - 1));
      worst_scalar = std::max(worst_scalar, std::abs(vector_exp(x[i]) / exact - 1));
    }
  }
  INFO("relative errors " << worst << " (vector), " << worst_scalar << " (scalar)");
  CHECK(worst < 1.2e-7);
  CHECK(worst_scalar < 1.2e-7);
}

TEST_CASE("the float exponential saturates and passes NaN", "[hw]") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> x{0.0F,     -0.0F,  -87.33654F, -87.34F, -200.0F,       -kInf,
                             88.7228F, 88.73F, 1e30F,      kInf,    std::nanf(""), 1.0F};
  std::vector<float> y(x.size());
  exp_all(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  CHECK(y[0] == 1.0F);
  CHECK(y[1] == 1.0F);
  CHECK(y[2] == Approx(1.1754997e-38).epsilon(1e-6));  // e^-87.33654
  CHECK(y[3] == 0.0F);
  CHECK(y[4] == 0.0F);
  CHECK(y[5] == 0.0F);
  CHECK(y[6] == Approx(3.4027e38).epsilon(1e-4));
  CHECK(y[7] == kInf);
  CHECK(y[8] == kInf);
  CHECK(y[9] == kInf);
  CHECK(std::isnan(y[10]));
  CHECK(y[11] == Approx(2.718281828).epsilon(1.2e-7));
}

TEST_CASE("the float normal distribution keeps its promised relative error", "[hw]") {
  const std::vector<float> x = floats(1e-6F, 13.0F, 97);
  std::vector<float> y(x.size());
  cdf_all(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  double worst = 0;  // as a share of the promise
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double z = x[i];
    const double exact = 0.5 * std::erfc(-z / std::sqrt(2.0));
    worst = std::max(worst, std::abs(y[i] / exact - 1) / (3.5e-7 + 6e-8 * z * z));
  }
  INFO("share of the promise: " << worst);
  CHECK(worst < 1);
}

TEST_CASE("the sigmoid is exact at its ends and in the middle", "[hw]") {
  CHECK(vector_sigmoid(0.0F) == 0.5F);
  CHECK(vector_sigmoid(-200.0F) == 0.0F);
  CHECK(vector_sigmoid(200.0F) == 1.0F);
  CHECK(vector_sigmoid(1.0) == Approx(1 / (1 + std::exp(-1.0))).epsilon(1e-15));
}
