#include "hw/cpu/norm.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/catch2_compat.hpp"
#include "tests/hw/kernel_checks.hpp"

using namespace parplan::hw;
using namespace parplan::hw::test;

namespace {

/// A LayerNorm or RMSNorm with its operands, so that one test serves both. RMSNorm has no mean and
/// no beta.
template <class T>
struct Norm {
  Norm(bool with_mean, MatrixShape s)
      : layer(with_mean),
        shape(s),
        x(draws<T>(s.count(), "x", 2.0)),
        dy(draws<T>(s.count(), "dy")),
        gamma(draws<T>(s.cols, "gamma")),
        beta(draws<T>(s.cols, "beta")),
        mean(static_cast<std::size_t>(s.rows)),
        rstd(static_cast<std::size_t>(s.rows)) {
    for (T& value : x) {
      value += T(0.5);
    }
  }

  std::vector<T> forward() {
    std::vector<T> y(x.size());
    if (layer) {
      layer_norm_forward<T>(
          {x.data(), gamma.data(), beta.data(), y.data(), mean.data(), rstd.data(), shape, eps});
    } else {
      rms_norm_forward<T>({x.data(), gamma.data(), y.data(), rstd.data(), shape, eps});
    }
    return y;
  }

  void backward(T* dx, T* dgamma, T* dbeta, bool accumulate, bool accumulate_parameters) {
    // Filled with rubbish: kernels must not expect clean scratch.
    const std::int64_t bytes = layer ? layer_norm_backward_scratch_bytes<T>(shape.cols)
                                     : rms_norm_backward_scratch_bytes<T>(shape.cols);
    std::vector<T> scratch(static_cast<std::size_t>(bytes) / sizeof(T), T(1e30));
    if (layer) {
      layer_norm_backward<T>({x.data(), dy.data(), gamma.data(), mean.data(), rstd.data(), dx,
                              dgamma, dbeta, scratch.data(), shape, accumulate,
                              accumulate_parameters});
    } else {
      rms_norm_backward<T>({x.data(), dy.data(), gamma.data(), rstd.data(), dx, dgamma,
                            scratch.data(), shape, accumulate, accumulate_parameters});
    }
  }

  bool layer;
  MatrixShape shape;
  double eps = 1e-3;  // large enough to be seen
  std::vector<T> x, dy, gamma, beta, mean, rstd;
};

/// The definition, in double.
template <class T>
std::vector<double> naive(const Norm<T>& norm) {
  std::vector<double> y;
  const auto cols = static_cast<std::size_t>(norm.shape.cols);
  for (std::size_t r = 0; r < static_cast<std::size_t>(norm.shape.rows); ++r) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; norm.layer && c < cols; ++c) {
      mean += norm.x[r * cols + c] / static_cast<double>(cols);
    }
    for (std::size_t c = 0; c < cols; ++c) {
      variance += std::pow(norm.x[r * cols + c] - mean, 2) / static_cast<double>(cols);
    }
    for (std::size_t c = 0; c < cols; ++c) {
      const double h = (norm.x[r * cols + c] - mean) / std::sqrt(variance + norm.eps);
      y.push_back(h * norm.gamma[c] + (norm.layer ? static_cast<double>(norm.beta[c]) : 0.0));
    }
  }
  return y;
}

}  // namespace

// float: a sum over cols values in lanes is good to a few units, and so are mean and rstd; |h
// gamma| up to 10 multiplies.
TEMPLATE_TEST_CASE("norms follow their definitions", "[hw]", float, double) {
  const bool layer = GENERATE(true, false);
  const MatrixShape shape = GENERATE(MatrixShape{3, 17}, MatrixShape{150, 512}, MatrixShape{4, 1});
  Norm<TestType> norm(layer, shape);
  const auto y = norm.forward();
  CHECK(worst_error(y, naive(norm)) < 16);
  if (layer) {  // in place
    layer_norm_forward<TestType>({norm.x.data(), norm.gamma.data(), norm.beta.data(), norm.x.data(),
                                  norm.mean.data(), norm.rstd.data(), shape, norm.eps});
  } else {
    rms_norm_forward<TestType>(
        {norm.x.data(), norm.gamma.data(), norm.x.data(), norm.rstd.data(), shape, norm.eps});
  }
  CHECK(norm.x == y);
}

TEST_CASE("norm gradients are the slopes of the forward kernels", "[hw]") {
  const bool layer = GENERATE(true, false);
  // The second shape has a full and a partial block of rows.
  const MatrixShape shape = GENERATE(MatrixShape{3, 21}, MatrixShape{kRowsPerPartial + 9, 5});
  Norm<double> norm(layer, shape);
  const auto loss = [&] { return dot(norm.forward(), norm.dy); };
  loss();  // mean and rstd of the unperturbed rows
  std::vector<double> dx(norm.x.size()), dgamma(norm.gamma.size()), dbeta(norm.beta.size());
  norm.backward(dx.data(), dgamma.data(), dbeta.data(), false, false);
  // Rounding of the summed loss (some 400 terms) by the step of 1e-5: about 1e-9.
  CHECK(worst_difference(dx, gradient_of(loss, norm.x)) < 2e-8);
  CHECK(worst_difference(dgamma, gradient_of(loss, norm.gamma)) < 2e-8);
  if (layer) {
    CHECK(worst_difference(dbeta, gradient_of(loss, norm.beta)) < 2e-8);
  }
}

TEST_CASE("float norm gradients are close to double, add up and replace dy", "[hw]") {
  const bool layer = GENERATE(true, false);
  const MatrixShape shape{1000, 96};
  Norm<float> norm(layer, shape);
  Norm<double> exact(layer, shape);
  exact.x = cast<double>(norm.x);
  exact.dy = cast<double>(norm.dy);
  exact.gamma = cast<double>(norm.gamma);
  norm.forward();
  exact.forward();
  std::vector<float> dx(norm.x.size()), dgamma(96), dbeta(96);
  std::vector<double> dx64(norm.x.size()), dgamma64(96), dbeta64(96);
  norm.backward(dx.data(), dgamma.data(), dbeta.data(), false, false);
  exact.backward(dx64.data(), dgamma64.data(), dbeta64.data(), false, false);
  CHECK(worst_error(dx, dx64) < 16);
  // A column sum of 1000 terms of size 1. Each term is good to about 2 units of 1: 2 sqrt(1000) =
  // 63 for the sum; 16 block sums are added onto a sum of up to 60, each rounded by at most 16
  // units: 16 sqrt(16) = 64. Together a deviation of 90; the worst of 192 columns stays within
  // four.
  double worst = 0;
  for (std::size_t c = 0; c < 96; ++c) {
    worst = std::max(worst, std::abs(dgamma[c] - dgamma64[c]));
    worst = std::max(worst, layer ? std::abs(dbeta[c] - dbeta64[c]) : 0.0);
  }
  CHECK(worst < 360 * static_cast<double>(std::numeric_limits<float>::epsilon()));

  // Accumulated twice onto itself, and dx over dy.
  std::vector<float> twice = dx, dgamma2 = dgamma, dbeta2 = dbeta;
  norm.backward(twice.data(), dgamma2.data(), dbeta2.data(), true, true);
  for (std::size_t i = 0; i < twice.size(); ++i) {
    twice[i] -= dx[i];
  }
  CHECK(worst_error(twice, dx) < 2);
  CHECK(dgamma2[5] == Approx(2 * dgamma[5]).epsilon(1e-5).margin(1e-4));
  if (layer) {
    CHECK(dbeta2[7] == Approx(2 * dbeta[7]).epsilon(1e-5).margin(1e-4));
  }
  norm.backward(norm.dy.data(), dgamma2.data(), dbeta2.data(), false, false);
  CHECK(norm.dy == dx);
  CHECK(dgamma2 == dgamma);
}

TEST_CASE("a constant row is finite: eps carries it", "[hw]") {
  Norm<float> norm(true, {1, 8});
  norm.x.assign(8, 3.0F);
  norm.eps = 1e-5;
  CHECK(norm.forward() == norm.beta);
  CHECK(norm.mean[0] == 3.0F);
  CHECK(norm.rstd[0] == Approx(1 / std::sqrt(1e-5)).epsilon(1e-6));
}
