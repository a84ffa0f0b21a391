#include "sim/core_sharing.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>
#include <utility>

#include "sim/core/program.hpp"

namespace parplan::sim {
namespace {

/// How many ranks of each position a node holds.
using Occupancy = std::vector<int>;

/// Every mix of ranks with which some node has more of them than `most`.
std::set<Occupancy> crowded_nodes(const Layout& layout, int ranks_per_node, int most) {
  std::set<Occupancy> crowded;
  for (int first = 0; first < layout.ranks(); first += ranks_per_node) {
    const int end = std::min(layout.ranks(), first + ranks_per_node);
    if (end - first <= most) continue;
    Occupancy node(static_cast<std::size_t>(layout.positions()), 0);
    for (int rank = first; rank < end; ++rank) {
      ++node[static_cast<std::size_t>(coordinates_of(rank, layout).position)];
    }
    crowded.insert(std::move(node));
  }
  return crowded;
}

/// Of the time of a position, during which one `distance` away works too.
double share_beside(const Layout& layout, int distance) {
  if (distance == 0) return 1.0;
  if (layout.pp == 1) return 0.0;
  return std::max(0.0, 1.0 - static_cast<double>(distance) / layout.microbatches);
}

}  // namespace

int ranks_with_cores(const Cluster& cluster) {
  if (cluster.cores_per_node <= 0) return std::numeric_limits<int>::max();
  return std::max(1, cluster.cores_per_node / std::max(1, cluster.device.cores));
}

double busy_ranks_of(const Layout& layout, const Cluster& cluster, int position) {
  const int per_node = std::max(1, cluster.devices_per_node);
  const int first = rank_of({position, 0, 0}, layout) / per_node * per_node;
  double busy = 0.0;
  for (int rank = first; rank < std::min(layout.ranks(), first + per_node); ++rank) {
    busy += share_beside(layout, std::abs(coordinates_of(rank, layout).position - position));
  }
  return std::clamp(busy, 1.0, static_cast<double>(ranks_with_cores(cluster)));
}

double sharing_factor(int ranks, const Cluster& cluster) {
  const int most = ranks_with_cores(cluster);
  if (ranks <= most) return 1.0;
  const double wanted = static_cast<double>(ranks) * std::max(1, cluster.device.cores);
  const double turns = wanted / std::max(cluster.cores_per_node, cluster.device.cores);
  return std::max(1.0, turns) * cluster.core_sharing_slowdown;
}

CoreSharing share_cores(const Layout& layout, const Cluster& cluster) {
  const int ranks_per_node = std::max(1, cluster.devices_per_node);
  const int most = ranks_with_cores(cluster);
  CoreSharing sharing;
  if (std::min(layout.ranks(), ranks_per_node) <= most) return sharing;
  const std::set<Occupancy> nodes = crowded_nodes(layout, ranks_per_node, most);
  sharing.pool_capacity.assign(nodes.size(), static_cast<double>(cluster.cores_per_node));
  for (std::size_t position = 0; position < static_cast<std::size_t>(layout.positions());
       ++position) {
    Route route;
    route.rate_limit = std::max(1, cluster.device.cores);
    PoolIndex pool = 0;
    for (const Occupancy& node : nodes) {
      if (node[position] > 0) {
        route.pools.push_back(pool);
        route.weights.push_back(node[position] * cluster.core_sharing_slowdown);
      }
      ++pool;
    }
    const bool shares = !route.pools.empty();
    sharing.route_of_class.push_back(shares ? static_cast<RouteIndex>(sharing.routes.size())
                                            : kNoRoute);
    if (shares) sharing.routes.push_back(std::move(route));
  }
  return sharing;
}

}  // namespace parplan::sim
