#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace parplan::sim {

/// Position of a task in its graph. 32 bits: a graph holds fewer than 2^32 - 1 tasks and edges.
using TaskIndex = std::uint32_t;
/// Something that tasks occupy: a rank's compute stream, a communication stream, a link direction.
using ResourceIndex = std::uint32_t;

inline constexpr TaskIndex kNoTask = UINT32_MAX;
/// Resource of a task that occupies nothing (a delay, or a mere joining point).
inline constexpr ResourceIndex kNoResource = UINT32_MAX;

enum class ResourceOrder : std::uint8_t {
  kIssueOrder,  ///< one task at a time, in the order in which the tasks were added
  kUnordered    ///< contention is left to the event queue; the other evaluators see none
};

/// What has to happen before what: the structure of a step without its durations.
///
/// Immutable once built, stored by column, and free of times, so that one graph is shared by any
/// number of threads and evaluated with any number of duration arrays (`std::int64_t` picoseconds
/// per task, each >= 0, in task order). Tasks are in topological order: each predecessor of a task
/// has a smaller index. On a kIssueOrder resource the task before is a predecessor too
/// ("implicit").
///
/// How things map: a compute operation is a task on its rank's compute stream; a blocking
/// (rendezvous) transfer is one task on a link whose predecessors are the last tasks of sender and
/// receiver before it and which both of their next tasks name as predecessor; a collective is one
/// task with a predecessor from every member.
class TaskGraph {
 public:
  [[nodiscard]] std::size_t task_count() const { return resource_.size(); }
  [[nodiscard]] std::size_t resource_count() const { return order_.size(); }

  /// All that `task` waits for: the implicit predecessor (first, if there is one) and the added
  /// ones; each once.
  [[nodiscard]] std::span<const TaskIndex> inputs(TaskIndex task) const {
    return {inputs_.data() + begin_[task], inputs_.data() + begin_[task + 1]};
  }
  /// Only the added predecessors, each once: what remains if the resources are served in another
  /// order.
  [[nodiscard]] std::span<const TaskIndex> dependencies(TaskIndex task) const {
    return inputs(task).subspan((link_[task] & kImplicitOnly) != 0 ? 1 : 0);
  }
  /// The task before `task` on its kIssueOrder resource; kNoTask for the first one and elsewhere.
  [[nodiscard]] TaskIndex resource_predecessor(TaskIndex task) const {
    return (link_[task] & kHasImplicit) != 0 ? inputs_[begin_[task]] : kNoTask;
  }

  [[nodiscard]] ResourceIndex resource(TaskIndex task) const { return resource_[task]; }
  [[nodiscard]] ResourceOrder resource_order(ResourceIndex resource) const {
    return order_[resource];
  }
  /// The caller's own mark, as given to TaskGraphBuilder::add_task().
  [[nodiscard]] std::uint8_t flags(TaskIndex task) const { return flags_[task]; }

  /// Where the task that add_task() numbered `added` is now. The identity if tasks were added in
  /// topological order.
  [[nodiscard]] TaskIndex task_of(TaskIndex added) const {
    return task_of_.empty() ? added : task_of_[added];
  }

  /// The columns behind inputs(): inputs of task t are input_tasks()[input_begin()[t] ..
  /// input_begin()[t + 1]).
  [[nodiscard]] std::span<const std::uint32_t> input_begin() const { return begin_; }
  [[nodiscard]] std::span<const TaskIndex> input_tasks() const { return inputs_; }

 private:
  friend class TaskGraphBuilder;
  static constexpr std::uint8_t kHasImplicit = 1;   // the first input is the resource's task before
  static constexpr std::uint8_t kImplicitOnly = 2;  // ... and it was not added as a dependency

  std::vector<std::uint32_t> begin_{0};  // [task_count + 1]
  std::vector<TaskIndex> inputs_;
  std::vector<std::uint8_t> link_;
  std::vector<std::uint8_t> flags_;
  std::vector<ResourceIndex> resource_;
  std::vector<ResourceOrder> order_;  // [resource_count]
  std::vector<TaskIndex> task_of_;    // empty: identity
};

/// A task as add_task() numbered it -> what to call it in a message.
using TaskNames = std::function<std::string(TaskIndex added)>;

/// Tasks that wait for each other in a circle, so that none of them can start. Each waits for the
/// one after it, the last for the first. Numbered as add_task() did.
struct Deadlock {
  struct Link {
    TaskIndex task = kNoTask;
    bool by_resource = false;  ///< waits only because the next one comes earlier on its resource
  };
  std::vector<Link> cycle;
};

/// One sentence: who waits for whom, and why. "A waits for B; B waits for A, which is before it on
/// the same resource."
[[nodiscard]] std::string describe(const Deadlock& deadlock, const TaskNames& names);

/// Collects tasks and dependencies in any order. Throws InternalError for ids it never handed out.
class TaskGraphBuilder {
 public:
  ResourceIndex add_resource(ResourceOrder order = ResourceOrder::kIssueOrder);
  /// The order of calls is the issue order of the resource. Returns 0, 1, 2, ...
  TaskIndex add_task(ResourceIndex resource, std::uint8_t flags = 0);
  /// `after` starts when `before` is finished. Naming a pair twice changes nothing.
  void add_dependency(TaskIndex before, TaskIndex after);
  void reserve(std::size_t tasks, std::size_t dependencies);
  [[nodiscard]] std::size_t task_count() const { return resource_.size(); }

  /// Empties the builder. Tasks keep their numbers if every dependency points from a smaller to a
  /// larger one; otherwise they are renumbered in waves, see TaskGraph::task_of().
  [[nodiscard]] std::variant<TaskGraph, Deadlock> try_build();
  /// Same, but throws InputError with describe() if the tasks deadlock.
  [[nodiscard]] TaskGraph build(const TaskNames& names = {});

 private:
  struct Edge {
    TaskIndex before, after;
  };
  TaskGraph by_added_number();

  std::vector<ResourceOrder> order_;
  std::vector<ResourceIndex> resource_;
  std::vector<std::uint8_t> flags_;
  std::vector<Edge> edges_;
};

}  // namespace parplan::sim
