#include "hw/collectives/handshake.hpp"

#include <bit>

namespace parplan::hw {

Handshake::Handshake(const Group& group, const Signature& mine)
    : group_(group),
      mine_(mine),
      round_count_(std::bit_width(static_cast<unsigned>(group.size() - 1))) {
  rounds_ = std::make_unique<Round[]>(static_cast<std::size_t>(round_count_));
  const int n = group.size();
  const int tag = tag_in(TagSpace::kHandshake, mine.sequence);
  for (int k = 0; k < round_count_; ++k) {
    Round& round = rounds_[static_cast<std::size_t>(k)];
    round.to = (group.rank + (1 << k)) % n;
    round.from = (group.rank - (1 << k) + n) % n;
    round.received =
        group.receive(round.from, tag, std::as_writable_bytes(std::span(&round.theirs, 1)));
  }
  if (round_count_ > 0) {
    send_round();
  }
  done_ = round_count_ == 0;
}

void Handshake::send_round() {
  Round& round = rounds_[static_cast<std::size_t>(sent_)];
  round.sent = group_.send(round.to, tag_in(TagSpace::kHandshake, mine_.sequence),
                           std::as_bytes(std::span(&mine_, 1)));
  ++sent_;
}

bool Handshake::advance() {
  if (done_) {
    return false;
  }
  bool moved = false;
  while (received_ < round_count_) {
    Round& round = rounds_[static_cast<std::size_t>(received_)];
    if (!test_signed(group_, mine_, round.received, std::as_bytes(std::span(&round.theirs, 1)),
                     round.from)) {
      break;
    }
    ++received_;
    moved = true;
    if (sent_ < round_count_) {
      send_round();
    }
  }
  while (sends_done_ < sent_ && rounds_[static_cast<std::size_t>(sends_done_)].sent.test()) {
    ++sends_done_;
    moved = true;
  }
  done_ = received_ == round_count_ && sends_done_ == round_count_;
  return moved;
}

Blocker Handshake::blocker() const {
  if (received_ < round_count_) {
    const Round& round = rounds_[static_cast<std::size_t>(received_)];
    const int world_rank = group_.world_ranks[static_cast<std::size_t>(round.from)];
    // From the second round on the sender may have started and be held up by another rank.
    return received_ == 0
               ? Blocker{world_rank, "it has not started the operation", true}
               : Blocker{world_rank, "it, or a rank it waits for, has not started the operation",
                         false};
  }
  const Round& round = rounds_[static_cast<std::size_t>(std::min(sends_done_, round_count_ - 1))];
  return {group_.world_ranks[static_cast<std::size_t>(round.to)], "handshake not sent", true};
}

SynchronisedOperation::SynchronisedOperation(std::shared_ptr<const Group> group,
                                             const CommCall& call, std::uint32_t sequence)
    : Operation(std::move(group), call, sequence),
      handshake_(this->group(), signature_of(call, sequence)) {}

bool SynchronisedOperation::advance() {
  bool moved = handshake_.advance();
  if (handshake_.done()) {
    arrived();
  }
  // A message of the wrong size is most likely another operation's: then the handshake says it
  // better.
  if (data_error_.has_value()) {
    if (handshake_.done()) {
      throw SizeMismatch(*data_error_);
    }
    return moved;
  }
  try {
    moved = advance_data() || moved;
  } catch (const SizeMismatch& error) {
    data_error_ = error;
    return true;
  }
  if (handshake_.done() && data_done()) {
    complete();
  }
  return moved;
}

Blocker SynchronisedOperation::blocker() const {
  if (handshake_.done()) {
    return data_blocker();
  }
  Blocker blocker = handshake_.blocker();
  if (data_error_.has_value()) {
    blocker.what += std::string("; meanwhile ") + data_error_->what();
  }
  return blocker;
}

}  // namespace parplan::hw
