#pragma once

#include <cstdint>

#include "sim/core/cluster.hpp"
#include "sim/core/plan.hpp"
#include "sim/core/program.hpp"
#include "sim/timeline.hpp"

namespace parplan::sim {

/// Different matrix products that a rank of the class runs in a step of `microbatches`: by
/// operation, shape, and whether they add to their result. The library keeps code for each.
std::int64_t distinct_products(const RankClass& rank_class, int microbatches);

/// Scratch memory of a class's all-reduces (all_reduce_scratch_bytes), which is kept for later
/// ones: of the gradient reductions that are under way at once, from issue to completion, when
/// they take most; at least that of the largest single all-reduce, tensor-parallel ones included.
Bytes reduction_scratch(const Program& program, std::int32_t rank_class, const StepGraph& step,
                        const Timeline& line);

/// Resident memory of a rank's process:
///   process_bytes + the block of its tensors (resident_block_bytes)
///   + distinct products x product_bytes (float32 only: the library's code)
///   + the data set where it is kept in memory
///   + with peers, transport_bytes + reduction_scratch
/// `arena`: as replay_memory says.
Bytes process_bytes(const Plan& plan, const Program& program, std::int32_t rank_class, Bytes arena,
                    const StepGraph& step, const Timeline& line, const Cluster& cluster);

}  // namespace parplan::sim
