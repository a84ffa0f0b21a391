#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "hw/collectives/buffer_pool.hpp"
#include "hw/communicator.hpp"
#include "hw/pending.hpp"
#include "hw/progress.hpp"
#include "hw/transport.hpp"

namespace parplan::hw {

/// What all communicators of one rank share. Owned by the World.
struct CommContext {
  Transport& transport;
  Progress& progress;
  BufferPool& buffers;
  std::size_t segment_bytes;
};

/// A group as one of its ranks sees it. Shared by the communicator and its operations, because an
/// operation that is abandoned while an exception unwinds may outlive its communicator.
struct Group {
  Group(CommContext comm_context, std::string group_name, std::vector<int> ranks, int own_rank,
        int transport_channel, bool close_at_end);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();

  [[nodiscard]] int size() const { return static_cast<int>(world_ranks.size()); }
  [[nodiscard]] Request send(int peer, int tag, std::span<const std::byte> data) const;
  [[nodiscard]] Request receive(int peer, int tag, std::span<std::byte> data) const;

  CommContext context;
  std::string name;
  std::vector<int> world_ranks;
  int rank;
  int channel;
  /// Ring collectives that have begun to move data. Of the rank's thread, like everything here.
  mutable int rings_under_way = 0;

 private:
  bool owns_channel_;
};

/// Whom an operation waits for.
struct Blocker {
  int world_rank = 0;
  std::string what;    ///< "receive of segment 2 of 9 outstanding"
  bool direct = true;  ///< false: that rank may itself be waiting for the one to blame
};

/// One outstanding operation: a state machine that never waits. Derived classes post their first
/// requests in the constructor or in the first advance().
class Operation {
 public:
  Operation(std::shared_ptr<const Group> group, const CommCall& call, std::uint32_t sequence);
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// Moves on as far as it goes and reports whether anything moved. Failures are kept, see
  /// failed().
  bool step(Clock::time_point now) noexcept;

  [[nodiscard]] bool done() const { return times_.completed.has_value(); }
  [[nodiscard]] bool failed() const { return error_ != nullptr; }
  void rethrow_if_failed() const;

  /// "rank 3 (group dp, all_reduce #17 of 4.2 MB)"
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] virtual Blocker blocker() const = 0;

  [[nodiscard]] CommTimes& times() { return times_; }
  [[nodiscard]] const CommTimes& times() const { return times_; }
  [[nodiscard]] const Group& group() const { return *group_; }
  [[nodiscard]] Clock::time_point last_moved() const { return last_moved_; }
  [[nodiscard]] bool moved_in_last_step() const { return moved_; }

 protected:
  /// Returns whether anything moved. Calls arrived() and complete() when due.
  virtual bool advance() = 0;

  void arrived() { arrived_now_ = true; }
  void complete() { complete_now_ = true; }
  [[nodiscard]] const CommCall& call() const { return call_; }
  [[nodiscard]] std::uint32_t sequence() const { return sequence_; }
  [[nodiscard]] int world_rank(int group_rank) const;

 private:
  std::shared_ptr<const Group> group_;
  CommCall call_;
  std::uint32_t sequence_;
  CommTimes times_;
  Clock::time_point last_moved_{};
  std::exception_ptr error_;
  bool arrived_now_ = false;
  bool complete_now_ = false;
  bool moved_ = false;
};

/// Takes the first step and hands it over to the rank's Progress unless that completed it.
[[nodiscard]] Pending launch(std::unique_ptr<Operation> operation);

/// "4.2 MB", "17 B": powers of 1000.
[[nodiscard]] std::string bytes_in_words(std::size_t bytes);

}  // namespace parplan::hw
