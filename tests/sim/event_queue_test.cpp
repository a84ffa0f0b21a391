#include "sim/event_queue.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "sim/core/error.hpp"
#include "sim/longest_path.hpp"
#include "sim/pipeline_graph.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/sim/random_graph.hpp"

using namespace parplan;
using namespace parplan::sim;

namespace {

struct Outcome {
  std::int64_t makespan = 0;
  std::vector<std::int64_t> start, finish;
};

Outcome simulate(EventQueue& queue, const std::vector<std::int64_t>& durations) {
  Outcome outcome{0, std::vector<std::int64_t>(durations.size(), -1),
                  std::vector<std::int64_t>(durations.size(), -1)};
  outcome.makespan = queue.run(durations, outcome.start, outcome.finish);
  return outcome;
}

/// `count` tasks that are all ready at once, each on a resource of its own and all on route 0.
struct Crowd {
  TaskGraph graph;
  Contention contention;
};
Crowd crowd(std::size_t count, double capacity, Route route) {
  TaskGraphBuilder builder;
  for (std::size_t i = 0; i < count; ++i) builder.add_task(builder.add_resource());
  Contention contention;
  contention.pool_capacity = {capacity};
  contention.routes = {std::move(route)};
  contention.route_of_task.assign(count, 0);
  return {builder.build(), std::move(contention)};
}

}  // namespace

TEST_CASE("the event queue in issue order is the longest path to the bit", "[sim]") {
  std::mt19937 random(31);
  for (int round = 0; round < 300; ++round) {
    const TaskGraph graph = random_graph(random, 1 + random() % 200, 1 + random() % 8).graph;
    EventQueue queue(graph);
    for (int repeat = 0; repeat < 2; ++repeat) {  // the object is used again
      const auto durations = random_durations(random, graph.task_count());
      std::vector<std::int64_t> start(graph.task_count()), finish(graph.task_count());
      const auto makespan = longest_path(graph, durations, start, finish);
      const Outcome outcome = simulate(queue, durations);
      CHECK(outcome.makespan == makespan);
      CHECK(outcome.start == start);
      CHECK(outcome.finish == finish);
    }
  }
}

TEST_CASE("pipelines in the event queue take what the longest path says", "[sim]") {
  std::mt19937 random(32);
  for (int round = 0; round < 60; ++round) {
    const int p = 1 + static_cast<int>(random() % 6), m = 1 + static_cast<int>(random() % 9);
    const auto schedule =
        random() % 2 == 0 ? PipelineSchedule::kGpipe : PipelineSchedule::kOneForwardOneBackward;
    const auto mode = random() % 2 == 0 ? TransferMode::kEager : TransferMode::kRendezvous;
    const auto pipeline =
        build_pipeline_graph(schedule_table(schedule, p, m), mode, random() % 2 == 0);
    const auto durations = random_durations(random, pipeline.graph.task_count());
    std::vector<std::int64_t> finish(durations.size());
    longest_path(pipeline.graph, durations, finish);
    EventQueue queue(pipeline.graph);
    CHECK(simulate(queue, durations).finish == finish);
  }
}

TEST_CASE("a resource in ready order does not wait for the one that was issued first", "[sim]") {
  // A 10 on its own; B needs A, C needs nothing; B and C share a resource, B was issued first.
  TaskGraphBuilder builder;
  const auto own = builder.add_resource(), shared = builder.add_resource();
  const auto a = builder.add_task(own), b = builder.add_task(shared), c = builder.add_task(shared);
  builder.add_dependency(a, b);
  const TaskGraph graph = builder.build();
  EventQueue in_issue_order(graph);
  CHECK(simulate(in_issue_order, {10, 5, 4}).start == std::vector<std::int64_t>{0, 10, 15});
  Contention contention;
  contention.service = {Service::kIssueOrder, Service::kReadyOrder};
  EventQueue in_ready_order(graph, contention);
  CHECK(simulate(in_ready_order, {10, 5, 4}).start == std::vector<std::int64_t>{0, 10, 0});
  CHECK(simulate(in_ready_order, {10, 5, 14}).start == std::vector<std::int64_t>{0, 14, 0});
  contention.service = {Service::kIssueOrder, Service::kConcurrent};
  EventQueue concurrent(graph, contention);
  CHECK(simulate(concurrent, {10, 5, 14}).start == std::vector<std::int64_t>{0, 10, 0});
  CHECK(c == 2);
}

TEST_CASE("ready order serves first come first, and ties as the events came", "[sim]") {
  // Five tasks released at 3, 1, 2, 1, 1 queue for an unordered resource where each takes 10.
  TaskGraphBuilder builder;
  const auto server = builder.add_resource(ResourceOrder::kUnordered);
  std::vector<TaskIndex> jobs;
  for (int i = 0; i < 5; ++i) {
    const auto delay = builder.add_task(kNoResource);
    jobs.push_back(builder.add_task(server));
    builder.add_dependency(delay, jobs.back());
  }
  const TaskGraph graph = builder.build();
  EventQueue queue(graph);
  const auto outcome = simulate(queue, {3, 10, 1, 10, 2, 10, 1, 10, 1, 10});
  std::vector<std::int64_t> starts;
  for (const TaskIndex job : jobs) starts.push_back(outcome.start[job]);
  CHECK(starts == std::vector<std::int64_t>{41, 1, 31, 11, 21});
}

TEST_CASE("two equal transfers on a shared link take twice as long", "[sim]") {
  const auto made = crowd(2, 12.5e9, {{0}});
  EventQueue queue(made.graph, made.contention);
  CHECK(simulate(queue, {1'000'001, 1'000'001}).finish ==
        std::vector<std::int64_t>{2'000'002, 2'000'002});
  SECTION("alone it takes its own time") {
    CHECK(simulate(queue, {777, 0}).finish == std::vector<std::int64_t>{777, 0});
  }
  SECTION("the longer one has the link to itself in the end") {
    // Both at half speed until 2000; then 2000 of the second's 3000 are left.
    CHECK(simulate(queue, {1000, 3000}).finish == std::vector<std::int64_t>{2000, 4000});
  }
}

TEST_CASE("n transfers on a link take n times as long, to the picosecond", "[sim]") {
  for (std::size_t n = 1; n <= 40; ++n) {
    const auto made = crowd(n, 1e9, {{0}});
    EventQueue queue(made.graph, made.contention);
    const std::int64_t work = 10'000'000'019;
    const auto outcome = simulate(queue, std::vector<std::int64_t>(n, work));
    CHECK(outcome.finish == std::vector<std::int64_t>(n, static_cast<std::int64_t>(n) * work));
  }
}

TEST_CASE("a transfer that comes later slows the one under way", "[sim]") {
  // First 0-: alone until 400, then half speed: 600 left take 1200, done at 1600. The second has
  // done 600 of its 1000 by then and needs 400 more: 2000.
  TaskGraphBuilder builder;
  const auto first = builder.add_task(kNoResource), delay = builder.add_task(kNoResource);
  const auto second = builder.add_task(kNoResource);
  builder.add_dependency(delay, second);
  const TaskGraph graph = builder.build();
  Contention contention;
  contention.pool_capacity = {1.0};
  contention.routes = {{{0}}};
  contention.route_of_task = {0, kNoRoute, 0};
  EventQueue queue(graph, contention);
  const auto outcome = simulate(queue, {1000, 400, 1000});
  CHECK(outcome.finish[first] == 1600);
  CHECK(outcome.finish[second] == 2000);
  CHECK(outcome.start[second] == 400);
}

TEST_CASE("ranks that outnumber the cores share them", "[sim]") {
  const Route one_thread{{0}, 1.0};
  SECTION("2 on 1 core: half speed") {
    const auto made = crowd(2, 1.0, one_thread);
    EventQueue queue(made.graph, made.contention);
    CHECK(simulate(queue, {500, 500}).finish == std::vector<std::int64_t>{1000, 1000});
  }
  SECTION("3 on 2 cores: two thirds, then full speed when two are left") {
    // 600 work at 2/3 takes 900; the other two have done 600 of 1000 and are alone now: +400.
    const auto made = crowd(3, 2.0, one_thread);
    EventQueue queue(made.graph, made.contention);
    CHECK(simulate(queue, {600, 1000, 1000}).finish == std::vector<std::int64_t>{900, 1300, 1300});
  }
  SECTION("2 on 4 cores: nobody waits") {
    const auto made = crowd(2, 4.0, one_thread);
    EventQueue queue(made.graph, made.contention);
    CHECK(simulate(queue, {500, 700}).finish == std::vector<std::int64_t>{500, 700});
  }
}

TEST_CASE("two ranks' steps on one core take the sum of their work", "[sim]") {
  // Each rank: compute 100, wait for the other's, compute 100, on its own stream in issue order;
  // one core under both. Shared throughout, so 4 x 100.
  TaskGraphBuilder builder;
  std::vector<TaskIndex> first, second;
  for (int rank = 0; rank < 2; ++rank) {
    const auto stream = builder.add_resource();
    first.push_back(builder.add_task(stream));
    second.push_back(builder.add_task(stream));
  }
  builder.add_dependency(first[0], second[1]);
  builder.add_dependency(first[1], second[0]);
  const TaskGraph graph = builder.build();
  Contention contention;
  contention.pool_capacity = {1.0};
  contention.routes = {{{0}, 1.0}};
  contention.route_of_task.assign(4, 0);
  EventQueue queue(graph, contention);
  CHECK(simulate(queue, {100, 100, 100, 100}).makespan == 400);
}

TEST_CASE("transfers over several links get max-min fair shares", "[sim]") {
  // Link 0 of 1 B/ps carries a, b, c; link 1 of 2 B/ps carries c, d. a, b, c run at 1/3 B/ps and d
  // at 5/3. Alone they would run at 1, 1, 1 and 2. With 100 ps of work each (d: 200 bytes): d ends
  // at 200 / (5/3) = 120. Nothing changes for the others, who end at 300.
  TaskGraphBuilder builder;
  for (int i = 0; i < 4; ++i) builder.add_task(kNoResource);
  const TaskGraph graph = builder.build();
  Contention contention;
  contention.pool_capacity = {1.0, 2.0};
  contention.routes = {{{0}}, {{0, 1}}, {{1}}};
  contention.route_of_task = {0, 0, 1, 2};
  EventQueue queue(graph, contention);
  CHECK(simulate(queue, {100, 100, 100, 100}).finish ==
        std::vector<std::int64_t>{300, 300, 300, 120});
}

TEST_CASE("a shared pool wastes nothing and repeats itself to the bit", "[sim]") {
  std::mt19937 random(33);
  for (int round = 0; round < 100; ++round) {
    const std::size_t n = 1 + random() % 30;
    auto made = crowd(n, 3.0, {{0}});
    std::vector<std::int64_t> durations(n);
    for (auto& d : durations) d = static_cast<std::int64_t>(random() % 1'000'000);
    EventQueue queue(made.graph, made.contention);
    const Outcome outcome = simulate(queue, durations);
    const auto total = std::accumulate(durations.begin(), durations.end(), std::int64_t{0});
    // Half a picosecond at each of at most n changes.
    CHECK(std::abs(outcome.makespan - total) <= static_cast<std::int64_t>(n));
    for (std::size_t t = 0; t < n; ++t) CHECK(outcome.finish[t] >= durations[t]);
    EventQueue copy = queue;
    CHECK(simulate(copy, durations).finish == outcome.finish);
    CHECK(simulate(queue, durations).finish == outcome.finish);
  }
}

TEST_CASE("routes with room for all change nothing", "[sim]") {
  std::mt19937 random(34);
  for (int round = 0; round < 100; ++round) {
    const TaskGraph graph = random_graph(random, 1 + random() % 100, 1 + random() % 5).graph;
    const auto durations = random_durations(random, graph.task_count());
    Contention contention;
    contention.pool_capacity = {5.0};  // at most 5 resources, each with one task of limit 1
    contention.routes = {{{0}, 1.0}};
    contention.route_of_task.assign(graph.task_count(), 0);
    std::vector<std::int64_t> finish(graph.task_count());
    longest_path(graph, durations, finish);
    EventQueue queue(graph, contention);
    CHECK(simulate(queue, durations).finish == finish);
  }
}

TEST_CASE("contention that does not fit the graph is refused", "[sim]") {
  TaskGraphBuilder builder;
  builder.add_task(builder.add_resource(ResourceOrder::kUnordered));
  const TaskGraph graph = builder.build();
  Contention contention;
  contention.service = {Service::kReadyOrder, Service::kReadyOrder};
  CHECK_THROWS_AS(EventQueue(graph, contention), InternalError);
  contention.service = {Service::kIssueOrder};
  CHECK_THROWS_AS(EventQueue(graph, contention), InternalError);
  contention.service = {};
  contention.route_of_task = {0};
  CHECK_THROWS_AS(EventQueue(graph, contention), InternalError);
  contention.route_of_task = {kNoRoute, kNoRoute};
  CHECK_THROWS_AS(EventQueue(graph, contention), InternalError);
  std::vector<std::int64_t> one(1), two(2);
  EventQueue queue(graph);
  CHECK_THROWS_AS(queue.run(two, one, one), InternalError);
  CHECK_THROWS_AS(queue.run(one, one, two), InternalError);
}
