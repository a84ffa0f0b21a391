#include "sim/core_sharing.hpp"

#include <limits>

#include "tests/catch2_compat.hpp"

using namespace parplan;
using namespace parplan::sim;

namespace {

Cluster cluster_of(int devices_per_node, int cores_per_node) {
  Cluster c;
  c.nodes = 16;
  c.devices_per_node = devices_per_node;
  c.cores_per_node = cores_per_node;
  return c;
}

}  // namespace

TEST_CASE("ranks share cores only where a node holds more ranks than cores", "[sim]") {
  CHECK(share_cores(parse_layout("dp=4"), cluster_of(4, 4)).empty());
  CHECK(share_cores(parse_layout("dp=2"), cluster_of(4, 2)).empty());
  CHECK(share_cores(parse_layout("dp=8"), cluster_of(8, 0)).empty());
  CHECK(share_cores(parse_layout("dp=4"), cluster_of(2, 2)).empty());
  const CoreSharing sharing = share_cores(parse_layout("dp=4"), cluster_of(4, 2));
  CHECK(sharing.pool_capacity == std::vector<double>{2.0});
  REQUIRE(sharing.routes.size() == 1);
  CHECK(sharing.routes[0].pools == std::vector<PoolIndex>{0});
  CHECK(sharing.routes[0].weights == std::vector<double>{4.0});
  CHECK(sharing.routes[0].rate_limit == 1.0);
}

TEST_CASE("a class draws on every crowded node that holds some of its ranks", "[sim]") {
  // Positions 0, 1, 2 of two ranks each, four ranks to a node: 0 0 1 1 | 2 2. The second node has a
  // core for each.
  const CoreSharing sharing = share_cores(parse_layout("dp=2,pp=3"), cluster_of(4, 2));
  CHECK(sharing.pool_capacity.size() == 1);
  CHECK(sharing.route_of_class == std::vector<RouteIndex>{0, 1, kNoRoute});
  // Three ranks to a node: 0 0 1 | 1 2 2, both crowded, and different.
  const CoreSharing cut = share_cores(parse_layout("dp=2,pp=3"), cluster_of(3, 2));
  CHECK(cut.pool_capacity.size() == 2);
  REQUIRE(cut.routes.size() == 3);
  CHECK(cut.routes[0].weights == std::vector<double>{2.0});
  CHECK(cut.routes[1].pools.size() == 2);
  CHECK(cut.routes[1].weights == std::vector<double>{1.0, 1.0});
  CHECK(cut.routes[2].weights == std::vector<double>{2.0});
}

TEST_CASE("nodes with the same ranks are one pool", "[sim]") {
  const CoreSharing sharing = share_cores(parse_layout("dp=64"), cluster_of(4, 2));
  CHECK(sharing.pool_capacity.size() == 1);
  CHECK(sharing.routes[0].weights == std::vector<double>{4.0});
}

TEST_CASE("ranks that use several cores fill a node sooner", "[sim]") {
  Cluster c = cluster_of(4, 8);
  CHECK(ranks_with_cores(c) == 8);
  c.device.cores = 4;
  CHECK(ranks_with_cores(c) == 2);
  CHECK(share_cores(parse_layout("dp=2"), c).empty());
  const CoreSharing sharing = share_cores(parse_layout("dp=4"), c);
  CHECK(sharing.routes.at(0).rate_limit == 4.0);
  CHECK(sharing_factor(2, c) == 1.0);
  CHECK(sharing_factor(3, c) == 1.5);
  c.core_sharing_slowdown = 1.2;
  CHECK(sharing_factor(2, c) == 1.0);
  CHECK(sharing_factor(3, c) == Approx(1.8));
  CHECK(share_cores(parse_layout("dp=4"), c).routes.at(0).weights.at(0) == Approx(4.8));
  c.cores_per_node = 0;
  CHECK(sharing_factor(1000, c) == 1.0);
  CHECK(ranks_with_cores(c) == std::numeric_limits<int>::max());
  c.cores_per_node = 2;  // fewer than one rank may use
  CHECK(ranks_with_cores(c) == 1);
}

TEST_CASE("stages work beside each other for part of their time, devices in turn", "[sim]") {
  const auto busy = [](const char* layout, int position, const Cluster& cluster) {
    return busy_ranks_of(parse_layout(layout), cluster, position);
  };
  const Cluster four = cluster_of(4, 4);
  CHECK(busy("dp=4", 0, four) == 4.0);
  CHECK(busy("mp=4", 2, four) == 1.0);
  CHECK(busy("dp=2,mp=2", 1, four) == 2.0);
  // Two stages and m microbatches: of a stage's m turns, the other one works during m - 1.
  CHECK(busy("pp=2,microbatches=1", 0, four) == 1.0);
  CHECK(busy("pp=2,microbatches=4", 1, four) == 1.75);
  CHECK(busy("dp=2,pp=2,microbatches=4", 0, four) == 3.5);
  // Distances 1, 1 and 2 from the second of four stages.
  CHECK(busy("pp=4,microbatches=4", 1, four) == 1.0 + 0.75 + 0.75 + 0.5);
  // Two devices to a node: the replicas of a stage are by themselves. Two cores: no more than two.
  CHECK(busy("dp=2,pp=2,microbatches=4", 1, cluster_of(2, 2)) == 2.0);
  CHECK(busy("dp=2,pp=2,microbatches=4", 1, cluster_of(4, 2)) == 2.0);
}
