#include "sim/pipeline_closed_form.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "sim/core/error.hpp"

namespace parplan::sim {
namespace {

/// Where registers and durations lie. A register name (clock 0, forward arrival 1, ...) is a region
/// with a lane for each stage and one for the nowhere on either side. Stages whose numbers differ
/// by `stride` are neighbours: in the steady state of 1f1b every other stage does the same thing at
/// the same time, and what is done alike should lie side by side. The first stages of all regions
/// and rows of neighbours lie at multiples of a vector's length.
class LaneLayout {
 public:
  LaneLayout(const PipelineTrace& trace, int stride)
      : stride_(stride),
        row_(((trace.stages + stride - 1) / stride + 2 + kVector - 1) / kVector * kVector),
        clocks_(trace.clocks),
        depth_(trace.depth) {}

  std::uint32_t region() const { return static_cast<std::uint32_t>(kVector + row_ * stride_); }
  std::uint32_t regions() const {
    return static_cast<std::uint32_t>(clocks_ + depth_[0] + depth_[1]);
  }
  /// Stage -1 is in front of a row; the stage after the last one, behind.
  std::uint32_t lane(int stage) const {
    const int place = stage + stride_;
    return static_cast<std::uint32_t>(kVector + place % stride_ * row_ + place / stride_ - 1);
  }
  std::uint32_t clock(int clock, int stage) const { return slot(clock, stage); }
  std::uint32_t arrival(StepKind kind, int arrival, int receiver) const {
    const int before = kind == StepKind::kForward ? 0 : depth_[0];
    return slot(clocks_ + before + arrival, receiver);
  }
  /// Durations: forward, backward steps by stage; forward, backward transfers by receiver.
  std::uint32_t step_duration(StepKind kind, int stage) const {
    return slot(static_cast<int>(index_of(kind)), stage);
  }
  std::uint32_t transfer_duration(StepKind kind, int receiver) const {
    return slot(2 + static_cast<int>(index_of(kind)), receiver);
  }

 private:
  std::uint32_t slot(int region_number, int stage) const {
    return static_cast<std::uint32_t>(region_number) * region() + lane(stage);
  }

  static constexpr int kVector = kVectorLanes;

  int stride_, row_, clocks_;
  std::array<int, 2> depth_;
};

MaxPlusRun run_of(const TraceStep& step, const LaneLayout& layout) {
  MaxPlusRun run;
  run.out = layout.clock(step.to_clock, step.stage);
  run.a = layout.clock(step.from_clock, step.stage);
  run.b = layout.arrival(step.kind, step.arrival, step.stage);
  if (step.handed_over) {
    const StepKind kind = step.handed_over->kind;
    run.c = layout.arrival(kind, step.handed_over->arrival, receiver_of(kind, step.stage));
  }
  run.duration = layout.step_duration(step.kind, step.stage);
  run.count = 1;
  return run;
}

MaxPlusRun run_of(const TraceTransfer& transfer, const LaneLayout& layout) {
  const int receiver = receiver_of(transfer.kind, transfer.sender);
  MaxPlusRun run;
  run.out = layout.arrival(transfer.kind, transfer.arrival, receiver);
  run.a = layout.arrival(transfer.kind, transfer.arrival_before, receiver);
  run.b = layout.clock(transfer.sender_clock, transfer.sender);
  if (transfer.receiver_clock) run.c = layout.clock(*transfer.receiver_clock, receiver);
  run.duration = layout.transfer_duration(transfer.kind, receiver);
  run.count = 1;
  return run;
}

/// Operations that do not depend on each other, as few runs as possible.
template <class Operation>
void append_runs(const std::vector<Operation>& operations, const LaneLayout& layout,
                 std::vector<MaxPlusRun>& runs) {
  // Distances from `out`, modulo 2^32: equal for operations that can share a run. kNoOperand stays
  // apart.
  const auto shape = [](const MaxPlusRun& run) {
    const bool three = run.c != MaxPlusRun::kNoOperand;
    return std::tuple(run.a - run.out, run.b - run.out, three, three ? run.c - run.out : 0U,
                      run.duration - run.out);
  };
  std::vector<MaxPlusRun> single;
  for (const Operation& operation : operations) single.push_back(run_of(operation, layout));
  std::sort(single.begin(), single.end(), [&](const MaxPlusRun& x, const MaxPlusRun& y) {
    return std::tuple(shape(x), x.out) < std::tuple(shape(y), y.out);
  });
  const std::size_t first = runs.size();
  for (const MaxPlusRun& run : single) {
    const bool joins = runs.size() > first && shape(runs.back()) == shape(run) &&
                       runs.back().out + runs.back().count == run.out;
    if (joins) {
      ++runs.back().count;
    } else {
      runs.push_back(run);
    }
  }
}

std::vector<MaxPlusRun> runs_of(const TraceBlock& block, const LaneLayout& layout) {
  std::vector<MaxPlusRun> runs;
  for (const TraceWave& wave : block.waves) {
    append_runs(wave.steps, layout, runs);
    append_runs(wave.transfers, layout, runs);
  }
  return runs;
}

constexpr int kMostStride = 4;

/// The stride with the fewest runs in the loops, or at all if there is no loop.
LaneLayout best_layout(const PipelineTrace& trace) {
  const bool has_loop = std::any_of(trace.blocks.begin(), trace.blocks.end(),
                                    [](const TraceBlock& block) { return block.repeat > 1; });
  int best_stride = 1;
  std::optional<std::size_t> best_count;
  for (int stride = 1; stride <= kMostStride; ++stride) {
    const LaneLayout layout(trace, stride);
    std::size_t count = 0;
    for (const TraceBlock& block : trace.blocks) {
      if (block.repeat > 1 || !has_loop) count += runs_of(block, layout).size();
    }
    if (best_count && count >= *best_count) continue;
    best_count = count;
    best_stride = stride;
  }
  return {trace, best_stride};
}

}  // namespace

PipelineClosedForm::PipelineClosedForm(PipelineSchedule schedule, int stages, int microbatches,
                                       TransferMode mode)
    : PipelineClosedForm(trace_pipeline(pipeline_order(schedule, stages, microbatches), mode)) {}

PipelineClosedForm::PipelineClosedForm(const ScheduleTable& table, TransferMode mode)
    : PipelineClosedForm(trace_pipeline(fold_order(table), mode)) {}

PipelineClosedForm::PipelineClosedForm(const PipelineTrace& trace)
    : stages_(static_cast<std::size_t>(trace.stages)) {
  const LaneLayout layout = best_layout(trace);
  region_ = layout.region();
  state_size_ = std::size_t{layout.regions()} * region_;
  for (int stage = 0; stage < trace.stages; ++stage) {
    lane_.push_back(layout.lane(stage));
    last_clock_.push_back(layout.clock(trace.last_clock[static_cast<std::size_t>(stage)], stage));
  }
  for (const TraceBlock& block : trace.blocks) {
    blocks_.push_back({MaxPlusBody(runs_of(block, layout), state_size_), block.repeat});
  }
}

/// What a transfer takes from the two compute streams is part of the steps beside it.
void PipelineClosedForm::fill_durations(const PipelineTimes& times,
                                        PipelineScratch& scratch) const {
  scratch.durations_ps.assign(4 * region_, 0);
  std::int64_t* const forward = scratch.durations_ps.data();
  std::int64_t* const backward = forward + region_;
  std::int64_t* const activation = backward + region_;
  std::int64_t* const gradient = activation + region_;
  for (std::size_t i = 0; i < stages_; ++i) {
    forward[lane_[i]] = times.forward_ps[i];
    backward[lane_[i]] = times.backward_ps[i];
  }
  for (std::size_t i = 0; i + 1 < stages_; ++i) {  // boundary between i and i + 1
    forward[lane_[i]] += at_boundary(times.activation_send_ps, i);
    forward[lane_[i + 1]] += at_boundary(times.activation_receive_ps, i);
    backward[lane_[i + 1]] += at_boundary(times.gradient_send_ps, i);
    backward[lane_[i]] += at_boundary(times.gradient_receive_ps, i);
    activation[lane_[i + 1]] = times.activation_transfer_ps[i];
    gradient[lane_[i]] = times.gradient_transfer_ps[i];
  }
}

std::int64_t PipelineClosedForm::evaluate(const PipelineTimes& times, PipelineScratch& scratch,
                                          std::span<std::int64_t> stage_finish_ps) const {
  check_pipeline_times(times, stages_);
  ensure(stage_finish_ps.empty() || stage_finish_ps.size() == stages_,
         "there is room for every stage's finish, or none");
  fill_durations(times, scratch);
  scratch.state.assign(state_size_, 0);
  for (const Block& block : blocks_) {
    if (block.repeat == 1) {
      block.body.apply(scratch.state, scratch.durations_ps);
    } else {
      block.body.repeat(block.repeat, scratch.state, scratch.durations_ps, scratch.loop);
    }
  }
  std::int64_t makespan = 0;
  for (std::size_t i = 0; i < stages_; ++i) {
    const std::int64_t finish = scratch.state[last_clock_[i]];
    makespan = std::max(makespan, finish);
    if (!stage_finish_ps.empty()) stage_finish_ps[i] = finish;
  }
  return makespan;
}

}  // namespace parplan::sim
