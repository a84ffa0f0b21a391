#pragma once

// Internal to hw/mpi: the only header that shows mpi.h.
#include <mpi.h>

#include <vector>

#include "hw/mpi/peer_process.hpp"
#include "hw/transport.hpp"

namespace parplan::hw {

/// Throws HwError that names the call, MPI's text for the code and this rank.
void check_mpi(int code, const char* call, int rank);

/// MPI_Isend, MPI_Irecv and one MPI_Testsome over everything that is outstanding. Every channel is
/// an MPI communicator. MPI must be initialised; close() finalises it.
class MpiTransport final : public Transport {
 public:
  MpiTransport();

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(processes_.size()); }
  const std::vector<std::string>& host_names() const override { return host_names_; }
  int ranks_on_this_host() const override;
  int open_channel(std::span<const int> world_ranks) override;
  void close_channel(int channel) noexcept override;
  RequestId isend(int channel, int peer, int tag, std::span<const std::byte> data) override;
  RequestId irecv(int channel, int peer, int tag, std::span<std::byte> data) override;
  bool test(RequestId request) override;
  void cancel(RequestId request) noexcept override;
  bool poll() override;
  std::optional<std::string> failure() override { return std::nullopt; }
  void announce_failure(std::string_view /*reason*/) noexcept override {}
  std::optional<PeerTrouble> trouble(int rank) override;
  void announce_finish() override;
  void close() override;
  void left_early() noexcept override;

 private:
  struct Slot {
    bool done = false;
    bool receives = false;
    std::size_t bytes = 0;       ///< posted
    std::size_t sent_bytes = 0;  ///< receive: size of the message it met
    int peer = 0;                ///< world rank
    int code = MPI_SUCCESS;
    std::size_t place = 0;  ///< in active_, while not done
  };
  struct Channel {
    MPI_Comm comm = MPI_COMM_NULL;
    std::vector<int> world_ranks;
  };

  [[nodiscard]] RequestId take_slot();
  [[nodiscard]] const Channel& channel_at(int channel) const;
  void activate(RequestId id, MPI_Request request);
  void deactivate(std::size_t place) noexcept;
  void finish_slot(Slot& slot, int code, const MPI_Status& status);
  bool poll_one();
  bool poll_some();

  int rank_ = 0;
  std::vector<PeerProcess> processes_;  ///< by rank
  std::vector<std::string> host_names_;
  std::vector<Channel> channels_;
  std::vector<Slot> slots_;
  std::vector<RequestId> free_slots_;
  // Parallel arrays, as MPI_Testsome wants them.
  std::vector<MPI_Request> active_;
  std::vector<RequestId> active_slot_;
  std::vector<MPI_Status> statuses_;
  std::vector<int> indices_;
  std::vector<MPI_Request> announcements_;
  bool finishing_ =
      false;  ///< only the closing barrier is left, which ranks that finished take part in
};

}  // namespace parplan::hw
