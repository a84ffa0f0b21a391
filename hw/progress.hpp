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

/// The outstanding operations of one rank, and the one place where its waiting happens.
class Progress {
 public:
  Progress(Transport& transport, WaitPolicy policy, bool yield_at_once);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Moves every outstanding operation on as far as it goes without waiting. Costs a load and a
  /// branch when nothing is outstanding, so call it freely (between operations, every few hundred
  /// microseconds inside long ones). Throws HwError when an operation fails or another rank has
  /// failed.
  void poll() {
    if (!outstanding_.empty()) {
      poll_outstanding();
    }
  }

  [[nodiscard]] std::size_t outstanding() const { return outstanding_.size(); }
  [[nodiscard]] const WaitPolicy& policy() const { return policy_; }

 private:
  friend class Pending;
  friend class Operation;

  void add(Operation& operation);
  void remove(Operation& operation) noexcept;
  void poll_outstanding();
  bool advance_all();
  void wait(Operation& operation, std::optional<Clock::time_point> deadline);
  void abandon(const Operation& operation) noexcept;
  void check_usable() const;

  Transport& transport_;
  WaitPolicy policy_;
  bool yield_at_once_;
  std::vector<Operation*> outstanding_;
  std::string broken_;  ///< why this rank can no longer communicate
};

}  // namespace parplan::hw
