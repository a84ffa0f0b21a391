#include "sim/core/pipeline_schedule.hpp"

#include <algorithm>
#include <cstddef>

#include "sim/core/error.hpp"

namespace parplan {
namespace {

constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);

std::string describe(const ScheduleStep& step) {
  return std::string(step.kind == StepKind::kForward ? "forward" : "backward") + " of microbatch " +
         std::to_string(step.microbatch);
}

/// Where each stage runs the forward and the backward of each microbatch.
struct StepPositions {
  std::vector<std::vector<std::size_t>> forward, backward;  // [stage][microbatch]

  const std::vector<std::size_t>& of(StepKind kind, std::size_t stage) const {
    return kind == StepKind::kForward ? forward[stage] : backward[stage];
  }
};

std::optional<std::string> read_stage(const std::vector<ScheduleStep>& order, std::size_t stage,
                                      std::size_t microbatches, StepPositions& positions) {
  const std::string where = "stage " + std::to_string(stage);
  auto& forward = positions.forward.emplace_back(microbatches, kAbsent);
  auto& backward = positions.backward.emplace_back(microbatches, kAbsent);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const ScheduleStep& step = order[i];
    if (step.microbatch < 0 || static_cast<std::size_t>(step.microbatch) >= microbatches) {
      return where + " has the " + describe(step) + ", but there are " +
             std::to_string(microbatches) + " microbatches.";
    }
    const auto microbatch = static_cast<std::size_t>(step.microbatch);
    auto& position = (step.kind == StepKind::kForward ? forward : backward)[microbatch];
    if (position != kAbsent) return where + " has the " + describe(step) + " twice.";
    if (step.kind == StepKind::kBackward && forward[microbatch] == kAbsent) {
      return where + " has the " + describe(step) + " before its forward.";
    }
    position = i;
  }
  for (std::size_t k = 0; k < microbatches; ++k) {
    for (const StepKind kind : {StepKind::kForward, StepKind::kBackward}) {
      if (positions.of(kind, stage)[k] == kAbsent) {
        return where + " lacks the " + describe({kind, static_cast<int>(k)}) + ".";
      }
    }
  }
  return std::nullopt;
}

/// The microbatches of one kind in the order in which a stage runs them.
std::vector<int> sequence(const std::vector<ScheduleStep>& order, StepKind kind) {
  std::vector<int> microbatches;
  for (const ScheduleStep& step : order) {
    if (step.kind == kind) microbatches.push_back(step.microbatch);
  }
  return microbatches;
}

/// Runs the table with blocking transfers; only the order counts, so steps take no time.
class BlockingRun {
 public:
  BlockingRun(const ScheduleTable& table, const StepPositions& positions)
      : table_(table), positions_(positions), done_(table.size(), 0) {}

  std::optional<std::string> problem() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < table_.size(); ++stage) {
        while (done_[stage] < table_[stage].size() && !obstacle(stage)) {
          ++done_[stage];
          moved = true;
        }
      }
    }
    std::string message;
    for (std::size_t stage = 0; stage < table_.size(); ++stage) {
      if (done_[stage] == table_[stage].size()) continue;
      message += message.empty() ? "the schedule deadlocks when sends block: " : "; ";
      message += "stage " + std::to_string(stage) + " " + *obstacle(stage);
    }
    if (message.empty()) return std::nullopt;
    return message + ".";
  }

 private:
  /// The stage that `kind` comes from (`inward`) or goes to, if any.
  std::optional<std::size_t> neighbour(std::size_t stage, StepKind kind, bool inward) const {
    const bool lower = (kind == StepKind::kForward) == inward;
    if (lower) return stage == 0 ? std::nullopt : std::optional(stage - 1);
    return stage + 1 == table_.size() ? std::nullopt : std::optional(stage + 1);
  }

  /// What keeps the stage from its next step, if anything does.
  std::optional<std::string> obstacle(std::size_t stage) const {
    const std::size_t next = done_[stage];
    const ScheduleStep& step = table_[stage][next];
    if (const auto source = neighbour(stage, step.kind, true)) {
      const auto microbatch = static_cast<std::size_t>(step.microbatch);
      if (done_[*source] <= positions_.of(step.kind, *source)[microbatch]) {
        return "waits for the " + describe(step) + " from stage " + std::to_string(*source);
      }
    }
    if (next == 0) return std::nullopt;
    const ScheduleStep& sent = table_[stage][next - 1];
    if (const auto target = neighbour(stage, sent.kind, false)) {
      const auto microbatch = static_cast<std::size_t>(sent.microbatch);
      if (done_[*target] < positions_.of(sent.kind, *target)[microbatch]) {
        return "cannot hand the " + describe(sent) + " to stage " + std::to_string(*target);
      }
    }
    return std::nullopt;
  }

  const ScheduleTable& table_;
  const StepPositions& positions_;
  std::vector<std::size_t> done_;  // steps finished, by stage
};

}  // namespace

std::string_view pipeline_schedule_name(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::kGpipe:
      return "gpipe";
    case PipelineSchedule::kOneForwardOneBackward:
      return "1f1b";
  }
  throw InternalError("unknown pipeline schedule.");
}

std::optional<PipelineSchedule> parse_pipeline_schedule(std::string_view name) {
  for (const auto schedule : {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward}) {
    if (pipeline_schedule_name(schedule) == name) return schedule;
  }
  return std::nullopt;
}

std::vector<ScheduleStep> stage_order(PipelineSchedule schedule, int stages, int microbatches,
                                      int stage) {
  if (stages < 1 || microbatches < 1 || stage < 0 || stage >= stages) {
    throw InputError(
        "a pipeline needs at least 1 stage and 1 microbatch and a stage within it, not " +
        std::to_string(stages) + " stages, " + std::to_string(microbatches) +
        " microbatches, stage " + std::to_string(stage) + ".");
  }
  // Both schedules are "some forwards ahead, then forward and backward in turn, then what is left":
  // gpipe has all of its forwards ahead.
  const int ahead = schedule == PipelineSchedule::kGpipe
                        ? microbatches
                        : std::min(stages - stage - 1, microbatches);
  std::vector<ScheduleStep> order;
  order.reserve(2 * static_cast<std::size_t>(microbatches));
  for (int k = 0; k < ahead; ++k) order.push_back({StepKind::kForward, k});
  for (int k = 0; k < microbatches; ++k) {
    if (ahead + k < microbatches) order.push_back({StepKind::kForward, ahead + k});
    order.push_back({StepKind::kBackward, k});
  }
  return order;
}

ScheduleTable schedule_table(PipelineSchedule schedule, int stages, int microbatches) {
  ScheduleTable table;
  for (int stage = 0; stage < std::max(stages, 1); ++stage) {
    table.push_back(stage_order(schedule, stages, microbatches, stage));
  }
  return table;
}

int in_flight_microbatches(const std::vector<ScheduleStep>& order) {
  int held = 0, most = 0;
  for (const ScheduleStep& step : order) {
    held += step.kind == StepKind::kForward ? 1 : -1;
    most = std::max(most, held);
  }
  return most;
}

namespace {

std::optional<std::string> defect(const ScheduleTable& table, StepPositions& positions) {
  if (table.empty()) return "the schedule has no stage.";
  const auto microbatches = sequence(table[0], StepKind::kForward).size();
  if (microbatches == 0) return "stage 0 has no forward.";
  for (std::size_t stage = 0; stage < table.size(); ++stage) {
    if (auto problem = read_stage(table[stage], stage, microbatches, positions)) return problem;
  }
  for (std::size_t stage = 1; stage < table.size(); ++stage) {
    for (const StepKind kind : {StepKind::kForward, StepKind::kBackward}) {
      if (sequence(table[stage], kind) == sequence(table[stage - 1], kind)) continue;
      return "stages " + std::to_string(stage - 1) + " and " + std::to_string(stage) + " run the " +
             (kind == StepKind::kForward ? "forwards" : "backwards") + " in different orders.";
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> schedule_defect(const ScheduleTable& table) {
  StepPositions positions;
  return defect(table, positions);
}

std::optional<std::string> schedule_problem(const ScheduleTable& table) {
  StepPositions positions;
  if (auto problem = defect(table, positions)) return problem;
  return BlockingRun(table, positions).problem();
}

}  // namespace parplan
