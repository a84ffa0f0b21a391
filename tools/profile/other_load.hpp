#pragma once

#include <chrono>
#include <set>
#include <string>

namespace parplan::tools {

/// What the cores that this process may use do for others while something is measured: work of
/// processes that are not ours, and time that the hypervisor gives to other virtual machines. Both
/// lengthen what is measured.
class OtherLoad {
 public:
  OtherLoad();

  /// Mean number of cores that others have had since the object was made, from the counters of
  /// proc(5) less the processor time of this process and of the children that it has waited for.
  /// 0 where the system has no such counters.
  [[nodiscard]] double cores() const;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_;
  double all_s_ = 0.0;
  double own_s_ = 0.0;
};

/// Seconds of processor time of the given cores in the text of /proc/stat, with what the hypervisor
/// took and without idle time. `ticks_per_s`: sysconf(_SC_CLK_TCK). 0 for other texts.
[[nodiscard]] double busy_seconds(const std::string& stat_text, double ticks_per_s,
                                  const std::set<int>& cores);

}  // namespace parplan::tools
