#include "hw/collectives/group_communicator.hpp"

#include "hw/collectives/all_to_all.hpp"
#include "hw/collectives/broadcast_tree.hpp"
#include "hw/collectives/handshake.hpp"
#include "hw/collectives/point_to_point.hpp"
#include "hw/collectives/ring.hpp"
#include "hw/collectives/small_all_reduce.hpp"
#include "hw/copy_bytes.hpp"
#include "sim/core/collective_algorithm.hpp"

namespace parplan::hw {

namespace {

/// A collective of one rank: its own data is the result.
class AloneOperation final : public Operation {
 public:
  using Operation::Operation;
  [[nodiscard]] Blocker blocker() const override { return {world_rank(group().rank), "nothing"}; }

 protected:
  bool advance() override {
    const ConstElements& from = call().input;
    if (from.data != call().output.data) {
      copy_bytes(call().output.data, from.data, from.bytes());
    }
    arrived();
    complete();
    return true;
  }
};

}  // namespace

GroupCommunicator::GroupCommunicator(std::shared_ptr<const Group> group)
    : group_(std::move(group)) {}

bool GroupCommunicator::supports(CommKind kind, DType type) const {
  const bool sums = kind == CommKind::kAllReduce || kind == CommKind::kReduceScatter;
  return !sums || type != DType::kInt32;
}

Pending GroupCommunicator::start(const CommCall& call) {
  group_->context.progress.check();
  return launch(make(call));
}

std::unique_ptr<Operation> GroupCommunicator::make(const CommCall& call) {
  if (call.kind == CommKind::kSend || call.kind == CommKind::kReceive) {
    return make_transfer(group_, call, ++transfers_);
  }
  const std::uint32_t sequence = ++collectives_;
  if (size() == 1) {
    return std::make_unique<AloneOperation>(group_, call, sequence);
  }
  switch (call.kind) {
    case CommKind::kAllReduce:
      switch (choose_all_reduce(static_cast<std::int64_t>(call.output.bytes()), size())) {
        case AllReduceAlgorithm::kDirect:
          return std::make_unique<DirectAllReduce>(group_, call, sequence);
        case AllReduceAlgorithm::kRecursiveDoubling:
          return std::make_unique<DoublingAllReduce>(group_, call, sequence);
        case AllReduceAlgorithm::kRing:
          return std::make_unique<RingOperation>(group_, call, sequence);
      }
      break;
    case CommKind::kAllGather:
    case CommKind::kReduceScatter:
      return std::make_unique<RingOperation>(group_, call, sequence);
    case CommKind::kBroadcast:
      return std::make_unique<BroadcastOperation>(group_, call, sequence);
    case CommKind::kAllToAll:
      return std::make_unique<AllToAllOperation>(group_, call, sequence);
    case CommKind::kBarrier:
      return std::make_unique<BarrierOperation>(group_, call, sequence);
    case CommKind::kSend:
    case CommKind::kReceive:
      break;
  }
  throw InternalError("internal error: no such collective");
}

}  // namespace parplan::hw
