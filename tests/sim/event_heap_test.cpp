#include "sim/event_heap.hpp"

#include <algorithm>
#include <random>

#include "tests/catch2_compat.hpp"

using namespace parplan::sim;

TEST_CASE("events of one time come out in the order in which they were put in", "[sim]") {
  EventHeap heap;
  for (const TaskIndex task : {5U, 3U, 9U, 1U, 7U, 0U, 8U}) heap.push(100, task);
  heap.push(99, 42);
  std::vector<TaskIndex> out;
  while (!heap.empty()) out.push_back(heap.pop().task());
  CHECK(out == std::vector<TaskIndex>{42, 5, 3, 9, 1, 7, 0, 8});
}

TEST_CASE("a heap under pushes and pops is a stable sort", "[sim]") {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    EventHeap heap;
    std::vector<std::pair<std::int64_t, TaskIndex>>
        waiting;  // the plain model, in order of pushing
    for (TaskIndex task = 0; task < 500; ++task) {
      const auto time = static_cast<std::int64_t>(random() % 20);
      heap.push(time, task);
      waiting.emplace_back(time, task);
      while (!waiting.empty() && random() % 3 == 0) {
        const auto first = std::min_element(waiting.begin(), waiting.end());  // first of the least
        REQUIRE(heap.top().time_ps == first->first);
        REQUIRE(heap.pop().task() == first->second);
        waiting.erase(first);
      }
      REQUIRE(heap.size() == waiting.size());
    }
  }
}
