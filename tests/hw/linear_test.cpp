#include "hw/cpu/linear.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "hw/random.hpp"
#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/kernel_checks.hpp"

namespace parplan::hw {
namespace {

using test::count_call;
using test::random_values;

/// A linear layer with all its operands; results start as NaN or, for accumulation, as values.
template <class T>
struct Layer {
  explicit Layer(LinearShape s)
      : shape(s),
        x(random_values<T>(s.rows * s.in, 1)),
        w(random_values<T>(s.out * s.in, 2)),
        bias(random_values<T>(s.out, 3)),
        dy(random_values<T>(s.rows * s.out, 4)),
        y(random_values<T>(s.rows * s.out, 5)),
        dx(random_values<T>(s.rows * s.in, 6)),
        dw(random_values<T>(s.out * s.in, 7)),
        db(random_values<T>(s.out, 8)) {}

  LinearShape shape;
  std::vector<T> x, w, bias, dy, y, dx, dw, db;
};

/// Plain loops over the definition, in double.
struct Exact {
  template <class T>
  static double at(const std::vector<T>& v, std::int64_t i) {
    return static_cast<double>(v[static_cast<std::size_t>(i)]);
  }
  template <class T>
  static std::vector<double> forward(const Layer<T>& l, bool bias) {
    const auto [rows, in, out] = l.shape;
    std::vector<double> y;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t o = 0; o < out; ++o) {
        double sum = bias ? at(l.bias, o) : 0;
        for (std::int64_t i = 0; i < in; ++i) sum += at(l.x, r * in + i) * at(l.w, o * in + i);
        y.push_back(sum);
      }
    }
    return y;
  }
  template <class T>
  static std::vector<double> input_gradient(const Layer<T>& l, bool accumulate) {
    const auto [rows, in, out] = l.shape;
    std::vector<double> dx;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < in; ++i) {
        double sum = accumulate ? at(l.dx, r * in + i) : 0;
        for (std::int64_t o = 0; o < out; ++o) sum += at(l.dy, r * out + o) * at(l.w, o * in + i);
        dx.push_back(sum);
      }
    }
    return dx;
  }
  template <class T>
  static std::vector<double> weight_gradient(const Layer<T>& l, bool accumulate) {
    const auto [rows, in, out] = l.shape;
    std::vector<double> dw;
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t i = 0; i < in; ++i) {
        double sum = accumulate ? at(l.dw, o * in + i) : 0;
        for (std::int64_t r = 0; r < rows; ++r) sum += at(l.dy, r * out + o) * at(l.x, r * in + i);
        dw.push_back(sum);
      }
    }
    return dw;
  }
  template <class T>
  static std::vector<double> bias_gradient(const Layer<T>& l, bool accumulate) {
    const auto [rows, in, out] = l.shape;
    std::vector<double> db;
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = accumulate ? at(l.db, o) : 0;
      for (std::int64_t r = 0; r < rows; ++r) sum += at(l.dy, r * out + o);
      db.push_back(sum);
    }
    return db;
  }
};

/// Whether all values agree within the worst rounding of sums of `terms` products of size <= 1.
template <class T>
bool agrees(const std::vector<T>& got, const std::vector<double>& exact, std::int64_t terms) {
  const double tolerance = static_cast<double>((terms + 2) * (terms + 2)) *
                           static_cast<double>(std::numeric_limits<T>::epsilon());
  if (got.size() != exact.size()) return false;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(std::fabs(static_cast<double>(got[i]) - exact[i]) <= tolerance)) return false;
  }
  return true;
}

template <class T>
void poison(std::vector<T>& values) {
  values.assign(values.size(), std::numeric_limits<T>::quiet_NaN());
}

const std::vector<LinearShape> kShapes{{1, 1, 1},    {3, 17, 1},   {17, 1, 3}, {65, 3, 17},
                                       {17, 65, 33}, {64, 40, 10}, {2, 5, 130}};

template <class T>
void check_forward(const LinearShape& shape, bool bias) {
  Layer<T> layer(shape);
  poison(layer.y);
  linear_forward(KernelContext{},
                 LinearForward<T>{shape, layer.x.data(), layer.w.data(),
                                  bias ? layer.bias.data() : nullptr, layer.y.data()});
  CHECK(agrees(layer.y, Exact::forward(layer, bias), shape.in));
}

template <class T>
void check_input_gradient(const LinearShape& shape, bool accumulate) {
  Layer<T> layer(shape);
  const std::vector<double> exact = Exact::input_gradient(layer, accumulate);
  if (!accumulate) poison(layer.dx);
  linear_backward_input(
      KernelContext{},
      LinearBackwardInput<T>{shape, layer.dy.data(), layer.w.data(), layer.dx.data(), accumulate});
  CHECK(agrees(layer.dx, exact, shape.out));
}

template <class T>
void check_weight_gradient(const LinearShape& shape, bool bias, bool accumulate) {
  Layer<T> layer(shape);
  const std::vector<double> dw = Exact::weight_gradient(layer, accumulate);
  const std::vector<double> db = Exact::bias_gradient(layer, accumulate);
  const std::vector<T> untouched = layer.db;
  if (!accumulate) poison(layer.dw);
  if (!accumulate && bias) poison(layer.db);
  linear_backward_weight(
      KernelContext{},
      LinearBackwardWeight<T>{shape, layer.dy.data(), layer.x.data(), layer.dw.data(),
                              bias ? layer.db.data() : nullptr, accumulate});
  CHECK(agrees(layer.dw, dw, shape.rows));
  if (bias) {
    CHECK(agrees(layer.db, db, shape.rows));
  } else {
    CHECK(layer.db == untouched);
  }
}

}  // namespace

TEST_CASE("a linear layer equals plain loops, forward and backward", "[hw]") {
  for (const LinearShape& shape : kShapes) {
    INFO(shape.rows << " rows, " << shape.in << " in, " << shape.out << " out");
    for (const bool option : {false, true}) {
      check_forward<float>(shape, option);
      check_forward<double>(shape, option);
      check_input_gradient<float>(shape, option);
      check_input_gradient<double>(shape, option);
      for (const bool bias : {false, true}) {
        check_weight_gradient<float>(shape, bias, option);
        check_weight_gradient<double>(shape, bias, option);
      }
    }
  }
}

TEST_CASE("gradients of a layer without rows are zero or left alone", "[hw]") {
  const LinearShape shape{0, 3, 2};
  check_weight_gradient<float>(shape, true, false);
  check_weight_gradient<float>(shape, true, true);
  check_weight_gradient<double>(shape, true, false);
}

TEST_CASE("column sums of many rows lose few digits", "[hw]") {
  // 40,000 times 0.1: an element passes at most 32 + 157 roundings of 2^-24, 1.2e-5 relative; one
  // running sum would pass 40,000 and, its last binary places all rounded alike, is off by 4e-4.
  const std::int64_t rows = 40000;
  const std::int64_t cols = 37;
  std::vector<float> x(static_cast<std::size_t>(rows * cols), 0.1F);
  std::vector<float> sums(static_cast<std::size_t>(cols), std::numeric_limits<float>::quiet_NaN());
  int calls = 0;
  column_sums(KernelContext{{&count_call, &calls}},
              ColumnSums<float>{rows, cols, x.data(), sums.data(), false});
  const double exact = static_cast<double>(rows) * static_cast<double>(0.1F);
  double worst = 0;
  for (const float sum : sums) worst = std::max(worst, std::fabs(sum - exact) / exact);
  CHECK(worst < 1.2e-5);
  CHECK(calls == 1);  // 5.9 MB, a poll each 4 MB
}

TEST_CASE("column sums wider and longer than a block equal plain loops", "[hw]") {
  check_weight_gradient<float>({600, 1, 1100}, true, false);
  check_weight_gradient<double>({600, 1, 1100}, true, true);
}

TEST_CASE("column sums of a negative number of rows are refused", "[hw]") {
  CHECK_THROWS_AS(column_sums(KernelContext{}, ColumnSums<float>{-1, 1, nullptr, nullptr, true}),
                  InternalError);
}

}  // namespace parplan::hw
