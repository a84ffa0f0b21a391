#include "hw/executor/stop_vote.hpp"

#include <algorithm>
#include <array>

#include "hw/executor/run_plan.hpp"

namespace parplan::hw {

bool StopVote::stop_after(std::int64_t step, Seconds step_time) {
  if (step < next_) return false;
  const bool wants = interrupt_ != nullptr && interrupt_->load(std::memory_order_relaxed);
  std::array<double, 2> vote{wants ? 1.0 : 0.0, step_time.value};
  world_.all().all_reduce_sum(vote, static_cast<std::uint64_t>(step)).wait();
  const double mean = std::max(1e-9, vote[1] / world_.size());
  constexpr double kLongest = 1e6;
  next_ =
      step + std::max<std::int64_t>(
                 1, static_cast<std::int64_t>(std::min(kLongest, kInterruptLatency.value / mean)));
  return vote[0] > 0.0;
}

}  // namespace parplan::hw
