#pragma once

#include "sim/core/model.hpp"
#include "sim/core/workload.hpp"

namespace parplan {

/// Throws InputError when training would hold more than kMostBytes on all ranks together
/// (parameters with gradients and two moments, a step's activations with their gradients, resident
/// input): below it no size of a part, whatever the layout, leaves 63 bits.
void check_sizes(const Model& model, const Workload& workload);

}  // namespace parplan
