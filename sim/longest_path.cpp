#include "sim/longest_path.hpp"

#include <algorithm>

#include "sim/core/error.hpp"

namespace parplan::sim {
namespace {

void check_size(const TaskGraph& graph, std::size_t size) {
  ensure(size == graph.task_count(), "an array of times has one element per task");
}

}  // namespace

std::int64_t longest_path(const TaskGraph& graph, std::span<const std::int64_t> durations_ps,
                          std::span<std::int64_t> finish_ps) {
  check_size(graph, durations_ps.size());
  check_size(graph, finish_ps.size());
  const std::uint32_t* const begin = graph.input_begin().data();
  const TaskIndex* const inputs = graph.input_tasks().data();
  std::int64_t* const finish = finish_ps.data();
  std::int64_t makespan = 0;
  std::uint32_t edge = 0;
  const std::size_t count = graph.task_count();
  for (std::size_t t = 0; t < count; ++t) {
    std::int64_t start = 0;
    for (const std::uint32_t end = begin[t + 1]; edge < end; ++edge) {
      start = std::max(start, finish[inputs[edge]]);
    }
    finish[t] = start + durations_ps[t];
    makespan = std::max(makespan, finish[t]);
  }
  return makespan;
}

std::int64_t longest_path(const TaskGraph& graph, std::span<const std::int64_t> durations_ps,
                          std::span<std::int64_t> start_ps, std::span<std::int64_t> finish_ps) {
  check_size(graph, start_ps.size());
  const std::int64_t makespan = longest_path(graph, durations_ps, finish_ps);
  for (std::size_t t = 0; t < start_ps.size(); ++t) start_ps[t] = finish_ps[t] - durations_ps[t];
  return makespan;
}

std::int64_t makespan_ps(const TaskGraph& graph, std::span<const std::int64_t> durations_ps,
                         std::vector<std::int64_t>& scratch) {
  if (scratch.size() < graph.task_count()) scratch.resize(graph.task_count());
  return longest_path(graph, durations_ps, std::span(scratch).first(graph.task_count()));
}

std::vector<std::int64_t> slack_ps(const TaskGraph& graph,
                                   std::span<const std::int64_t> durations_ps,
                                   std::span<const std::int64_t> finish_ps) {
  check_size(graph, durations_ps.size());
  check_size(graph, finish_ps.size());
  const auto last = std::max_element(finish_ps.begin(), finish_ps.end());
  std::vector<std::int64_t> latest(graph.task_count(), last == finish_ps.end() ? 0 : *last);
  for (std::size_t t = graph.task_count(); t-- > 0;) {
    const std::int64_t latest_start = latest[t] - durations_ps[t];
    for (const TaskIndex input : graph.inputs(static_cast<TaskIndex>(t))) {
      latest[input] = std::min(latest[input], latest_start);
    }
    latest[t] -= finish_ps[t];  // all that wait for t come later and have been seen
  }
  return latest;
}

std::vector<TaskIndex> critical_path(const TaskGraph& graph,
                                     std::span<const std::int64_t> durations_ps,
                                     std::span<const std::int64_t> finish_ps) {
  check_size(graph, durations_ps.size());
  check_size(graph, finish_ps.size());
  std::vector<TaskIndex> path;
  const auto last = std::max_element(finish_ps.begin(), finish_ps.end());
  if (last == finish_ps.end()) return path;
  auto task = static_cast<TaskIndex>(last - finish_ps.begin());
  while (true) {
    path.push_back(task);
    const std::int64_t start = finish_ps[task] - durations_ps[task];
    const auto inputs = graph.inputs(task);
    const auto cause = std::find_if(inputs.begin(), inputs.end(),
                                    [&](TaskIndex input) { return finish_ps[input] == start; });
    if (cause == inputs.end()) break;
    task = *cause;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<std::int64_t> busy_ps(const TaskGraph& graph,
                                  std::span<const std::int64_t> durations_ps) {
  check_size(graph, durations_ps.size());
  std::vector<std::int64_t> busy(graph.resource_count(), 0);
  for (TaskIndex t = 0; t < graph.task_count(); ++t) {
    if (graph.resource(t) != kNoResource) busy[graph.resource(t)] += durations_ps[t];
  }
  return busy;
}

}  // namespace parplan::sim
