#include "sim/fair_share.hpp"

#include <algorithm>
#include <random>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;
using namespace parplan::sim;

namespace {

std::vector<double> max_min(const std::vector<Route>& routes, const std::vector<double>& capacity) {
  std::vector<const Route*> pointers;
  for (const Route& route : routes) pointers.push_back(&route);
  std::vector<double> rates(routes.size(), -1);
  MaxMin(capacity.size()).rates(pointers, capacity, rates);
  return rates;
}

}  // namespace

TEST_CASE("max-min rates of the textbook's line of links", "[sim]") {
  // Link 0 of 1 carries flows a, b, c; link 1 of 2 carries c, d. a, b, c get 1/3; d gets the rest.
  const auto rates = max_min({{{0}}, {{0}}, {{0, 1}}, {{1}}}, {1.0, 2.0});
  CHECK(rates[0] == Approx(1.0 / 3));
  CHECK(rates[1] == Approx(1.0 / 3));
  CHECK(rates[2] == Approx(1.0 / 3));
  CHECK(rates[3] == Approx(5.0 / 3));
}

TEST_CASE("what a limited task leaves goes to the others", "[sim]") {
  const auto rates = max_min({{{0}, 0.1}, {{0}}, {{0}, 2.0}}, {1.0});
  CHECK(rates[0] == Approx(0.1));
  CHECK(rates[1] == Approx(0.45));
  CHECK(rates[2] == Approx(0.45));
}

TEST_CASE("random max-min rates fit and every task has a reason not to go faster", "[sim]") {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> uniform(0.1, 4.0);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> capacity(1 + random() % 6);
    for (auto& c : capacity) c = uniform(random);
    std::vector<Route> routes(1 + random() % 10);
    for (auto& route : routes) {
      for (PoolIndex pool = 0; pool < capacity.size(); ++pool) {
        if (random() % 2 == 0) route.pools.push_back(pool);
      }
      if (route.pools.empty()) route.pools.push_back(0);
      if (random() % 3 == 0) route.rate_limit = uniform(random) / 4;
    }
    const auto rates = max_min(routes, capacity);
    const auto uses = [&](std::size_t i, PoolIndex pool) {
      return std::count(routes[i].pools.begin(), routes[i].pools.end(), pool) > 0;
    };
    std::vector<double> used(capacity.size(), 0), most(capacity.size(), 0);
    for (std::size_t i = 0; i < routes.size(); ++i) {
      CHECK(rates[i] > 0);
      for (PoolIndex pool = 0; pool < capacity.size(); ++pool) {
        if (!uses(i, pool)) continue;
        used[pool] += rates[i];
        most[pool] = std::max(most[pool], rates[i]);
      }
    }
    for (PoolIndex pool = 0; pool < capacity.size(); ++pool) {
      CHECK(used[pool] <= capacity[pool] * (1 + 1e-12));
    }
    for (std::size_t i = 0; i < routes.size(); ++i) {
      bool held = rates[i] >= routes[i].rate_limit * (1 - 1e-12);
      for (PoolIndex pool = 0; pool < capacity.size(); ++pool) {
        held |= uses(i, pool) && used[pool] >= capacity[pool] * (1 - 1e-12) &&
                rates[i] >= most[pool] * (1 - 1e-12);
      }
      CHECK(held);
    }
  }
}

TEST_CASE("routes and pools that make no sense are refused", "[sim]") {
  CHECK_THROWS_AS(FairShare({}, {0.0}), InternalError);
  CHECK_THROWS_AS(FairShare({{{}, 1.0}}, {1.0}), InternalError);
  CHECK_THROWS_AS(FairShare({{{1}}}, {1.0}), InternalError);
  CHECK_THROWS_AS(FairShare({{{0, 0}}}, {1.0}), InternalError);
  CHECK_THROWS_AS(FairShare({{{0}, 0.0}}, {1.0}), InternalError);
}

TEST_CASE("a route of weight n is n routes", "[sim]") {
  std::mt19937 random(12);
  std::uniform_real_distribution<double> uniform(0.1, 4.0);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> capacity(1 + random() % 4);
    for (auto& c : capacity) c = uniform(random);
    std::vector<Route> weighted, single;
    std::vector<std::size_t> first;
    for (std::size_t i = 0; i < 1 + random() % 5; ++i) {
      Route route;
      for (PoolIndex pool = 0; pool < capacity.size(); ++pool) {
        if (random() % 2 == 0) route.pools.push_back(pool);
      }
      if (route.pools.empty()) route.pools.push_back(0);
      if (random() % 3 == 0) route.rate_limit = uniform(random) / 4;
      const std::size_t n = 1 + random() % 4;
      first.push_back(single.size());
      single.insert(single.end(), n, route);
      route.weights.assign(route.pools.size(), static_cast<double>(n));
      weighted.push_back(route);
    }
    const auto expected = max_min(single, capacity), found = max_min(weighted, capacity);
    for (std::size_t i = 0; i < weighted.size(); ++i) {
      CHECK(found[i] == Approx(expected[first[i]]).epsilon(1e-9));
    }
  }
}

TEST_CASE("weights that do not fit a route's pools are refused", "[sim]") {
  CHECK_THROWS_AS(FairShare({{{0}, 1.0, {1.0, 2.0}}}, {1.0}), InternalError);
  CHECK_THROWS_AS(FairShare({{{0}, 1.0, {0.0}}}, {1.0}), InternalError);
}
