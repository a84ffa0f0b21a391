#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "sim/core/trace.hpp"

namespace parplan::traces {

/// Where one rank's step went, from the events alone; predicted and measured traces are taken apart
/// by the same rule. The parts sum to `step`.
struct RankBreakdown {
  std::int32_t rank = 0;
  Seconds step;
  Seconds compute;  ///< operations and optimizer
  Seconds
      communication;  ///< tensor collectives while they move, and gaps in which a transfer moves
  Seconds waiting;    ///< gaps and collectives in which a peer has not arrived yet (bubbles)
  Seconds overhead;   ///< all other gaps between events of the compute stream
};

/// Of each rank the step nearest to the median step time, so that its parts sum to it.
std::vector<RankBreakdown> break_down(const Trace& trace);

/// The steps of the middle half, by the time of the slowest rank, at least one: steps as they
/// usually go. Means over them add up to a usual step, since what disturbs a step for once makes it
/// one of the slow ones.
std::set<std::int32_t> typical_steps(const Trace& trace);

/// The step time of a trace: per step the slowest rank, then the median over steps.
Seconds step_time_of(const Trace& trace);

/// An operation for which all ranks of a tensor-parallel group stop and exchange data.
bool is_tensor_collective(const TraceEvent& event);

/// An event that spans the operations of an instruction, which have events of their own: it is
/// there to be looked at and must not be added to them.
bool spans_operations(const TraceEvent& event);

}  // namespace parplan::traces
