#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hw/communicator.hpp"
#include "hw/progress.hpp"
#include "sim/core/collective_algorithm.hpp"

namespace parplan::hw {

class Transport;

struct WorldOptions {
  WaitPolicy wait;
  /// Large messages are cut into segments of this size, so that adding one overlaps with moving the
  /// next. The same on all ranks. See hw/collectives/README.md for the measurement.
  std::size_t segment_bytes = static_cast<std::size_t>(kSegmentBytes);
  /// Threads that each rank computes with; ranks x threads beyond the host's cores make waiting
  /// ranks give up their core at every poll.
  int threads_per_rank = 1;
};

/// This rank's clock against rank 0's: rank0_time = local_time - offset, give or take `uncertainty`
/// (half the shortest round trip seen).
struct ClockOffset {
  std::chrono::duration<double> offset{};
  std::chrono::duration<double> uncertainty{};
};

/// All ranks of the job, seen from one of them. One object per rank, used by that rank's thread
/// only; it outlives its communicators and their Pendings. The calls marked collective are made by
/// every rank in the same order, block, and are bounded by the WaitPolicy.
class World {
 public:
  World(std::unique_ptr<Transport> transport, const WorldOptions& options);
  /// Ends the job with an error when finish() was not called: the other ranks must not hang.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] const std::string& host_name() const;                ///< this rank's host
  [[nodiscard]] const std::vector<std::string>& host_names() const;  ///< by rank
  [[nodiscard]] const WorldOptions& options() const;

  Communicator& all();  ///< the group "world" of all ranks
  Progress& progress();

  /// Collective. The communicator of `ranks` (world ranks, any order: their position is the rank
  /// within the group; no rank twice) or null where this rank is not among them. Make all groups up
  /// front: ranks that create common groups in different orders get an HwError.
  [[nodiscard]] std::unique_ptr<Communicator> create_group(std::span<const int> ranks,
                                                           std::string name);

  /// Collective. Rank 0 gets every rank's bytes in rank order, the others nothing.
  [[nodiscard]] std::vector<std::string> gather(std::string_view bytes);
  /// Collective. Everybody gets rank 0's bytes; the argument of the others is not used.
  [[nodiscard]] std::string broadcast(std::string_view bytes);
  /// Collective. Ping-pong with rank 0, the exchange with the shortest round trip counts.
  [[nodiscard]] ClockOffset align_clock();
  /// Collective.
  void barrier();

  /// Collective, the last call: waits until every rank has come here. After it a rank may end
  /// without the others being told.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Why something is not there, in words for the user.
struct Unavailable {
  std::string reason;
};

/// Starts MPI (once per process) and returns the job's world, or why not: built without MPI, or a
/// library that lacks what we need. A program started without a launcher is a world of one rank.
/// Ends the process with a reason when MPI has not started within the wait's timeout, a minute at
/// least. Installs an exit handler: a rank that exits before World::finish ends the whole job, with
/// its rank.
[[nodiscard]] std::variant<std::unique_ptr<World>, Unavailable> open_mpi_world(
    const WorldOptions& options = {});

/// Whether this process was started by an MPI launcher (mpirun, srun) as one of several ranks or as
/// the only one. Does not start MPI.
[[nodiscard]] bool launched_by_mpi();

/// The rank that an MPI launcher gave this process; none where the launcher does not say. Does not
/// start MPI.
[[nodiscard]] std::optional<int> launched_rank();

/// A world of one rank, without MPI.
[[nodiscard]] std::unique_ptr<World> open_single_world(const WorldOptions& options = {});

/// Runs `rank_main` once per rank, each on its own thread of this process. Returns when all have
/// returned. The first rank that throws ends the waits of all others at once; the call then throws
/// HwError "rank 2: <its reason>" (InputError and InternalError keep their type). A rank that
/// returns while others still wait for it counts as failed, and so does one that leaves without
/// finish(): finish() is called for a rank that returns normally and has not called it.
void run_thread_ranks(int ranks, const std::function<void(World&)>& rank_main,
                      const WorldOptions& options = {});

/// Ends the whole job: prints "parplan: rank N: reason" (without the rank where no MPI world is
/// open) to stderr and stops all ranks with exit code `code`. For main's catch blocks. Ranks tend
/// to fail together and for one reason, so that rank 0 speaks at once and the others, in their
/// order, only if they are still there a moment later (about a second at most).
[[noreturn]] void abort_world(int code, std::string_view reason);

}  // namespace parplan::hw
