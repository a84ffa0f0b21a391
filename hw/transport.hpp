#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/core/error.hpp"

namespace parplan::hw {

/// A message met a receive of another size. Its first min(posted, sent) bytes are in the buffer.
class SizeMismatch : public HwError {
 public:
  SizeMismatch(int receiver, int sender, std::size_t posted_bytes, std::size_t sent_bytes);
};

/// What is wrong with a rank that somebody waits for.
struct PeerTrouble {
  std::string what;      ///< continues "rank 1 ...": "has finished and will send nothing more"
  bool certain = false;  ///< false: may pass (a stopped process may be continued)
};

/// One rank's end of all its point-to-point messages: nonblocking, nothing moves outside the calls
/// made here. Ranks below are world ranks except where a channel is given: there `peer` is the rank
/// within the channel. Used by one thread; destroyed after its requests.
///
/// Messages of one sender, one channel and one tag arrive in the order they were sent; different
/// channels and tags never meet. A message must have exactly the size of the receive it meets.
class Transport {
 public:
  using RequestId = std::uint32_t;
  static constexpr int kWorldChannel = 0;    ///< all ranks; there from the start
  static constexpr int kControlChannel = 1;  ///< all ranks; for World itself
  /// Tags are below this (MPI libraries that keep only 23 bits for them exist).
  static constexpr int kTagLimit = 1 << 22;

  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::vector<std::string>& host_names() const = 0;  ///< by rank
  virtual int ranks_on_this_host() const = 0;

  /// Made by exactly the ranks listed, each once and all with the same list; may block until all
  /// are there. Returns a number that is valid on this rank only.
  virtual int open_channel(std::span<const int> world_ranks) = 0;
  virtual void close_channel(int channel) noexcept = 0;

  /// `data` stays until the request is complete.
  virtual RequestId isend(int channel, int peer, int tag, std::span<const std::byte> data) = 0;
  virtual RequestId irecv(int channel, int peer, int tag, std::span<std::byte> data) = 0;
  /// Whether the request is complete, as far as the last poll saw; then the id is gone. Cheap.
  /// Throws SizeMismatch or HwError; then the id is gone too.
  virtual bool test(RequestId request) = 0;
  /// Forgets a request that is not complete and, where possible, withdraws it. The peer may still
  /// be reading or writing the buffer when the transport cannot withdraw it.
  virtual void cancel(RequestId request) noexcept = 0;
  /// Moves messages. False when no request of this rank can have completed since the last call.
  virtual bool poll() = 0;

  /// The first failure of another rank, "rank 2: reason", where the transport hears of it.
  virtual std::optional<std::string> failure() = 0;
  /// Tells the other ranks, where it can. The first failure of the world stays.
  virtual void announce_failure(std::string_view reason) noexcept = 0;
  /// What is known to be wrong with `rank`. May cost microseconds; for ranks that waited long. That
  /// a rank has finished is not wrong once this one has announced it too.
  virtual std::optional<PeerTrouble> trouble(int rank) = 0;
  /// This rank will post nothing more than the closing barrier.
  virtual void announce_finish() = 0;
  /// After the closing barrier: releases what the library holds. Nothing but destruction follows.
  virtual void close() = 0;
  /// The World was destroyed before close(), not by an exception: ends the job where ranks are
  /// processes.
  virtual void left_early() noexcept = 0;
};

/// Owner of one request. Move-only; a request that is not complete at destruction is cancelled.
class Request {
 public:
  Request() = default;
  Request(Transport& transport, Transport::RequestId id) : transport_(&transport), id_(id) {}
  Request(Request&& other) noexcept
      : transport_(std::exchange(other.transport_, nullptr)), id_(other.id_) {}
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      cancel();
      transport_ = std::exchange(other.transport_, nullptr);
      id_ = other.id_;
    }
    return *this;
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request() { cancel(); }

  /// True once complete and ever after.
  bool test() {
    if (transport_ == nullptr) {
      return true;
    }
    Transport* transport = std::exchange(transport_, nullptr);
    if (transport->test(id_)) {
      return true;
    }
    transport_ = transport;
    return false;
  }

 private:
  void cancel() noexcept {
    if (transport_ != nullptr) {
      std::exchange(transport_, nullptr)->cancel(id_);
    }
  }

  Transport* transport_ = nullptr;
  Transport::RequestId id_ = 0;
};

}  // namespace parplan::hw
