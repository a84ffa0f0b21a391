#include "sim/task_graph.hpp"

#include <algorithm>
#include <random>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;
using namespace parplan::sim;

namespace {

std::vector<TaskIndex> list(std::span<const TaskIndex> tasks) {
  return {tasks.begin(), tasks.end()};
}

std::string letter(TaskIndex task) { return std::string(1, static_cast<char>('A' + task)); }

}  // namespace

TEST_CASE("tasks added in order keep their numbers, inputs and resources", "[sim]") {
  TaskGraphBuilder builder;
  const auto core = builder.add_resource();
  const auto link = builder.add_resource(ResourceOrder::kUnordered);
  const auto a = builder.add_task(core, 7);
  const auto b = builder.add_task(link);
  const auto c = builder.add_task(core);
  const auto d = builder.add_task(link);
  const auto e = builder.add_task(kNoResource);
  builder.add_dependency(a, c);  // also implied by the resource
  builder.add_dependency(b, c);
  builder.add_dependency(b, c);  // twice
  builder.add_dependency(d, e);
  builder.add_dependency(a, e);
  const TaskGraph graph = builder.build();

  REQUIRE(graph.task_count() == 5);
  CHECK(graph.resource_count() == 2);
  CHECK(list(graph.inputs(a)).empty());
  CHECK(list(graph.inputs(c)) == std::vector<TaskIndex>{a, b});
  CHECK(list(graph.dependencies(c)) == std::vector<TaskIndex>{a, b});
  CHECK(list(graph.inputs(d)).empty());  // nothing is implied on an unordered resource
  CHECK(list(graph.inputs(e)) == std::vector<TaskIndex>{a, d});
  CHECK(graph.resource_predecessor(c) == a);
  CHECK(graph.resource_predecessor(a) == kNoTask);
  CHECK(graph.resource_predecessor(d) == kNoTask);
  CHECK(graph.resource(b) == link);
  CHECK(graph.resource(e) == kNoResource);
  CHECK(graph.resource_order(link) == ResourceOrder::kUnordered);
  CHECK(graph.flags(a) == 7);
  CHECK(graph.task_of(d) == d);
  CHECK(builder.task_count() == 0);
}

TEST_CASE("an implied predecessor is an input but no dependency", "[sim]") {
  TaskGraphBuilder builder;
  const auto core = builder.add_resource();
  const auto a = builder.add_task(core), b = builder.add_task(core);
  const TaskGraph graph = builder.build();
  CHECK(list(graph.inputs(b)) == std::vector<TaskIndex>{a});
  CHECK(list(graph.dependencies(b)).empty());
}

TEST_CASE("tasks added out of order are sorted and can be found again", "[sim]") {
  std::mt19937 random(20);
  for (int round = 0; round < 50; ++round) {
    const std::size_t count = 1 + random() % 60;
    std::vector<TaskIndex> rank(count);  // hidden topological order
    for (TaskIndex t = 0; t < count; ++t) rank[t] = t;
    std::shuffle(rank.begin(), rank.end(), random);
    TaskGraphBuilder builder;
    for (TaskIndex t = 0; t < count; ++t) {
      builder.add_task(kNoResource, static_cast<std::uint8_t>(t));
    }
    std::vector<std::pair<TaskIndex, TaskIndex>> edges;
    for (std::size_t e = 0; e < 3 * count; ++e) {
      const auto x = static_cast<TaskIndex>(random() % count);
      const auto y = static_cast<TaskIndex>(random() % count);
      if (rank[x] < rank[y]) edges.emplace_back(x, y);
    }
    for (const auto& [before, after] : edges) builder.add_dependency(before, after);
    const TaskGraph graph = builder.build();
    REQUIRE(graph.task_count() == count);
    for (TaskIndex t = 0; t < count; ++t) {
      CHECK(graph.flags(graph.task_of(t)) == t);
      for (const TaskIndex input : graph.inputs(t)) CHECK(input < t);
    }
    std::size_t found = 0;
    for (const auto& [before, after] : edges) {
      const auto inputs = graph.inputs(graph.task_of(after));
      CHECK(std::count(inputs.begin(), inputs.end(), graph.task_of(before)) == 1);
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    for (TaskIndex t = 0; t < count; ++t) found += graph.inputs(t).size();
    CHECK(found == edges.size());
  }
}

TEST_CASE("a cycle is reported with the names of its tasks and why they wait", "[sim]") {
  // Two ranks that both want to receive before they send: B on core 0 waits for the other's D,
  // which comes after C on core 1, which waits for the first's E, which comes after B.
  TaskGraphBuilder builder;
  const auto core0 = builder.add_resource(), core1 = builder.add_resource();
  const auto a = builder.add_task(core0);  // A: can run
  const auto b = builder.add_task(core0);
  const auto c = builder.add_task(core1);
  const auto d = builder.add_task(core1);
  const auto e = builder.add_task(core0);
  const auto f = builder.add_task(core1);  // F: behind the cycle, not on it
  builder.add_dependency(d, b);
  builder.add_dependency(e, c);
  builder.add_dependency(a, f);
  auto result = builder.try_build();
  REQUIRE(std::holds_alternative<Deadlock>(result));
  CHECK(describe(std::get<Deadlock>(result), letter) ==
        "B waits for D; D waits for C, which is before it on the same resource; "
        "C waits for E; E waits for B, which is before it on the same resource.");
}

TEST_CASE("build() refuses a deadlock with the caller's names", "[sim]") {
  TaskGraphBuilder builder;
  const auto a = builder.add_task(kNoResource), b = builder.add_task(kNoResource);
  builder.add_dependency(a, b);
  builder.add_dependency(b, a);
  CHECK_THROWS_WITH(builder.build(letter), "the program deadlocks: A waits for B; B waits for A.");
  TaskGraphBuilder self;
  self.add_dependency(self.add_task(kNoResource), 0);
  CHECK_THROWS_WITH(self.build(), "the program deadlocks: task 0 waits for task 0.");
}

TEST_CASE("ids that were never handed out are refused", "[sim]") {
  TaskGraphBuilder builder;
  CHECK_THROWS_AS(builder.add_task(0), InternalError);
  builder.add_task(kNoResource);
  CHECK_THROWS_AS(builder.add_dependency(0, 1), InternalError);
  CHECK_THROWS_AS(builder.add_dependency(1, 0), InternalError);
}
