#include "hw/executor/rank_groups.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

namespace parplan::hw {
namespace {

/// Creates groups over all ranks in one order and keeps the one this rank is in.
class GroupMaker {
 public:
  GroupMaker(World& world, const Layout& layout) : world_(world), layout_(layout) {}

  std::unique_ptr<Communicator> tensor() {
    std::unique_ptr<Communicator> own;
    if (layout_.tp == 1) return own;
    for (int position = 0; position < layout_.positions(); ++position) {
      for (int replica = 0; replica < layout_.dp; ++replica) {
        std::vector<int> ranks;
        for (int tensor = 0; tensor < layout_.tp; ++tensor) {
          ranks.push_back(rank_of({position, replica, tensor}, layout_));
        }
        keep(own, ranks, "tp");
      }
    }
    return own;
  }

  std::unique_ptr<Communicator> data() {
    std::unique_ptr<Communicator> own;
    if (layout_.dp == 1) return own;
    for (int position = 0; position < layout_.positions(); ++position) {
      for (int tensor = 0; tensor < layout_.tp; ++tensor) {
        std::vector<int> ranks;
        for (int replica = 0; replica < layout_.dp; ++replica) {
          ranks.push_back(rank_of({position, replica, tensor}, layout_));
        }
        keep(own, ranks, "dp");
      }
    }
    return own;
  }

  /// All ranks of a replica, by position, then tensor coordinate.
  std::unique_ptr<Communicator> replica() {
    std::unique_ptr<Communicator> own;
    for (int replica = 0; replica < layout_.dp; ++replica) {
      std::vector<int> ranks;
      for (int position = 0; position < layout_.positions(); ++position) {
        for (int tensor = 0; tensor < layout_.tp; ++tensor) {
          ranks.push_back(rank_of({position, replica, tensor}, layout_));
        }
      }
      keep(own, ranks, "replica");
    }
    return own;
  }

  /// Ranks of the same replica and tensor coordinate at the listed positions, in that order.
  std::unique_ptr<Communicator> across(const std::vector<std::int32_t>& positions,
                                       const std::string& name) {
    std::unique_ptr<Communicator> own;
    for (int replica = 0; replica < layout_.dp; ++replica) {
      for (int tensor = 0; tensor < layout_.tp; ++tensor) {
        std::vector<int> ranks;
        for (const int position : positions) {
          ranks.push_back(rank_of({position, replica, tensor}, layout_));
        }
        keep(own, ranks, name);
      }
    }
    return own;
  }

 private:
  void keep(std::unique_ptr<Communicator>& own, const std::vector<int>& ranks,
            const std::string& name) {
    if (auto group = world_.create_group(ranks, name)) own = std::move(group);
  }

  World& world_;
  const Layout& layout_;
};

bool reduces_norm(const Program& program) {
  const auto& list = program.classes.front().instructions;
  return std::any_of(list.begin(), list.end(),
                     [](const Instruction& i) { return i.kind == InstructionKind::kReduceNorm; });
}

std::set<std::vector<std::int32_t>> tied_position_lists(const Program& program) {
  std::set<std::vector<std::int32_t>> lists;
  for (const RankClass& rank_class : program.classes) {
    for (const Instruction& instruction : rank_class.instructions) {
      if (instruction.kind == InstructionKind::kReduceTied) {
        lists.insert(instruction.group_positions);
      }
    }
  }
  return lists;
}

}  // namespace

RankGroups create_groups(World& world, const Program& program) {
  GroupMaker maker(world, program.layout);
  RankGroups groups;
  groups.tensor = maker.tensor();
  groups.data = maker.data();
  if (const int positions = program.layout.positions(); positions > 1) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(positions));
    std::iota(all.begin(), all.end(), 0);
    groups.positions = maker.across(all, program.layout.pp > 1 ? "pp" : "mp");
  }
  for (const auto& positions : tied_position_lists(program)) {
    groups.tied[positions] = maker.across(positions, "tied");
  }
  if (reduces_norm(program)) groups.replica = maker.replica();
  return groups;
}

}  // namespace parplan::hw
