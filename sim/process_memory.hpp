#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/cluster.hpp"
#include "sim/core/memory_replay.hpp"
#include "sim/core/plan.hpp"
#include "sim/core/program.hpp"
#include "sim/timeline.hpp"

namespace parplan::sim {

/// Different matrix products that a rank of the class runs in a step of `microbatches`: by
/// operation, shape, and whether they add to their result. The library keeps code for each.
std::int64_t distinct_products(const RankClass& rank_class, int microbatches);

/// Scratch memory of all-reduces (all_reduce_scratch_bytes) by rank class, which is kept for later
/// ones: of the gradient reductions that are under way at once, from issue or the completion of the
/// one kRingsAtOnce before to their own completion, when they take most; at least that of the
/// largest single all-reduce, tensor-parallel ones included.
std::vector<Bytes> reduction_scratch(const Program& program, const StepGraph& step,
                                     const Timeline& line);

/// Resident memory of a rank's process, by rank class:
///   process_bytes + the block of its tensors (resident_block_bytes)
///   + distinct products x product_bytes (float32 only: the library's code)
///   + the data set where it is kept in memory
///   + with peers, transport_bytes + reduction_scratch
/// `replays`: replay_memory of each class.
std::vector<Bytes> process_bytes(const Plan& plan, const Program& program,
                                 const std::vector<MemoryReplay>& replays, const StepGraph& step,
                                 const Timeline& line, const Cluster& cluster);

}  // namespace parplan::sim
