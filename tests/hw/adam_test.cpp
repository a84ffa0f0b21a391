#include "hw/cpu/adam.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "hw/cpu/blocks.hpp"
#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/kernel_checks.hpp"

using namespace parplan::hw;
using namespace parplan::hw::test;

namespace {

template <class T>
struct State {
  explicit State(std::int64_t count)
      : p(draws<T>(count, "p")), m(static_cast<std::size_t>(count)), v(m) {}
  void step(const std::vector<T>& g, const AdamSettings& settings, std::int64_t number) {
    adam_step<T>({p.data(), g.data(), m.data(), v.data(), static_cast<std::int64_t>(p.size())},
                 settings, number);
  }
  std::vector<T> p, m, v;
};

}  // namespace

TEMPLATE_TEST_CASE("two steps of Adam equal the closed form", "[hw]", float, double) {
  // p0 = 1, gradients 0.5 and -0.25, lr = 0.1, betas 0.9 and 0.999.
  // Step 1: m = 0.1 * 0.5 = 0.05, v = 0.001 * 0.25 = 0.00025; without bias m / 0.1 = 0.5 and v /
  // 0.001 = 0.25, so
  //   p1 = 1 - 0.1 * 0.5 / (0.5 + 1e-8) = 0.900000002.
  // Step 2: m = 0.9 * 0.05 - 0.1 * 0.25 = 0.02, v = 0.999 * 0.00025 + 0.001 * 0.0625 = 0.00031225;
  // without bias
  //   m / (1 - 0.81) = 0.02 / 0.19 and v / (1 - 0.998001) = 0.00031225 / 0.001999, so
  //   p2 = p1 - 0.1 * 0.105263157895 / (0.395225... + 1e-8).
  State<TestType> state(1);
  state.p = {TestType(1)};
  const AdamSettings settings{0.1};
  const double eps = static_cast<double>(std::numeric_limits<TestType>::epsilon());
  state.step({TestType(0.5)}, settings, 1);
  const double p1 = 1 - 0.1 * 0.5 / (0.5 + 1e-8);
  CHECK(state.m[0] == Approx(0.05).epsilon(4 * eps));
  CHECK(state.v[0] == Approx(0.00025).epsilon(8 * eps));
  CHECK(state.p[0] == Approx(p1).epsilon(4 * eps));
  state.step({TestType(-0.25)}, settings, 2);
  const double p2 = p1 - 0.1 * (0.02 / 0.19) / (std::sqrt(0.00031225 / 0.001999) + 1e-8);
  CHECK(state.m[0] == Approx(0.02).epsilon(8 * eps));
  CHECK(state.v[0] == Approx(0.00031225).epsilon(8 * eps));
  CHECK(state.p[0] == Approx(p2).epsilon(8 * eps));
}

TEMPLATE_TEST_CASE("a gradient factor scales gradients before anything else", "[hw]", float,
                   double) {
  // A power of two, so that scaling them beforehand gives the same bits.
  const std::int64_t count = 1003;
  std::vector<TestType> gradients = draws<TestType>(count, "g");
  AdamSettings settings{0.1};
  settings.weight_decay = 0.2;
  State<TestType> scaled(count), factor(count);
  settings.gradient_factor = 0.25;
  factor.step(gradients, settings, 3);
  for (TestType& g : gradients) g *= TestType(0.25);
  settings.gradient_factor = 1.0;
  scaled.step(gradients, settings, 3);
  CHECK(factor.m == scaled.m);
  CHECK(factor.v == scaled.v);
  CHECK(factor.p == scaled.p);
}

TEMPLATE_TEST_CASE("weight decay enters the gradient in Adam and the parameter in AdamW", "[hw]",
                   float, double) {
  const double eps = static_cast<double>(std::numeric_limits<TestType>::epsilon());
  AdamSettings settings{0.1};
  settings.weight_decay = 0.2;
  // The first step moves by lr * g / (|g| + eps), g being 0.5 + 0.2 * 2 in Adam and 0.5 in AdamW.
  State<TestType> adam(1), adamw(1);
  adam.p = adamw.p = {TestType(2)};
  adam.step({TestType(0.5)}, settings, 1);
  CHECK(adam.p[0] == Approx(2 - 0.1 * 0.9 / (0.9 + 1e-8)).epsilon(4 * eps));
  CHECK(adam.m[0] == Approx(0.09).epsilon(4 * eps));
  CHECK(adam.v[0] == Approx(0.00081).epsilon(8 * eps));
  settings.decoupled = true;
  adamw.step({TestType(0.5)}, settings, 1);
  CHECK(adamw.p[0] == Approx(2 * (1 - 0.1 * 0.2) - 0.1 * 0.5 / (0.5 + 1e-8)).epsilon(4 * eps));
  CHECK(adamw.m[0] == Approx(0.05).epsilon(4 * eps));
  CHECK(adamw.v[0] == Approx(0.00025).epsilon(8 * eps));
}

TEST_CASE("a vanished gradient leaves eps in the denominator", "[hw]") {
  State<float> state(1);
  state.p = {1.0F};
  state.step({0.0F}, {0.1}, 1);
  CHECK(state.p[0] == 1.0F);
  // g = 1e-9 is far below eps = 1e-8: p moves by lr * g / (g + eps) = 0.1 / 11.
  State<double> tiny(1);
  tiny.p = {1.0};
  tiny.step({1e-9}, {0.1}, 1);
  CHECK(tiny.p[0] == Approx(1 - 0.1 / 11).epsilon(1e-12));
}

TEST_CASE("float Adam stays close to double over ten steps", "[hw]") {
  const bool decoupled = GENERATE(false, true);
  const AdamSettings settings{1e-2, 0.9, 0.99, 1e-8, 0.1, decoupled};
  const std::int64_t count = 1003;
  State<float> state(count);
  State<double> exact(count);
  exact.p = cast<double>(state.p);
  for (int t = 1; t <= 10; ++t) {
    const auto g = draws<float>(count, "g" + std::to_string(t));
    state.step(g, settings, t);
    exact.step(cast<double>(g), settings, t);
  }
  // A step moves p by about lr; m and v are good to some ten units, m/sqrt(v) likewise unless g is
  // tiny.
  CHECK(worst_error(state.p, exact.p) < 16);
  CHECK(worst_error(state.m, exact.m) < 4);
  CHECK(worst_error(state.v, exact.v) < 8);
}

TEST_CASE("Adam on two parts of a range equals Adam on the whole", "[hw]") {
  const std::int64_t count = kBlockElements + 777;
  const std::int64_t cut = 12345;
  State<float> whole(count), parts(count);
  const auto g = draws<float>(count, "g");
  whole.step(g, {}, 3);
  int polls = 0;
  const KernelContext context{{[](void* state) noexcept { ++*static_cast<int*>(state); }, &polls}};
  float *p = parts.p.data(), *m = parts.m.data(), *v = parts.v.data();
  adam_step<float>({p, g.data(), m, v, cut}, {}, 3);
  adam_step<float>({p + cut, g.data() + cut, m + cut, v + cut, count - cut}, {}, 3, context);
  CHECK(worst_error(parts.p, whole.p) <= 1);
  CHECK(worst_error(parts.m, whole.m) <= 1);
  CHECK(worst_error(parts.v, whole.v) <= 1);
  CHECK(polls == 1);
}

TEST_CASE("Adam's step number starts at one", "[hw]") {
  State<float> state(1);
  CHECK_THROWS_AS(state.step({1.0F}, {}, 0), parplan::InternalError);
}
