#pragma once

#include <vector>

#include "sim/core/cluster.hpp"
#include "sim/core/layout.hpp"
#include "sim/fair_share.hpp"

namespace parplan::sim {

/// Ranks of one node that can have cores of their own at the same time; all of them when the
/// cluster does not count cores (GPUs).
int ranks_with_cores(const Cluster& cluster);

/// How many ranks of its node compute on average while a rank of `position` does, that one
/// included, each on cores of its own: at most as many as the node has cores for. Ranks of one
/// position work at the same time; devices of model parallelism take turns; of m microbatches, a
/// stage d away works on other ones during (m - d) / m of a stage's time (equal stages, free
/// transfers).
double busy_ranks_of(const Layout& layout, const Cluster& cluster, int position);

/// Who shares the cores of a node when it holds more ranks than cores.
///
/// The operating system's scheduler is taken to be fair: of n runnable ranks of a node with C cores
/// each gets C/n, at most the `device.cores` that a rank can use; ranks are not bound to cores, and
/// one that waits gives its core up at once. What that leaves out, the cluster's
/// `core_sharing_slowdown` s makes up for: a crowded node has C/s cores' worth of work done.
struct CoreSharing {
  std::vector<double> pool_capacity;  ///< cores, by pool; nodes with the same ranks are one pool
  /// Of ranks with work for their cores, by route. A route stands for all ranks of a class, which
  /// go in step: it names the crowded nodes that hold some of them, each weighted by how many times
  /// the slowdown.
  std::vector<Route> routes;
  /// By class, that is by position. kNoRoute: its ranks have cores of their own.
  std::vector<RouteIndex> route_of_class;

  /// Whether all ranks have cores of their own; then the rest is empty.
  bool empty() const { return routes.empty(); }
};

/// How many times longer work takes that `ranks` of one node do at once than on cores of their own;
/// 1 when it has cores for all.
double sharing_factor(int ranks, const Cluster& cluster);

/// For the ranks that the layout uses, placed on nodes by their number, `devices_per_node` on each.
CoreSharing share_cores(const Layout& layout, const Cluster& cluster);

}  // namespace parplan::sim
