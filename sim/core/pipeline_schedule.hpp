#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace parplan {

/// The order in which a pipeline stage works through the microbatches of one step.
enum class PipelineSchedule {
  kGpipe,                 ///< every forward in order, then every backward in order 0..m-1
  kOneForwardOneBackward  ///< min(p - stage - 1, m) forwards, then forward and backward in turn
};

/// Name used in files and flags: "gpipe", "1f1b".
[[nodiscard]] std::string_view pipeline_schedule_name(PipelineSchedule schedule);

/// Inverse of pipeline_schedule_name(); nothing for an unknown name.
[[nodiscard]] std::optional<PipelineSchedule> parse_pipeline_schedule(std::string_view name);

enum class StepKind { kForward, kBackward };

/// One piece of a stage's work: the forward or the backward of one microbatch.
struct ScheduleStep {
  StepKind kind = StepKind::kForward;
  int microbatch = 0;
  friend bool operator==(const ScheduleStep&, const ScheduleStep&) = default;
};

/// One order per stage, first stage first.
using ScheduleTable = std::vector<std::vector<ScheduleStep>>;

/// The 2 * microbatches steps of `stage` in execution order. Any stages >= 1, microbatches >= 1
/// (fewer microbatches than stages included) and 0 <= stage < stages; InputError otherwise.
[[nodiscard]] std::vector<ScheduleStep> stage_order(PipelineSchedule schedule, int stages,
                                                    int microbatches, int stage);

/// stage_order() of every stage.
[[nodiscard]] ScheduleTable schedule_table(PipelineSchedule schedule, int stages, int microbatches);

/// Most microbatches whose activations a stage with this order holds at once. A microbatch is held
/// from the start of its forward to the end of its backward. m for gpipe, min(p - stage, m) for
/// 1f1b.
[[nodiscard]] int in_flight_microbatches(const std::vector<ScheduleStep>& order);

/// What makes `table` no schedule at all, as one sentence for the user, or nothing. Checked:
/// - every stage runs each of the microbatches 0..m-1 once forward and, later, once backward, where
/// m
///   is the number of forwards of stage 0;
/// - neighbouring stages run the forwards in the same order, and the backwards too: between two
/// stages
///   a message carries no name, only its place in the sequence.
[[nodiscard]] std::optional<std::string> schedule_defect(const ScheduleTable& table);

/// Why `table` cannot be run, as one sentence for the user, or nothing if it can:
/// schedule_defect(), or a deadlock when every transfer blocks both sides (rendezvous). Between two
/// of its steps a stage posts the send of what it just made together with the receive of what it
/// needs next, and goes on when both are done. (Posting them one after the other deadlocks in the
/// steady state of 1f1b, where neighbours send to each other at the same time.)
[[nodiscard]] std::optional<std::string> schedule_problem(const ScheduleTable& table);

}  // namespace parplan
