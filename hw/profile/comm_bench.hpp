#pragma once

#include <cstdint>
#include <vector>

#include "hw/world.hpp"
#include "sim/core/cluster.hpp"

namespace parplan::hw {

struct CommBenchOptions {
  std::vector<std::int64_t> bytes;  ///< payload sizes to measure
  Seconds time_per_point{0.05};     ///< of repetitions; at least `least_repetitions`
  int least_repetitions = 5;
  int least_ranks = 2;  ///< of a group; smaller ones are left out
  /// Whether every rank has a core of its own, so that what a transfer takes from a computing rank
  /// can be told from what other ranks take.
  bool own_cores = true;
};

/// Powers of two from 8 B to 16 MiB.
std::vector<std::int64_t> default_comm_sizes();

/// Measures all-reduce, all-gather, reduce-scatter, all-to-all, broadcast and one-way send/receive
/// on the first n ranks of the world, for each n in 2, 4, 8, ... and the world's size, from
/// `least_ranks` on. Collective over the world. Method: results are checked once, buffers rotate, a
/// barrier precedes every repetition, of collectives also a pause of about 200 us, the slowest rank
/// counts, rank 0 decides the number of repetitions. Wall time is from the arrival of the last rank
/// to completion. Core time of all-reduce and send/receive, which run beside computation: by how
/// much computation meanwhile, which uses the core alone, falls behind; that counts what the kernel
/// does for the link, too. Of the others, and without `own_cores`, what the operation's own
/// progress took (CommTimes::cpu). Rank 0 gets the samples, other ranks an empty list.
std::vector<TransferSample> measure_communication(World& world, const CommBenchOptions& options);

/// Whether `bytes` in each direction at once between ranks 0 and 1 take about twice as long as one
/// direction alone (at least 1.75 times, median of 9). Collective over the world; the answer is
/// rank 0's.
bool directions_share_link(World& world, std::int64_t bytes);

}  // namespace parplan::hw
