#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/core/pipeline_schedule.hpp"

namespace parplan::sim {

/// For arrays by kind.
constexpr std::size_t index_of(StepKind kind) { return static_cast<std::size_t>(kind); }

/// A stretch of a stage's order: `steps` in a row, `repeat` >= 1 times.
struct OrderPiece {
  std::vector<StepKind> steps;
  std::int64_t repeat = 1;
  friend bool operator==(const OrderPiece&, const OrderPiece&) = default;
};

/// A schedule without names: by stage, the kinds of its steps, folded. Neighbours run both kinds in
/// the same sequence and all microbatches take the same time, so timing depends on nothing else.
using PipelineOrder = std::vector<std::vector<OrderPiece>>;

/// The order of stage_order() for all stages, in room and time that do not grow with the
/// microbatches.
[[nodiscard]] PipelineOrder pipeline_order(PipelineSchedule schedule, int stages, int microbatches);

/// The order of any table; InputError with schedule_defect() if it is none. Greedy: at each place
/// the repeated stretch of up to 64 steps that reaches farthest, the shortest of several.
[[nodiscard]] PipelineOrder fold_order(const ScheduleTable& table);

}  // namespace parplan::sim
