#pragma once

#include <memory>
#include <span>
#include <string>

#include "hw/communicator.hpp"
#include "hw/operation.hpp"

namespace parplan::hw {

/// Our own collectives over any Transport. A group of one rank completes at once.
class GroupCommunicator final : public Communicator {
 public:
  explicit GroupCommunicator(std::shared_ptr<const Group> group);

  int rank() const override { return group_->rank; }
  int size() const override { return group_->size(); }
  std::span<const int> world_ranks() const override { return group_->world_ranks; }
  const std::string& name() const override { return group_->name; }
  bool supports(CommKind kind, DType type) const override;

 private:
  Pending start(const CommCall& call) override;
  [[nodiscard]] std::unique_ptr<Operation> make(const CommCall& call);

  std::shared_ptr<const Group> group_;
  std::uint32_t collectives_ = 0;
  std::uint32_t transfers_ = 0;
};

}  // namespace parplan::hw
