#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/core/pipeline_schedule.hpp"
#include "sim/pipeline_graph.hpp"
#include "sim/pipeline_order.hpp"

namespace parplan::sim {

// A pipeline step written out as max-plus operations on a few registers, with loops where it
// repeats: the logic of the schedule, worked out once, without any duration. Registers hold finish
// times:
// - clock r of a stage, r < step_overlap(): after the last of its steps whose number is r modulo
// that;
// - arrival q of a stage and kind, q < depth(kind): of the last transfer into the stage whose
// number is
//   q modulo the depth.
// All are 0 at first. Arrivals from nowhere (stage 0 forwards, last stage backwards) stay so.

/// to = max(from, arrival, handed over) + duration of the step.
struct TraceStep {
  int stage = 0;
  StepKind kind = StepKind::kForward;
  int from_clock = 0, to_clock = 0;
  int arrival = 0;  ///< into `stage`, of `kind`
  /// The transfer out of an earlier step that has to be over: its kind and arrival at the
  /// neighbour.
  struct HandedOver {
    StepKind kind = StepKind::kForward;
    int arrival = 0;
  };
  std::optional<HandedOver> handed_over;
};

/// arrival = max(arrival before, sender's clock, receiver's clock) + duration of the transfer.
struct TraceTransfer {
  int sender = 0;
  StepKind kind = StepKind::kForward;
  int sender_clock = 0;
  std::optional<int> receiver_clock;  ///< none if eager
  int arrival = 0, arrival_before = 0;
};

/// Steps that do not depend on each other, then transfers that do not depend on each other.
struct TraceWave {
  std::vector<TraceStep> steps;
  std::vector<TraceTransfer> transfers;
};

struct TraceBlock {
  std::vector<TraceWave> waves;
  std::int64_t repeat = 1;
};

struct PipelineTrace {
  int stages = 0;
  int clocks = 1;                  ///< step_overlap()
  std::array<int, 2> depth{1, 1};  ///< by kind
  std::vector<int> last_clock;     ///< by stage: the clock of its last step
  std::vector<TraceBlock> blocks;
};

/// The neighbour that a step of `kind` on `stage` sends to, -1 or `stages` where there is none.
[[nodiscard]] constexpr int receiver_of(StepKind kind, int stage) {
  return kind == StepKind::kForward ? stage + 1 : stage - 1;
}

/// Works out the trace. Cost about (waves outside of loops) x stages: independent of the repeats in
/// `order` where all stages are periodic at the same time. Throws InputError if it deadlocks.
[[nodiscard]] PipelineTrace trace_pipeline(const PipelineOrder& order, TransferMode mode);

}  // namespace parplan::sim
