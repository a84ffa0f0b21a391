#pragma once

#include <cstdint>
#include <vector>

#include "sim/step_graph.hpp"

namespace parplan::sim {

/// A step graph evaluated in the steady state: every class starts its step when it has finished the
/// one before. Times of the last of the evaluated steps, in ps from that step's first start.
struct Timeline {
  std::vector<std::int64_t> start_ps;   ///< by task
  std::vector<std::int64_t> finish_ps;  ///< by task
  std::vector<std::int64_t> begin_ps;   ///< by class: when its step starts
  std::vector<std::int64_t> end_ps;     ///< by class: when its step ends
  std::int64_t period_ps = 0;           ///< from one step to the next
};

/// Evaluates steps until the period repeats (at most 8 steps; pipelines settle after two): with the
/// longest-path pass, or with the event queue where transfers of both directions share a link or
/// ranks share cores. Steps are evaluated one by one: what a class does before another has finished
/// the step before does not compete with it for cores.
Timeline steady_timeline(const StepGraph& step);

}  // namespace parplan::sim
