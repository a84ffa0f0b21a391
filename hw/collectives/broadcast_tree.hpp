#pragma once

#include <cstddef>
#include <vector>

#include "hw/collectives/handshake.hpp"

namespace parplan::hw {

/// Broadcast down a tree, in segments: a rank passes each segment on to its children as it arrives.
/// The tree is binomial or a chain (choose_broadcast); ranks count from the root.
class BroadcastOperation final : public SynchronisedOperation {
 public:
  BroadcastOperation(std::shared_ptr<const Group> group, const CommCall& call,
                     std::uint32_t sequence);

 protected:
  bool advance_data() override;
  [[nodiscard]] bool data_done() const override;
  [[nodiscard]] Blocker data_blocker() const override;

 private:
  static constexpr std::size_t kWindow = 8;  ///< segments under way from the parent

  void plan_tree();
  [[nodiscard]] std::span<std::byte> segment(std::size_t index) const;
  bool receive_segments();
  bool send_segments();

  int parent_ = -1;  ///< rank in the group; -1 at the root
  std::vector<int> children_;
  std::size_t segments_ = 0;
  Request receives_[kWindow];
  std::vector<Request> sends_;  ///< kWindow per child
  std::size_t posted_ = 0;
  std::size_t received_ = 0;
  std::size_t sent_ = 0;     ///< segments on their way to all children
  std::size_t retired_ = 0;  ///< segments that all children have
};

}  // namespace parplan::hw
