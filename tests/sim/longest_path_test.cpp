#include "sim/longest_path.hpp"

#include <algorithm>
#include <functional>
#include <random>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/sim/random_graph.hpp"

using namespace parplan;
using namespace parplan::sim;

TEST_CASE("a diamond takes its longer side", "[sim]") {
  // A 3, then B 5 beside C 9, then D 2: finish 3, 8, 12, 14. B could end 4 later.
  TaskGraphBuilder builder;
  const auto core = builder.add_resource(), link = builder.add_resource();
  const auto a = builder.add_task(core), b = builder.add_task(core), c = builder.add_task(link);
  const auto d = builder.add_task(core);
  builder.add_dependency(a, c);
  builder.add_dependency(b, d);
  builder.add_dependency(c, d);
  const TaskGraph graph = builder.build();
  const std::vector<std::int64_t> durations{3, 5, 9, 2};
  std::vector<std::int64_t> start(4), finish(4), scratch;
  CHECK(longest_path(graph, durations, start, finish) == 14);
  CHECK(start == std::vector<std::int64_t>{0, 3, 3, 12});
  CHECK(finish == std::vector<std::int64_t>{3, 8, 12, 14});
  CHECK(makespan_ps(graph, durations, scratch) == 14);
  CHECK(slack_ps(graph, durations, finish) == std::vector<std::int64_t>{0, 4, 0, 0});
  CHECK(critical_path(graph, durations, finish) == std::vector<TaskIndex>{a, c, d});
  CHECK(busy_ps(graph, durations) == std::vector<std::int64_t>{10, 9});
}

TEST_CASE("the empty graph takes no time", "[sim]") {
  const TaskGraph graph = TaskGraphBuilder{}.build();
  std::vector<std::int64_t> none, scratch;
  CHECK(longest_path(graph, none, none) == 0);
  CHECK(makespan_ps(graph, none, scratch) == 0);
  CHECK(critical_path(graph, none, none).empty());
  CHECK(slack_ps(graph, none, none).empty());
}

TEST_CASE("arrays of the wrong size are refused", "[sim]") {
  TaskGraphBuilder builder;
  builder.add_task(kNoResource);
  const TaskGraph graph = builder.build();
  std::vector<std::int64_t> one{1}, two{1, 2};
  CHECK_THROWS_AS(longest_path(graph, two, one), InternalError);
  CHECK_THROWS_AS(longest_path(graph, one, two), InternalError);
  CHECK_THROWS_AS(slack_ps(graph, two, one), InternalError);
  CHECK_THROWS_AS(critical_path(graph, one, two), InternalError);
  CHECK_THROWS_AS(busy_ps(graph, two), InternalError);
}

TEST_CASE("random graphs agree with the definition by recursion", "[sim]") {
  std::mt19937 random(7);
  std::vector<std::int64_t> scratch;
  for (int round = 0; round < 200; ++round) {
    const RandomGraph made = random_graph(random, 1 + random() % 80, 1 + random() % 6);
    const TaskGraph& graph = made.graph;
    const auto durations = random_durations(random, graph.task_count());
    std::vector<std::int64_t> finish(graph.task_count());
    const auto makespan = longest_path(graph, durations, finish);
    // Definition, over the builder's own edges and resource lists.
    std::vector<std::int64_t> expected(graph.task_count(), -1);
    const std::function<std::int64_t(TaskIndex)> define = [&](TaskIndex added) {
      auto& value = expected[graph.task_of(added)];
      if (value >= 0) return value;
      std::int64_t start = 0;
      for (const auto& [before, after] : made.edges) {
        if (after == added) start = std::max(start, define(before));
      }
      for (TaskIndex t = added; t-- > 0;) {
        if (made.resource[t] != made.resource[added]) continue;
        start = std::max(start, define(t));
        break;
      }
      return value = start + durations[graph.task_of(added)];
    };
    for (TaskIndex t = 0; t < graph.task_count(); ++t) define(t);
    CHECK(finish == expected);
    CHECK(makespan == *std::max_element(expected.begin(), expected.end()));
    CHECK(makespan_ps(graph, durations, scratch) == makespan);
  }
}

TEST_CASE("the critical path is gapless and slack is what a task can really slip", "[sim]") {
  std::mt19937 random(8);
  std::vector<std::int64_t> scratch;
  for (int round = 0; round < 100; ++round) {
    const TaskGraph graph = random_graph(random, 1 + random() % 40, 1 + random() % 4).graph;
    auto durations = random_durations(random, graph.task_count());
    std::vector<std::int64_t> finish(graph.task_count());
    const auto makespan = longest_path(graph, durations, finish);

    const auto path = critical_path(graph, durations, finish);
    std::int64_t now = 0;
    for (std::size_t i = 0; i < path.size(); ++i) {
      CHECK(finish[path[i]] - durations[path[i]] == now);
      now = finish[path[i]];
      if (i == 0) continue;
      const auto inputs = graph.inputs(path[i]);
      CHECK(std::find(inputs.begin(), inputs.end(), path[i - 1]) != inputs.end());
    }
    CHECK(now == makespan);

    const auto slack = slack_ps(graph, durations, finish);
    for (TaskIndex t = 0; t < graph.task_count(); ++t) {
      durations[t] += slack[t];
      CHECK(makespan_ps(graph, durations, scratch) == makespan);
      durations[t] += 1;
      CHECK(makespan_ps(graph, durations, scratch) == makespan + 1);
      durations[t] -= slack[t] + 1;
    }
  }
}
