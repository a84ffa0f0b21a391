#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "sim/task_graph.hpp"

namespace parplan::sim {

/// A random acyclic graph and what it was built from, numbered as added. Tasks are added resource
/// list by resource list, so that the graph has to sort them.
struct RandomGraph {
  TaskGraph graph;
  std::vector<ResourceIndex> resource;
  std::vector<std::pair<TaskIndex, TaskIndex>> edges;
};

inline RandomGraph random_graph(std::mt19937& random, std::size_t tasks, std::size_t resources) {
  RandomGraph made;
  TaskGraphBuilder builder;
  for (std::size_t r = 0; r < resources; ++r) builder.add_resource();
  // `moment` is the hidden order in which everything can run; each resource issues in that order.
  std::vector<std::pair<ResourceIndex, std::uint32_t>> place(tasks);
  for (std::uint32_t t = 0; t < tasks; ++t) {
    place[t] = {static_cast<ResourceIndex>(random() % resources), t};
  }
  std::sort(place.begin(), place.end());
  for (const auto& [resource, moment] : place) {
    builder.add_task(resource);
    made.resource.push_back(resource);
  }
  for (std::size_t e = 0; e < 2 * tasks; ++e) {
    const auto x = static_cast<TaskIndex>(random() % tasks);
    const auto y = static_cast<TaskIndex>(random() % tasks);
    if (place[x].second >= place[y].second) continue;
    builder.add_dependency(x, y);
    made.edges.emplace_back(x, y);
  }
  made.graph = builder.build();
  return made;
}

/// A third of them zero, a third small (so that ties are common), a third large.
inline std::vector<std::int64_t> random_durations(std::mt19937& random, std::size_t count) {
  std::vector<std::int64_t> durations(count);
  for (auto& duration : durations) {
    switch (random() % 3) {
      case 0:
        duration = 0;
        break;
      case 1:
        duration = static_cast<std::int64_t>(random() % 4);
        break;
      default:
        duration = static_cast<std::int64_t>(random());
    }
  }
  return durations;
}

}  // namespace parplan::sim
