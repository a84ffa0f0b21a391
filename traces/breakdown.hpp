#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/trace.hpp"

namespace parplan::traces {

/// Where one rank's step went, from the events alone; predicted and measured traces are taken apart
/// by the same rule. The parts sum to `step`.
struct RankBreakdown {
  std::int32_t rank = 0;
  Seconds step;
  /// Operations and optimizer, with the core's work for reductions that go on beside them.
  Seconds compute;
  /// Tensor collectives while they move, gaps in which an awaited transfer moves, and the core's
  /// work for transfers in other gaps.
  Seconds communication;
  Seconds waiting;   ///< gaps and collectives in which a peer has not arrived yet (bubbles)
  Seconds overhead;  ///< all other gaps between events of the compute stream
};

/// Of each rank the mean over the typical steps, all ranks' parts scaled by the same few percent
/// such that the slowest rank's steps are, in the mean, the step time of the trace, a median.
std::vector<RankBreakdown> break_down(const Trace& trace);

/// An operation for which all ranks of a tensor-parallel group stop and exchange data.
bool is_tensor_collective(const TraceEvent& event);

/// An event that spans the operations of an instruction, which have events of their own: it is
/// there to be looked at and must not be added to them.
bool spans_operations(const TraceEvent& event);

}  // namespace parplan::traces
