#include "traces/breakdown.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "sim/core/op_code.hpp"
#include "traces/step_times.hpp"

namespace parplan::traces {
namespace {

struct Step {
  Picoseconds begin;
  Picoseconds end;
  bool predicted = false;
  std::vector<const TraceEvent*> compute;
  std::vector<const TraceEvent*> transfers;
};

/// Takes one step of one rank apart.
class Account {
 public:
  explicit Account(Step& step) : step_(step) {
    const auto by_start = [](const TraceEvent* a, const TraceEvent* b) {
      return a->start < b->start;
    };
    std::sort(step.compute.begin(), step.compute.end(), by_start);
    std::sort(step.transfers.begin(), step.transfers.end(), by_start);
  }

  RankBreakdown take() {
    b_.step = to_seconds(step_.end - step_.begin);
    Picoseconds cursor = step_.begin;
    for (const TraceEvent* e : step_.compute) {
      if (e->start > cursor) gap(cursor, e->start, is_operation(*e));
      const Picoseconds from = std::max(cursor, e->start);
      if (e->end <= from) continue;
      computed(*e, to_seconds(e->end - from));
      cursor = e->end;
    }
    if (step_.end > cursor) gap(cursor, step_.end, false);
    return b_;
  }

 private:
  static bool is_operation(const TraceEvent& e) {
    return e.key.phase() == Phase::kForward || e.key.phase() == Phase::kBackward;
  }

  void computed(const TraceEvent& e, Seconds time) {
    if (!is_tensor_collective(e)) {
      b_.compute += time;
      return;
    }
    const Seconds waited = std::min(time, to_seconds(e.waiting));
    b_.waiting += waited;
    b_.communication += time - waited;
  }

  /// Splits the gap [from, to) of the compute stream: the part before the awaited transfer moves is
  /// waiting, the part in which it moves communication. The awaited transfer is the one that ends
  /// last within the gap.
  void gap(Picoseconds from, Picoseconds to, bool between_operations) {
    const TraceEvent* awaited = nullptr;
    for (const TraceEvent* t : step_.transfers) {
      if (t->end <= from || t->end > to) continue;
      if (awaited == nullptr || t->end > awaited->end) awaited = t;
    }
    if (awaited != nullptr) {
      const Picoseconds moves = std::clamp(awaited->start + awaited->waiting, from, awaited->end);
      b_.waiting += to_seconds(moves - from);
      b_.communication += to_seconds(awaited->end - moves);
      from = awaited->end;
    }
    busy(from, to, between_operations);
  }

  /// Nothing is awaited: overhead, but a prediction has here, apart, the core's work for transfers
  /// that were issued before. Of reductions that go on beside operations it is done, and measured,
  /// within these.
  void busy(Picoseconds from, Picoseconds to, bool between_operations) {
    for (; step_.predicted && issued_ < step_.transfers.size() &&
           step_.transfers[issued_]->start < to;
         ++issued_) {
      const TraceEvent& t = *step_.transfers[issued_];
      (t.key.phase() == Phase::kReduceGradients ? reducing_ : moving_) += t.cpu;
    }
    Picoseconds left = to - from;
    const auto spend = [&left](Picoseconds& work, Seconds& part) {
      const Picoseconds done = std::min(work, left);
      part += to_seconds(done);
      work -= done;
      left -= done;
    };
    spend(moving_, b_.communication);
    spend(reducing_, between_operations ? b_.compute : b_.communication);
    b_.overhead += to_seconds(left);
  }

  Step& step_;
  RankBreakdown b_;
  std::size_t issued_ = 0;  ///< transfers whose core work is, or was, in the next two
  Picoseconds moving_;      ///< core work still to be done: transfers between positions
  Picoseconds reducing_;    ///< the same of gradient reductions
};

constexpr std::array kTimes = {&RankBreakdown::step, &RankBreakdown::compute,
                               &RankBreakdown::communication, &RankBreakdown::waiting,
                               &RankBreakdown::overhead};

Seconds mean_time_of(const Trace& trace, const std::set<std::int32_t>& steps) {
  Seconds sum;
  for (const auto& [step, time] : step_times(trace)) {
    if (steps.contains(step)) sum += time;
  }
  return Seconds{sum.value / static_cast<double>(steps.size())};
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
  const std::set<std::int32_t> typical = typical_steps(trace);
  std::map<std::int32_t, std::map<std::int32_t, Step>> ranks;
  for (const TraceEvent& e : trace.events) {
    if (spans_operations(e) || !typical.contains(e.step)) continue;
    Step& step = ranks[e.rank][e.step];
    step.predicted = trace.source == TraceSource::kPredicted;
    if (e.key.phase() == Phase::kStep) {
      step.begin = e.start;
      step.end = e.end;
    } else {
      (e.stream == Stream::kCompute ? step.compute : step.transfers).push_back(&e);
    }
  }
  const Seconds mean = mean_time_of(trace, typical);
  const double scale = mean.value > 0.0 ? step_time_of(trace) / mean : 1.0;
  std::vector<RankBreakdown> result;
  for (auto& [rank, steps] : ranks) {
    RankBreakdown sum;
    sum.rank = rank;
    for (auto& [number, step] : steps) {
      const RankBreakdown one = Account(step).take();
      for (const auto part : kTimes) sum.*part += one.*part;
    }
    for (const auto part : kTimes) {
      sum.*part = Seconds{(sum.*part).value * scale / static_cast<double>(steps.size())};
    }
    result.push_back(sum);
  }
  return result;
}

}  // namespace parplan::traces
