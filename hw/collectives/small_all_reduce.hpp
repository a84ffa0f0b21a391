#pragma once

#include <cstddef>
#include <vector>

#include "hw/collectives/signature.hpp"
#include "hw/operation.hpp"

namespace parplan::hw {

/// All-reduce in one step: everybody sends its data to everybody and adds all in rank order. Each
/// message carries its signature, so there is no handshake.
class DirectAllReduce final : public Operation {
 public:
  DirectAllReduce(std::shared_ptr<const Group> group, const CommCall& call, std::uint32_t sequence);
  [[nodiscard]] Blocker blocker() const override;

 protected:
  bool advance() override;

 private:
  [[nodiscard]] std::span<std::byte> message(int rank) const;
  void add_all();

  Signature mine_;
  std::size_t stride_;
  BufferPool::Buffer messages_;    // by rank; this rank's own is what it sends
  std::vector<Request> receives_;  // by distance: from rank - 1 - i
  std::vector<Request> sends_;
  std::size_t received_ = 0;
  std::size_t sends_done_ = 0;
};

/// All-reduce by pairwise exchange over distances 1, 2, 4...; with p = 2^floor(log2 n) < n, rank p
/// + i first gives its data to rank i and gets the result back at the end. Both ranks of a pair add
/// the lower one's data first, so all ranks get the same bits.
class DoublingAllReduce final : public Operation {
 public:
  DoublingAllReduce(std::shared_ptr<const Group> group, const CommCall& call,
                    std::uint32_t sequence);
  [[nodiscard]] Blocker blocker() const override;

 protected:
  bool advance() override;

 private:
  struct Step {
    int peer = 0;
    bool sends = false;
    bool receives = false;
    bool replaces = false;  ///< the message is the result, not a summand
    bool sent = false;
    Request send;
    Request receive;
  };

  void plan();
  [[nodiscard]] std::span<std::byte> message(std::size_t step, bool outgoing) const;
  void send_step(std::size_t step);
  void combine(std::size_t step);

  Signature mine_;
  std::size_t stride_;
  std::vector<Step> steps_;
  BufferPool::Buffer messages_;
  std::size_t at_ = 0;          ///< step in progress
  std::size_t sends_done_ = 0;  ///< steps whose send is complete
};

}  // namespace parplan::hw
