#include "traces/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "sim/core/error.hpp"
#include "sim/core/memory_replay.hpp"
#include "sim/core/op_code.hpp"
#include "sim/core_sharing.hpp"
#include "sim/cost_model.hpp"
#include "sim/predicted_trace.hpp"
#include "traces/breakdown.hpp"
#include "traces/core_share.hpp"
#include "traces/statistics.hpp"
#include "traces/step_times.hpp"
#include "traces/transfer_evidence.hpp"

namespace parplan::traces {
namespace {

/// All that decides an operation's cost.
using ShapeKey = std::tuple<OpCode, DType, OpShape, OpVariant, int, Bytes>;

/// Gathers durations by shape, transfers and overheads over all traces.
class Evidence {
 public:
  explicit Evidence(const Cluster& machine)
      : machine_(machine), costs_(machine), transfers_(machine) {}

  void add(const TraceFile& whole) {
    const TraceFile file = typical_part(whole);
    const Program program = lower(file.plan);
    Shapes shapes;
    for (const RankClass& c : program.classes) {
      index(file.plan, program, c,
            {sim::busy_ranks_of(program.layout, machine_, c.position),
             replay_memory(c, program.precision).working_set()},
            shapes);
    }
    const CoreShare core(file, program, costs_);
    std::map<std::tuple<std::int32_t, std::int32_t, std::uint64_t>, std::size_t> seen;
    for (const TraceEvent& e : file.trace.events) {
      const int position = coordinates_of(e.rank, program.layout).position;
      if (e.key.phase() == Phase::kStep || e.stream != Stream::kCompute) continue;
      const auto found = shapes.find({position, e.key.packed});
      if (found == shapes.end()) continue;
      const std::size_t occurrence = seen[{e.rank, e.step, e.key.packed}]++;
      if (occurrence >= found->second.size()) continue;
      const auto& [key, scale] = found->second[occurrence];
      durations_[key].push_back(to_seconds(e.end - e.start).value * scale *
                                (1.0 - core.taken(e.rank, e.start, e.end)));
      ++events_;
    }
    transfers_.add(file, program);
    add_overhead(whole.trace, program);
  }

  std::int64_t events() const { return events_ + transfers_.events(); }

  void refit_operations(Cluster& result, CalibrationSummary& summary) const {
    for (const auto& [key, durations] : durations_) {
      const auto& [code, dtype, shape, variant, busy, working_set] = key;
      if (is_tensor_collective(code)) continue;
      const double mean = mean_of(durations);
      if (mean <= 0.0) continue;
      const double spread = relative_spread(durations, mean);
      const OperationSample sample{code, dtype,       shape,         variant,
                                   busy, working_set, Seconds{mean}, spread};
      const auto same = std::find_if(result.operations.begin(), result.operations.end(),
                                     [&wanted = key](const OperationSample& s) {
                                       return ShapeKey(s.code, s.dtype, s.shape, s.variant,
                                                       s.busy_ranks, s.working_set) == wanted;
                                     });
      if (same != result.operations.end()) {
        *same = sample;
        ++summary.refitted_shapes;
      } else {
        result.operations.push_back(sample);
        ++summary.new_shapes;
      }
    }
    fit_factors(result, summary);
  }

  void refit_transfers(Cluster& result, CalibrationSummary& summary) const {
    transfers_.refit(result, summary);
  }

  /// Fits overhead = a x operations + b per step and rank, in relative least squares.
  void refit_overhead(Cluster& result) const {
    double nn = 0.0;
    double n1 = 0.0;
    double one = 0.0;
    double ny = 0.0;
    double y1 = 0.0;
    for (const auto& [operations, overhead] : overheads_) {
      const double weight = 1.0 / (overhead * overhead);
      nn += weight * operations * operations;
      n1 += weight * operations;
      one += weight;
      ny += weight * operations * overhead;
      y1 += weight * overhead;
    }
    if (nn <= 0.0) return;
    const double determinant = nn * one - n1 * n1;
    double slope = ny / nn;
    double constant = 0.0;
    if (determinant > 1e-9 * nn * one) {
      slope = (ny * one - n1 * y1) / determinant;
      constant = (nn * y1 - n1 * ny) / determinant;
    }
    if (constant < 0.0 || slope < 0.0) {
      slope = slope < 0.0 ? 0.0 : ny / nn;
      constant = slope > 0.0 ? 0.0 : y1 / one;
    }
    result.device.operation_overhead = Seconds{slope};
    result.device.step_overhead = Seconds{constant};
    result.device.instruction_overhead = Seconds{};
  }

 private:
  static TraceFile typical_part(const TraceFile& whole) {
    const std::set<std::int32_t> typical = typical_steps(whole.trace);
    TraceFile part{whole.trace, whole.plan};
    std::erase_if(part.trace.events,
                  [&](const TraceEvent& e) { return !typical.contains(e.step); });
    return part;
  }

  /// How far the measured shapes are from what their neighbours, old and new, say about them.
  void fit_factors(const Cluster& result, CalibrationSummary& summary) const {
    const sim::CostModel costs(result);
    std::map<OpCode, std::vector<double>> ratios;
    for (const auto& [key, durations] : durations_) {
      const auto& [code, dtype, shape, variant, busy, working_set] = key;
      if (is_tensor_collective(code)) continue;
      const double mean = mean_of(durations);
      const Seconds unmeasured = costs.price_as_unmeasured(
          code, shape, variant, dtype, {static_cast<double>(busy), working_set});
      if (mean > 0.0 && unmeasured.value > 0.0) ratios[code].push_back(mean / unmeasured.value);
    }
    for (const auto& [code, values] : ratios) {
      if (values.size() < 3) continue;
      const double factor = median_of(values);
      summary.factors.push_back({std::string(name_of(code)), factor,
                                 relative_spread(values, factor),
                                 static_cast<std::int64_t>(values.size())});
    }
  }

  /// What an operation's duration stands for, and by what it is multiplied first.
  struct Measures {
    ShapeKey key;
    double scale = 1.0;
  };
  /// By position and event.
  using Shapes = std::map<std::pair<int, std::uint64_t>, std::vector<Measures>>;

  /// Samples are for whole numbers of busy ranks: what was measured with 1.75 of them tells by how
  /// much the price for 2 is wrong.
  Measures measures(OpCode code, DType dtype, const OpShape& shape, OpVariant variant,
                    const sim::Conditions& conditions) const {
    const int busy = static_cast<int>(std::lround(conditions.busy_ranks));
    const auto price = [&](double ranks) {
      return costs_.price(code, shape, variant, dtype, {ranks, conditions.working_set}).time;
    };
    const Seconds as_run = price(conditions.busy_ranks);
    const Bytes working_set = sim::is_of_whole_gradient(code) ? conditions.working_set : Bytes{};
    return {{code, dtype, shape, variant, busy, working_set},
            as_run.value > 0.0 ? price(busy) / as_run : 1.0};
  }

  void index(const Plan& plan, const Program& program, const RankClass& c,
             const sim::Conditions& conditions, Shapes& shapes) const {
    for (std::size_t i = 0; i < c.instructions.size(); ++i) {
      const Instruction& instruction = c.instructions[i];
      if (instruction.kind == InstructionKind::kOptimizer) {
        const OpShape shape{.rows = 1, .columns = instruction.flat_end - instruction.flat_begin};
        shapes[{c.position, instruction.key.packed}].push_back(
            measures(OpCode::kAdam, program.precision, shape, {}, conditions));
      }
      if (instruction.kind == InstructionKind::kGradientNorm) {
        const OpShape shape{.rows = 1, .columns = instruction.flat_end - instruction.flat_begin};
        shapes[{c.position, instruction.key.packed}].push_back(
            measures(OpCode::kGradientNorm, program.precision, shape, {}, conditions));
      }
      if (instruction.kind != InstructionKind::kRun) continue;
      for (std::int32_t o = instruction.op_begin; o < instruction.op_end; ++o) {
        const Operation& operation = c.bodies[instruction.body].operations[o];
        const Key key = sim::key_of(c, static_cast<std::int32_t>(i), o, plan.model);
        const OpVariant variant = sim::variant_in_microbatch(
            operation, plan.model.op(operation.op).body, instruction.microbatch);
        shapes[{c.position, key.packed}].push_back(
            measures(operation.code, program.precision, operation.shape, variant, conditions));
      }
    }
  }

  void add_overhead(const Trace& trace, const Program& program) {
    for (const RankBreakdown& b : break_down(trace)) {
      const RankClass& c = program.classes[coordinates_of(b.rank, program.layout).position];
      double operations = 0.0;
      for (const Instruction& i : c.instructions) operations += 1 + i.op_end - i.op_begin;
      if (b.overhead.value > 0.0) overheads_.emplace_back(operations, b.overhead.value);
    }
  }

  const Cluster& machine_;
  sim::CostModel costs_;
  std::map<ShapeKey, std::vector<double>> durations_;
  TransferEvidence transfers_;
  std::vector<std::pair<double, double>> overheads_;  ///< (operations and instructions, seconds)
  std::int64_t events_ = 0;
};

/// New factors take the place of old ones.
void put_factors(Cluster& result, const CalibrationSummary& summary) {
  for (const CalibrationFactor& fitted : summary.factors) {
    const auto known =
        std::find_if(result.calibration.begin(), result.calibration.end(),
                     [&](const CalibrationFactor& f) { return f.key == fitted.key; });
    if (known == result.calibration.end()) {
      result.calibration.push_back(fitted);
    } else {
      *known = fitted;
    }
  }
}

void check_same_device(const NamedTrace& trace, const Cluster& machine) {
  const std::string& device = trace.file.trace.device;
  if (device.empty() || device == machine.device.name) return;
  throw InputError(trace.name + ": measured on '" + device + "', but " + machine.name +
                   " describes '" + machine.device.name +
                   "'; calibrate a machine file of the device that was measured: parplan profile");
}

/// Factors are of all precisions, so that another one's would spoil those that were measured. A
/// machine of which nothing is known yet learns from any.
void check_known_precision(const NamedTrace& trace, const Cluster& machine) {
  const DType precision = trace.file.plan.workload.precision;
  const auto& operations = machine.operations;
  const bool knows_nothing = machine.device.peak.empty() && operations.empty();
  if (knows_nothing || machine.device.peak.contains(precision) ||
      std::any_of(operations.begin(), operations.end(),
                  [&](const OperationSample& s) { return s.dtype == precision; })) {
    return;
  }
  const std::string type(name_of(precision));
  throw InputError(trace.name + ": measured in " + type + ", of which " + machine.name +
                   " knows nothing; calibrate a machine file of that precision: parplan profile "
                   "--precision " +
                   type + " -o FILE");
}

void check_one_thread(const NamedTrace& trace) {
  const std::int32_t threads = trace.file.trace.threads_per_rank;
  if (threads == 1) return;
  throw InputError(trace.name + ": its ranks computed with " + std::to_string(threads) +
                   " threads each, a machine file describes one; execute without --threads");
}

/// `trace` is one of `traces`; one before it must not hold the same.
void check_not_repeated(const std::vector<NamedTrace>& traces, const NamedTrace& trace) {
  for (const NamedTrace& before : traces) {
    if (&before == &trace) return;
    if (before.file.trace.events == trace.file.trace.events) {
      throw InputError(trace.name + ": the same measurement as " + before.name +
                       "; give every trace once");
    }
  }
}

}  // namespace

Cluster calibrate(const Cluster& machine, const std::vector<NamedTrace>& traces,
                  CalibrationSummary* summary) {
  CalibrationSummary own;
  CalibrationSummary& report = summary != nullptr ? *summary : own;
  Evidence evidence(machine);
  Cluster result = machine;
  for (const NamedTrace& trace : traces) {
    if (trace.file.trace.source != TraceSource::kMeasured) {
      throw InputError(trace.name + ": a predicted trace cannot calibrate a machine file");
    }
    check_same_device(trace, machine);
    check_known_precision(trace, machine);
    check_one_thread(trace);
    check_not_repeated(traces, trace);
    if (!sim::share_cores(trace.file.plan.layout, machine).empty()) {
      throw InputError(trace.name + ": a node of " + machine.name + " with " +
                       std::to_string(machine.cores_per_node) +
                       " cores held more ranks than that, so that its times are not those of a "
                       "core; calibrate from plans of fewer ranks");
    }
    if (step_time_of(trace.file.trace).value <= 0.0) {
      throw InputError(trace.name +
                       ": no step of this trace takes time, nothing can be fitted to it; record it "
                       "with 'parplan execute --trace'");
    }
    const std::int64_t before = evidence.events();
    evidence.add(trace.file);
    if (evidence.events() == before) {
      throw InputError(trace.name +
                       ": none of its events is an operation or a transfer of its plan, nothing "
                       "can be fitted to it; record it with 'parplan execute --trace'");
    }
    result.provenance.fitted_from.push_back(trace.name + " (" + to_string(trace.file.plan.layout) +
                                            ", " + trace.file.plan.model.name + ")");
  }
  evidence.refit_operations(result, report);
  evidence.refit_transfers(result, report);
  evidence.refit_overhead(result);
  report.events = evidence.events();
  put_factors(result, report);
  return result;
}

}  // namespace parplan::traces
