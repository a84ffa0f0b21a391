#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "hw/pending.hpp"

namespace parplan::hw {

class Transport;

/// How long a rank waits before it gives up with an HwError that names what is missing.
struct WaitPolicy {
  /// Longest time in one wait without any byte of that operation moving. Time in which this process
  /// itself was stopped does not count.
  std::chrono::duration<double> timeout{60.0};
  /// A peer on the same host that is seen stopped (SIGSTOP, debugger) or gone for this long ends
  /// the wait at once, without using up `timeout`.
  std::chrono::duration<double> dead_peer_grace{3.0};
};

/// The outstanding operations of one rank, and the one place where its waiting happens. Used by the
/// rank's thread only.
class Progress {
 public:
  /// `yield_at_once`: give the core up at every idle poll, for more ranks than cores.
  Progress(Transport& transport, WaitPolicy policy, bool yield_at_once);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Moves every outstanding operation on as far as it goes without waiting. Costs a load and a
  /// branch when nothing is outstanding, so call it freely: between operations, every few hundred
  /// microseconds inside long ones. A failure found here is thrown by the next call on this rank
  /// that may throw (Pending::test, Pending::wait, starting an operation, check).
  void poll() noexcept {
    if (!outstanding_.empty()) {
      poll_outstanding();
    }
  }

  /// Throws HwError when an operation of this rank failed or was abandoned, or another rank failed.
  void check() const;

  [[nodiscard]] std::size_t outstanding() const { return outstanding_.size(); }
  [[nodiscard]] const WaitPolicy& policy() const { return policy_; }

  /// For Operation and Pending.
  void add(Operation& operation);
  void remove(const Operation& operation) noexcept;
  void wait(Operation& operation, std::optional<Clock::time_point> deadline);
  /// From now on check() throws `reason`; the first one stays.
  void break_down(std::string reason) noexcept;

 private:
  struct Watch;

  void poll_outstanding() noexcept;
  bool advance_all() noexcept;
  void share_time(Clock::duration elapsed, bool moved) noexcept;
  void drop_finished() noexcept;
  void watch_peer(const Operation& operation, Watch& watch, Clock::time_point now,
                  Clock::time_point idle_since);
  void check_deadline(const Operation& operation, Clock::time_point begin, Clock::duration stopped,
                      std::optional<Clock::time_point> deadline, Clock::time_point now);
  [[noreturn]] void give_up(const Operation& operation, Clock::duration waited,
                            const std::string& why);

  Transport& transport_;
  WaitPolicy policy_;
  bool yield_at_once_;
  std::vector<Operation*> outstanding_;
  std::string broken_;  ///< why this rank can no longer communicate; empty while it can
};

}  // namespace parplan::hw
