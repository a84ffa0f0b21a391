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

  const Trace& trace_;
  const Model& model_;
  const std::string& name_;
  std::map<std::int32_t, std::map<std::int32_t, const TraceEvent*>> steps_;  ///< by rank
  std::map<std::int32_t, std::vector<const TraceEvent*>> computed_;          ///< by rank
};

}  // namespace

void check_trace(const TraceFile& file, const std::string& name) { Check(file, name).run(); }

}  // namespace parplan::traces
