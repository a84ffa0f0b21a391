#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/memory_replay.hpp"
#include "sim/core/model.hpp"
#include "sim/core/program.hpp"
#include "sim/cost_model.hpp"
#include "sim/event_queue.hpp"
#include "sim/task_graph.hpp"

namespace parplan::sim {

/// What one task of a step stands for.
struct StepTask {
  enum class Part : std::uint8_t {
    kStepStart,      ///< per-step overhead of a rank, or only its start where cores are shared
    kOverhead,       ///< issuing an instruction
    kOperation,      ///< one operation of a kRun instruction
    kOperationCpu,   ///< the core share of a blocking collective, where cores are shared
    kTransferStart,  ///< sender and receiver have come to a transfer and the link is free for it
    kTransfer,       ///< a send and its receive, on the link
    kCollective,     ///< a reduction, beside computation
    kSendCpu,        ///< the sender's core share of a transfer, paid where it is issued
    kReceiveCpu,     ///< the receiver's core share, paid where it is waited for
    kCollectiveCpu,  ///< a reduction's core share, paid where it is issued
    kAwait,          ///< the compute stream goes on when a transfer or reduction is complete
    kOptimizer,
    kGradientNorm,
  };
  Part part = Part::kOperation;
  std::int32_t rank_class = 0;   ///< of a transfer: the sender's
  std::int32_t instruction = 0;  ///< index in the class's list
  std::int32_t operation = -1;   ///< index in the body
  std::int32_t peer_class = -1;  ///< of a transfer: the receiver's
  std::int32_t peer_instruction = -1;
};

/// One training step as tasks with durations: one representative rank per class, since the ranks of
/// a class do the same at the same time. Tensor-parallel collectives are operations; they block, as
/// they do in the executor. Transfers are rendezvous: they start when sender and receiver have both
/// come to them. A transfer or reduction takes its link for its whole time. What it needs of a
/// rank's own core happens meanwhile, as a task on the compute stream: it delays computation, but
/// not a rank that only waits. A reduction's and a sender's core share comes where they are issued,
/// since computation goes on there; a receiver's where the data is waited for, from when the
/// transfer has started, since only then there is something to receive.
///
/// Where a node holds more ranks than cores, everything that needs a core draws on the node's:
/// operations, overheads and the core shares of transfers and collectives; waiting draws nothing.
/// Durations are those of a rank with a core of its own.
struct StepGraph {
  TaskGraph graph;
  std::vector<StepTask> tasks;             ///< by task
  std::vector<std::int64_t> durations_ps;  ///< by task
  std::vector<CostSource> sources;         ///< by task: what the duration rests on
  std::vector<ResourceIndex> compute;      ///< per class: its compute stream
  Contention contention;                   ///< shared cores; without routes when there are none
};

/// The most that all tasks of a step may take together. A timeline of nine such steps in a row,
/// which is more than `steady_timeline` runs, ends before 2^63 ps.
inline constexpr Seconds kMostWork{1e6};

/// `replays`: memory of each class of the program, whose size some operations depend on. Throws
/// InputError when the program's list deadlocks, naming the instructions, or when its tasks take
/// more than kMostWork.
StepGraph build_step_graph(const Model& model, const Program& program, const CostModel& costs,
                           const std::vector<MemoryReplay>& replays);

/// Whether the task is (part of) a collective of the tensor-parallel ranks.
bool blocks_on_tensor_group(const StepTask& task, const Program& program);

}  // namespace parplan::sim
