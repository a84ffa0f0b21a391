#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "hw/cpu/cpu_device.hpp"
#include "hw/half.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/same_numbers.hpp"
#include "tests/hw/small_models.hpp"
#include "tests/hw/training.hpp"

// Training in 16-bit precisions against float64, over layouts, and dynamic loss scaling.

using namespace parplan;
using namespace parplan::hw;

namespace {

/// Half of the distance between 1 and the next number.
double unit_roundoff(DType precision) { return precision == DType::kBFloat16 ? 0x1p-8 : 0x1p-11; }

Workload workload_for(const std::string& name, DType precision) {
  Workload w = layout_case(name).workload;
  w.precision = precision;
  return w;
}

double relative_distance(const LogicalTensor& a, const LogicalTensor& b) {
  return distance(a.values, b.values) / norm(b.values);
}

}  // namespace

TEST_CASE("training in 16 bits follows float64 within its rounding, in every layout", "[hw]") {
  const std::string name =
      GENERATE(as<std::string>{}, "mlp", "pair", "seed transformer", "gpt2", "llama tied");
  const DType precision = GENERATE(DType::kBFloat16, DType::kFloat16);
  const Model model = layout_case(name).model;
  const RunResult exact = train_twenty(model, workload_for(name, DType::kFloat64), "dp=1");
  // A value passes some ten layers, each rounding it a few times: errors add up as random steps.
  const double bound = 16 * unit_roundoff(precision);
  // Of all ReLU gates a share of a few unit roundoffs, those nearest to zero, falls the other way;
  // the norm of what they let through or stop is the root of that.
  const bool has_gates = name == "mlp" || name == "seed transformer";
  const double gradient_bound = has_gates ? 2 * std::sqrt(unit_roundoff(precision)) : bound;
  for (const std::string layout :
       {"dp=1", "dp=1,microbatches=4", "dp=2", "tp=2", "pp=2,schedule=1f1b,microbatches=4", "mp=2",
        "dp=2,tp=2,pp=2,schedule=gpipe,microbatches=2"}) {
    INFO(name << " in " << name_of(precision) << " with " << layout);
    const RunResult run = train_twenty(model, workload_for(name, precision), layout);
    CHECK(run.losses[0] != exact.losses[0]);
    for (std::size_t s = 0; s < 20; ++s) {
      CHECK(std::abs(run.losses[s] - exact.losses[s]) < bound * exact.losses[0]);
    }
    for (std::size_t t = 0; t < model.parameters.size(); ++t) {
      const LogicalTensor& gradient = run.snapshots[0].gradients[t];
      INFO(gradient.name);
      if (is_zero_by_nature(gradient.name)) continue;
      CHECK(relative_distance(gradient, exact.snapshots[0].gradients[t]) < gradient_bound);
    }
  }
}

TEST_CASE("master weights keep what a 16-bit weight would lose", "[hw]") {
  // 20 steps of Adam at 1e-5 move a weight of size 0.1 by less than half a unit of its last place
  // in bfloat16 (0.1 x 2^-8): without master weights nothing would move.
  Workload w = workload_for("pair", DType::kBFloat16);
  w.optimizer.learning_rate = 1e-5;
  const RunResult run = train_twenty(small_linear_pair(), w, "dp=1");
  const std::vector<double>& first = run.snapshots[0].parameters[0].values;
  const std::vector<double>& last = run.snapshots[1].parameters[0].values;
  double moved = 0.0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    moved = std::max(moved, std::abs(last[i] - first[i]));
  }
  CHECK(moved > 1e-4);
  CHECK(moved < 2.1e-4);
}

TEST_CASE("a loss scale of a power of two changes nothing but what overflows", "[hw]") {
  Workload w = workload_for("gpt2", DType::kFloat16);
  w.loss_scaling = {1024.0, 0};
  const RunResult some = train_twenty(small_gpt2(), w, "dp=1");
  w.loss_scaling = {4096.0, 0};
  const RunResult more = train_twenty(small_gpt2(), w, "dp=2");
  CHECK(some.loss_scales == std::vector<double>(20, 1024.0));
  CHECK(more.loss_scales == std::vector<double>(20, 4096.0));
  // The snapshot's gradients are those of the loss itself: the same, but for rounding.
  for (std::size_t t = 0; t < some.snapshots[0].gradients.size(); ++t) {
    const LogicalTensor& gradient = some.snapshots[0].gradients[t];
    if (is_zero_by_nature(gradient.name)) continue;
    CHECK(relative_distance(more.snapshots[0].gradients[t], gradient) < 16 * 0x1p-11);
  }
}

TEST_CASE("a step whose gradients overflow moves nothing and halves the scale, on all ranks",
          "[hw]") {
  // The mean over 8 x 16 targets makes dlogits at most 1/128: a scale of 2^24 takes it to 131072,
  // beyond float16; 2^23 to 65536, still beyond; 2^22 to 32768.
  Workload w = workload_for("gpt2", DType::kFloat16);
  w.loss_scaling = {0x1p24, 3};
  for (const std::string layout : {"dp=1", "dp=2", "tp=2", "pp=2,microbatches=4"}) {
    INFO(layout);
    RunOptions options;
    options.steps = 12;
    options.snapshot_after = {1, 12};
    const RunResult run = train(small_plan(small_gpt2(), w, layout), options);
    REQUIRE(run.gradient_norms.size() == 12);
    CHECK(run.loss_scales[0] == 0x1p24);
    double scale = 0x1p24;
    std::int64_t clean = 0;
    bool skipped = false;
    for (std::size_t s = 0; s < 12; ++s) {
      CHECK(run.loss_scales[s] == scale);
      const bool finite = std::isfinite(run.gradient_norms[s]);
      skipped |= !finite;
      clean = finite ? clean + 1 : 0;
      if (!finite) scale /= 2;
      if (clean == 3) {
        scale *= 2;
        clean = 0;
      }
    }
    CHECK(skipped);
    CHECK_FALSE(std::isfinite(run.gradient_norms[0]));
    CHECK(std::any_of(run.gradient_norms.begin(), run.gradient_norms.end(),
                      [](double norm) { return std::isfinite(norm); }));
    // Nothing that is not finite has got into a weight, and the first step moved none.
    RunOptions none = options;
    none.steps = 1;
    none.snapshot_after = {1};
    Workload still = w;
    still.optimizer.learning_rate = 0.0;
    still.loss_scaling = {};
    const RunResult start = train(small_plan(small_gpt2(), still, layout), none);
    for (std::size_t t = 0; t < run.snapshots[0].parameters.size(); ++t) {
      CHECK(run.snapshots[0].parameters[t].values == start.snapshots[0].parameters[t].values);
      CHECK(std::isfinite(norm(run.snapshots[1].parameters[t].values)));
      CHECK(run.snapshots[1].parameters[t].values != run.snapshots[0].parameters[t].values);
    }
  }
}

TEST_CASE("the loss scale doubles after a run of finite steps and halves after another", "[hw]") {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  GradientState state;
  state.loss_scale = 1024.0;
  const LossScaling scaling{1024.0, 2};
  const auto step = [&](double squared_norm) {
    state.squared_norm = squared_norm;
    device->run(LossScaleCall{&state, &scaling});
  };
  step(1.0);
  CHECK(state.loss_scale == 1024.0);
  step(1.0);
  CHECK(state.loss_scale == 2048.0);
  step(1.0);
  step(std::nan(""));
  CHECK(state.loss_scale == 1024.0);
  CHECK(state.updates == 3);
  step(1.0);
  CHECK(state.loss_scale == 1024.0);  // counting starts anew
  step(1.0);
  CHECK(state.loss_scale == 2048.0);
  CHECK(state.updates == 5);
}

TEST_CASE("clipping sees gradients without the loss scale", "[hw]") {
  Workload w = workload_for("gpt2", DType::kFloat16);
  w.loss_scaling = {256.0, 0};
  w.optimizer.max_gradient_norm = 0.5;
  const RunResult half = train_twenty(small_gpt2(), w, "dp=1");
  Workload exact = workload_for("gpt2", DType::kFloat64);
  exact.optimizer.max_gradient_norm = 0.5;
  const RunResult whole = train_twenty(small_gpt2(), exact, "dp=1");
  for (std::size_t s = 0; s < 20; ++s) {
    CHECK(half.gradient_norms[s] == Approx(whole.gradient_norms[s]).epsilon(0.01));
    CHECK(std::abs(half.losses[s] - whole.losses[s]) < 0.01 * whole.losses[0]);
  }
}
