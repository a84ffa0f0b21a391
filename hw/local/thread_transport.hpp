#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "hw/transport.hpp"

namespace parplan::hw {

/// What the ranks of one process share. Thread-safe. Lives longer than its transports.
class ThreadHub {
 public:
  explicit ThreadHub(int ranks);
  ThreadHub(const ThreadHub&) = delete;
  ThreadHub& operator=(const ThreadHub&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(mailboxes_.size()); }

  /// The first failure stays.
  void fail(int rank, std::string_view reason);
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// "rank 2: reason"; empty while nobody failed.
  [[nodiscard]] std::string failure() const;
  [[nodiscard]] std::optional<int> failed_rank() const;

 private:
  friend class ThreadTransport;

  /// A request that another thread may complete. Guarded by the receiver's mailbox except `done`.
  struct Slot {
    std::atomic<bool> done{false};
    std::byte* target = nullptr;        ///< receive
    const std::byte* source = nullptr;  ///< send
    std::size_t bytes = 0;
    std::size_t sent_bytes = 0;  ///< receive: size of the message it met
    int peer = 0;                ///< world rank
    bool in_use = false;         ///< the owner's thread only
    bool receives = false;
  };
  struct Envelope {
    std::int64_t channel = 0;
    int source = 0;  ///< world rank
    int tag = 0;
    friend bool operator==(const Envelope&, const Envelope&) = default;
  };
  struct Message {
    Envelope envelope;
    Slot* sender = nullptr;       ///< null: the bytes are in `copy`
    std::vector<std::byte> copy;  ///< small messages do not wait for their receive
  };
  struct Posted {
    Envelope envelope;
    Slot* receiver = nullptr;
  };
  struct Mailbox {
    std::mutex mutex;
    std::deque<Message> messages;  ///< in order of arrival
    std::deque<Posted> posted;     ///< in order of posting
    std::atomic<bool> finished{false};
  };

  std::vector<std::unique_ptr<Mailbox>> mailboxes_;  ///< by receiving rank
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::string failure_;
  std::optional<int> failed_rank_;
  std::map<std::pair<std::vector<int>, int>, std::int64_t> channels_;
};

/// Ranks as threads of one process. A message is copied once, by whichever of the two sides comes
/// later, straight from the sender's to the receiver's memory; up to kEagerBytes it is copied when
/// sent and the sender does not wait. Needs no polling to move.
class ThreadTransport : public Transport {
 public:
  static constexpr std::size_t kEagerBytes = 4096;

  ThreadTransport(ThreadHub& hub, int rank);

  int rank() const override { return rank_; }
  int size() const override { return hub_.size(); }
  const std::vector<std::string>& host_names() const override { return host_names_; }
  int ranks_on_this_host() const override { return hub_.size(); }
  int open_channel(std::span<const int> world_ranks) override;
  void close_channel(int channel) noexcept override;
  RequestId isend(int channel, int peer, int tag, std::span<const std::byte> data) override;
  RequestId irecv(int channel, int peer, int tag, std::span<std::byte> data) override;
  bool test(RequestId request) override;
  void cancel(RequestId request) noexcept override;
  bool poll() override { return true; }
  std::optional<std::string> failure() override;
  void announce_failure(std::string_view reason) noexcept override;
  std::optional<PeerTrouble> trouble(int rank) override;
  void announce_finish() override;
  void close() override {}
  void left_early() noexcept override {}

 private:
  struct Channel {
    std::int64_t id = 0;  ///< the same on all its ranks
    std::vector<int> world_ranks;
  };

  [[nodiscard]] RequestId take_slot();
  void release(RequestId request);
  [[nodiscard]] int world_rank(int channel, int peer) const;

  ThreadHub& hub_;
  int rank_;
  std::vector<std::string> host_names_;
  std::vector<Channel> channels_;
  std::map<std::vector<int>, int> opened_;  ///< how often a list of ranks was opened
  std::deque<ThreadHub::Slot> slots_;       ///< fixed addresses
  std::vector<RequestId> free_slots_;
  bool finishing_ =
      false;  ///< only the closing barrier is left, which ranks that finished take part in
};

}  // namespace parplan::hw
