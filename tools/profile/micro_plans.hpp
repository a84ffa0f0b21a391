#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/plan.hpp"

namespace parplan::tools {

/// A small training run whose operations are points of the profile's grid.
struct MicroPlan {
  std::string name;
  Plan plan;
  std::int64_t steps = 4;  ///< traced; one more warms up

  /// What a step costs, more or less: multiply-adds of forward.
  double work() const;
};

/// Runs of one rank that cover every operation of the executor over its grid of sizes: one-layer
/// models that hold all kinds of operation, with and without dropout, causal and not, for 64 to
/// 4,096 rows of 64 to 1,024 features and vocabularies up to 32,768, and perceptrons of a few rows.
/// Two microbatches where outputs are also added to.
std::vector<MicroPlan> operation_plans(DType precision);

/// Runs of one rank that clip their gradients, of 42 thousand to 17 million elements. Only what the
/// norm takes is new in them, and what follows it finds gradients in the caches.
std::vector<MicroPlan> clipping_plans(DType precision);

/// Runs of `replicas` data-parallel ranks that reduce between 17 kB and 8 MB of gradients after
/// backward: what an all-reduce takes inside a training step. The smallest model first.
std::vector<MicroPlan> reduction_plans(DType precision, int replicas);

}  // namespace parplan::tools
