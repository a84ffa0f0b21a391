#include "sim/event_queue.hpp"

#include <algorithm>
#include <utility>

#include "sim/core/error.hpp"

namespace parplan::sim {
namespace {

std::vector<Service> default_service(const TaskGraph& graph) {
  std::vector<Service> service;
  for (ResourceIndex r = 0; r < graph.resource_count(); ++r) {
    service.push_back(graph.resource_order(r) == ResourceOrder::kIssueOrder ? Service::kIssueOrder
                                                                            : Service::kReadyOrder);
  }
  return service;
}

}  // namespace

EventQueue::EventQueue(const TaskGraph& graph, Contention contention)
    : graph_(&graph),
      service_(contention.service.empty() ? default_service(graph) : std::move(contention.service)),
      route_of_task_(std::move(contention.route_of_task)),
      share_(contention.routes, std::move(contention.pool_capacity)) {
  ensure(service_.size() == graph.resource_count(), "every resource has a service");
  for (ResourceIndex r = 0; r < graph.resource_count(); ++r) {
    ensure(service_[r] != Service::kIssueOrder ||
               graph.resource_order(r) == ResourceOrder::kIssueOrder,
           "only a resource of the graph in issue order is served in issue order");
  }
  ensure(route_of_task_.empty() || route_of_task_.size() == graph.task_count(),
         "every task has a route or says that it has none");
  for (const RouteIndex route : route_of_task_) {
    ensure(route == kNoRoute || route < contention.routes.size(), "a task's route exists");
  }
  build_successors();
  if (std::count(service_.begin(), service_.end(), Service::kReadyOrder) > 0) {
    waiting_.resize(graph.resource_count());
    next_.resize(graph.task_count());
  }
  if (!route_of_task_.empty()) expected_.resize(graph.task_count());
}

/// The issue order is kept by the implicit inputs: a task that has all inputs finds its resource
/// free.
std::span<const TaskIndex> EventQueue::inputs(TaskIndex task) const {
  const ResourceIndex resource = graph_->resource(task);
  const bool in_issue_order = resource == kNoResource || service_[resource] == Service::kIssueOrder;
  return in_issue_order ? graph_->inputs(task) : graph_->dependencies(task);
}

void EventQueue::build_successors() {
  const std::size_t count = graph_->task_count();
  successor_begin_.assign(count + 1, 0);
  input_count_.resize(count);
  for (TaskIndex t = 0; t < count; ++t) {
    input_count_[t] = static_cast<std::uint32_t>(inputs(t).size());
    for (const TaskIndex input : inputs(t)) ++successor_begin_[input + 1];
  }
  for (std::size_t t = 1; t <= count; ++t) successor_begin_[t] += successor_begin_[t - 1];
  successors_.resize(successor_begin_[count]);
  std::vector<std::uint32_t> next(successor_begin_.begin(), successor_begin_.end() - 1);
  for (TaskIndex t = 0; t < count; ++t) {
    for (const TaskIndex input : inputs(t)) successors_[next[input]++] = t;
  }
}

bool EventQueue::has_queue(TaskIndex task) const {
  const ResourceIndex resource = graph_->resource(task);
  return resource != kNoResource && service_[resource] == Service::kReadyOrder;
}

/// One run: the queue's room together with the caller's arrays.
struct EventQueue::Run {
  EventQueue& queue;
  const std::int64_t* durations_ps;
  std::int64_t* start_ps;
  std::int64_t* finish_ps;
  std::int64_t now_ps = 0;

  void start(TaskIndex task) {
    start_ps[task] = now_ps;
    const RouteIndex route = queue.route_of_task_.empty() ? kNoRoute : queue.route_of_task_[task];
    if (route != kNoRoute && durations_ps[task] > 0) {
      queue.share_.join(task, route, durations_ps[task], now_ps);
      return;  // its finish is known after the next rebalance
    }
    const std::uint64_t order = queue.heap_.push(now_ps + durations_ps[task], task);
    if (route != kNoRoute) queue.expected_[task] = order;
  }

  void make_ready(TaskIndex task) {
    if (queue.waiting_.empty() || !queue.has_queue(task)) return start(task);
    Waiting& waiting = queue.waiting_[queue.graph_->resource(task)];
    if (!waiting.busy) {
      waiting.busy = true;
      return start(task);
    }
    queue.next_[task] = kNoTask;
    if (waiting.first == kNoTask) {
      waiting.first = task;
    } else {
      queue.next_[waiting.last] = task;
    }
    waiting.last = task;
  }

  /// The resource goes on before anything new becomes ready: who waited comes first.
  void release(TaskIndex task) {
    Waiting& waiting = queue.waiting_[queue.graph_->resource(task)];
    if (waiting.first == kNoTask) {
      waiting.busy = false;
      return;
    }
    const TaskIndex next = waiting.first;
    waiting.first = queue.next_[next];
    start(next);
  }

  void finish(TaskIndex task) {
    finish_ps[task] = now_ps;
    const bool shared = !queue.route_of_task_.empty() && queue.route_of_task_[task] != kNoRoute &&
                        durations_ps[task] > 0;
    if (shared) queue.share_.leave(task);
    if (!queue.waiting_.empty() && queue.has_queue(task)) release(task);
    const std::uint32_t end = queue.successor_begin_[task + 1];
    for (std::uint32_t e = queue.successor_begin_[task]; e < end; ++e) {
      const TaskIndex successor = queue.successors_[e];
      if (--queue.missing_[successor] == 0) make_ready(successor);
    }
  }

  /// All that happens at one time happens before the shares are computed anew.
  void rebalance_if_due() {
    if (!queue.share_.is_dirty()) return;
    if (!queue.heap_.empty() && queue.heap_.top().time_ps == now_ps) return;
    queue.share_.rebalance(now_ps, [&](TaskIndex task, std::int64_t finish_at_ps) {
      queue.expected_[task] = queue.heap_.push(finish_at_ps, task);
    });
  }

  bool is_outdated(const EventHeap::Event& event) const {
    if (queue.route_of_task_.empty()) return false;
    const TaskIndex task = event.task();
    return queue.route_of_task_[task] != kNoRoute && queue.expected_[task] != event.order;
  }

  std::size_t drain() {
    std::size_t finished = 0;
    for (rebalance_if_due(); !queue.heap_.empty(); rebalance_if_due()) {
      const EventHeap::Event event = queue.heap_.pop();
      if (is_outdated(event)) continue;
      now_ps = event.time_ps;
      finish(event.task());
      ++finished;
    }
    return finished;
  }
};

std::int64_t EventQueue::run(std::span<const std::int64_t> durations_ps,
                             std::span<std::int64_t> start_ps, std::span<std::int64_t> finish_ps) {
  const std::size_t count = graph_->task_count();
  ensure(durations_ps.size() == count && start_ps.size() == count && finish_ps.size() == count,
         "an array of times has one element per task");
  heap_.clear();
  share_.clear();
  missing_ = input_count_;
  std::fill(waiting_.begin(), waiting_.end(), Waiting{});
  Run run{*this, durations_ps.data(), start_ps.data(), finish_ps.data()};
  for (TaskIndex t = 0; t < count; ++t) {
    if (input_count_[t] == 0) run.make_ready(t);
  }
  const std::size_t finished = run.drain();
  ensure(finished == count, "every task of an acyclic graph runs");
  return run.now_ps;
}

}  // namespace parplan::sim
