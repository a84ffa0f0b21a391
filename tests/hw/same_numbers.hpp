#pragma once

#include <string>
#include <vector>

#include "sim/core/model.hpp"
#include "sim/core/workload.hpp"

// What the tests share that train one model in many layouts.

namespace parplan::hw {

struct LayoutCase {
  std::string name;
  Model model;
  Workload workload;
  int layers = 0;
  int most_tensor_ranks = 4;
};
/// "mlp", "pair", "seed transformer", "encoder-decoder", "gpt2", "llama untied", "llama tied".
LayoutCase layout_case(const std::string& name);

/// Every kind of layout that fits the case.
std::vector<std::string> layouts_of(const LayoutCase& c);

}  // namespace parplan::hw
