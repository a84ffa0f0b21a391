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
};

/// Runs that cover every operation of the executor over its grid of sizes: one-layer models that
/// hold all kinds of operation, with and without dropout, causal and not, for 64 to 4,096 rows of
/// 64 to 1,024 features and vocabularies up to 32,768, and perceptrons of a few rows. Two
/// microbatches where outputs are also added to. `replicas` ranks run the same local shapes side by
/// side (data parallel), so that what they cost each other is measured, too.
std::vector<MicroPlan> micro_plans(DType precision, int replicas);

}  // namespace parplan::tools
