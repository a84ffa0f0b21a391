#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "sim/core/error.hpp"
#include "sim/core/op_work.hpp"
#include "sim/core/plan.hpp"
#include "sim/core/positions.hpp"

namespace parplan {
namespace {

/// Multiply-add flop of one sample, forward and backward, of the ops that dominate.
double flop_per_sample(const Model& model, const Op& op, const Workload& workload) {
  const auto rows = static_cast<double>(positions_of(model.value(op.output), workload));
  if (const auto* linear = std::get_if<LinearOp>(&op.body)) {
    return 6.0 * rows * static_cast<double>(linear->in) * static_cast<double>(linear->out);
  }
  if (const auto* attention = std::get_if<AttentionOp>(&op.body)) {
    const auto keys = static_cast<double>(positions_of(model.value(op.inputs[1]), workload));
    const auto width = static_cast<double>(attention->heads * attention->head_dim);
    return (attention->causal ? 7.0 : 14.0) * rows * keys * width;
  }
  // Element-wise ops are bound by memory; about 20 flop of a matrix product per element.
  return 20.0 * rows * static_cast<double>(model.value(op.output).features);
}

std::vector<double> default_costs(const Model& model, const Workload& workload) {
  std::vector<double> costs;
  for (const Layer& layer : model.layers) {
    double cost = 0.0;
    for (std::uint32_t i = 0; i < layer.count; ++i) {
      cost += flop_per_sample(model, model.ops[layer.first.index + i], workload);
    }
    costs.push_back(cost);
  }
  return costs;
}

/// Memory for training a layer: parameters, gradients and two moments; what mp is there to divide.
std::vector<double> parameter_costs(const Model& model) {
  std::vector<double> costs;
  for (const Layer& layer : model.layers) {
    double cost = 1.0;  // so that layers without parameters spread, too
    for (std::uint32_t i = 0; i < layer.count; ++i) {
      for (const ParameterId p : model.ops[layer.first.index + i].parameters) {
        cost += static_cast<double>(model.parameter(p).elements());
      }
    }
    costs.push_back(cost);
  }
  return costs;
}

/// Splits costs into `parts` non-empty contiguous runs with the smallest largest sum (dynamic
/// programme over prefixes); ties go to the split whose later parts are smaller.
std::vector<int> partition(const std::vector<double>& costs, int parts) {
  const int n = static_cast<int>(costs.size());
  std::vector<double> prefix(n + 1, 0.0);
  for (int i = 0; i < n; ++i) prefix[i + 1] = prefix[i] + costs[i];
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(parts + 1, std::vector<double>(n + 1, kInfinite));
  std::vector<std::vector<int>> cut(parts + 1, std::vector<int>(n + 1, 0));
  best[0][0] = 0.0;
  for (int k = 1; k <= parts; ++k) {
    for (int end = k; end <= n - (parts - k); ++end) {
      for (int begin = k - 1; begin < end; ++begin) {
        const double worst = std::max(best[k - 1][begin], prefix[end] - prefix[begin]);
        if (worst < best[k][end]) {
          best[k][end] = worst;
          cut[k][end] = begin;
        }
      }
    }
  }
  std::vector<int> counts(parts);
  int end = n;
  for (int k = parts; k >= 1; --k) {
    counts[k - 1] = end - cut[k][end];
    end = cut[k][end];
  }
  return counts;
}

}  // namespace

Layout place_layers(const Model& model, const Workload& workload, Layout layout,
                    const std::vector<double>& layer_cost) {
  const int layers = static_cast<int>(model.layers.size());
  if (layout.positions() > layers) return layout;  // check_layout names this
  if (layout.pp > 1 && layout.stage_layers.empty()) {
    layout.stage_layers =
        partition(layer_cost.empty() ? default_costs(model, workload) : layer_cost, layout.pp);
  }
  if (layout.mp > 1 && layout.layer_devices.empty()) {
    const std::vector<int> counts = partition(parameter_costs(model), layout.mp);
    for (int device = 0; device < layout.mp; ++device) {
      layout.layer_devices.insert(layout.layer_devices.end(), counts[device], device);
    }
  }
  return layout;
}

}  // namespace parplan
