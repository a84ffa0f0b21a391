#include "sim/pipeline_order.hpp"

#include <algorithm>
#include <cstddef>

#include "sim/core/error.hpp"

namespace parplan::sim {
namespace {

constexpr std::size_t kLongestPattern = 64;

std::vector<OrderPiece> fold(const std::vector<ScheduleStep>& order) {
  std::vector<OrderPiece> pieces;
  bool single = false;  // the last piece collects steps that nothing repeats
  for (std::size_t at = 0; at < order.size();) {
    std::size_t best_length = 1, best_repeat = 1;
    for (std::size_t length = 1; length <= std::min(kLongestPattern, order.size() - at); ++length) {
      std::size_t reach = length;
      while (at + reach < order.size() &&
             order[at + reach].kind == order[at + reach - length].kind) {
        ++reach;
      }
      const std::size_t repeat = reach / length;
      if (repeat > 1 && repeat * length > best_repeat * best_length) {
        best_length = length;
        best_repeat = repeat;
      }
    }
    if (best_repeat > 1 || !single) pieces.push_back({{}, static_cast<std::int64_t>(best_repeat)});
    single = best_repeat == 1;
    for (std::size_t i = 0; i < best_length; ++i) {
      pieces.back().steps.push_back(order[at + i].kind);
    }
    at += best_length * best_repeat;
  }
  return pieces;
}

}  // namespace

PipelineOrder pipeline_order(PipelineSchedule schedule, int stages, int microbatches) {
  static_cast<void>(stage_order(schedule, stages, 1, 0));  // refuses what cannot be
  if (microbatches < 1) throw InputError("a pipeline needs at least 1 microbatch.");
  PipelineOrder order;
  for (int stage = 0; stage < stages; ++stage) {
    const std::int64_t ahead = schedule == PipelineSchedule::kGpipe
                                   ? microbatches
                                   : std::min(stages - stage - 1, microbatches);
    auto& pieces = order.emplace_back();
    if (ahead > 0) pieces.push_back({{StepKind::kForward}, ahead});
    if (microbatches > ahead) {
      pieces.push_back({{StepKind::kForward, StepKind::kBackward}, microbatches - ahead});
    }
    if (ahead > 0) pieces.push_back({{StepKind::kBackward}, ahead});
  }
  return order;
}

PipelineOrder fold_order(const ScheduleTable& table) {
  if (const auto defect = schedule_defect(table)) throw InputError(*defect);
  PipelineOrder order;
  for (const auto& stage : table) order.push_back(fold(stage));
  return order;
}

}  // namespace parplan::sim
