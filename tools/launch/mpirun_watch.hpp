#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

namespace parplan::tools {

/// Tells when an mpirun has locked up. One that works ends within two seconds of its ranks, of
/// which it ends the others when one has failed. One that could not set up what ranks find each
/// other by (a full disk, a limit of file sizes) may lock up instead, and then heeds no signal
/// either.
class MpirunWatch {
 public:
  explicit MpirunWatch(pid_t mpirun) : mpirun_(mpirun) {}

  /// Why mpirun cannot be waited for any longer: it started no rank within a minute, or for ten
  /// seconds it has had nothing to wait for, or not taken note that a rank has ended. To be called
  /// about every half second, since what it sees is remembered; time in which it is not called, as
  /// when this process is stopped, counts as one second.
  std::optional<std::string> trouble();

 private:
  using Clock = std::chrono::steady_clock;

  pid_t mpirun_;
  bool started_ = false;  ///< a rank
  Clock::time_point last_look_ = Clock::now();
  Clock::duration waited_{};  ///< since what it should follow was seen first
};

}  // namespace parplan::tools
