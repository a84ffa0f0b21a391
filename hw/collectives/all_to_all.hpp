#pragma once

#include <vector>

#include "hw/collectives/handshake.hpp"
#include "hw/collectives/pieces.hpp"

namespace parplan::hw {

/// Every rank exchanges a block with every other, all at once; rank r begins with r + 1 so that not
/// everybody sends to the same rank first.
class AllToAllOperation final : public SynchronisedOperation {
 public:
  AllToAllOperation(std::shared_ptr<const Group> group, const CommCall& call,
                    std::uint32_t sequence);

 protected:
  bool advance_data() override;
  [[nodiscard]] bool data_done() const override { return finished_; }
  [[nodiscard]] Blocker data_blocker() const override;

 private:
  std::vector<Pieces> receives_;  ///< by distance - 1: from rank - distance
  std::vector<Pieces> sends_;     ///< by distance - 1: to rank + distance
  bool finished_ = false;
};

}  // namespace parplan::hw
