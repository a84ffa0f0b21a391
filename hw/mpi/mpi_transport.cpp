#include "hw/mpi/mpi_transport.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>

namespace parplan::hw {

namespace {

// On the control channel, above all tags of operations.
constexpr int kFinishTag = Transport::kTagLimit;
// Announcing the end costs a message to every rank; beyond this many ranks it is left out, and a
// rank that waits for one that has finished runs into its timeout instead.
constexpr int kMostAnnounced = 512;
// Sends up to this size complete inside MPI_Isend, so it pays to look at once.
constexpr std::size_t kLookAtOnce = 4096;

int error_class(int code) {
  int result = MPI_ERR_UNKNOWN;
  MPI_Error_class(code, &result);
  return result;
}

}  // namespace

void check_mpi(int code, const char* call, int rank) {
  if (code == MPI_SUCCESS) {
    return;
  }
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw HwError("rank " + std::to_string(rank) + ": " + call + " failed: " + text.data() +
                " (code " + std::to_string(code) + ")");
}

MpiTransport::MpiTransport() {
  int ranks = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank", rank_);
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size", rank_);
  std::vector<int> everybody(static_cast<std::size_t>(ranks));
  std::iota(everybody.begin(), everybody.end(), 0);
  for (int i = 0; i <= kControlChannel; ++i) {
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup", rank_);
    check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", rank_);
    channels_.push_back({comm, everybody});
  }
  const PeerProcess own = own_process();
  processes_.resize(static_cast<std::size_t>(ranks));
  constexpr int kBytes = static_cast<int>(sizeof(PeerProcess));
  check_mpi(MPI_Allgather(&own, kBytes, MPI_BYTE, processes_.data(), kBytes, MPI_BYTE,
                          channels_[kControlChannel].comm),
            "MPI_Allgather", rank_);
  for (const PeerProcess& process : processes_) {
    host_names_.emplace_back(process.host_name.data());
  }
}

int MpiTransport::ranks_on_this_host() const {
  const PeerProcess& own = processes_[static_cast<std::size_t>(rank_)];
  return static_cast<int>(
      std::count_if(processes_.begin(), processes_.end(),
                    [&](const PeerProcess& p) { return p.boot_id == own.boot_id; }));
}

int MpiTransport::open_channel(std::span<const int> world_ranks) {
  std::vector<int> ranks(world_ranks.begin(), world_ranks.end());
  MPI_Group everybody = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  const MPI_Comm world = channels_[kWorldChannel].comm;
  check_mpi(MPI_Comm_group(world, &everybody), "MPI_Comm_group", rank_);
  check_mpi(MPI_Group_incl(everybody, static_cast<int>(ranks.size()), ranks.data(), &members),
            "MPI_Group_incl", rank_);
  const int code = MPI_Comm_create_group(world, members, kFinishTag, &comm);
  MPI_Group_free(&members);
  MPI_Group_free(&everybody);
  check_mpi(code, "MPI_Comm_create_group", rank_);
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", rank_);
  channels_.push_back({comm, std::move(ranks)});
  return static_cast<int>(channels_.size()) - 1;
}

// MPI_Comm_free is collective, and ranks let go of their groups in any order, also while an
// exception unwinds; MPI_Finalize releases them all.
void MpiTransport::close_channel(int /*channel*/) noexcept {}

const MpiTransport::Channel& MpiTransport::channel_at(int channel) const {
  return channels_[static_cast<std::size_t>(channel)];
}

Transport::RequestId MpiTransport::take_slot() {
  RequestId id = 0;
  if (free_slots_.empty()) {
    id = static_cast<RequestId>(slots_.size());
    slots_.emplace_back();
  } else {
    id = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[id] = Slot{};
  return id;
}

void MpiTransport::activate(RequestId id, MPI_Request request) {
  slots_[id].place = active_.size();
  active_.push_back(request);
  active_slot_.push_back(id);
}

void MpiTransport::deactivate(std::size_t place) noexcept {
  active_[place] = active_.back();
  active_slot_[place] = active_slot_.back();
  slots_[active_slot_[place]].place = place;
  active_.pop_back();
  active_slot_.pop_back();
}

Transport::RequestId MpiTransport::isend(int channel, int peer, int tag,
                                         std::span<const std::byte> data) {
  const Channel& to = channel_at(channel);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, to.comm, &request),
      "MPI_Isend", rank_);
  const RequestId id = take_slot();
  slots_[id].bytes = data.size();
  slots_[id].peer = to.world_ranks[static_cast<std::size_t>(peer)];
  int complete = 0;
  if (data.size() <= kLookAtOnce) {
    slots_[id].code = MPI_Test(&request, &complete, MPI_STATUS_IGNORE);
  }
  if (complete != 0) {
    slots_[id].done = true;
  } else {
    activate(id, request);
  }
  return id;
}

Transport::RequestId MpiTransport::irecv(int channel, int peer, int tag,
                                         std::span<std::byte> data) {
  const Channel& from = channel_at(channel);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, from.comm,
                      &request),
            "MPI_Irecv", rank_);
  const RequestId id = take_slot();
  slots_[id].receives = true;
  slots_[id].bytes = data.size();
  slots_[id].peer = from.world_ranks[static_cast<std::size_t>(peer)];
  activate(id, request);
  return id;
}

bool MpiTransport::test(RequestId request) {
  const Slot& slot = slots_[request];
  if (!slot.done) {
    return false;
  }
  free_slots_.push_back(request);
  check_mpi(slot.code, slot.receives ? "MPI_Irecv" : "MPI_Isend", rank_);
  if (slot.receives && slot.sent_bytes != slot.bytes) {
    throw SizeMismatch(rank_, slot.peer, slot.bytes, slot.sent_bytes);
  }
  return true;
}

void MpiTransport::cancel(RequestId request) noexcept {
  Slot& slot = slots_[request];
  if (!slot.done) {
    MPI_Request& handle = active_[slot.place];
    if (slot.receives) {
      // A receive that has met its message is not cancelled; then give it a moment to complete,
      // because its buffer goes away.
      MPI_Cancel(&handle);
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
      int complete = 0;
      do {
        MPI_Test(&handle, &complete, MPI_STATUS_IGNORE);
      } while (complete == 0 && std::chrono::steady_clock::now() < deadline);
    }
    if (handle != MPI_REQUEST_NULL) {
      MPI_Request_free(&handle);
    }
    deactivate(slot.place);
  }
  free_slots_.push_back(request);
}

void MpiTransport::finish_slot(Slot& slot, int code, const MPI_Status& status) {
  slot.done = true;
  slot.code = code;
  if (!slot.receives) {
    return;
  }
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  slot.sent_bytes = static_cast<std::size_t>(count);
  if (code != MPI_SUCCESS && error_class(code) == MPI_ERR_TRUNCATE) {
    slot.code = MPI_SUCCESS;
    // A library that counts only what it stored does not tell the sender's size; it was larger.
    slot.sent_bytes = std::max(slot.sent_bytes, slot.bytes + 1);
  }
}

bool MpiTransport::poll() {
  if (active_.empty()) {
    return false;
  }
  return active_.size() == 1 ? poll_one() : poll_some();
}

bool MpiTransport::poll_one() {
  int complete = 0;
  MPI_Status status{};
  const int code = MPI_Test(&active_[0], &complete, &status);
  if (complete == 0 && code == MPI_SUCCESS) {
    return false;
  }
  finish_slot(slots_[active_slot_[0]], code, status);
  deactivate(0);
  return true;
}

bool MpiTransport::poll_some() {
  const auto count = static_cast<int>(active_.size());
  statuses_.resize(active_.size());
  indices_.resize(active_.size());
  int completed = 0;
  const int code =
      MPI_Testsome(count, active_.data(), &completed, indices_.data(), statuses_.data());
  if (code != MPI_SUCCESS && error_class(code) != MPI_ERR_IN_STATUS) {
    check_mpi(code, "MPI_Testsome", rank_);
  }
  if (completed == 0 || completed == MPI_UNDEFINED) {
    return false;
  }
  for (int i = 0; i < completed; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int slot_code = code == MPI_SUCCESS ? MPI_SUCCESS : statuses_[at].MPI_ERROR;
    finish_slot(slots_[active_slot_[static_cast<std::size_t>(indices_[at])]], slot_code,
                statuses_[at]);
  }
  // From the back, so that the places still to be removed stay where they are.
  std::sort(indices_.begin(), indices_.begin() + completed, std::greater<>());
  for (int i = 0; i < completed; ++i) {
    deactivate(static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]));
  }
  return true;
}

std::optional<PeerTrouble> MpiTransport::trouble(int rank) {
  int there = 0;
  if (!finishing_ && size() <= kMostAnnounced &&
      MPI_Iprobe(rank, kFinishTag, channel_at(kControlChannel).comm, &there, MPI_STATUS_IGNORE) ==
          MPI_SUCCESS &&
      there != 0) {
    return PeerTrouble{"has finished and will send nothing more", true};
  }
  const PeerProcess& peer = processes_[static_cast<std::size_t>(rank)];
  if (!processes_[static_cast<std::size_t>(rank_)].sees(peer)) {
    return std::nullopt;
  }
  if (std::optional<std::string> what = trouble_of(peer)) {
    return PeerTrouble{std::move(*what), false};
  }
  return std::nullopt;
}

void MpiTransport::announce_finish() {
  finishing_ = true;
  if (size() > kMostAnnounced) {
    return;
  }
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_) {
      announcements_.emplace_back();
      check_mpi(MPI_Isend(nullptr, 0, MPI_BYTE, peer, kFinishTag, channel_at(kControlChannel).comm,
                          &announcements_.back()),
                "MPI_Isend", rank_);
    }
  }
}

void MpiTransport::close() {
  const std::size_t sent = announcements_.size();
  for (int peer = 0; sent > 0 && peer < size(); ++peer) {
    if (peer != rank_) {
      announcements_.emplace_back();
      check_mpi(MPI_Irecv(nullptr, 0, MPI_BYTE, peer, kFinishTag, channel_at(kControlChannel).comm,
                          &announcements_.back()),
                "MPI_Irecv", rank_);
    }
  }
  check_mpi(MPI_Waitall(static_cast<int>(announcements_.size()), announcements_.data(),
                        MPI_STATUSES_IGNORE),
            "MPI_Waitall", rank_);
  check_mpi(MPI_Finalize(), "MPI_Finalize", rank_);
}

}  // namespace parplan::hw
