#pragma once

#include <string>
#include <vector>

#include "hw/world.hpp"

namespace parplan::hw::test {

/// One statement about every backend, made true or thrown by all ranks of a world together. Checks
/// throw std::runtime_error with the rank, because test assertions do not work on other threads or
/// in processes under a launcher.
struct CommCheck {
  std::string name;
  void (*run)(World& world);
};

[[nodiscard]] const std::vector<CommCheck>& comm_checks();

/// Throws std::runtime_error naming the rank and `what` unless `condition` holds.
void demand(World& world, bool condition, const std::string& what);

}  // namespace parplan::hw::test
