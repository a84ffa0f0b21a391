#include "sim/task_graph.hpp"

#include <algorithm>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/core/message_text.hpp"

namespace parplan::sim {
namespace {

/// Who waits for each task: the graph's inputs turned round.
struct Successors {
  explicit Successors(const TaskGraph& graph) : begin(graph.task_count() + 1, 0) {
    for (const TaskIndex input : graph.input_tasks()) ++begin[input + 1];
    for (std::size_t t = 1; t < begin.size(); ++t) begin[t] += begin[t - 1];
    tasks.resize(graph.input_tasks().size());
    std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
    for (TaskIndex t = 0; t < graph.task_count(); ++t) {
      for (const TaskIndex input : graph.inputs(t)) tasks[next[input]++] = t;
    }
  }

  std::vector<std::uint32_t> begin;
  std::vector<TaskIndex> tasks;
};

bool is_topological(const TaskGraph& graph) {
  for (TaskIndex t = 0; t < graph.task_count(); ++t) {
    for (const TaskIndex input : graph.inputs(t)) {
      if (input >= t) return false;
    }
  }
  return true;
}

/// The tasks in waves: first those without inputs, then those whose last input is in the wave
/// before. Neighbours in time become neighbours in memory. Lacks the tasks on and behind a cycle.
std::vector<TaskIndex> wave_order(const TaskGraph& graph) {
  const Successors successors(graph);
  std::vector<std::uint32_t> missing(graph.task_count());
  std::vector<TaskIndex> sorted;
  sorted.reserve(graph.task_count());
  for (TaskIndex t = 0; t < graph.task_count(); ++t) {
    missing[t] = static_cast<std::uint32_t>(graph.inputs(t).size());
    if (missing[t] == 0) sorted.push_back(t);
  }
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const TaskIndex t = sorted[i];
    for (std::uint32_t e = successors.begin[t]; e < successors.begin[t + 1]; ++e) {
      if (--missing[successors.tasks[e]] == 0) sorted.push_back(successors.tasks[e]);
    }
  }
  return sorted;
}

/// Every task that is not in `sorted` has an input that is not either, so walking from input to
/// input must come round.
Deadlock find_cycle(const TaskGraph& graph, const std::vector<TaskIndex>& sorted) {
  std::vector<bool> can_run(graph.task_count(), false);
  for (const TaskIndex t : sorted) can_run[t] = true;
  TaskIndex task = 0;
  while (can_run[task]) ++task;
  std::vector<std::size_t> place(graph.task_count(), SIZE_MAX);
  Deadlock walk;
  while (place[task] == SIZE_MAX) {
    place[task] = walk.cycle.size();
    const auto inputs = graph.inputs(task);
    const auto blocked = std::find_if(inputs.begin(), inputs.end(),
                                      [&](TaskIndex input) { return !can_run[input]; });
    ensure(blocked != inputs.end(), "a task that cannot run waits for another that cannot");
    const auto added = graph.dependencies(task);
    const bool by_resource = std::find(added.begin(), added.end(), *blocked) == added.end();
    walk.cycle.push_back({task, by_resource});
    task = *blocked;
  }
  walk.cycle.erase(walk.cycle.begin(),
                   walk.cycle.begin() + static_cast<std::ptrdiff_t>(place[task]));
  return walk;
}

}  // namespace

std::string describe(const Deadlock& deadlock, const TaskNames& names) {
  const auto name = [&](TaskIndex t) { return names ? names(t) : "task " + std::to_string(t); };
  constexpr std::size_t kShownLinks = 8;
  std::vector<std::string> links(deadlock.cycle.size());
  for (std::size_t i = 0; i < std::min(kShownLinks, links.size()); ++i) {
    const auto& link = deadlock.cycle[i];
    links[i] = name(link.task) + " waits for " + name(deadlock.cycle[(i + 1) % links.size()].task);
    if (link.by_resource) links[i] += ", which is before it on the same resource";
  }
  return first_of(links, kShownLinks) + ".";
}

ResourceIndex TaskGraphBuilder::add_resource(ResourceOrder order) {
  ensure(order_.size() < kNoResource, "a graph has fewer than 2^32 - 1 resources");
  order_.push_back(order);
  return static_cast<ResourceIndex>(order_.size() - 1);
}

TaskIndex TaskGraphBuilder::add_task(ResourceIndex resource, std::uint8_t flags) {
  ensure(resource == kNoResource || resource < order_.size(), "a task's resource exists");
  ensure(resource_.size() < kNoTask - 1, "a graph has fewer than 2^32 - 1 tasks");
  resource_.push_back(resource);
  flags_.push_back(flags);
  return static_cast<TaskIndex>(resource_.size() - 1);
}

void TaskGraphBuilder::add_dependency(TaskIndex before, TaskIndex after) {
  ensure(before < resource_.size() && after < resource_.size(), "a dependency joins known tasks");
  edges_.push_back({before, after});
}

void TaskGraphBuilder::reserve(std::size_t tasks, std::size_t dependencies) {
  resource_.reserve(tasks);
  flags_.reserve(tasks);
  edges_.reserve(dependencies);
}

/// The graph with the tasks in the order of add_task(), which need not be topological.
TaskGraph TaskGraphBuilder::by_added_number() {
  const std::size_t count = resource_.size();
  ensure(edges_.size() + count < UINT32_MAX, "a graph has fewer than 2^32 - 1 edges");
  std::vector<std::uint32_t> first(count + 1, 0);
  for (const Edge& edge : edges_) ++first[edge.after + 1];
  for (std::size_t t = 1; t <= count; ++t) first[t] += first[t - 1];
  std::vector<TaskIndex> added(edges_.size());
  std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
  for (const Edge& edge : edges_) added[next[edge.after]++] = edge.before;
  edges_ = {};

  TaskGraph graph;
  graph.begin_.reserve(count + 1);
  graph.inputs_.reserve(added.size() + count);
  graph.link_.assign(count, 0);
  std::vector<TaskIndex> last(order_.size(), kNoTask);
  for (TaskIndex t = 0; t < count; ++t) {
    const auto begin = added.begin() + first[t], end = added.begin() + first[t + 1];
    std::sort(begin, end);
    const auto unique_end = std::unique(begin, end);
    const ResourceIndex resource = resource_[t];
    TaskIndex implicit = kNoTask;
    if (resource != kNoResource && order_[resource] == ResourceOrder::kIssueOrder) {
      implicit = std::exchange(last[resource], t);
    }
    if (implicit != kNoTask) {
      graph.inputs_.push_back(implicit);
      const bool named = std::binary_search(begin, unique_end, implicit);
      graph.link_[t] =
          TaskGraph::kHasImplicit | (named ? std::uint8_t{0} : TaskGraph::kImplicitOnly);
    }
    std::copy_if(begin, unique_end, std::back_inserter(graph.inputs_),
                 [&](TaskIndex before) { return before != implicit; });
    graph.begin_.push_back(static_cast<std::uint32_t>(graph.inputs_.size()));
  }
  graph.flags_ = std::exchange(flags_, {});
  graph.resource_ = std::exchange(resource_, {});
  graph.order_ = std::exchange(order_, {});
  return graph;
}

std::variant<TaskGraph, Deadlock> TaskGraphBuilder::try_build() {
  TaskGraph graph = by_added_number();
  if (is_topological(graph)) return graph;
  const std::vector<TaskIndex> sorted = wave_order(graph);
  if (sorted.size() < graph.task_count()) return find_cycle(graph, sorted);

  TaskGraph renumbered;
  renumbered.order_ = std::move(graph.order_);
  renumbered.task_of_.resize(sorted.size());
  for (TaskIndex t = 0; t < sorted.size(); ++t) renumbered.task_of_[sorted[t]] = t;
  renumbered.begin_.reserve(sorted.size() + 1);
  renumbered.inputs_.reserve(graph.inputs_.size());
  for (const TaskIndex added : sorted) {
    for (const TaskIndex input : graph.inputs(added)) {
      renumbered.inputs_.push_back(renumbered.task_of_[input]);
    }
    renumbered.begin_.push_back(static_cast<std::uint32_t>(renumbered.inputs_.size()));
    renumbered.link_.push_back(graph.link_[added]);
    renumbered.flags_.push_back(graph.flags_[added]);
    renumbered.resource_.push_back(graph.resource_[added]);
  }
  return renumbered;
}

TaskGraph TaskGraphBuilder::build(const TaskNames& names) {
  auto result = try_build();
  if (const auto* deadlock = std::get_if<Deadlock>(&result)) {
    throw InputError("the program deadlocks: " + describe(*deadlock, names));
  }
  return std::get<TaskGraph>(std::move(result));
}

}  // namespace parplan::sim
