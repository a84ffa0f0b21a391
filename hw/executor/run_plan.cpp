#include "hw/executor/run_plan.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "hw/copy_bytes.hpp"
#include "hw/executor/agreement.hpp"
#include "hw/executor/bound_step.hpp"
#include "hw/executor/input_data.hpp"
#include "hw/executor/process_memory.hpp"
#include "hw/executor/rank_groups.hpp"
#include "hw/executor/sampler.hpp"
#include "hw/executor/step_runner.hpp"
#include "hw/executor/stop_vote.hpp"
#include "hw/executor/trace_recorder.hpp"
#include "sim/core/error.hpp"
#include "sim/core/plan_json.hpp"

namespace parplan::hw {
namespace {

std::unique_ptr<Device> make_device(const RunOptions& options) {
  switch (options.device) {
    case DeviceKind::kCpu:
      return make_cpu_device(options.threads);
  }
  throw InternalError("every kind of device can be made");
}

std::vector<ValueId> loaded_values(const RankClass& rank_class) {
  std::vector<ValueId> values;
  for (const Tensor& tensor : rank_class.tensors) {
    if (tensor.kind == TensorKind::kInput && tensor.value) values.push_back(*tensor.value);
  }
  return values;
}

void check_options(const RunOptions& options) {
  const auto require = [](bool condition, const std::string& what) {
    if (!condition) throw InputError(what);
  };
  require(options.steps.value_or(1) >= 1, "at least one step must run");
  require(options.epochs >= 1, "at least one epoch must run");
  require(options.trace_steps >= 0, "the number of traced steps cannot be negative");
  for (const std::int64_t step : options.snapshot_after) {
    require(step >= 1, "steps of snapshots count from 1");
  }
}

/// One rank's run, from the lowered program to the gathered result.
class RankRun {
 public:
  RankRun(World& world, const Plan& plan, const Program& program, const RunOptions& options)
      : world_(world),
        plan_(plan),
        program_(program),
        options_(options),
        where_(coordinates_of(world.rank(), program.layout)),
        rank_class_(program.classes.at(static_cast<std::size_t>(where_.position))),
        device_(make_device(options)),
        replay_(replay_memory(rank_class_, program.precision)),
        memory_(*device_, flat_buffers(rank_class_.flat_elements, program.precision),
                replay_.arena),
        gradient_(*device_, Bytes{sizeof(GradientState)}),
        groups_(create_groups(world, program)),
        data_(plan.model, plan.workload, loaded_values(rank_class_)),
        sampler_(plan.workload, data_.samples()) {
    initialise_parameters(plan, rank_class_, where_, options.initial_parameters, memory_, *device_);
    poison(memory_.arena.data(), memory_.arena.size());
    start_gradient_state();
    step_ = bind_step({plan, program, where_, memory_, groups_, &loss_, gradient()}, *device_);
    if (options.trace_steps > 0) recorder_.emplace(step_, std::min(options.trace_steps, steps()));
  }

  RunResult run() {
    result_.memory = replay_;
    result_.epoch = {sampler_.samples(), sampler_.steps_per_epoch(), sampler_.padded_per_epoch(),
                     sampler_.dropped_per_epoch()};
    const ClockOffset clock_before = world_.align_clock();
    const std::int64_t before_ns = now_ns();
    run_steps();
    const ClockOffset clock_after = world_.align_clock();
    // Before the trace is put together, which is no part of training.
    const RankSummary own = summary();
    gather_summaries(own);
    if (recorder_) gather_trace(own, ClockLine(clock_before, before_ns, clock_after, now_ns()));
    gather_columns();
    return std::move(result_);
  }

 private:
  static std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
        .count();
  }

  GradientState* gradient() const { return reinterpret_cast<GradientState*>(gradient_.data()); }
  void start_gradient_state() {
    if (scales()) state_.loss_scale = plan_.workload.loss_scaling.initial;
    device_->copy_from_host(gradient_.data(), reinterpret_cast<const std::byte*>(&state_),
                            Bytes{sizeof(state_)});
  }
  bool scales() const { return scales_loss(program_.precision); }

  /// `scale`: the loss scale of the step that was done last.
  void note_gradient(double scale) {
    if (rank_class_.norm_ranges.empty()) return;
    device_->copy_to_host(reinterpret_cast<std::byte*>(&state_), gradient_.data(),
                          Bytes{sizeof(state_)});
    result_.gradient_norms.push_back(std::sqrt(state_.squared_norm) / scale);
    if (scales()) result_.loss_scales.push_back(scale);
  }

  std::int64_t steps() const {
    return options_.steps.value_or(options_.epochs * sampler_.steps_per_epoch());
  }

  void run_steps() {
    const std::int64_t steps = this->steps();
    // A run that is meant to be interrupted may name any number of steps.
    const auto room = static_cast<std::size_t>(std::min<std::int64_t>(steps, 1 << 16));
    losses_.reserve(room);
    seconds_.reserve(room);
    const std::set<std::int64_t> snapshots(options_.snapshot_after.begin(),
                                           options_.snapshot_after.end());
    StepRunner runner(world_, *device_, step_, data_,
                      {sampler_, plan_.workload.seed, program_.microbatch_samples, loss_},
                      recorder_ ? &*recorder_ : nullptr);
    StopVote vote(world_, options_.interrupt);
    while (result_.steps < steps && !result_.interrupted) {
      const double scale = state_.loss_scale;
      const Clock::time_point begin = Clock::now();
      const double loss = runner.run(result_.steps);
      const std::chrono::duration<double> elapsed = Clock::now() - begin;
      losses_.push_back(where_.tensor == 0 ? loss : 0.0);
      seconds_.push_back(elapsed.count());
      note_gradient(scale);
      ++result_.steps;
      if (snapshots.contains(result_.steps)) take_snapshot(scale);
      if (options_.progress && world_.rank() == 0) {
        options_.progress({result_.steps, steps, Seconds{elapsed.count()}});
      }
      const bool stop = vote.stop_after(result_.steps, Seconds{elapsed.count()});
      result_.interrupted = stop && result_.steps < steps;
    }
  }

  void take_snapshot(double loss_scale) {
    const auto collect = [this](const DeviceRange& flat) {
      return collect_tensors(world_, plan_, program_,
                             copy_flat(flat, state_type(program_.precision), *device_));
    };
    Snapshot snapshot;
    snapshot.after_step = result_.steps;
    snapshot.parameters = collect(memory_.exact_parameters());
    snapshot.gradients = collect(memory_.gradients);
    for (LogicalTensor& gradient : snapshot.gradients) {
      for (double& value : gradient.values) value /= loss_scale;
    }
    if (world_.rank() == 0) result_.snapshots.push_back(std::move(snapshot));
  }

  RankSummary summary() const {
    return {world_.rank(), replay_.peak.total(), peak_process_bytes()};
  }

  void gather_summaries(const RankSummary& own) {
    for (const std::string& bytes :
         world_.gather({reinterpret_cast<const char*>(&own), sizeof(own)})) {
      std::memcpy(&result_.summaries.emplace_back(), bytes.data(), sizeof(RankSummary));
    }
  }

  void gather_trace(const RankSummary& summary, const ClockLine& clock) {
    RankTrace own = build_rank_trace(*recorder_, step_,
                                     {world_.rank(), plan_.model, rank_class_, replay_}, clock);
    const auto traced = static_cast<std::int32_t>(recorder_->records().size());
    result_.trace = merge_traces(world_, std::move(own), summary);
    result_.trace.plan_digest = digest_of(plan_);
    result_.trace.machine = world_.host_name();
    result_.trace.steps = traced;
  }

  /// Losses sum over the ranks in rank order, step times are the slowest rank's.
  void gather_columns() {
    std::vector<double> own = losses_;
    own.insert(own.end(), seconds_.begin(), seconds_.end());
    const auto gathered =
        world_.gather({reinterpret_cast<const char*>(own.data()), own.size() * sizeof(double)});
    if (world_.rank() != 0) return;
    const std::size_t steps = losses_.size();
    result_.losses.assign(steps, 0.0);
    result_.step_times.assign(steps, Seconds{0.0});
    for (const std::string& bytes : gathered) {
      ensure(bytes.size() == own.size() * sizeof(double), "all ranks ran the same steps");
      copy_bytes(own.data(), bytes.data(), bytes.size());
      for (std::size_t s = 0; s < steps; ++s) {
        result_.losses[s] += own[s];
        result_.step_times[s] = std::max(result_.step_times[s], Seconds{own[steps + s]});
      }
    }
    if (recorder_) result_.trace.losses = result_.losses;
  }

  World& world_;
  const Plan& plan_;
  const Program& program_;
  const RunOptions& options_;
  MeshCoordinates where_;
  const RankClass& rank_class_;
  std::unique_ptr<Device> device_;
  MemoryReplay replay_;
  RankMemory memory_;
  DeviceMemory gradient_;  ///< GradientState
  GradientState state_;    ///< its copy, as note_gradient left it
  RankGroups groups_;
  InputData data_;
  Sampler sampler_;
  double loss_ = 0.0;
  BoundStep step_;
  std::optional<TraceRecorder> recorder_;
  RunResult result_;
  std::vector<double> losses_;
  std::vector<double> seconds_;
};

}  // namespace

RunResult run_plan(World& world, const Plan& plan, const RunOptions& options) {
  check_options(options);
  reset_peak_process_bytes();
  const Program program = lower(plan);
  check_agreement(world, plan, program, options);
  return RankRun(world, plan, program, options).run();
}

}  // namespace parplan::hw
