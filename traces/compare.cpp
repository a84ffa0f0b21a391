#include "traces/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "sim/core/error.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/op_code.hpp"
#include "traces/intervals.hpp"
#include "traces/statistics.hpp"
#include "traces/step_times.hpp"

namespace parplan::traces {
namespace {

/// Time of one thing within each step, and its exposed part; it may occur several times in one.
struct Times {
  double all = 0.0;
  double exposed = 0.0;
};
using PerStep = std::map<std::int32_t, Times>;
struct Joined {
  PerStep predicted;
  PerStep measured;
  std::int64_t count = 0;
};
using JoinKey = std::pair<std::uint64_t, std::int32_t>;  // (key, rank)

/// What each event took, without the time spent waiting for a peer: what the cost model prices. Of
/// transfers that are under way on one stream at once each counts from the end of the one before.
class EventTimes {
 public:
  explicit EventTimes(const Trace& trace) {
    std::map<std::int32_t, Rank> ranks;
    for (const TraceEvent& e : trace.events) {
      if (e.key.phase() == Phase::kStep || spans_operations(e)) continue;
      if (e.stream == Stream::kCompute) {
        ranks[e.rank].computing.push_back({e.start, e.end});
      } else {
        ranks[e.rank].transfers.push_back(&e);
      }
    }
    for (auto& [rank, r] : ranks) add_transfers(r);
  }

  Times of(const TraceEvent& e) const {
    if (e.stream != Stream::kCompute) return transfers_.at(&e);
    const double all = to_seconds(e.end - e.start - e.waiting).value;
    return {all, all};
  }

 private:
  struct Rank {
    Intervals computing;
    std::vector<const TraceEvent*> transfers;
  };

  /// Of a transfer that ends while the rank computes, nothing is exposed; of others what lies in
  /// that gap and after the end of the one before it.
  void add_transfers(Rank& rank) {
    std::stable_sort(rank.transfers.begin(), rank.transfers.end(),
                     [](const auto* a, const auto* b) { return a->end < b->end; });
    const Intervals computing = joined(std::move(rank.computing));
    std::map<Stream, Picoseconds> before;  // end of the last transfer
    Picoseconds covered = kLongAgo;        // end of what hid, or counted as, exposed time
    auto next = computing.begin();
    for (const TraceEvent* e : rank.transfers) {
      const Picoseconds moves = e->start + e->waiting;
      Picoseconds& last = before.try_emplace(e->stream, kLongAgo).first->second;
      Times& times = transfers_[e];
      times.all = time_between(std::max(last, moves), e->end);
      last = e->end;
      while (next != computing.end() && next->end < e->end) {
        covered = std::max(covered, next->end);
        ++next;
      }
      if (next != computing.end() && next->begin < e->end) continue;
      times.exposed = time_between(std::max(covered, moves), e->end);
      covered = std::max(covered, e->end);
    }
  }

  static double time_between(Picoseconds from, Picoseconds to) {
    return to > from ? to_seconds(to - from).value : 0.0;
  }

  static constexpr Picoseconds kLongAgo{std::numeric_limits<std::int64_t>::min()};
  std::unordered_map<const TraceEvent*, Times> transfers_;
};

/// A transfer between positions has an event on both of its ranks, and counts at its receiver: one
/// that sends little is done before anything arrives.
bool counts_elsewhere(Key key) {
  return key.phase() == Phase::kSendActivation || key.phase() == Phase::kSendGradient;
}

std::string kind_of(Key key) {
  switch (key.phase()) {
    case Phase::kForward:
    case Phase::kBackward:
      return std::string(name_of(static_cast<OpCode>(key.code())));
    case Phase::kSendActivation:
    case Phase::kSendGradient:
      return {};
    case Phase::kReceiveActivation:
    case Phase::kReceiveGradient:
      return "receive";
    case Phase::kReduceGradients:
      return "gradient all-reduce";
    case Phase::kReduceTied:
      return "tied all-reduce";
    case Phase::kOptimizer:
      return "adam";
    case Phase::kGradientNorm:
      return "gradient norm";
    case Phase::kReduceNorm:
      return "norm all-reduce";
    case Phase::kStep:
      break;
  }
  return "step";
}

double spread_of(const std::vector<double>& values) {
  return relative_spread(values, median_of(values));
}

std::vector<double> values_of(const PerStep& steps, double Times::*which) {
  std::vector<double> values;
  for (const auto& [step, times] : steps) values.push_back(times.*which);
  return values;
}

Seconds typical_time(const PerStep& steps, double Times::*which) {
  return Seconds{median_of(values_of(steps, which))};
}

void add(PerStep& sum, const PerStep& steps) {
  for (const auto& [step, times] : steps) {
    sum[step].all += times.all;
    sum[step].exposed += times.exposed;
  }
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
      if (joined.measured.empty() || joined.predicted.empty() || counts_elsewhere(k)) continue;
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
      traces::add(sum.predicted, joined.predicted);
      traces::add(sum.measured, joined.measured);
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
    row.predicted = typical_time(predicted, &Times::all);
    row.measured = typical_time(measured, &Times::all);
    row.predicted_exposed = typical_time(predicted, &Times::exposed);
    row.measured_exposed = typical_time(measured, &Times::exposed);
    row.relative_spread = spread_of(values_of(measured, &Times::all));
    return row;
  }
  void add(const Trace& trace, PerStep Joined::*side, bool counts) {
    const EventTimes events(trace);
    const StepTimes counted = without_warm_up(step_times(trace));
    for (const TraceEvent& e : trace.events) {
      if (e.key.phase() == Phase::kStep || spans_operations(e)) continue;
      Joined& joined = joined_[{e.key.packed, e.rank}];
      if (counts) ++joined.count;
      if (!counted.contains(e.step)) continue;
      Times& sum = (joined.*side)[e.step];
      const Times times = events.of(e);
      sum.all += times.all;
      sum.exposed += times.exposed;
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
  const StepTimes all = step_times(measured);
  const StepTimes counted = without_warm_up(all);
  std::vector<double> times;
  for (const auto& [step, time] : all) {
    ErrorRow row;
    row.name = "step " + std::to_string(step);
    row.count = 1;
    row.predicted = row.predicted_exposed = c.predicted_step;
    row.measured = row.measured_exposed = time;
    if (counted.contains(step)) {
      times.push_back(time.value);
    } else {
      row.name += " (warm-up)";
    }
    c.steps.push_back(std::move(row));
  }
  c.counted_steps = counted.size();
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
                     " is measured, a trace of 'parplan simulate' is needed here: compare takes "
                     "PREDICTED then MEASURED");
  }
  if (measured.trace.source != TraceSource::kMeasured) {
    throw InputError(names.measured +
                     " is predicted, a trace of 'parplan execute' is needed here: compare takes "
                     "PREDICTED then MEASURED");
  }
  if (predicted.trace.plan_digest != measured.trace.plan_digest) {
    throw InputError("the traces are of different plans: " + names.predicted + " predicts " +
                     predicted.trace.plan_digest + " (" + to_string(predicted.plan.layout) + "), " +
                     names.measured + " measured " + measured.trace.plan_digest + " (" +
                     to_string(measured.plan.layout) + "); simulate the plan that was executed");
  }
}

std::vector<std::string> caveats_of(const Trace& predicted, const Trace& measured) {
  std::vector<std::string> caveats;
  if (!predicted.device.empty() && !measured.device.empty() &&
      predicted.device != measured.device) {
    caveats.push_back("predicted for " + quoted_name(predicted.device) + ", measured on " +
                      quoted_name(measured.device));
  }
  if (predicted.threads_per_rank != measured.threads_per_rank) {
    caveats.push_back("predicted for " + std::to_string(predicted.threads_per_rank) +
                      " thread per rank, measured with " +
                      std::to_string(measured.threads_per_rank));
  }
  return caveats;
}

}  // namespace

Comparison compare(const TraceFile& predicted, const TraceFile& measured,
                   const ComparedNames& names) {
  check_comparable(predicted, measured, names);
  Comparison c;
  c.caveats = caveats_of(predicted.trace, measured.trace);
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
