#include <mpi.h>
#include <unistd.h>

#include <cstdlib>

#include "hw/mpi/mpi_process.hpp"
#include "hw/mpi/mpi_transport.hpp"
#include "hw/world.hpp"

namespace parplan::hw {

namespace {

constexpr int kEarlyExitCode = 1;

bool mpi_is_open() noexcept {
  int initialised = 0;
  int finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised != 0 && finalised == 0;
}

// exit() or a return from main while the world is open: the others would wait for ever.
void at_exit() {
  if (mpi_is_open()) {
    abort_world(kEarlyExitCode, "exited before World::finish; the other ranks cannot go on");
  }
}

std::optional<Unavailable> start_mpi() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised != 0) {
    return Unavailable{"MPI was started before; a process opens one MPI world"};
  }
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
    return Unavailable{"MPI_Init_thread failed"};
  }
  std::atexit(at_exit);
  if (provided < MPI_THREAD_FUNNELED) {
    return Unavailable{"this MPI library does not allow other threads in a rank"};
  }
  int* highest_tag = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest_tag, &found);
  if (found == 0 || *highest_tag < Transport::kTagLimit) {
    return Unavailable{"this MPI library's tags end below " + std::to_string(Transport::kTagLimit)};
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return std::nullopt;
}

}  // namespace

std::variant<std::unique_ptr<World>, Unavailable> open_mpi_world(const WorldOptions& options) {
  if (std::optional<Unavailable> problem = start_mpi()) {
    return std::move(*problem);
  }
  return std::make_unique<World>(std::make_unique<MpiTransport>(), options);
}

std::optional<int> open_mpi_rank() noexcept {
  if (!mpi_is_open()) {
    return std::nullopt;
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

void abort_mpi(int code) noexcept {
  if (mpi_is_open()) {
    MPI_Abort(MPI_COMM_WORLD, code);
  }
}

void MpiTransport::left_early() noexcept {
  abort_world(kEarlyExitCode, "left the job without World::finish; the other ranks cannot go on");
}

}  // namespace parplan::hw
