#include "traces/breakdown.hpp"

#include <algorithm>
#include <map>

#include "sim/core/op_code.hpp"
#include "traces/statistics.hpp"

namespace parplan::traces {
namespace {

struct Step {
  Picoseconds begin;
  Picoseconds end;
  bool predicted = false;
  std::vector<const TraceEvent*> compute;
  std::vector<const TraceEvent*> transfers;
};

/// A gap in which nothing is awaited: overhead, but in a prediction the core's work for transfers
/// issued in it is communication. Measured, that work is spread over what follows.
void account_busy_gap(const Step& step, Picoseconds from, Picoseconds to, RankBreakdown& b) {
  Picoseconds work;
  for (const TraceEvent* t : step.transfers) {
    if (step.predicted && t->start >= from && t->start < to) work += t->cpu;
  }
  work = std::min(work, to - from);
  b.communication += to_seconds(work);
  b.overhead += to_seconds(to - from - work);
}

/// Splits the gap [from, to) of the compute stream: the part before the awaited transfer moves is
/// waiting, the part in which it moves communication, the rest overhead. The awaited transfer is
/// the one that ends last within the gap.
void account_gap(const Step& step, Picoseconds from, Picoseconds to, RankBreakdown& b) {
  const TraceEvent* awaited = nullptr;
  for (const TraceEvent* t : step.transfers) {
    if (t->end <= from || t->end > to) continue;
    if (awaited == nullptr || t->end > awaited->end) awaited = t;
  }
  if (awaited == nullptr) {
    account_busy_gap(step, from, to, b);
    return;
  }
  const Picoseconds moves = std::clamp(awaited->start + awaited->waiting, from, awaited->end);
  b.waiting += to_seconds(moves - from);
  b.communication += to_seconds(awaited->end - moves);
  b.overhead += to_seconds(to - awaited->end);
}

RankBreakdown account(Step& step, std::int32_t rank) {
  RankBreakdown b;
  b.rank = rank;
  b.step = to_seconds(step.end - step.begin);
  const auto by_start = [](const TraceEvent* a, const TraceEvent* c) {
    return a->start < c->start;
  };
  std::sort(step.compute.begin(), step.compute.end(), by_start);
  Picoseconds cursor = step.begin;
  for (const TraceEvent* e : step.compute) {
    if (e->start > cursor) account_gap(step, cursor, e->start, b);
    const Picoseconds from = std::max(cursor, e->start);
    if (e->end <= from) continue;
    const Seconds time = to_seconds(e->end - from);
    if (is_tensor_collective(*e)) {
      const Seconds waited = std::min(time, to_seconds(e->waiting));
      b.waiting += waited;
      b.communication += time - waited;
    } else {
      b.compute += time;
    }
    cursor = e->end;
  }
  if (step.end > cursor) account_gap(step, cursor, step.end, b);
  return b;
}

}  // namespace

bool is_tensor_collective(const TraceEvent& e) {
  return e.key.code() != Key::kWholeInstruction &&
         is_tensor_collective(static_cast<OpCode>(e.key.code()));
}

bool spans_operations(const TraceEvent& e) {
  const Phase phase = e.key.phase();
  return (phase == Phase::kForward || phase == Phase::kBackward) &&
         e.key.code() == Key::kWholeInstruction;
}

std::vector<RankBreakdown> break_down(const Trace& trace) {
  std::map<std::int32_t, std::map<std::int32_t, Step>> ranks;
  for (const TraceEvent& e : trace.events) {
    if (spans_operations(e)) continue;
    Step& step = ranks[e.rank][e.step];
    step.predicted = trace.source == TraceSource::kPredicted;
    if (e.key.phase() == Phase::kStep) {
      step.begin = e.start;
      step.end = e.end;
    } else {
      (e.stream == Stream::kCompute ? step.compute : step.transfers).push_back(&e);
    }
  }
  std::vector<RankBreakdown> result;
  for (auto& [rank, steps] : ranks) {
    std::vector<RankBreakdown> each;
    for (auto& [number, step] : steps) each.push_back(account(step, rank));
    // The step nearest to the median as a whole, so that its parts still sum to it.
    std::vector<double> times;
    for (const RankBreakdown& b : each) times.push_back(b.step.value);
    const double middle = median_of(times);
    result.push_back(*std::min_element(each.begin(), each.end(), [&](const auto& a, const auto& c) {
      return std::abs(a.step.value - middle) < std::abs(c.step.value - middle);
    }));
  }
  return result;
}

namespace {

/// By step, the time of its slowest rank.
std::map<std::int32_t, double> step_times(const Trace& trace) {
  std::map<std::int32_t, double> slowest;
  for (const TraceEvent& e : trace.events) {
    if (e.key.phase() != Phase::kStep) continue;
    double& time = slowest[e.step];
    time = std::max(time, to_seconds(e.end - e.start).value);
  }
  return slowest;
}

}  // namespace

std::set<std::int32_t> typical_steps(const Trace& trace) {
  std::vector<std::pair<double, std::int32_t>> by_time;
  for (const auto& [step, time] : step_times(trace)) by_time.emplace_back(time, step);
  std::sort(by_time.begin(), by_time.end());
  const std::size_t quarter = by_time.size() / 4;
  std::set<std::int32_t> typical;
  for (std::size_t i = quarter; i < by_time.size() - quarter; ++i)
    typical.insert(by_time[i].second);
  return typical;
}

Seconds step_time_of(const Trace& trace) {
  std::vector<double> times;
  for (const auto& [step, time] : step_times(trace)) times.push_back(time);
  return Seconds{median_of(std::move(times))};
}

}  // namespace parplan::traces
