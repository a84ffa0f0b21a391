#include "traces/compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/core/error.hpp"
#include "sim/core/op_code.hpp"
#include "traces/statistics.hpp"

namespace parplan::traces {
namespace {

/// Durations of one key on one rank, summed within each step (a key may occur several times).
using PerStep = std::map<std::int32_t, double>;
struct Joined {
  PerStep predicted;
  PerStep measured;
  std::int64_t count = 0;
};
using JoinKey = std::pair<std::uint64_t, std::int32_t>;  // (key, rank)

/// What an event took, without the time spent waiting for a peer: what the cost model prices.
double work_of(const TraceEvent& e) { return to_seconds(e.end - e.start - e.waiting).value; }

std::string kind_of(Key key) {
  switch (key.phase()) {
    case Phase::kForward:
    case Phase::kBackward:
      return std::string(name_of(static_cast<OpCode>(key.code())));
    case Phase::kSendActivation:
    case Phase::kSendGradient:
      return "send";
    case Phase::kReceiveActivation:
    case Phase::kReceiveGradient:
      return "receive";
    case Phase::kReduceGradients:
      return "gradient all-reduce";
    case Phase::kReduceTied:
      return "tied all-reduce";
    case Phase::kOptimizer:
      return "adam";
    case Phase::kStep:
      break;
  }
  return "step";
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const auto at =
      static_cast<std::size_t>(std::llround(share * static_cast<double>(values.size() - 1)));
  return values[at];
}

double spread_of(const std::vector<double>& values) {
  const double middle = median_of(values);
  return middle > 0.0 ? (percentile(values, 0.9) - percentile(values, 0.1)) / middle : 0.0;
}

std::vector<double> values_of(const PerStep& steps) {
  std::vector<double> values;
  for (const auto& [step, value] : steps) values.push_back(value);
  return values;
}

class Join {
 public:
  Join(const TraceFile& predicted, const TraceFile& measured) : model_(measured.plan.model) {
    add(predicted.trace, &Joined::predicted, true);
    add(measured.trace, &Joined::measured, false);
  }

  void operations(Comparison& c) const {
    for (const auto& [key, joined] : joined_) {
      const Key k = unpacked(key.first);
      if (joined.measured.empty()) c.only_predicted.push_back(to_string(k, model_));
      if (joined.predicted.empty()) c.only_measured.push_back(to_string(k, model_));
      if (joined.measured.empty() || joined.predicted.empty()) continue;
      ErrorRow row = row_of(to_string(k, model_), joined.predicted, joined.measured);
      row.rank = key.second;
      row.count = joined.count;
      c.operations.push_back(std::move(row));
    }
    for (auto* list : {&c.only_predicted, &c.only_measured}) {
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    std::stable_sort(c.operations.begin(), c.operations.end(),
                     [](const ErrorRow& a, const ErrorRow& b) {
                       return std::abs(a.difference().value) > std::abs(b.difference().value);
                     });
  }

  /// Sums over ranks by a name that `group` gives each key; an empty name is left out.
  template <class Group>
  std::vector<ErrorRow> grouped(Group&& group) const {
    struct Sum {
      PerStep predicted, measured;
      std::int64_t count = 0;
    };
    std::map<std::string, Sum> sums;
    for (const auto& [key, joined] : joined_) {
      const std::string name = group(unpacked(key.first));
      if (name.empty()) continue;
      Sum& sum = sums[name];
      for (const auto& [step, value] : joined.predicted) sum.predicted[step] += value;
      for (const auto& [step, value] : joined.measured) sum.measured[step] += value;
      sum.count += joined.count;
    }
    std::vector<ErrorRow> rows;
    for (const auto& [name, sum] : sums) {
      ErrorRow row = row_of(name, sum.predicted, sum.measured);
      row.count = sum.count;
      rows.push_back(std::move(row));
    }
    std::stable_sort(rows.begin(), rows.end(), [](const ErrorRow& a, const ErrorRow& b) {
      return std::max(a.measured, a.predicted) > std::max(b.measured, b.predicted);
    });
    return rows;
  }

 private:
  static Key unpacked(std::uint64_t packed) {
    Key key;
    key.packed = packed;
    return key;
  }
  static ErrorRow row_of(std::string name, const PerStep& predicted, const PerStep& measured) {
    ErrorRow row;
    row.name = std::move(name);
    row.predicted = Seconds{median_of(values_of(predicted))};
    row.measured = Seconds{median_of(values_of(measured))};
    row.relative_spread = spread_of(values_of(measured));
    return row;
  }
  void add(const Trace& trace, PerStep Joined::*side, bool counts) {
    for (const TraceEvent& e : trace.events) {
      if (e.key.phase() == Phase::kStep || spans_operations(e)) continue;
      Joined& joined = joined_[{e.key.packed, e.rank}];
      (joined.*side)[e.step] += work_of(e);
      if (counts) ++joined.count;
    }
  }

  const Model& model_;
  std::map<JoinKey, Joined> joined_;
};

const RankBreakdown& slowest(const std::vector<RankBreakdown>& ranks) {
  return *std::max_element(ranks.begin(), ranks.end(),
                           [](const auto& a, const auto& b) { return a.step < b.step; });
}

void decompose(Comparison& c) {
  if (c.measured_ranks.empty() || c.predicted_ranks.empty()) return;
  const RankBreakdown& measured = slowest(c.measured_ranks);
  const auto same = std::find_if(c.predicted_ranks.begin(), c.predicted_ranks.end(),
                                 [&](const auto& b) { return b.rank == measured.rank; });
  const RankBreakdown& predicted =
      same != c.predicted_ranks.end() ? *same : slowest(c.predicted_ranks);
  c.gap.compute = predicted.compute - measured.compute;
  c.gap.communication = predicted.communication - measured.communication;
  c.gap.waiting = predicted.waiting - measured.waiting;
  c.gap.overhead = predicted.overhead - measured.overhead;
  c.gap.total = c.predicted_step - c.measured_step;
  c.gap.unexplained =
      c.gap.total - c.gap.compute - c.gap.communication - c.gap.waiting - c.gap.overhead;
}

void compare_steps(const Trace& measured, Comparison& c) {
  std::map<std::int32_t, double> slowest_by_step;
  for (const TraceEvent& e : measured.events) {
    if (e.key.phase() != Phase::kStep) continue;
    double& time = slowest_by_step[e.step];
    time = std::max(time, to_seconds(e.end - e.start).value);
  }
  std::vector<double> times;
  for (const auto& [step, time] : slowest_by_step) {
    ErrorRow row;
    row.name = "step " + std::to_string(step);
    row.count = 1;
    row.predicted = c.predicted_step;
    row.measured = Seconds{time};
    c.steps.push_back(std::move(row));
    times.push_back(time);
  }
  c.measured_spread = spread_of(times);
}

void compare_memory(const Trace& predicted, const Trace& measured, Comparison& c) {
  for (const RankSummary& m : measured.summaries) {
    for (const RankSummary& p : predicted.summaries) {
      if (p.rank != m.rank) continue;
      c.memory.push_back({m.rank, p.peak_tensor_bytes, m.peak_tensor_bytes, p.peak_process_bytes,
                          m.peak_process_bytes});
    }
  }
}

void check_comparable(const TraceFile& predicted, const TraceFile& measured,
                      const ComparedNames& names) {
  if (predicted.trace.source != TraceSource::kPredicted) {
    throw InputError(names.predicted +
                     " is measured, a predicted trace is needed here: compare takes PREDICTED then "
                     "MEASURED");
  }
  if (measured.trace.source != TraceSource::kMeasured) {
    throw InputError(names.measured +
                     " is predicted, a measured trace is needed here: compare takes PREDICTED then "
                     "MEASURED");
  }
  if (predicted.trace.plan_digest != measured.trace.plan_digest) {
    throw InputError("the traces are of different plans: " + names.predicted + " predicts " +
                     predicted.trace.plan_digest + " (" + to_string(predicted.plan.layout) + "), " +
                     names.measured + " measured " + measured.trace.plan_digest + " (" +
                     to_string(measured.plan.layout) + "); simulate the plan that was executed");
  }
}

}  // namespace

Comparison compare(const TraceFile& predicted, const TraceFile& measured,
                   const ComparedNames& names) {
  check_comparable(predicted, measured, names);
  Comparison c;
  c.predicted_step = step_time_of(predicted.trace);
  c.measured_step = step_time_of(measured.trace);
  if (c.predicted_step.value <= 0.0 || c.measured_step.value <= 0.0) {
    throw InputError((c.predicted_step.value <= 0.0 ? names.predicted : names.measured) +
                     " has no step that takes time; nothing can be compared");
  }
  compare_steps(measured.trace, c);
  const Join join(predicted, measured);
  join.operations(c);
  c.kinds = join.grouped(kind_of);
  const Model& model = measured.plan.model;
  c.layers = join.grouped([&model](Key key) -> std::string {
    return key.layer() < model.layers.size() ? model.layers[key.layer()].name : std::string();
  });
  c.predicted_ranks = break_down(predicted.trace);
  c.measured_ranks = break_down(measured.trace);
  decompose(c);
  compare_memory(predicted.trace, measured.trace, c);
  return c;
}

}  // namespace parplan::traces
