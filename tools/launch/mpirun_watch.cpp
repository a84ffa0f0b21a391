#include "tools/launch/mpirun_watch.hpp"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/launch/processes.hpp"

namespace parplan::tools {
namespace {

constexpr std::chrono::seconds kToEnd{10};
constexpr std::chrono::seconds kToStart{60};
constexpr std::string_view kRemedy =
    "; it was ended. What it says is above; it needs room for its files in TMPDIR (/tmp) and "
    "/dev/shm, and no low limit of file sizes or open files (ulimit -f, ulimit -n)";

}  // namespace

std::optional<std::string> MpirunWatch::trouble() {
  const std::vector<Process> ranks = ranks_below(mpirun_);
  const bool one_has_ended =
      std::any_of(ranks.begin(), ranks.end(), std::mem_fn(&Process::has_ended));
  const bool started = started_ || !ranks.empty();
  const Clock::time_point now = Clock::now();
  const Clock::duration since_last_look =
      std::min<Clock::duration>(now - std::exchange(last_look_, now), std::chrono::seconds{1});
  const bool overdue = (ranks.empty() || one_has_ended) && started == started_;
  waited_ = overdue ? waited_ + since_last_look : Clock::duration{};
  started_ = started;
  const std::chrono::seconds limit = started_ ? kToEnd : kToStart;
  if (waited_ < limit) return std::nullopt;
  return (started_ ? "mpirun did not end although a rank had ended "
                   : "mpirun started no rank within ") +
         std::to_string(limit.count()) + (started_ ? " s ago" : " s") + std::string(kRemedy);
}

}  // namespace parplan::tools
