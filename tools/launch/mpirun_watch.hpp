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

  /// Why mpirun cannot be waited for any longer: it started nothing within a minute, or for ten
  /// seconds it has had nothing to wait for, or not taken note that a rank has ended. To be called
  /// now and then, since what it sees is remembered.
  std::optional<std::string> trouble();

 private:
  using Clock = std::chrono::steady_clock;

  pid_t mpirun_;
  bool started_ = false;                    ///< a rank
  std::optional<Clock::time_point> since_;  ///< when what it should follow was seen first
};

}  // namespace parplan::tools
