#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/core/cluster.hpp"
#include "sim/core/layout.hpp"
#include "sim/core/model.hpp"
#include "sim/core/program.hpp"
#include "sim/core/workload.hpp"

namespace parplan {

/// Properties of the software that runs the plan, as far as lowering needs them.
struct Stack {
  std::string target = "parplan";          ///< who can execute it
  Bytes bucket_bytes{4 * 1024 * 1024};     ///< gradients are reduced in buckets of about this size
  bool overlap_gradient_reduction = true;  ///< reduce buckets beside backward, or after it

  bool operator==(const Stack&) const = default;
};

/// What the planner expected when it wrote the plan; informative. A plan that was edited since has
/// none.
struct Expectation {
  Seconds step_time;
  Bytes peak_memory;  ///< of the fullest device
  bool operator==(const Expectation&) const = default;
};

/// Everything needed to simulate or execute: complete and self-contained.
struct Plan {
  Model model;
  Workload workload;
  Layout layout;  ///< with placement (stage_layers or layer_devices) filled in
  Stack stack;
  std::string cluster_name;
  std::string cluster_digest;  ///< of the machine file planned for
  std::optional<Expectation> expectation;

  bool operator==(const Plan&) const = default;
};

/// Lowers a plan into the program of one training step. Throws InputError with the reasons when the
/// layout breaks a rule (`check_layout`).
Program lower(const Model& model, const Workload& workload, const Layout& layout,
              const Stack& stack);
inline Program lower(const Plan& plan) {
  return lower(plan.model, plan.workload, plan.layout, plan.stack);
}

/// Fills in stage_layers or layer_devices when the layout leaves them open: layers are split into
/// contiguous stages so that the largest sum of `layer_cost` is smallest. `layer_cost` has one
/// entry per layer; empty means forward + backward flop.
Layout place_layers(const Model& model, const Workload& workload, Layout layout,
                    const std::vector<double>& layer_cost = {});

}  // namespace parplan
