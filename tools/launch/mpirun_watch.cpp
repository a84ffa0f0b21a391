#include "tools/launch/mpirun_watch.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "tools/launch/child_processes.hpp"

namespace parplan::tools {
namespace {

constexpr std::chrono::seconds kToEnd{10};
constexpr std::chrono::seconds kToStart{60};
constexpr std::string_view kRemedy =
    "; it was ended. What it says is above; it needs room for its files in TMPDIR (/tmp) and "
    "/dev/shm, and no low limit of file sizes (ulimit -f)";

}  // namespace

std::optional<std::string> MpirunWatch::trouble() {
  const std::vector<ChildProcess> ranks = children_of(mpirun_);
  const bool heeds_none =
      std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.has_ended(); });
  const bool started = started_ || !ranks.empty();
  const bool waits = ranks.empty() || heeds_none;
  if (!waits || started != started_ || state_of(mpirun_) == 'T') since_.reset();
  started_ = started;
  if (!waits) return std::nullopt;
  const Clock::time_point now = Clock::now();
  if (!since_) since_ = now;
  const std::chrono::seconds limit = started_ ? kToEnd : kToStart;
  if (now - *since_ < limit) return std::nullopt;
  return (started_ ? "mpirun did not end although a rank had ended "
                   : "mpirun started no rank within ") +
         std::to_string(limit.count()) + (started_ ? " s ago" : " s") + std::string(kRemedy);
}

}  // namespace parplan::tools
