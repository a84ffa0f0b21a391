#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "hw/collectives/signature.hpp"
#include "hw/operation.hpp"

namespace parplan::hw {

/// Dissemination barrier that carries signatures: in round k rank r sends to r + 2^k and receives
/// from r - 2^k (mod n), ceil(log2 n) rounds. A rank goes on to the next round only when the
/// signature it received equals its own, so whoever finishes knows that every rank of the group has
/// posted the same operation (Hensgen, Finkel, Manber 1988).
class Handshake {
 public:
  Handshake(const Group& group, const Signature& mine);

  bool advance();
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] Blocker blocker() const;

 private:
  struct Round {
    int to = 0;
    int from = 0;
    Signature theirs;
    Request sent;
    Request received;
  };

  void send_round();

  const Group& group_;
  Signature mine_;
  std::unique_ptr<Round[]> rounds_;  // fixed addresses: messages arrive here
  int round_count_;
  int sent_ = 0;
  int received_ = 0;
  int sends_done_ = 0;
  bool done_ = false;
};

/// A collective whose data moves while the handshake tells when all ranks have arrived. It
/// completes when both are through. Derived classes move the data.
class SynchronisedOperation : public Operation {
 public:
  SynchronisedOperation(std::shared_ptr<const Group> group, const CommCall& call,
                        std::uint32_t sequence);
  [[nodiscard]] Blocker blocker() const override;

 protected:
  bool advance() final;

  /// Returns whether anything moved; may throw SizeMismatch.
  virtual bool advance_data() = 0;
  [[nodiscard]] virtual bool data_done() const = 0;
  [[nodiscard]] virtual Blocker data_blocker() const = 0;

 private:
  Handshake handshake_;
  std::optional<SizeMismatch> data_error_;
};

/// Nothing but the handshake.
class BarrierOperation final : public SynchronisedOperation {
 public:
  using SynchronisedOperation::SynchronisedOperation;

 protected:
  bool advance_data() override { return false; }
  [[nodiscard]] bool data_done() const override { return true; }
  [[nodiscard]] Blocker data_blocker() const override { return {}; }
};

}  // namespace parplan::hw
