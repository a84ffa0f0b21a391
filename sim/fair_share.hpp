#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "sim/task_graph.hpp"

namespace parplan::sim {

/// A capacity that running tasks share: a link, a memory bus, a set of cores.
using PoolIndex = std::uint32_t;
/// What a task draws on while it runs.
using RouteIndex = std::uint32_t;
inline constexpr RouteIndex kNoRoute = UINT32_MAX;

/// The pools that a task occupies at once (each named once) and the rate that it cannot exceed
/// anyway. Units are the caller's, the same in all pools of a route: bytes/s for links, cores for
/// compute, where a single-threaded rank has a limit of 1.
struct Route {
  std::vector<PoolIndex> pools;
  double rate_limit = std::numeric_limits<double>::infinity();
  /// By pool, > 0: how many equal tasks this one stands for there. They go in step, each at the
  /// task's rate, so the pool gives `weights` times that rate. Empty: one everywhere.
  std::vector<double> weights = {};
};

/// Max-min fair rates: no task's rate can be raised without lowering that of one which has no more.
/// Progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2): all rates grow
/// together until a limit or a pool stops some of them; the others go on. Every route has a pool;
/// `capacity` > 0 by pool, `rates` by element of `routes`: those of one of the tasks it stands for.
class MaxMin {
 public:
  explicit MaxMin(std::size_t pools) : left_(pools), users_(pools), weight_(pools) {}
  void rates(std::span<const Route* const> routes, std::span<const double> capacity,
             std::span<double> rates);

 private:
  void freeze(const Route& route, double rate);

  std::vector<double> left_;          // capacity not yet given away, by pool
  std::vector<std::uint32_t> users_;  // routes still growing, by pool
  std::vector<double> weight_;        // their weights' sum, by pool
  std::vector<PoolIndex> pools_;      // those in use
  std::vector<std::uint32_t> growing_;
};

/// The tasks that run on routes now: how much each has left and how fast it goes. Work is counted
/// in picoseconds that the task would take alone on its route; alone it goes at min(rate_limit,
/// capacities), so a task that gets half that rate takes twice as long. A task that stands for
/// several has the work of one of them, as it would take without the others.
///
/// Work done is a double and an expected finish is rounded to the nearest picosecond: exact while
/// the rate never changes from the full one, else within half a picosecond for each change of rate.
class FairShare {
 public:
  /// Throws InternalError for a capacity, limit or weight <= 0, a route without pools or with
  /// unknown ones, or weights that are not one for each pool.
  FairShare(std::vector<Route> routes, std::vector<double> pool_capacity);

  /// `route` may differ from the task's in the last run.
  void join(TaskIndex task, RouteIndex route, std::int64_t work_ps, std::int64_t now_ps);
  void leave(TaskIndex task);

  /// Whether tasks joined or left since the last rebalance.
  [[nodiscard]] bool is_dirty() const { return !dirty_.empty(); }
  /// New rates for the tasks that share a pool, directly or through others, with one that joined or
  /// left. Calls `reschedule(task, finish_ps)` for those whose rate changed, in the order of
  /// joining.
  template <class Reschedule>
  void rebalance(std::int64_t now_ps, Reschedule&& reschedule) {
    update(now_ps);
    for (const auto& [task, finish_ps] : changed_) reschedule(task, finish_ps);
  }
  void clear();

 private:
  struct Running {
    TaskIndex task = kNoTask;
    RouteIndex route = kNoRoute;
    std::uint64_t joined = 0;  // rank in the order of joining
    double left_ps = 0;        // work left at `since_ps`
    double speed = 0;          // work per time, 1 when alone; 0: not yet rated
    std::int64_t since_ps = 0;
  };
  using Slot = std::uint32_t;

  void collect_component();
  void update(std::int64_t now_ps);

  std::vector<Route> routes_;
  std::vector<double> capacity_;
  std::vector<double> alone_rate_;  // by route
  MaxMin max_min_;

  std::vector<Running> running_;  // by slot; freed slots are reused
  std::vector<Slot> free_;
  std::vector<Slot> slot_of_;             // by task, grown on demand
  std::vector<std::vector<Slot>> users_;  // by pool
  std::uint64_t joined_ = 0;
  std::vector<PoolIndex> dirty_;  // pools to look at in the next rebalance
  std::vector<bool> pool_seen_, slot_seen_;
  std::vector<Slot> component_;
  std::vector<const Route*> component_routes_;
  std::vector<double> rates_;
  std::vector<std::pair<TaskIndex, std::int64_t>> changed_;
};

}  // namespace parplan::sim
