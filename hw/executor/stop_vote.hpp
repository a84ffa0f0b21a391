#pragma once

#include <atomic>
#include <cstdint>

#include "hw/world.hpp"
#include "sim/core/units.hpp"

namespace parplan::hw {

/// Lets any rank stop the run so that all ranks stop after the same step. The ranks vote with a
/// 16-byte all-reduce, after the first step and then as often as their mean step time fits into
/// kInterruptLatency, so that short steps do not pay for it.
class StopVote {
 public:
  StopVote(World& world, const std::atomic<bool>* interrupt)
      : world_(world), interrupt_(interrupt) {}

  /// Collective, after every step (counted from 1). Whether to stop now, the same on all ranks.
  bool stop_after(std::int64_t step, Seconds step_time);

 private:
  World& world_;
  const std::atomic<bool>* interrupt_;
  std::int64_t next_ = 1;  ///< step after which the ranks vote next
};

}  // namespace parplan::hw
