#pragma once

#include <vector>

#include "sim/core/class_lowering.hpp"
#include "sim/core/plan.hpp"

namespace parplan {

/// Turns the bodies of all classes into one training step: flat parameter order and buckets, then
/// the instruction list of every class (microbatches by schedule, transfers, reductions,
/// optimizer).
///
/// Rules that make a step free of deadlock and its memory a function of the list alone:
/// - the receives of a piece of work are posted before the piece that precedes it runs;
/// - a send is complete before the second piece of work after it starts, or before an operation
///   would free what it sends;
/// - collectives of a group are issued in one order by all its ranks.
void lower_step(const LoweringContext& context, const Stack& stack,
                std::vector<LoweredClass>& classes);

}  // namespace parplan
