#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/event_heap.hpp"
#include "sim/fair_share.hpp"
#include "sim/task_graph.hpp"

namespace parplan::sim {

/// In which order a resource serves its tasks.
enum class Service : std::uint8_t {
  kIssueOrder,  ///< one at a time, as added; a task that is not ready holds up those after it
  kReadyOrder,  ///< one at a time, first ready first served; at one time, as the events came
  kConcurrent   ///< all that are ready; a limit, if any, is in their routes
};

/// What durations alone do not say: who gets in whose way. Everything may stay empty.
struct Contention {
  /// By resource; empty: kIssueOrder for ResourceOrder::kIssueOrder, kReadyOrder for kUnordered.
  /// kIssueOrder is possible only for the former.
  std::vector<Service> service;
  std::vector<double> pool_capacity;  ///< by pool
  std::vector<Route> routes;
  /// By task: kNoRoute or what the task draws on while it runs. Empty: none has a route. The
  /// duration of a task with a route is what it takes alone on it.
  std::vector<RouteIndex> route_of_task;
};

/// Discrete-event simulation of a task graph: true queues, shared links, several ranks on one core.
/// Time is integer picoseconds; events of one time happen in the order in which they were
/// scheduled, so that runs repeat bit for bit. Without routes, and with every resource in issue
/// order, the result is that of longest_path(), to the bit. See FairShare for the precision of
/// shared tasks.
///
/// The graph is borrowed and must outlive the object. An object serves one run at a time and keeps
/// its room between runs; copies run side by side.
class EventQueue {
 public:
  /// Throws InternalError for arrays of the wrong size, unknown routes or impossible services.
  explicit EventQueue(const TaskGraph& graph, Contention contention = {});

  /// Fills start and finish (one per task) and returns the largest finish. `durations_ps` >= 0, one
  /// per task; arrays of another size are an InternalError. A shared task's finish minus its start
  /// is what it took, not its duration.
  std::int64_t run(std::span<const std::int64_t> durations_ps, std::span<std::int64_t> start_ps,
                   std::span<std::int64_t> finish_ps);

 private:
  /// Tasks that wait for a resource in ready order, as a chain through `next_`.
  struct Waiting {
    TaskIndex first = kNoTask, last = kNoTask;
    bool busy = false;
  };
  struct Run;

  bool has_queue(TaskIndex task) const;
  std::span<const TaskIndex> inputs(TaskIndex task) const;
  void build_successors();

  const TaskGraph* graph_;
  std::vector<Service> service_;
  std::vector<RouteIndex> route_of_task_;
  FairShare share_;

  std::vector<std::uint32_t> successor_begin_;
  std::vector<TaskIndex> successors_;
  std::vector<std::uint32_t> input_count_;

  // Room of the run.
  EventHeap heap_;
  std::vector<std::uint32_t> missing_;   // inputs not yet finished, by task
  std::vector<Waiting> waiting_;         // by resource
  std::vector<TaskIndex> next_;          // by task
  std::vector<std::uint64_t> expected_;  // by task with a route: the event that finishes it
};

}  // namespace parplan::sim
