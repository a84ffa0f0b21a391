#include "hw/collectives/small_all_reduce.hpp"

#include <bit>
#include <cstring>

#include "hw/collectives/add.hpp"
#include "hw/copy_bytes.hpp"

namespace parplan::hw {

namespace {

std::size_t message_stride(std::size_t payload) {
  constexpr std::size_t kGrain = BufferPool::kAlignment;
  return (sizeof(Signature) + payload + kGrain - 1) / kGrain * kGrain;
}

std::byte* payload_of(std::span<std::byte> message) { return message.data() + sizeof(Signature); }

}  // namespace

DirectAllReduce::DirectAllReduce(std::shared_ptr<const Group> own_group, const CommCall& call,
                                 std::uint32_t sequence)
    : Operation(std::move(own_group), call, sequence),
      mine_(signature_of(call, sequence)),
      stride_(message_stride(call.output.bytes())) {
  const int n = group().size();
  const int rank = group().rank;
  const int tag = tag_in(TagSpace::kHandshake, sequence);
  messages_ = group().context.buffers.take(stride_ * static_cast<std::size_t>(n));
  receives_.reserve(static_cast<std::size_t>(n - 1));
  sends_.reserve(static_cast<std::size_t>(n - 1));
  for (int distance = 1; distance < n; ++distance) {
    const int from = (rank - distance + n) % n;
    receives_.push_back(group().receive(from, tag, message(from)));
  }
  std::memcpy(message(rank).data(), &mine_, sizeof(Signature));
  copy_bytes(payload_of(message(rank)), call.output.data, call.output.bytes());
  for (int distance = 1; distance < n; ++distance) {
    sends_.push_back(group().send((rank + distance) % n, tag, message(rank)));
    times().sent_bytes += static_cast<std::int64_t>(call.output.bytes());
  }
}

std::span<std::byte> DirectAllReduce::message(int rank) const {
  return {messages_.data() + stride_ * static_cast<std::size_t>(rank),
          sizeof(Signature) + call().output.bytes()};
}

bool DirectAllReduce::advance() {
  const int n = group().size();
  bool moved = false;
  while (received_ < receives_.size()) {
    const int from = (group().rank - 1 - static_cast<int>(received_) + n) % n;
    if (!test_signed(group(), mine_, receives_[received_], message(from), from)) {
      break;
    }
    times().received_bytes += static_cast<std::int64_t>(call().output.bytes());
    moved = true;
    if (++received_ == receives_.size()) {
      arrived();
      add_all();
    }
  }
  while (sends_done_ < sends_.size() && sends_[sends_done_].test()) {
    ++sends_done_;
    moved = true;
  }
  if (received_ == receives_.size() && sends_done_ == sends_.size()) {
    complete();
  }
  return moved;
}

void DirectAllReduce::add_all() {
  const Elements& data = call().output;
  add(data.data, payload_of(message(0)), payload_of(message(1)), data.count, data.type);
  for (int rank = 2; rank < group().size(); ++rank) {
    add(data.data, data.data, payload_of(message(rank)), data.count, data.type);
  }
}

Blocker DirectAllReduce::blocker() const {
  const int n = group().size();
  if (received_ < receives_.size()) {
    return {world_rank((group().rank - 1 - static_cast<int>(received_) + n) % n),
            "it has not started the operation"};
  }
  return {world_rank((group().rank + 1 + static_cast<int>(sends_done_)) % n),
          "message not received"};
}

DoublingAllReduce::DoublingAllReduce(std::shared_ptr<const Group> own_group, const CommCall& call,
                                     std::uint32_t sequence)
    : Operation(std::move(own_group), call, sequence),
      mine_(signature_of(call, sequence)),
      stride_(message_stride(call.output.bytes())) {
  plan();
  messages_ = group().context.buffers.take(2 * stride_ * steps_.size());
  const int tag = tag_in(TagSpace::kHandshake, sequence);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].receives) {
      steps_[i].receive = group().receive(steps_[i].peer, tag, message(i, false));
    }
  }
}

void DoublingAllReduce::plan() {
  const int rank = group().rank;
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(group().size())));
  const int folded = group().size() - core;
  const auto step = [&](int peer, bool sends, bool receives, bool replaces) {
    Step s;
    s.peer = peer;
    s.sends = sends;
    s.receives = receives;
    s.replaces = replaces;
    steps_.push_back(std::move(s));
  };
  if (rank >= core) {
    step(rank - core, true, false, false);
    step(rank - core, false, true, true);
    return;
  }
  if (rank < folded) {
    step(rank + core, false, true, false);
  }
  for (int distance = 1; distance < core; distance *= 2) {
    step(rank ^ distance, true, true, false);
  }
  if (rank < folded) {
    step(rank + core, true, false, false);
  }
}

std::span<std::byte> DoublingAllReduce::message(std::size_t step, bool outgoing) const {
  return {messages_.data() + stride_ * (2 * step + (outgoing ? 1 : 0)),
          sizeof(Signature) + call().output.bytes()};
}

void DoublingAllReduce::send_step(std::size_t step) {
  const std::span<std::byte> out = message(step, true);
  std::memcpy(out.data(), &mine_, sizeof(Signature));
  copy_bytes(payload_of(out), call().output.data, call().output.bytes());
  steps_[step].send =
      group().send(steps_[step].peer, tag_in(TagSpace::kHandshake, sequence()), out);
  steps_[step].sent = true;
  times().sent_bytes += static_cast<std::int64_t>(call().output.bytes());
}

void DoublingAllReduce::combine(std::size_t step) {
  const Elements& data = call().output;
  const std::byte* theirs = payload_of(message(step, false));
  times().received_bytes += static_cast<std::int64_t>(data.bytes());
  if (steps_[step].replaces) {
    copy_bytes(data.data, theirs, data.bytes());
  } else if (steps_[step].peer < group().rank) {
    add(data.data, theirs, data.data, data.count, data.type);
  } else {
    add(data.data, data.data, theirs, data.count, data.type);
  }
}

bool DoublingAllReduce::advance() {
  bool moved = false;
  while (at_ < steps_.size()) {
    Step& step = steps_[at_];
    if (step.sends && !step.sent) {
      send_step(at_);
      moved = true;
    }
    if (step.receives) {
      if (!test_signed(group(), mine_, step.receive, message(at_, false), step.peer)) {
        break;
      }
      combine(at_);
    }
    ++at_;
    moved = true;
  }
  while (sends_done_ < at_ && steps_[sends_done_].send.test()) {
    ++sends_done_;
    moved = true;
  }
  if (at_ == steps_.size()) {
    arrived();
    if (sends_done_ == steps_.size()) {
      complete();
    }
  }
  return moved;
}

Blocker DoublingAllReduce::blocker() const {
  if (at_ < steps_.size()) {
    const bool first = at_ == 0;
    return {world_rank(steps_[at_].peer),
            first ? "it has not started the operation"
                  : "it, or a rank it waits for, has not started the operation",
            first};
  }
  return {world_rank(steps_[sends_done_].peer), "message not received"};
}

}  // namespace parplan::hw
