#include "sim/core/workload.hpp"

#include <cmath>
#include <limits>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

namespace {

Optimizer with_schedule(LearningRateSchedule schedule) {
  Optimizer o;
  o.learning_rate = 0.4;
  o.schedule = schedule;
  return o;
}

void check_optimizer(const Optimizer& o) {
  Workload w;
  w.optimizer = o;
  check_workload(w);
}

}  // namespace

// The expected rates are worked out by hand from the formulas in the header.
TEST_CASE("the learning rate is constant unless a schedule says otherwise", "[core]") {
  const Optimizer o = with_schedule({});
  CHECK(learning_rate_at(o, 1) == 0.4);
  CHECK(learning_rate_at(o, 1'000'000) == 0.4);
}

TEST_CASE("the warm-up grows linearly to the full learning rate", "[core]") {
  const Optimizer o = with_schedule({Decay::kConstant, 4});
  CHECK(learning_rate_at(o, 1) == 0.1);
  CHECK(learning_rate_at(o, 2) == 0.2);
  CHECK(learning_rate_at(o, 3) == Approx(0.3).epsilon(1e-15));
  CHECK(learning_rate_at(o, 4) == 0.4);
  CHECK(learning_rate_at(o, 5) == 0.4);
}

TEST_CASE("a linear decay reaches the least rate at its last step and stays there", "[core]") {
  const Optimizer o = with_schedule({Decay::kLinear, 2, 10, 0.08});
  CHECK(learning_rate_at(o, 1) == 0.2);
  CHECK(learning_rate_at(o, 2) == 0.4);
  CHECK(learning_rate_at(o, 6) == Approx(0.24).epsilon(1e-15));
  CHECK(learning_rate_at(o, 9) == Approx(0.12).epsilon(1e-15));
  CHECK(learning_rate_at(o, 10) == 0.08);
  CHECK(learning_rate_at(o, 1000) == 0.08);
}

TEST_CASE("a cosine decay is half way down in its middle and flat at its ends", "[core]") {
  const Optimizer o = with_schedule({Decay::kCosine, 0, 12, 0.0});
  // cos(pi/3) = 1/2, cos(pi/2) = 0, cos(2 pi/3) = -1/2.
  CHECK(learning_rate_at(o, 4) == Approx(0.3).epsilon(1e-14));
  CHECK(learning_rate_at(o, 6) == Approx(0.2).epsilon(1e-14));
  CHECK(learning_rate_at(o, 8) == Approx(0.1).epsilon(1e-14));
  CHECK(learning_rate_at(o, 12) == 0.0);
  CHECK(learning_rate_at(o, 13) == 0.0);
  CHECK(0.4 - learning_rate_at(o, 1) < learning_rate_at(o, 1) - learning_rate_at(o, 2));
}

TEST_CASE("gradients are scaled down to the largest norm, never up", "[core]") {
  // torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6), at most 1.
  CHECK(clip_factor(4.0, 1.0) == Approx(1.0 / 4.000001).epsilon(1e-15));
  CHECK(clip_factor(1.0, 1.0) == Approx(1.0 / 1.000001).epsilon(1e-15));
  CHECK(clip_factor(0.999998, 1.0) == 1.0);
  CHECK(clip_factor(0.0, 1.0) == 1.0);
  CHECK(clip_factor(std::numeric_limits<double>::infinity(), 1.0) == 0.0);
  CHECK(std::isnan(clip_factor(std::nan(""), 1.0)));
}

TEST_CASE("a largest gradient norm that clips everything or nothing is refused", "[core]") {
  Optimizer o;
  o.max_gradient_norm = 0.5;
  CHECK_NOTHROW(check_optimizer(o));
  for (const double norm : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    o.max_gradient_norm = norm;
    CHECK_THROWS_AS(check_optimizer(o), InputError);
  }
}

TEST_CASE("only float16 scales its loss, by a positive number", "[core]") {
  Workload w;
  w.precision = DType::kFloat16;
  CHECK_NOTHROW(check_workload(w));
  w.loss_scaling.initial = 8.0;
  CHECK_NOTHROW(check_workload(w));
  w.precision = DType::kBFloat16;
  CHECK_THROWS_AS(check_workload(w), InputError);
  w.precision = DType::kFloat16;
  for (const double scale : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    w.loss_scaling.initial = scale;
    CHECK_THROWS_AS(check_workload(w), InputError);
  }
}

TEST_CASE("schedules that contradict themselves are refused", "[core]") {
  CHECK_NOTHROW(check_optimizer(with_schedule({Decay::kLinear, 2, 3, 0.4})));
  CHECK_THROWS_AS(check_optimizer(with_schedule({Decay::kLinear, 3, 3, 0.1})), InputError);
  CHECK_THROWS_AS(check_optimizer(with_schedule({Decay::kCosine, 0, 10, 0.5})), InputError);
  CHECK_THROWS_AS(check_optimizer(with_schedule({Decay::kConstant, 0, 10, 0.0})), InputError);
  CHECK_THROWS_AS(check_optimizer(with_schedule({Decay::kConstant, 0, 0, 0.1})), InputError);
}
