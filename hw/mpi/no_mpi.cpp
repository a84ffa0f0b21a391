// Compiled in place of the MPI backend when PARPLAN_WITH_MPI is off.
#include "hw/mpi/mpi_process.hpp"
#include "hw/world.hpp"

namespace parplan::hw {

std::variant<std::unique_ptr<World>, Unavailable> open_mpi_world(const WorldOptions& /*options*/) {
  return Unavailable{"this program was built without MPI (PARPLAN_WITH_MPI is off)"};
}

std::optional<int> open_mpi_rank() noexcept { return std::nullopt; }

void abort_mpi(int /*code*/) noexcept {}

}  // namespace parplan::hw
