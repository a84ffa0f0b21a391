#include "sim/timeline.hpp"

#include <algorithm>
#include <optional>

#include "sim/event_queue.hpp"
#include "sim/longest_path.hpp"

namespace parplan::sim {
namespace {

constexpr int kMostSteps = 8;

/// Whether tasks queue for something in an order that only their times decide.
bool has_contention(const TaskGraph& graph) {
  for (ResourceIndex r = 0; r < graph.resource_count(); ++r) {
    if (graph.resource_order(r) == ResourceOrder::kUnordered) return true;
  }
  return false;
}

}  // namespace

Timeline steady_timeline(const StepGraph& step) {
  const std::size_t classes = step.compute.size();
  const std::size_t count = step.tasks.size();
  std::vector<TaskIndex> first(classes, kNoTask);
  for (std::size_t t = 0; t < count; ++t) {
    if (step.tasks[t].part == StepTask::Part::kStepStart) {
      first[step.tasks[t].rank_class] = static_cast<TaskIndex>(t);
    }
  }
  std::vector<std::int64_t> durations = step.durations_ps;
  Timeline line;
  line.start_ps.resize(count);
  line.finish_ps.resize(count);
  line.begin_ps.assign(classes, 0);
  line.end_ps.assign(classes, 0);
  std::vector<std::int64_t> shift(classes, 0);
  std::optional<EventQueue> queue;
  if (!step.contention.routes.empty() || has_contention(step.graph)) {
    queue.emplace(step.graph, step.contention);
  }
  for (int s = 0; s < kMostSteps; ++s) {
    const std::int64_t origin = *std::min_element(line.end_ps.begin(), line.end_ps.end());
    const std::int64_t before = *std::max_element(line.end_ps.begin(), line.end_ps.end()) - origin;
    for (std::size_t c = 0; c < classes; ++c) {
      line.begin_ps[c] = line.end_ps[c] - origin;
      durations[first[c]] = step.durations_ps[first[c]] + line.begin_ps[c];
    }
    const std::int64_t last =
        queue ? queue->run(durations, line.start_ps, line.finish_ps)
              : longest_path(step.graph, durations, line.start_ps, line.finish_ps);
    std::fill(line.end_ps.begin(), line.end_ps.end(), 0);
    for (std::size_t t = 0; t < count; ++t) {
      const StepTask& task = step.tasks[t];
      if (step.graph.resource(static_cast<TaskIndex>(t)) != step.compute[task.rank_class]) continue;
      line.end_ps[task.rank_class] = std::max(line.end_ps[task.rank_class], line.finish_ps[t]);
    }
    for (std::size_t c = 0; c < classes; ++c) line.start_ps[first[c]] = line.begin_ps[c];
    line.period_ps = last - before;
    std::vector<std::int64_t> offsets = line.end_ps;
    const std::int64_t least = *std::min_element(offsets.begin(), offsets.end());
    for (std::int64_t& o : offsets) o -= least;
    if (s > 0 && offsets == shift) break;
    shift = std::move(offsets);
  }
  return line;
}

}  // namespace parplan::sim
