#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "sim/core/trace.hpp"

namespace parplan::traces {

/// By step of the run, the time of its slowest rank.
using StepTimes = std::map<std::int32_t, Seconds>;

/// Of all steps that a trace holds.
StepTimes step_times(const Trace& trace);

/// Step 0, the first of a run, touches its memory for the first time and says nothing about the
/// others: it does not count where at least two others do.
StepTimes without_warm_up(StepTimes times);

Seconds median_step(const StepTimes& times);

/// The step time of a trace: the median over the steps that count.
Seconds step_time_of(const Trace& trace);

/// Of the steps that count those of the middle half, by their time, at least one: steps as they
/// usually go. Means over them add up to a usual step, since what disturbs a step for once makes it
/// one of the slow ones.
std::set<std::int32_t> typical_steps(const Trace& trace);

}  // namespace parplan::traces
