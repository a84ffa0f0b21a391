#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/pipeline_schedule.hpp"
#include "sim/task_graph.hpp"

namespace parplan::sim {

/// How a transfer between stages holds up the two stages.
enum class TransferMode : std::uint8_t {
  /// Leaves when the sender has sent it; nobody waits but the step that needs it.
  kEager,
  /// Starts when both stages have come to it, one step early on either side: a receive is posted
  /// before
  /// the step before the one that needs it, and a send has to be over two steps after its own. So
  /// the
  /// lowering posts them.
  kPosted,
  /// Starts when both stages have come to it; neither goes on until it is over. Between two steps a
  /// stage posts what it sends and what it needs together, as schedule_problem() assumes.
  kRendezvous
};

/// Through how many of its steps a stage may go before its transfers hold it: 2 for kPosted,
/// else 1. A transfer into step k waits, unless eager, for the receiver's step k - overlap, and
/// step k waits for the transfers out of step k - overlap.
[[nodiscard]] int step_overlap(TransferMode mode);

/// Durations of a pipeline of p stages, picoseconds >= 0; the same for every microbatch. Boundary i
/// lies between stage i and i + 1: activations cross it upwards, gradients downwards, each
/// direction one transfer at a time in the order of sending.
struct PipelineTimes {
  std::vector<std::int64_t> forward_ps, backward_ps;                       // [p]
  std::vector<std::int64_t> activation_transfer_ps, gradient_transfer_ps;  // [p - 1]
  /// Time that a transfer takes from the compute stream of the sending stage right after the step
  /// whose result it carries, and of the receiving stage right before the step that uses it. [p -
  /// 1] or empty for none.
  std::vector<std::int64_t> activation_send_ps, activation_receive_ps;
  std::vector<std::int64_t> gradient_send_ps, gradient_receive_ps;

  [[nodiscard]] std::size_t stages() const { return forward_ps.size(); }
};

/// `values` of PipelineTimes at a boundary; 0 where they are empty.
[[nodiscard]] inline std::int64_t at_boundary(const std::vector<std::int64_t>& values,
                                              std::size_t boundary) {
  return values.empty() ? 0 : values[boundary];
}

/// Throws InternalError unless `times` has the array sizes above for `stages` and no negative
/// entry.
void check_pipeline_times(const PipelineTimes& times, std::size_t stages);

/// What a task of a pipeline graph stands for. `stage` is where it runs; of a transfer, the sender.
struct PipelineTask {
  enum class Part : std::uint8_t { kReceive, kCompute, kSend, kTransfer };
  Part part = Part::kCompute;
  ScheduleStep step;
  int stage = 0;
  friend bool operator==(const PipelineTask&, const PipelineTask&) = default;
};

/// "forward of microbatch 3 on stage 1", "transfer of the backward of microbatch 0 from stage 2".
[[nodiscard]] std::string describe(const PipelineTask& task);

/// One step of a pipeline as a task graph. Resources: the p compute streams, then the p - 1
/// boundaries upwards, then the p - 1 downwards.
///
/// On a stage's compute stream each step is [receive] compute [send]. A transfer waits for its send
/// and the receive waits for the transfer; what else waits is said at TransferMode.
struct PipelineGraph {
  TaskGraph graph;
  std::vector<PipelineTask> tasks;  ///< by task
  std::size_t stages = 0;
  bool stream_parts = false;
};

/// Builds the graph of `table`. `stream_parts` makes tasks of the send and receive parts; without
/// it the times must have none. Throws InputError with schedule_defect(), or with the tasks' names
/// if the table deadlocks in this mode.
[[nodiscard]] PipelineGraph build_pipeline_graph(const ScheduleTable& table, TransferMode mode,
                                                 bool stream_parts);

/// The durations of the graph's tasks in task order.
[[nodiscard]] std::vector<std::int64_t> pipeline_durations_ps(const PipelineGraph& pipeline,
                                                              const PipelineTimes& times);

}  // namespace parplan::sim
