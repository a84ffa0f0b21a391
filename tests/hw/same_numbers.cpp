#include "tests/hw/same_numbers.hpp"

#include "tests/hw/small_models.hpp"

namespace parplan::hw {
namespace {

/// Everything but the first layer on the last of `positions` stages or devices.
std::string uneven_stages(int layers) { return "stages=1+" + std::to_string(layers - 1); }

/// mp placement with every second layer on the other device.
std::string alternating_devices(int layers) {
  std::string text = "devices=0";
  for (int l = 1; l < layers; ++l) text += l % 2 == 0 ? "+0" : "+1";
  return text;
}

}  // namespace

LayoutCase layout_case(const std::string& name) {
  if (name == "mlp") return {name, small_mlp(), reference_workload(64, 1), 2};
  if (name == "pair") return {name, small_linear_pair(), reference_workload(8, 1), 2};
  if (name == "seed transformer") {
    return {name, small_seed_transformer(), reference_workload(8, 16), 5};
  }
  if (name == "encoder-decoder") {
    return {name, small_encoder_decoder(), reference_workload(8, 10, 12), 7};
  }
  if (name == "gpt2") return {name, small_gpt2(), reference_workload(8, 16), 6};
  // Two key/value heads: tp is at most two.
  if (name == "llama untied") return {name, small_llama(false), reference_workload(8, 16), 5, 2};
  return {name, small_llama(true), reference_workload(8, 16), 5, 2};
}

std::vector<std::string> layouts_of(const LayoutCase& c) {
  std::vector<std::string> all{
      "dp=2",
      "dp=4",
      "dp=1,microbatches=4",
      "dp=2,microbatches=2",
      "tp=2",
      "tp=2,microbatches=2",
      "pp=2,schedule=gpipe,microbatches=1",
      "pp=2,schedule=gpipe,microbatches=4",
      "pp=2,schedule=gpipe,microbatches=8",
      "pp=2,schedule=1f1b,microbatches=1",
      "pp=2,schedule=1f1b,microbatches=2",
      "pp=2,schedule=1f1b,microbatches=8",
      "pp=2,schedule=1f1b,microbatches=4," + uneven_stages(c.layers),
      "mp=2",
      "mp=2," + alternating_devices(c.layers),
      "dp=2,tp=2",
      "dp=2,pp=2,schedule=gpipe,microbatches=2",
      "dp=2,pp=2,schedule=1f1b,microbatches=4",
      "tp=2,pp=2,schedule=1f1b,microbatches=4",
      "dp=2,mp=2",
      "tp=2,mp=2",
      "dp=2,tp=2,pp=2,schedule=1f1b,microbatches=2",
      "dp=2,tp=2,pp=2,schedule=gpipe,microbatches=4",
  };
  if (c.most_tensor_ranks >= 4) all.push_back("tp=4");
  if (c.layers > 3) {
    all.push_back("pp=3,schedule=1f1b,microbatches=4");
    all.push_back("pp=4,schedule=gpipe,microbatches=8");
    all.push_back("mp=3");
  }
  return all;
}

}  // namespace parplan::hw
