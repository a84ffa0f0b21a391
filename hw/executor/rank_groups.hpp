#pragma once

#include <map>
#include <memory>
#include <vector>

#include "hw/world.hpp"
#include "sim/core/program.hpp"

namespace parplan::hw {

/// The communicators of one rank, for every group of the mesh it belongs to. Null where the group
/// would be this rank alone, and where nothing is ever sent over it.
struct RankGroups {
  std::unique_ptr<Communicator> tensor;     ///< ranks that differ in the tensor coordinate
  std::unique_ptr<Communicator> data;       ///< in the replica
  std::unique_ptr<Communicator> positions;  ///< in the position: group rank = position
  std::unique_ptr<Communicator> replica;    ///< in tensor coordinate or position; to clip gradients
  /// Positions that share a parameter, by their list (Instruction::group_positions).
  std::map<std::vector<std::int32_t>, std::unique_ptr<Communicator>> tied;
};

/// Collective over the world, whose size is program.ranks(): all groups of the mesh, in one order.
RankGroups create_groups(World& world, const Program& program);

}  // namespace parplan::hw
