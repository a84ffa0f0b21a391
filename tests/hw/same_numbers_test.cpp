#include <cmath>
#include <string>
#include <vector>

#include "tests/catch2_compat.hpp"
#include "tests/hw/same_numbers.hpp"
#include "tests/hw/small_models.hpp"
#include "tests/hw/training.hpp"

// Every layout trains the same numbers as the single process (ranks are threads here; the same over
// MPI: mpi_training_test).

using namespace parplan;
using namespace parplan::hw;

TEST_CASE("every layout trains the numbers of the single process in float64", "[hw]") {
  const std::string name = GENERATE(as<std::string>{}, "mlp", "pair", "seed transformer",
                                    "encoder-decoder", "gpt2", "llama untied", "llama tied");
  const LayoutCase c = layout_case(name);
  const RunResult single = train_twenty(c.model, c.workload, "dp=1");
  for (std::size_t t = 0; t < single.snapshots[0].parameters.size(); ++t) {
    const LogicalTensor& parameter = single.snapshots[0].parameters[t];
    INFO(parameter.name << " is trained");
    if (!is_zero_by_nature(parameter.name)) {
      CHECK(distance(single.snapshots[1].parameters[t].values, parameter.values) > 1e-4);
    }
  }
  for (const std::string& layout : layouts_of(c)) {
    INFO(name << " with " << layout);
    CHECK(first_difference(train_twenty(c.model, c.workload, layout), single, 1e-10) == "");
  }
}

TEST_CASE("gradients are clipped by the same norm in every layout", "[hw]") {
  const std::string name =
      GENERATE(as<std::string>{}, "pair", "encoder-decoder", "gpt2", "llama untied", "llama tied");
  const LayoutCase c = layout_case(name);
  Workload clipped = c.workload;
  clipped.optimizer.max_gradient_norm = 1e9;
  const RunResult free = train_twenty(c.model, clipped, "dp=1");
  CHECK(free.losses == train_twenty(c.model, c.workload, "dp=1").losses);
  clipped.optimizer.max_gradient_norm = 0.9 * free.gradient_norms[0];
  const RunResult single = train_twenty(c.model, clipped, "dp=1");
  CHECK(std::abs(single.losses.back() - free.losses.back()) > 1e-6);
  // The norm of all gradients of the step, each logical element once.
  double squared = 0.0;
  for (const LogicalTensor& gradient : single.snapshots[0].gradients) {
    squared += norm(gradient.values) * norm(gradient.values);
  }
  CHECK(single.gradient_norms[0] == Approx(std::sqrt(squared)).epsilon(1e-13));
  for (const std::string& layout : layouts_of(c)) {
    INFO(name << " with " << layout);
    const RunResult run = train_twenty(c.model, clipped, layout);
    CHECK(first_difference(run, single, 1e-10) == "");
    REQUIRE(run.gradient_norms.size() == 20);
    for (std::size_t s = 0; s < 20; ++s) {
      CHECK(run.gradient_norms[s] == Approx(single.gradient_norms[s]).epsilon(1e-10));
    }
  }
}

namespace {

/// Distances of a float32 run from the float64 run.
struct Distances {
  double loss = 0.0;
  std::vector<double> gradients;   ///< per tensor, step 1
  std::vector<double> parameters;  ///< per tensor, after step 20
};

Distances distances(const RunResult& run, const RunResult& exact) {
  Distances result;
  for (std::size_t s = 0; s < exact.losses.size(); ++s) {
    result.loss = std::max(result.loss, std::abs(run.losses.at(s) - exact.losses[s]));
  }
  for (std::size_t t = 0; t < exact.snapshots[0].gradients.size(); ++t) {
    result.gradients.push_back(distance(run.snapshots.at(0).gradients.at(t).values,
                                        exact.snapshots[0].gradients[t].values));
    result.parameters.push_back(distance(run.snapshots.at(1).parameters.at(t).values,
                                         exact.snapshots[1].parameters[t].values));
  }
  return result;
}

/// Each distance the larger of the two.
void widen(Distances& to, const Distances& other) {
  to.loss = std::max(to.loss, other.loss);
  for (std::size_t t = 0; t < to.gradients.size(); ++t) {
    to.gradients[t] = std::max(to.gradients[t], other.gradients[t]);
    to.parameters[t] = std::max(to.parameters[t], other.parameters[t]);
  }
}

}  // namespace

TEST_CASE("in float32 no layout is much farther from float64 than the single process", "[hw]") {
  const std::string name = GENERATE(as<std::string>{}, "mlp", "pair", "seed transformer",
                                    "encoder-decoder", "gpt2", "llama untied", "llama tied");
  const LayoutCase c = layout_case(name);
  Workload rounded = c.workload;
  rounded.precision = DType::kFloat32;
  const RunResult exact = train_twenty(c.model, c.workload, "dp=1");
  // How far rounding takes one run is chance: the single process is asked with four orders of sums.
  Distances single = distances(train_twenty(c.model, rounded, "dp=1"), exact);
  for (const std::string order : {"microbatches=2", "microbatches=4", "microbatches=8"}) {
    widen(single, distances(train_twenty(c.model, rounded, "dp=1," + order), exact));
  }
  for (const std::string layout : {"dp=2", "tp=2", "pp=2,schedule=1f1b,microbatches=4", "mp=2",
                                   "dp=2,tp=2", "dp=2,tp=2,pp=2,schedule=1f1b,microbatches=2"}) {
    const Distances run = distances(train_twenty(c.model, rounded, layout), exact);
    INFO(name << " with " << layout);
    CHECK(run.loss <= 4 * single.loss);
    for (std::size_t t = 0; t < c.model.parameters.size(); ++t) {
      const std::string& parameter = c.model.parameters[t].name;
      INFO(parameter);
      if (is_zero_by_nature(parameter)) {
        // Rounding noise; Adam moves each element by at most about the learning rate per step.
        const double size = std::sqrt(static_cast<double>(c.model.parameters[t].elements()));
        CHECK(run.gradients[t] < 1e-7 * size);
        CHECK(run.parameters[t] < 20 * 1e-3 * size);
      } else {
        CHECK(run.gradients[t] <= 4 * single.gradients[t]);
        CHECK(run.parameters[t] <= 4 * single.parameters[t]);
      }
    }
  }
}

TEST_CASE("dropout masks do not depend on the layout", "[hw]") {
  const double p = 0.2;
  const auto [with, without] =
      GENERATE_COPY(table<Model, Model>({{small_seed_transformer(p), small_seed_transformer()},
                                         {small_encoder_decoder(p), small_encoder_decoder()},
                                         {small_gpt2(p), small_gpt2()},
                                         {small_llama(false, p), small_llama(false)}}));
  const Workload workload = reference_workload(8, 10, 12);
  const RunResult single = train_twenty(with, workload, "dp=1");
  CHECK(single.losses[0] != train_twenty(without, workload, "dp=1").losses[0]);
  for (const std::string layout :
       {"dp=2", "tp=2", "dp=1,microbatches=4", "pp=2,schedule=1f1b,microbatches=4", "mp=2",
        "dp=2,tp=2,pp=2,schedule=1f1b,microbatches=2"}) {
    INFO(with.name << " with " << layout);
    CHECK(first_difference(train_twenty(with, workload, layout), single, 1e-10) == "");
  }
}

// On demand (minutes, 10 GB): training_tests "[full]"
TEST_CASE("the full seed transformer trains the same numbers in every layout", "[.][full]") {
  const Model model = *make_preset("seed-transformer", 0.0);
  const Workload workload = reference_workload(32, 128);
  const RunResult single = train_steps(model, workload, "dp=1", 3);
  for (const std::string layout : {"dp=2", "tp=2", "pp=2,schedule=gpipe,microbatches=4",
                                   "pp=2,schedule=1f1b,microbatches=8", "mp=2"}) {
    INFO(layout);
    CHECK(first_difference(train_steps(model, workload, layout, 3), single, 1e-10) == "");
  }
}
