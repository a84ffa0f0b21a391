#include "hw/local/thread_transport.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "hw/copy_bytes.hpp"
#include "hw/rank_reason.hpp"

namespace parplan::hw {

namespace {

std::string own_host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

ThreadHub::ThreadHub(int ranks) {
  ensure(ranks >= 1, "a world has at least one rank");
  for (int i = 0; i < ranks; ++i) {
    mailboxes_.push_back(std::make_unique<Mailbox>());
  }
}

void ThreadHub::fail(int rank, std::string_view reason) {
  const std::lock_guard lock(mutex_);
  if (!failed_rank_.has_value()) {
    failed_rank_ = rank;
    failure_ = with_rank(rank, reason);
    failed_.store(true, std::memory_order_release);
  }
}

std::optional<int> ThreadHub::failed_rank() const {
  const std::lock_guard lock(mutex_);
  return failed_rank_;
}

std::string ThreadHub::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

ThreadTransport::ThreadTransport(ThreadHub& hub, int rank)
    : hub_(hub), rank_(rank), host_names_(static_cast<std::size_t>(hub.size()), own_host_name()) {
  std::vector<int> everybody(static_cast<std::size_t>(hub.size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  channels_.push_back({kWorldChannel, everybody});
  channels_.push_back({kControlChannel, everybody});
}

int ThreadTransport::open_channel(std::span<const int> world_ranks) {
  std::vector<int> ranks(world_ranks.begin(), world_ranks.end());
  const int occurrence = opened_[ranks]++;
  const std::lock_guard lock(hub_.mutex_);
  const auto next = static_cast<std::int64_t>(hub_.channels_.size()) + kControlChannel + 1;
  const std::int64_t id = hub_.channels_.try_emplace({ranks, occurrence}, next).first->second;
  channels_.push_back({id, std::move(ranks)});
  return static_cast<int>(channels_.size()) - 1;
}

void ThreadTransport::close_channel(int /*channel*/) noexcept {}

int ThreadTransport::world_rank(int channel, int peer) const {
  return channels_[static_cast<std::size_t>(channel)].world_ranks[static_cast<std::size_t>(peer)];
}

Transport::RequestId ThreadTransport::take_slot() {
  RequestId id = 0;
  if (free_slots_.empty()) {
    id = static_cast<RequestId>(slots_.size());
    slots_.emplace_back();
  } else {
    id = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[id].done.store(false, std::memory_order_relaxed);
  slots_[id].in_use = true;
  return id;
}

void ThreadTransport::release(RequestId request) {
  slots_[request].in_use = false;
  free_slots_.push_back(request);
}

Transport::RequestId ThreadTransport::isend(int channel, int peer, int tag,
                                            std::span<const std::byte> data) {
  const RequestId id = take_slot();
  ThreadHub::Slot& slot = slots_[id];
  slot.receives = false;
  slot.source = data.data();
  slot.bytes = data.size();
  slot.peer = world_rank(channel, peer);
  const ThreadHub::Envelope envelope{channels_[static_cast<std::size_t>(channel)].id, rank_, tag};
  ThreadHub::Mailbox& mailbox = *hub_.mailboxes_[static_cast<std::size_t>(slot.peer)];

  const std::lock_guard lock(mailbox.mutex);
  const auto waiting = std::find_if(mailbox.posted.begin(), mailbox.posted.end(),
                                    [&](const auto& p) { return p.envelope == envelope; });
  if (waiting != mailbox.posted.end()) {
    ThreadHub::Slot& receiver = *waiting->receiver;
    copy_bytes(receiver.target, data.data(), std::min(receiver.bytes, data.size()));
    receiver.sent_bytes = data.size();
    receiver.done.store(true, std::memory_order_release);
    mailbox.posted.erase(waiting);
    slot.done.store(true, std::memory_order_relaxed);
  } else if (data.size() <= kEagerBytes) {
    mailbox.messages.push_back({envelope, nullptr, {data.begin(), data.end()}});
    slot.done.store(true, std::memory_order_relaxed);
  } else {
    mailbox.messages.push_back({envelope, &slot, {}});
  }
  return id;
}

Transport::RequestId ThreadTransport::irecv(int channel, int peer, int tag,
                                            std::span<std::byte> data) {
  const RequestId id = take_slot();
  ThreadHub::Slot& slot = slots_[id];
  slot.receives = true;
  slot.target = data.data();
  slot.bytes = data.size();
  slot.peer = world_rank(channel, peer);
  const ThreadHub::Envelope envelope{channels_[static_cast<std::size_t>(channel)].id, slot.peer,
                                     tag};
  ThreadHub::Mailbox& mailbox = *hub_.mailboxes_[static_cast<std::size_t>(rank_)];

  const std::lock_guard lock(mailbox.mutex);
  const auto message = std::find_if(mailbox.messages.begin(), mailbox.messages.end(),
                                    [&](const auto& m) { return m.envelope == envelope; });
  if (message == mailbox.messages.end()) {
    mailbox.posted.push_back({envelope, &slot});
    return id;
  }
  ThreadHub::Slot* sender = message->sender;
  const std::byte* source = sender != nullptr ? sender->source : message->copy.data();
  slot.sent_bytes = sender != nullptr ? sender->bytes : message->copy.size();
  copy_bytes(slot.target, source, std::min(slot.bytes, slot.sent_bytes));
  slot.done.store(true, std::memory_order_relaxed);
  if (sender != nullptr) {
    sender->done.store(true, std::memory_order_release);
  }
  mailbox.messages.erase(message);
  return id;
}

bool ThreadTransport::test(RequestId request) {
  ThreadHub::Slot& slot = slots_[request];
  if (!slot.done.load(std::memory_order_acquire)) {
    return false;
  }
  const bool wrong_size = slot.receives && slot.sent_bytes != slot.bytes;
  release(request);
  if (wrong_size) {
    throw SizeMismatch(rank_, slot.peer, slot.bytes, slot.sent_bytes);
  }
  return true;
}

void ThreadTransport::cancel(RequestId request) noexcept {
  ThreadHub::Slot& slot = slots_[request];
  const int mailbox_of = slot.receives ? rank_ : slot.peer;
  ThreadHub::Mailbox& mailbox = *hub_.mailboxes_[static_cast<std::size_t>(mailbox_of)];
  {
    const std::lock_guard lock(mailbox.mutex);
    std::erase_if(mailbox.posted, [&](const auto& p) { return p.receiver == &slot; });
    std::erase_if(mailbox.messages, [&](const auto& m) { return m.sender == &slot; });
  }
  release(request);
}

std::optional<std::string> ThreadTransport::failure() {
  if (!hub_.failed()) {
    return std::nullopt;
  }
  return hub_.failure();
}

void ThreadTransport::announce_failure(std::string_view reason) noexcept {
  hub_.fail(rank_, reason);
}

std::optional<PeerTrouble> ThreadTransport::trouble(int rank) {
  const ThreadHub::Mailbox& mailbox = *hub_.mailboxes_[static_cast<std::size_t>(rank)];
  if (!finishing_ && mailbox.finished.load(std::memory_order_acquire)) {
    return PeerTrouble{"has finished and will send nothing more", true};
  }
  return std::nullopt;
}

void ThreadTransport::announce_finish() {
  finishing_ = true;
  hub_.mailboxes_[static_cast<std::size_t>(rank_)]->finished.store(true, std::memory_order_release);
}

}  // namespace parplan::hw
