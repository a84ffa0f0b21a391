#include "traces/trace_check.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "sim/core/error.hpp"
#include "traces/breakdown.hpp"

namespace parplan::traces {
namespace {

class Check {
 public:
  Check(const TraceFile& file, const std::string& name)
      : trace_(file.trace), model_(file.plan.model), name_(name) {}

  void run() {
    gather();
    check_steps();
    for (const TraceEvent& e : trace_.events) check_inside(e);
    for (auto& [rank, events] : computed_) check_in_turn(rank, events);
    check_order_of_steps();
    check_same_events();
    std::set<std::int32_t> ranks;
    for (const RankSummary& s : trace_.summaries) {
      if (!ranks.insert(s.rank).second) fail(of(s.rank) + " has two summaries");
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(name_ + ": " + what +
                     "; the trace contradicts itself: record it again with 'parplan execute "
                     "--trace' (or 'parplan simulate --trace')");
  }
  static std::string of(std::int32_t rank) { return "rank " + std::to_string(rank); }
  static std::string of(std::int32_t rank, std::int32_t step) {
    return of(rank) + ", step " + std::to_string(step);
  }

  void gather() {
    for (const TraceEvent& e : trace_.events) {
      if (e.key.phase() != Phase::kStep) {
        if (e.stream == Stream::kCompute && !spans_operations(e)) computed_[e.rank].push_back(&e);
        continue;
      }
      if (!steps_[e.rank].try_emplace(e.step, &e).second) {
        fail(of(e.rank, e.step) + ": two events of the whole step");
      }
    }
  }

  void check_steps() const {
    if (steps_.empty()) fail("no event of a whole step");
    if (trace_.source == TraceSource::kMeasured) {
      for (std::int32_t rank = 0; rank < trace_.ranks; ++rank) {
        if (!steps_.contains(rank)) fail(of(rank) + " has no step");
      }
    }
    const auto& first = steps_.begin()->second;
    if (static_cast<std::size_t>(trace_.steps) != first.size()) {
      fail("\"steps\" is " + std::to_string(trace_.steps) + ", " + of(steps_.begin()->first) +
           " has " + std::to_string(first.size()));
    }
    for (const auto& [rank, steps] : steps_) {
      for (const auto& [step, event] : first) {
        if (!steps.contains(step)) fail(of(rank, step) + ": no event of the whole step");
      }
      if (steps.size() != first.size()) {
        fail(of(rank) + " has " + std::to_string(steps.size()) + " steps, " +
             of(steps_.begin()->first) + " has " + std::to_string(first.size()));
      }
    }
  }

  void check_inside(const TraceEvent& e) const {
    const auto rank = steps_.find(e.rank);
    if (rank == steps_.end()) fail(of(e.rank) + " has no step");
    const auto step = rank->second.find(e.step);
    if (step == rank->second.end()) {
      fail(of(e.rank, e.step) + ": " + to_string(e.key, model_) + " is of a step that is missing");
    }
    if (e.start < step->second->start || e.end > step->second->end) {
      fail(of(e.rank, e.step) + ": " + to_string(e.key, model_) + " is not within its step");
    }
  }

  void check_in_turn(std::int32_t rank, std::vector<const TraceEvent*>& events) const {
    std::stable_sort(events.begin(), events.end(),
                     [](const auto* a, const auto* b) { return a->start < b->start; });
    for (std::size_t i = 1; i < events.size(); ++i) {
      if (events[i]->start >= events[i - 1]->end) continue;
      fail(of(rank, events[i]->step) + ": " + to_string(events[i]->key, model_) +
           " begins before " + to_string(events[i - 1]->key, model_) + " has ended");
    }
  }

  void check_order_of_steps() const {
    const auto& steps = steps_.begin()->second;
    const std::int32_t last = steps.rbegin()->first;
    if (static_cast<std::size_t>(last - steps.begin()->first) + 1 != steps.size()) {
      fail("the steps from " + std::to_string(steps.begin()->first) + " to " +
           std::to_string(last) + " are not all there");
    }
    const std::size_t losses = trace_.losses.size();
    if (losses > 0 && losses != static_cast<std::size_t>(last) + 1) {
      fail(std::to_string(losses) + " losses, but the last step is " + std::to_string(last) +
           ", counted from 0");
    }
    for (const auto& [step, event] : steps) check_at_once(step);
  }

  /// No rank can end a step that another has not begun.
  void check_at_once(std::int32_t step) const {
    constexpr Picoseconds kClockError{
        1'000'000'000};  // 1 ms, of clocks on several hosts; much more than is seen
    const TraceEvent* last_to_begin = nullptr;
    const TraceEvent* first_to_end = nullptr;
    for (const auto& [rank, steps] : steps_) {
      const TraceEvent* event = steps.at(step);
      if (last_to_begin == nullptr || last_to_begin->start < event->start) last_to_begin = event;
      if (first_to_end == nullptr || event->end < first_to_end->end) first_to_end = event;
    }
    if (last_to_begin->start <= first_to_end->end + kClockError) return;
    fail(of(last_to_begin->rank, step) + " begins after " + of(first_to_end->rank) +
         " has ended that step");
  }

  void check_same_events() const {
    using Events = std::map<std::pair<std::uint64_t, Stream>, int>;
    std::map<std::int32_t, std::map<std::int32_t, Events>> by_step;
    for (const TraceEvent& e : trace_.events) {
      if (e.key.phase() != Phase::kStep) ++by_step[e.rank][e.step][{e.key.packed, e.stream}];
    }
    for (const auto& [rank, steps] : by_step) {
      const auto& [first, expected] = *steps.begin();
      for (const auto& [step, events] : steps) {
        if (events == expected) continue;
        // The first that differs: the one that only one of them has more of.
        for (const auto* list : {&expected, &events}) {
          const Events& other = list == &expected ? events : expected;
          for (const auto& [what, count] : *list) {
            const auto there = other.find(what);
            if (there != other.end() && there->second >= count) continue;
            Key key;
            key.packed = what.first;
            const std::int32_t more = list == &expected ? first : step;
            const std::int32_t less = list == &expected ? step : first;
            fail(of(rank, less) + ": " + to_string(key, model_) + " on the stream " +
                 std::string(name_of(what.second)) + " is missing, step " + std::to_string(more) +
                 " has it");
          }
        }
      }
    }
  }

  const Trace& trace_;
  const Model& model_;
  const std::string& name_;
  std::map<std::int32_t, std::map<std::int32_t, const TraceEvent*>> steps_;  ///< by rank
  std::map<std::int32_t, std::vector<const TraceEvent*>> computed_;          ///< by rank
};

}  // namespace

void check_trace(const TraceFile& file, const std::string& name) { Check(file, name).run(); }

}  // namespace parplan::traces
