#include <cmath>
#include <string>
#include <vector>

#include "hw/random.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/small_models.hpp"
#include "tests/hw/training.hpp"

using namespace parplan;
using namespace parplan::hw;

namespace {

double loss_at(const Plan& plan, const std::vector<LogicalTensor>& parameters) {
  RunOptions options;
  options.steps = 1;
  options.initial_parameters = &parameters;
  return train(plan, options).losses.at(0);
}

/// Parameters before the first step: what one step with a learning rate of zero leaves.
std::vector<LogicalTensor> initial_parameters(Plan plan) {
  plan.workload.optimizer.learning_rate = 0.0;
  RunOptions options;
  options.steps = 1;
  options.snapshot_after = {1};
  return train(plan, options).snapshots.at(0).parameters;
}

/// Moves one tensor by `step` along a random direction.
std::vector<double> moved(const std::vector<double>& values, std::uint64_t key, double step) {
  std::vector<double> result = values;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] += step * keyed_normal(key, i);
  return result;
}

struct GradientCase {
  Model model;
  bool kinks = false;  ///< of relu: between the two points the slope may jump, so they stay close
};

}  // namespace

TEST_CASE("gradients are the slopes of the loss, tensor by tensor", "[hw]") {
  const GradientCase c =
      GENERATE(GradientCase{small_mlp(), true}, GradientCase{small_linear_pair()},
               GradientCase{small_seed_transformer(0.1), true},
               GradientCase{small_encoder_decoder(0.1), true}, GradientCase{small_gpt2(0.1)},
               GradientCase{small_llama(false)}, GradientCase{small_llama(true)});
  const Plan plan = small_plan(c.model, reference_workload(4, 6, 5), "dp=1");
  RunOptions options;
  options.steps = 1;
  options.snapshot_after = {1};
  const std::vector<LogicalTensor> gradients = train(plan, options).snapshots.at(0).gradients;
  std::vector<LogicalTensor> parameters = initial_parameters(plan);
  // Central differences err by h^2 / 6 times the third derivative, and by the rounding of the loss
  // (about 4), 1e-15 / h.
  const double h = c.kinks ? 1e-6 : 1e-5;
  const double rounding = 2e-15 / h;
  for (std::size_t t = 0; t < parameters.size(); ++t) {
    INFO(c.model.name << ", " << parameters[t].name);
    const std::uint64_t key = tensor_key(3, parameters[t].name);
    const std::vector<double> kept = parameters[t].values;
    parameters[t].values = moved(kept, key, h);
    const double above = loss_at(plan, parameters);
    parameters[t].values = moved(kept, key, -h);
    const double below = loss_at(plan, parameters);
    parameters[t].values = kept;
    double slope = 0.0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      slope += gradients[t].values[i] * keyed_normal(key, i);
    }
    CHECK((above - below) / (2 * h) == Approx(slope).epsilon(1e-6).margin(rounding));
  }
}
