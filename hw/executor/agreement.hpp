#pragma once

#include "hw/executor/run_plan.hpp"
#include "hw/world.hpp"
#include "sim/core/plan.hpp"
#include "sim/core/program.hpp"

namespace parplan::hw {

/// Collective, before anything else is. InputError on every rank, naming the ranks and both values,
/// when the world's size is not the layout's or two ranks differ in what they are about to run:
/// plan digest, model, layout, workload, the lowered program, steps.
void check_agreement(World& world, const Plan& plan, const Program& program,
                     const RunOptions& options);

}  // namespace parplan::hw
