#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace parplan::hw {

using Clock = std::chrono::steady_clock;

/// What is known about one operation. Times are this rank's clock (World::align_clock relates
/// them).
struct CommTimes {
  Clock::time_point posted{};
  /// All ranks that take part are known to have posted theirs: before it this rank waits for a
  /// peer, after it bytes move (or wait to be polled). Empty until known. A small eager message
  /// (see Communicator::send) tells its sender nothing: there it equals `completed`.
  std::optional<Clock::time_point> peer_arrived;
  std::optional<Clock::time_point> completed;
  std::int64_t sent_bytes = 0;      ///< payload this rank sent, without headers
  std::int64_t received_bytes = 0;  ///< payload this rank received
  /// This rank's core at work for it: polls that moved or added bytes, in a wait or between
  /// computations. Polls in which several operations are outstanding are shared among those that
  /// moved.
  Clock::duration cpu{};
  /// All time inside Progress::poll and Pending::test, outside wait: what polling took from the
  /// computation, whether bytes moved or not. Shared equally among the outstanding operations.
  Clock::duration in_progress{};
  Clock::duration in_wait{};  ///< time inside Pending::wait: the exposed part
};

class Operation;
class Progress;

/// One started operation. The buffers given to it must stay until it is complete. Move-only,
/// belongs to the rank's thread, must not outlive its World.
///
/// Destroying it before completion abandons the operation: the transfer is withdrawn as far as the
/// transport can, and from then on every call on this rank throws HwError naming what was
/// abandoned, because its peers can no longer be in step. That is for unwinding after an exception
/// only.
class Pending {
 public:
  Pending() noexcept;  ///< complete, moved nothing
  explicit Pending(std::unique_ptr<Operation> operation);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending();

  /// Moves all outstanding operations of this rank on, then tells whether this one is complete.
  /// Throws HwError when it failed.
  [[nodiscard]] bool test();

  /// Whether it is known to be complete, without moving anything.
  [[nodiscard]] bool done() const;

  /// Returns once complete. Bounded by the world's WaitPolicy: throws HwError naming this rank, the
  /// group, the operation, how long it waited, for whom and for which step.
  void wait();
  /// The same, with a deadline of its own instead of WaitPolicy::timeout.
  void wait(Clock::time_point deadline);

  [[nodiscard]] const CommTimes& times() const;

 private:
  void abandon() noexcept;

  std::unique_ptr<Operation> operation_;
};

}  // namespace parplan::hw
