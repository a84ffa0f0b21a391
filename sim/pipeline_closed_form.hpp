#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/pipeline_schedule.hpp"
#include "sim/max_plus.hpp"
#include "sim/pipeline_graph.hpp"
#include "sim/pipeline_trace.hpp"

namespace parplan::sim {

/// Room of PipelineClosedForm::evaluate(); one per thread, reusable with any object.
struct PipelineScratch {
  LaneVector state;
  LaneVector durations_ps;
  MaxPlusScratch loop;
};

/// When a pipelined step ends, without walking through its microbatches: what the search asks
/// millions of times. The schedule is turned into max-plus operations over vectors of stages once,
/// in the constructor; its periodic stretches are loops, which MaxPlusBody::repeat() collapses. So
/// the cost of an evaluation does not grow with the number of microbatches.
///
/// Equal to longest_path() on build_pipeline_graph() of the same schedule, mode and times, to the
/// picosecond. Immutable; threads may share one.
class PipelineClosedForm {
 public:
  /// InputError for impossible numbers.
  PipelineClosedForm(PipelineSchedule schedule, int stages, int microbatches, TransferMode mode);
  /// Any schedule, periodic or not. InputError if it is none or deadlocks in this mode.
  PipelineClosedForm(const ScheduleTable& table, TransferMode mode);

  [[nodiscard]] std::size_t stages() const { return stages_; }

  /// Fills when each stage's compute stream ends its last step (size stages(), or empty if not
  /// wanted) and returns the latest of these. InternalError for times of another shape, see
  /// check_pipeline_times().
  std::int64_t evaluate(const PipelineTimes& times, PipelineScratch& scratch,
                        std::span<std::int64_t> stage_finish_ps = {}) const;

 private:
  struct Block {
    MaxPlusBody body;
    std::int64_t repeat;
  };

  explicit PipelineClosedForm(const PipelineTrace& trace);
  void fill_durations(const PipelineTimes& times, PipelineScratch& scratch) const;

  std::size_t stages_ = 0;
  std::size_t region_ = 0;  // registers of one name, over all stages
  std::size_t state_size_ = 0;
  std::vector<std::uint32_t> lane_;        // of a stage within a region
  std::vector<std::uint32_t> last_clock_;  // where each stage's last finish is
  std::vector<Block> blocks_;
};

}  // namespace parplan::sim
