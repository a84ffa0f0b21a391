#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/task_graph.hpp"

namespace parplan::sim {

/// Events ordered by time and, at one time, by the order in which they were put in: a stable
/// priority queue of (time, task). Four children per node: half the depth of a binary heap, and the
/// four lie in one cache line.
class EventHeap {
 public:
  struct Event {
    std::int64_t time_ps = 0;
    std::uint64_t order = 0;  ///< sequence number * 2^32 + task: unique, ordered by sequence

    [[nodiscard]] TaskIndex task() const { return static_cast<TaskIndex>(order); }
    friend bool operator<(const Event& a, const Event& b) {
      return a.time_ps != b.time_ps ? a.time_ps < b.time_ps : a.order < b.order;
    }
  };

  /// Fewer than 2^32 pushes between two calls of clear(). Returns the event's `order`.
  std::uint64_t push(std::int64_t time_ps, TaskIndex task) {
    const Event event{time_ps, (sequence_++ << 32) | task};
    events_.push_back(event);
    std::size_t hole = events_.size() - 1;
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / 4;
      if (!(event < events_[parent])) break;
      events_[hole] = events_[parent];
      hole = parent;
    }
    events_[hole] = event;
    return event.order;
  }

  /// The earliest event; the heap must not be empty.
  [[nodiscard]] const Event& top() const { return events_.front(); }

  Event pop() {
    const Event first = events_.front();
    const Event last = events_.back();
    events_.pop_back();
    if (!events_.empty()) sink(last);
    return first;
  }

  [[nodiscard]] bool empty() const { return events_.empty(); }
  [[nodiscard]] std::size_t size() const { return events_.size(); }
  void clear() {
    events_.clear();
    sequence_ = 0;
  }

 private:
  /// Puts `event` into the hole at the top.
  void sink(const Event& event) {
    const std::size_t size = events_.size();
    std::size_t hole = 0;
    for (std::size_t child = 1; child < size; child = 4 * hole + 1) {
      std::size_t least = child;
      const std::size_t end = child + 4 < size ? child + 4 : size;
      for (std::size_t other = child + 1; other < end; ++other) {
        if (events_[other] < events_[least]) least = other;
      }
      if (!(events_[least] < event)) break;
      events_[hole] = events_[least];
      hole = least;
    }
    events_[hole] = event;
  }

  std::vector<Event> events_;
  std::uint64_t sequence_ = 0;
};

}  // namespace parplan::sim
