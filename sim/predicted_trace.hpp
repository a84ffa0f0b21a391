#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/memory_replay.hpp"
#include "sim/core/plan.hpp"
#include "sim/core/trace.hpp"
#include "sim/timeline.hpp"

namespace parplan::sim {

/// One steady step as a Trace, for every rank up to 64 ranks, beyond for one rank of each class.
/// A send's event spans from its issue to the end of the transfer, a receive's from its posting to
/// the end of its copy; `waiting` is the part before the transfer moves. The machine is left for
/// the caller to name.
Trace predicted_trace(const Plan& plan, const Program& program, const StepGraph& step,
                      const Timeline& line, const std::vector<MemoryReplay>& replays,
                      const std::vector<Bytes>& process);

/// Key of an instruction of a class's list, or of one operation of a kRun (`operation` >= 0).
Key key_of(const RankClass& rank_class, std::int32_t instruction, std::int32_t operation,
           const Model& model);

}  // namespace parplan::sim
