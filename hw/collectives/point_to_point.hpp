#pragma once

#include "hw/collectives/pieces.hpp"
#include "hw/collectives/signature.hpp"
#include "hw/operation.hpp"

namespace parplan::hw {

/// Up to Communicator::kEagerBytes: one message, signature and data together.
class EagerSend final : public Operation {
 public:
  EagerSend(std::shared_ptr<const Group> group, const CommCall& call, std::uint32_t sequence);
  [[nodiscard]] Blocker blocker() const override;

 protected:
  bool advance() override;

 private:
  BufferPool::Buffer message_;
  Request send_;
};

class EagerReceive final : public Operation {
 public:
  EagerReceive(std::shared_ptr<const Group> group, const CommCall& call, std::uint32_t sequence);
  [[nodiscard]] Blocker blocker() const override;

 protected:
  bool advance() override;

 private:
  BufferPool::Buffer message_;
  Request receive_;
};

/// Beyond: the sender's signature and data follow each other, the receiver answers with its own
/// signature (the token) as soon as it posts. The signatures tell each side when the other has
/// arrived and that both mean the same transfer; the data does not wait for them.
class LargeTransfer final : public Operation {
 public:
  LargeTransfer(std::shared_ptr<const Group> group, const CommCall& call, std::uint32_t sequence);
  [[nodiscard]] Blocker blocker() const override;

 protected:
  bool advance() override;

 private:
  [[nodiscard]] bool sending() const { return call().kind == CommKind::kSend; }
  bool advance_signature();

  Signature mine_;
  Signature theirs_;
  Request signature_sent_;
  Request signature_received_;
  Pieces data_;
  bool agreed_ = false;
};

/// The right one for `call`.
[[nodiscard]] std::unique_ptr<Operation> make_transfer(std::shared_ptr<const Group> group,
                                                       const CommCall& call,
                                                       std::uint32_t sequence);

}  // namespace parplan::hw
