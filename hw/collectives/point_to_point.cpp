#include "hw/collectives/point_to_point.hpp"

#include <cstring>

#include "hw/copy_bytes.hpp"

namespace parplan::hw {

namespace {

std::uint32_t value_of(int tag) { return static_cast<std::uint32_t>(tag); }

}  // namespace

EagerSend::EagerSend(std::shared_ptr<const Group> own_group, const CommCall& call,
                     std::uint32_t sequence)
    : Operation(std::move(own_group), call, sequence) {
  const Signature mine = signature_of(call, sequence);
  const std::size_t size = sizeof(Signature) + call.input.bytes();
  message_ = group().context.buffers.take(size);
  std::memcpy(message_.data(), &mine, sizeof(Signature));
  copy_bytes(message_.data() + sizeof(Signature), call.input.data, call.input.bytes());
  send_ = group().send(call.peer, tag_in(TagSpace::kTransfer, value_of(call.tag)),
                       message_.first(size));
  times().sent_bytes = static_cast<std::int64_t>(call.input.bytes());
}

bool EagerSend::advance() {
  if (!send_.test()) {
    return false;
  }
  arrived();
  complete();
  return true;
}

Blocker EagerSend::blocker() const { return {world_rank(call().peer), "message not sent"}; }

EagerReceive::EagerReceive(std::shared_ptr<const Group> own_group, const CommCall& call,
                           std::uint32_t sequence)
    : Operation(std::move(own_group), call, sequence) {
  const std::size_t size = sizeof(Signature) + call.output.bytes();
  message_ = group().context.buffers.take(size);
  receive_ = group().receive(call.peer, tag_in(TagSpace::kTransfer, value_of(call.tag)),
                             message_.first(size));
}

bool EagerReceive::advance() {
  const Signature mine = signature_of(call(), sequence());
  const std::span<const std::byte> message =
      message_.first(sizeof(Signature) + call().output.bytes());
  if (!test_signed(group(), mine, receive_, message, call().peer)) {
    return false;
  }
  copy_bytes(call().output.data, message.data() + sizeof(Signature), call().output.bytes());
  times().received_bytes = static_cast<std::int64_t>(call().output.bytes());
  arrived();
  complete();
  return true;
}

Blocker EagerReceive::blocker() const {
  return {world_rank(call().peer),
          "it has not sent anything with tag " + std::to_string(call().tag)};
}

LargeTransfer::LargeTransfer(std::shared_ptr<const Group> own_group, const CommCall& call,
                             std::uint32_t sequence)
    : Operation(std::move(own_group), call, sequence), mine_(signature_of(call, sequence)) {
  const int data_tag = tag_in(TagSpace::kTransfer, value_of(call.tag));
  const int token_tag = tag_in(TagSpace::kToken, value_of(call.tag));
  const auto incoming = std::as_writable_bytes(std::span(&theirs_, 1));
  const auto outgoing = std::as_bytes(std::span(&mine_, 1));
  signature_received_ = group().receive(call.peer, sending() ? token_tag : data_tag, incoming);
  signature_sent_ = group().send(call.peer, sending() ? data_tag : token_tag, outgoing);
  if (sending()) {
    data_.send(group(), call.peer, data_tag, {call.input.data, call.input.bytes()});
    times().sent_bytes = static_cast<std::int64_t>(call.input.bytes());
  } else {
    data_.receive(group(), call.peer, data_tag, {call.output.data, call.output.bytes()});
    times().received_bytes = static_cast<std::int64_t>(call.output.bytes());
  }
}

bool LargeTransfer::advance_signature() {
  if (agreed_) {
    return false;
  }
  if (!test_signed(group(), mine_, signature_received_, std::as_bytes(std::span(&theirs_, 1)),
                   call().peer)) {
    return false;
  }
  agreed_ = true;
  arrived();
  return true;
}

bool LargeTransfer::advance() {
  // The signature first: it explains a message of the wrong size behind it.
  bool moved = advance_signature();
  const bool data_done = data_.test(moved);
  if (agreed_ && data_done && signature_sent_.test()) {
    complete();
    moved = true;
  }
  return moved;
}

Blocker LargeTransfer::blocker() const {
  const std::string tag = " (tag " + std::to_string(call().tag) + ")";
  if (!agreed_) {
    return {world_rank(call().peer),
            (sending() ? "it has not posted the receive" : "it has not sent anything") + tag};
  }
  return {world_rank(call().peer),
          (sending() ? "data sent but not received" : "data not received completely") + tag};
}

std::unique_ptr<Operation> make_transfer(std::shared_ptr<const Group> group, const CommCall& call,
                                         std::uint32_t sequence) {
  const bool sending = call.kind == CommKind::kSend;
  if ((sending ? call.input.bytes() : call.output.bytes()) > Communicator::kEagerBytes) {
    return std::make_unique<LargeTransfer>(std::move(group), call, sequence);
  }
  if (sending) {
    return std::make_unique<EagerSend>(std::move(group), call, sequence);
  }
  return std::make_unique<EagerReceive>(std::move(group), call, sequence);
}

}  // namespace parplan::hw
