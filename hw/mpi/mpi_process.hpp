#pragma once

#include <optional>

namespace parplan::hw {

/// Rank of this process while an MPI world is open (from open_mpi_world to World::finish).
[[nodiscard]] std::optional<int> open_mpi_rank() noexcept;

/// Ends all ranks of the open MPI world with `code`; does nothing where none is open.
void abort_mpi(int code) noexcept;

}  // namespace parplan::hw
