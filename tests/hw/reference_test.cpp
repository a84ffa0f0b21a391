#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch2_compat.hpp"
#include "tests/hw/small_models.hpp"
#include "tests/hw/training.hpp"

// The single process against PyTorch's losses, gradients and updated parameters: see
// tests/reference/README.md.

using namespace parplan;
using namespace parplan::hw;

namespace {

nlohmann::json load_fixture(const std::string& name) {
  std::ifstream file(std::string(PARPLAN_SOURCE_DIR) + "/tests/reference/fixtures/" + name +
                     ".json");
  REQUIRE(file);
  return nlohmann::json::parse(file);
}

Model model_of(const std::string& name) {
  if (name == "seed-mlp") return small_mlp();
  if (name == "seed-transformer") return small_seed_transformer();
  if (name == "seed-encoder-decoder") return small_encoder_decoder();
  if (name.starts_with("gpt2")) return small_gpt2();
  if (name.starts_with("llama")) return small_llama(name == "llama-tied");
  return small_linear_pair();
}

/// Batch, lengths and optimizer as the fixture states them.
Workload workload_of(const nlohmann::json& fixture) {
  std::int64_t sequence = 1;
  std::int64_t source = 1;
  for (const auto& stream : fixture.at("data")) {
    const auto& shape = stream.at("shape");
    if (stream.at("kind") != "integer" || shape.size() < 2) continue;
    (stream.at("key") == "source" ? source : sequence) = shape.at(1);
  }
  const auto& training = fixture.at("training");
  Workload w = reference_workload(training.at("batch"), sequence, source);
  w.seed = fixture.at("seed");
  w.optimizer.kind =
      training.at("optimizer") == "adamw" ? OptimizerKind::kAdamW : OptimizerKind::kAdam;
  w.optimizer.learning_rate = training.at("learning_rate");
  w.optimizer.beta1 = training.at("beta1");
  w.optimizer.beta2 = training.at("beta2");
  w.optimizer.epsilon = training.at("epsilon");
  w.optimizer.weight_decay = training.at("weight_decay");
  if (training.contains("max_gradient_norm")) {
    w.optimizer.max_gradient_norm = training.at("max_gradient_norm").get<double>();
  }
  return w;
}

void check_digest(const LogicalTensor& tensor, const nlohmann::json& digest, double tolerance) {
  const double l2 = digest.at("l2");
  double sum = 0.0;
  for (const double value : tensor.values) sum += value;
  const double spread = l2 * std::sqrt(static_cast<double>(tensor.values.size()));
  CHECK(norm(tensor.values) == Approx(l2).epsilon(tolerance));
  CHECK(std::abs(sum - digest.at("sum").get<double>()) < tolerance * spread);
  for (const auto& element : digest.at("elements")) {
    const double value = tensor.values.at(element.at(0).get<std::size_t>());
    CHECK(std::abs(value - element.at(1).get<double>()) < tolerance * l2);
  }
}

void check_digests(const std::string& what, const std::vector<LogicalTensor>& tensors,
                   const nlohmann::json& digests, const nlohmann::json& zero, double tolerance) {
  REQUIRE(tensors.size() == digests.size());
  for (const LogicalTensor& tensor : tensors) {
    INFO(what << " of " << tensor.name);
    if (std::find(zero.begin(), zero.end(), tensor.name) != zero.end()) {
      CHECK(is_zero_by_nature(tensor.name));
      CHECK(norm(tensor.values) < 1e-13);
    } else {
      check_digest(tensor, digests.at(tensor.name), tolerance);
    }
  }
}

}  // namespace

TEST_CASE("the single process trains what PyTorch trains", "[hw]") {
  const std::string name =
      GENERATE(as<std::string>{}, "seed-mlp", "seed-transformer", "seed-tensor-parallel",
               "seed-tensor-parallel-adamw", "seed-encoder-decoder", "gpt2", "gpt2-clipped",
               "llama-untied", "llama-tied");
  INFO(name);
  const nlohmann::json fixture = load_fixture(name);
  const nlohmann::json& expected = fixture.at("float64");
  const RunResult run = train_twenty(model_of(name), workload_of(fixture), "dp=1");
  REQUIRE(run.losses.size() == expected.at("losses").size());
  for (std::size_t s = 0; s < run.losses.size(); ++s) {
    CHECK(run.losses[s] == Approx(expected.at("losses").at(s).get<double>()).epsilon(1e-10));
  }
  const nlohmann::json none = nlohmann::json::array();
  const nlohmann::json norms = expected.value("gradient_norms", none);
  REQUIRE(run.gradient_norms.size() == norms.size());
  for (std::size_t s = 0; s < norms.size(); ++s) {
    CHECK(run.gradient_norms[s] == Approx(norms[s].get<double>()).epsilon(1e-10));
  }
  check_digests("gradient in step 1", run.snapshots[0].gradients, expected.at("gradients_step_1"),
                fixture.at("zero_gradients"), 1e-9);
  check_digests("value after step 1", run.snapshots[0].parameters, expected.at("parameters_step_1"),
                none, 1e-10);
  check_digests("value after step 20", run.snapshots[1].parameters,
                expected.at("parameters_step_20"), none, 1e-10);
}
