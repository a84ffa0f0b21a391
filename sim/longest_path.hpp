#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/task_graph.hpp"

namespace parplan::sim {

// Evaluation of a task graph whose durations are known: each task starts at the latest finish of
// its inputs (0 if it has none). Exact integer arithmetic. One linear pass over the columns; no
// allocation where the caller gives the room. All durations are picoseconds >= 0 in task order, one
// per task; arrays of another size are an InternalError. The sum along any path must fit 63 bits
// (100 days).

/// Fills `finish_ps` (one per task) and returns the largest finish, 0 for an empty graph. The start
/// of a task is its finish minus its duration.
std::int64_t longest_path(const TaskGraph& graph, std::span<const std::int64_t> durations_ps,
                          std::span<std::int64_t> finish_ps);

/// Same, with the start times as well.
std::int64_t longest_path(const TaskGraph& graph, std::span<const std::int64_t> durations_ps,
                          std::span<std::int64_t> start_ps, std::span<std::int64_t> finish_ps);

/// Only the largest finish. `scratch` is grown to the size of the graph and may be reused for the
/// next call, whatever its graph; one per thread.
std::int64_t makespan_ps(const TaskGraph& graph, std::span<const std::int64_t> durations_ps,
                         std::vector<std::int64_t>& scratch);

/// By how much each task could finish later without the largest finish moving. `finish_ps` as
/// filled by longest_path().
[[nodiscard]] std::vector<std::int64_t> slack_ps(const TaskGraph& graph,
                                                 std::span<const std::int64_t> durations_ps,
                                                 std::span<const std::int64_t> finish_ps);

/// A chain of tasks, in order of time, that starts at 0, ends at the largest finish, has no gap,
/// and in which each task is an input of the next: shortening anything else changes nothing. Of
/// several such chains, the one that, seen from the end, has the smallest last task, and then at
/// every step the first input that fits. Empty for an empty graph.
[[nodiscard]] std::vector<TaskIndex> critical_path(const TaskGraph& graph,
                                                   std::span<const std::int64_t> durations_ps,
                                                   std::span<const std::int64_t> finish_ps);

/// Sum of the durations of the tasks on each resource.
[[nodiscard]] std::vector<std::int64_t> busy_ps(const TaskGraph& graph,
                                                std::span<const std::int64_t> durations_ps);

}  // namespace parplan::sim
