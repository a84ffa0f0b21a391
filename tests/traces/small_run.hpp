#pragma once

#include <cmath>
#include <string>

#include "sim/core/cluster.hpp"
#include "sim/core/plan.hpp"
#include "traces/trace_file.hpp"

namespace parplan::test {

/// A node of two cores that only has data-sheet numbers, all of them round.
Cluster round_machine();

/// GPT-2 with four layers of width 128 on 8 samples of 32 tokens, without dropout.
Plan tiny_plan(const std::string& layout);

/// One predicted step.
traces::TraceFile predicted_of(const Plan& plan, const Cluster& cluster);

/// What a run that takes `steps` steps exactly as `cluster` predicts would have measured.
traces::TraceFile measured_on(const Plan& plan, const Cluster& cluster, int steps);

/// Multiplies the duration of the operations that `slower` gives a factor other than 1 and moves
/// everything later on the same rank and step. Only for one rank, where nothing else overlaps.
template <class Slower>
void stretch(Trace& trace, Slower&& slower) {
  std::int64_t shift = 0;
  std::int32_t step = -1;
  TraceEvent* whole = nullptr;
  for (TraceEvent& e : trace.events) {
    if (e.step != step) {
      shift = 0;
      step = e.step;
    }
    if (e.key.phase() == Phase::kStep) {
      whole = &e;  // sorted by start: before all else of its step
      continue;
    }
    const std::int64_t before = (e.end - e.start).value;
    const auto after =
        static_cast<std::int64_t>(std::llround(static_cast<double>(before) * slower(e)));
    e.start += Picoseconds{shift};
    shift += after - before;
    e.end = e.start + Picoseconds{after};
    if (whole != nullptr) whole->end += Picoseconds{after - before};
  }
}

}  // namespace parplan::test
