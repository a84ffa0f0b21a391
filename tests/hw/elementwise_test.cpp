#include "hw/cpu/elementwise.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/kernel_checks.hpp"

using namespace parplan::hw;
using namespace parplan::hw::test;

namespace {

/// The definitions, in double, with libm.
double naive_activation(Activation kind, double x) {
  switch (kind) {
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kGeluErf:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return NAN;
}

const DropoutSpec kNone{};
const DropoutSpec kTenth{0.1, tensor_key(5, "mlp.dropout"), 1000, 77};

template <class T>
std::vector<T> run_forward(Activation kind, const DropoutSpec& dropout, MatrixShape shape,
                           const std::vector<T>& x) {
  std::vector<T> y(x.size());
  activation_forward<T>({x.data(), y.data(), shape, kind, dropout});
  return y;
}

Activation any_activation() {
  return GENERATE(Activation::kRelu, Activation::kGeluErf, Activation::kGeluTanh,
                  Activation::kSilu);
}

}  // namespace

// Error units: epsilon(T) * max(1, |value|). float: the exponential (2 units), the division and
// three or four products give at most 8; double: libm and the same products.
TEMPLATE_TEST_CASE("activations with and without dropout follow their definitions", "[hw]", float,
                   double) {
  const Activation kind = any_activation();
  const DropoutSpec dropout = GENERATE(kNone, kTenth);
  // Odd rows; rows of more than one block; many rows in a block.
  const MatrixShape shape =
      GENERATE(MatrixShape{5, 37}, MatrixShape{2, kBlockElements + 41}, MatrixShape{1700, 20});
  const auto x = draws<TestType>(shape.count(), "x", 3.0);
  const auto y = run_forward(kind, dropout, shape, x);
  std::vector<double> expected;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    for (std::int64_t c = 0; c < shape.cols; ++c) {
      const double value = static_cast<double>(x[static_cast<std::size_t>(r * shape.cols + c)]);
      expected.push_back(naive_activation(kind, value) * dropout_factor(dropout, r, c));
    }
  }
  CHECK(worst_error(y, expected) < 8);
}

TEST_CASE("activation gradients are the slopes of the forward kernels", "[hw]") {
  const Activation kind = any_activation();
  const DropoutSpec dropout = GENERATE(kNone, kTenth);
  const MatrixShape shape{6, 23};
  auto x = draws<double>(shape.count(), "x", 2.0);
  const auto dy = draws<double>(shape.count(), "dy");
  const auto y = run_forward(kind, dropout, shape, x);
  const auto& saved = kind == Activation::kRelu ? y : x;
  std::vector<double> dx(x.size());
  activation_backward<double>({saved.data(), dy.data(), dx.data(), shape, kind, dropout});
  const auto expected =
      gradient_of([&] { return dot(run_forward(kind, dropout, shape, x), dy); }, x);
  CHECK(worst_difference(dx, expected) < 1e-8);
}

TEST_CASE("float activation gradients are close to double, add up and work in place", "[hw]") {
  const Activation kind = any_activation();
  const DropoutSpec dropout = GENERATE(kNone, kTenth);
  const MatrixShape shape{64, 131};
  const auto x = draws<float>(shape.count(), "x", 3.0);
  const auto dy = draws<float>(shape.count(), "dy");
  const auto y = run_forward(kind, dropout, shape, x);
  const auto y_double = run_forward(kind, dropout, shape, cast<double>(x));
  const bool relu = kind == Activation::kRelu;

  std::vector<float> dx(x.size());
  const auto& saved = relu ? y : x;
  activation_backward<float>({saved.data(), dy.data(), dx.data(), shape, kind, dropout});
  std::vector<double> exact(x.size());
  const auto saved_double = relu ? y_double : cast<double>(x);
  const auto dy_double = cast<double>(dy);
  activation_backward<double>(
      {saved_double.data(), dy_double.data(), exact.data(), shape, kind, dropout});
  // The slope, at most 1.13, is good to 8 units; |dy| < 5 multiplies that.
  CHECK(worst_error(dx, exact) < 40);

  auto added = draws<float>(shape.count(), "before");
  std::vector<double> sum = cast<double>(added);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] += exact[i];
  }
  activation_backward<float>({saved.data(), dy.data(), added.data(), shape, kind, dropout, true});
  CHECK(worst_error(added, sum) < 41);

  auto over_dy = dy;
  activation_backward<float>({saved.data(), over_dy.data(), over_dy.data(), shape, kind, dropout});
  CHECK(over_dy == dx);
  auto over_x = x;
  activation_forward<float>({over_x.data(), over_x.data(), shape, kind, dropout});
  CHECK(over_x == y);
}

TEST_CASE("activations carry NaN and survive the ends of the range", "[hw]") {
  const Activation kind = any_activation();
  const std::vector<float> x{std::nanf(""), 1e4F, -1e4F, 88.0F, -88.0F, 0.0F};
  const auto y = run_forward(kind, kNone, {1, 6}, x);
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == 1e4F);
  CHECK(std::abs(y[2]) == 0.0F);
  CHECK(y[3] == 88.0F);
  CHECK(std::abs(y[4]) < 1e-30F);
  CHECK(y[5] == 0.0F);
}

TEMPLATE_TEST_CASE("a sharded dropout drops what the whole drops", "[hw]", float, double) {
  const MatrixShape whole{24, 60};
  const DropoutSpec spec{0.3, tensor_key(9, "drop"), 0, 0};
  const auto a = draws<TestType>(whole.count(), "a");
  const auto b = draws<TestType>(whole.count(), "b");
  std::vector<TestType> y(a.size());
  residual_forward<TestType>({a.data(), b.data(), y.data(), whole, spec});
  // 2 row shards by 3 column shards, as data and tensor parallel ranks hold them.
  const MatrixShape part{12, 20};
  for (std::int64_t rs = 0; rs < 2; ++rs) {
    for (std::int64_t cs = 0; cs < 3; ++cs) {
      std::vector<TestType> pa, pb, expected;
      for (std::int64_t r = 0; r < part.rows; ++r) {
        for (std::int64_t c = 0; c < part.cols; ++c) {
          const auto at = static_cast<std::size_t>((rs * 12 + r) * whole.cols + cs * 20 + c);
          pa.push_back(a[at]);
          pb.push_back(b[at]);
          expected.push_back(y[at]);
        }
      }
      std::vector<TestType> py(pa.size());
      residual_forward<TestType>(
          {pa.data(), pb.data(), py.data(), part, {0.3, spec.key, rs * 12, cs * 20}});
      CHECK(py == expected);
    }
  }
}

TEMPLATE_TEST_CASE("the residual adds a dropped branch, backward routes to both", "[hw]", float,
                   double) {
  const DropoutSpec dropout = GENERATE(kNone, kTenth);
  const MatrixShape shape{9, 50};
  const auto a = draws<TestType>(shape.count(), "a");
  const auto b = draws<TestType>(shape.count(), "b");
  std::vector<TestType> y(a.size());
  residual_forward<TestType>({a.data(), b.data(), y.data(), shape, dropout});
  const auto dy = draws<TestType>(shape.count(), "dy");
  auto da = draws<TestType>(shape.count(), "da");
  auto db = draws<TestType>(shape.count(), "db");
  std::vector<double> expected, expected_da, expected_db, stored_db;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const double factor = dropout_factor(dropout, at / shape.cols, at % shape.cols);
    expected.push_back(a[i] + b[i] * factor);
    expected_da.push_back(static_cast<double>(da[i]) + dy[i]);
    expected_db.push_back(db[i] + dy[i] * factor);
    stored_db.push_back(dy[i] * factor);
  }
  CHECK(worst_error(y, expected) < 2);
  residual_backward<TestType>({dy.data(), da.data(), db.data(), shape, dropout, true, true});
  CHECK(worst_error(da, expected_da) < 2);
  CHECK(worst_error(db, expected_db) < 2);
  residual_backward<TestType>({dy.data(), da.data(), db.data(), shape, dropout});
  CHECK(da == dy);
  CHECK(worst_error(db, stored_db) < 2);
  auto gradient = dy;  // the branch's gradient over dy itself, the other one aliased
  residual_backward<TestType>({gradient.data(), nullptr, gradient.data(), shape, dropout});
  CHECK(gradient == db);
}

TEST_CASE("swiglu gates, on separate matrices and on a fused one", "[hw]") {
  const MatrixShape shape{5, 19};
  const std::int64_t stride = GENERATE(19, 38);  // separate; halves of one projection
  const auto count = static_cast<std::size_t>(5 * stride);
  auto gate = draws<double>(5 * stride, "gate", 2.0);
  auto up_matrix = draws<double>(5 * stride, "up");
  double* up = stride == 19 ? up_matrix.data() : gate.data() + 19;
  const auto dy = draws<double>(shape.count(), "dy");
  const auto forward = [&] {
    std::vector<double> y(dy.size());
    swiglu_forward<double>({gate.data(), up, y.data(), shape, stride});
    return y;
  };
  std::vector<double> expected;
  for (std::int64_t r = 0; r < 5; ++r) {
    for (std::int64_t c = 0; c < 19; ++c) {
      expected.push_back(
          naive_activation(Activation::kSilu, gate[static_cast<std::size_t>(r * stride + c)]) *
          up[r * stride + c]);
    }
  }
  CHECK(worst_error(forward(), expected) < 4);

  std::vector<double> dgate(count), dup_matrix(count);
  double* dup = stride == 19 ? dup_matrix.data() : dgate.data() + 19;
  swiglu_backward<double>({gate.data(), up, dy.data(), dgate.data(), dup, shape, stride});
  const auto loss = [&] { return dot(forward(), dy); };
  CHECK(worst_difference(dgate, gradient_of(loss, gate)) < 1e-8);
  if (stride == 19) {
    CHECK(worst_difference(dup_matrix, gradient_of(loss, up_matrix)) < 1e-8);
  }
}

TEST_CASE("float swiglu is close to double, and its gradients may replace its inputs", "[hw]") {
  const MatrixShape shape{33, 71};
  auto gate = draws<float>(shape.count(), "gate", 3.0);
  auto up = draws<float>(shape.count(), "up");
  const auto dy = draws<float>(shape.count(), "dy");
  const auto gate64 = cast<double>(gate), up64 = cast<double>(up), dy64 = cast<double>(dy);
  std::vector<float> y(dy.size());
  std::vector<double> y64(dy.size()), dgate(dy.size()), dup(dy.size());
  swiglu_forward<float>({gate.data(), up.data(), y.data(), shape, 71});
  swiglu_forward<double>({gate64.data(), up64.data(), y64.data(), shape, 71});
  CHECK(worst_error(y, y64) < 8);
  swiglu_backward<double>(
      {gate64.data(), up64.data(), dy64.data(), dgate.data(), dup.data(), shape, 71});
  swiglu_backward<float>({gate.data(), up.data(), dy.data(), gate.data(), up.data(), shape, 71});
  CHECK(worst_error(gate, dgate) < 16);
  CHECK(worst_error(up, dup) < 16);
}

TEMPLATE_TEST_CASE("plain element loops do what they say over block borders", "[hw]", float,
                   double) {
  const std::int64_t count = 2 * kBlockElements + 13;
  const auto x = draws<TestType>(count, "x");
  auto y = draws<TestType>(count, "y");
  std::vector<TestType> sum, scaled;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum.push_back(y[i] + x[i]);
    scaled.push_back(sum.back() * TestType(0.5));
  }
  add_elements(y.data(), x.data(), count);
  CHECK(y == sum);
  scale_elements(y.data(), TestType(0.5), count);
  CHECK(y == scaled);
  copy_elements(y.data(), x.data(), count);
  CHECK(y == x);
  fill_elements(y.data(), TestType(7), count);
  CHECK(y == std::vector<TestType>(y.size(), TestType(7)));
  add_elements(y.data(), x.data(), 0);
  CHECK(y[0] == TestType(7));
}

TEST_CASE("long kernels poll between blocks", "[hw]") {
  int polls = 0;
  const KernelContext context{{[](void* state) noexcept { ++*static_cast<int*>(state); }, &polls}};
  std::vector<float> x(static_cast<std::size_t>(10 * kBlockElements));
  add_elements(x.data(), x.data(), 10 * kBlockElements, context);
  CHECK(polls == 10);
  polls = 0;
  activation_forward<float>(
      {x.data(), x.data(), {5, 2 * kBlockElements}, Activation::kSilu, kTenth}, context);
  CHECK(polls == 10);
  polls = 0;
  const MatrixShape narrow{10 * kBlockElements / 64, 64};
  activation_forward<float>({x.data(), x.data(), narrow, Activation::kSilu, kTenth}, context);
  CHECK(polls == 10);
}

TEST_CASE("a dropout probability below 0 or not below 1 is refused", "[hw]") {
  const double p = GENERATE(-0.1, 1.0, 1.5, std::nan(""));
  std::vector<float> x(4);
  CHECK_THROWS_AS(residual_forward<float>({x.data(), x.data(), x.data(), {2, 2}, {p, 1, 0, 0}}),
                  parplan::InternalError);
}
