#include "sim/fair_share.hpp"

#include <algorithm>
#include <cmath>

#include "sim/core/error.hpp"

namespace parplan::sim {
namespace {

double weight_in(const Route& route, std::size_t place) {
  return route.weights.empty() ? 1.0 : route.weights[place];
}

}  // namespace

void MaxMin::freeze(const Route& route, double rate) {
  for (std::size_t i = 0; i < route.pools.size(); ++i) {
    const PoolIndex pool = route.pools[i];
    const double weight = weight_in(route, i);
    left_[pool] = std::max(0.0, left_[pool] - weight * rate);
    weight_[pool] -= weight;
    --users_[pool];
  }
}

void MaxMin::rates(std::span<const Route* const> routes, std::span<const double> capacity,
                   std::span<double> rates) {
  pools_.clear();
  growing_.clear();
  for (std::uint32_t i = 0; i < routes.size(); ++i) {
    growing_.push_back(i);
    for (std::size_t place = 0; place < routes[i]->pools.size(); ++place) {
      const PoolIndex pool = routes[i]->pools[place];
      if (users_[pool]++ == 0) {
        pools_.push_back(pool);
        left_[pool] = capacity[pool];
        weight_[pool] = 0.0;
      }
      weight_[pool] += weight_in(*routes[i], place);
    }
  }
  while (!growing_.empty()) {
    // The level at which the next pool is used up or the next limit is reached.
    double level = std::numeric_limits<double>::infinity();
    for (const PoolIndex pool : pools_) {
      if (users_[pool] > 0) level = std::min(level, left_[pool] / weight_[pool]);
    }
    for (const std::uint32_t i : growing_) level = std::min(level, routes[i]->rate_limit);
    // Decide for all before taking anything away, or a pool's remainder would look like its share.
    const auto stops = [&](std::uint32_t i) {
      const Route& route = *routes[i];
      return route.rate_limit <= level ||
             std::any_of(route.pools.begin(), route.pools.end(),
                         [&](PoolIndex pool) { return left_[pool] / weight_[pool] <= level; });
    };
    const auto stopped = std::stable_partition(growing_.begin(), growing_.end(),
                                               [&](std::uint32_t i) { return !stops(i); });
    for (auto it = stopped; it != growing_.end(); ++it) {
      rates[*it] = level;
      freeze(*routes[*it], level);
    }
    growing_.erase(stopped, growing_.end());
  }
}

FairShare::FairShare(std::vector<Route> routes, std::vector<double> pool_capacity)
    : routes_(std::move(routes)),
      capacity_(std::move(pool_capacity)),
      max_min_(capacity_.size()),
      users_(capacity_.size()),
      pool_seen_(capacity_.size(), false) {
  for (const double capacity : capacity_) ensure(capacity > 0, "a pool has a capacity");
  for (const Route& route : routes_) {
    ensure(!route.pools.empty() && route.rate_limit > 0, "a route has a pool and a rate limit > 0");
    ensure(route.weights.empty() || route.weights.size() == route.pools.size(),
           "a route has a weight for each pool or none at all");
    for (const double weight : route.weights) ensure(weight > 0, "a weight is > 0");
    double rate = route.rate_limit;
    for (const PoolIndex pool : route.pools) {
      ensure(pool < capacity_.size(), "a route's pools exist");
      ensure(std::count(route.pools.begin(), route.pools.end(), pool) == 1,
             "a route names each pool once");
      rate = std::min(rate, capacity_[pool]);
    }
    alone_rate_.push_back(rate);
  }
}

void FairShare::join(TaskIndex task, RouteIndex route, std::int64_t work_ps, std::int64_t now_ps) {
  Slot slot = static_cast<Slot>(running_.size());
  if (free_.empty()) {
    running_.emplace_back();
    slot_seen_.push_back(false);
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  running_[slot] = {task, route, joined_++, static_cast<double>(work_ps), 0, now_ps};
  if (slot_of_.size() <= task) slot_of_.resize(task + std::size_t{1});
  slot_of_[task] = slot;
  for (const PoolIndex pool : routes_[route].pools) {
    users_[pool].push_back(slot);
    dirty_.push_back(pool);
  }
}

void FairShare::leave(TaskIndex task) {
  const Slot slot = slot_of_[task];
  for (const PoolIndex pool : routes_[running_[slot].route].pools) {
    auto& users = users_[pool];
    const auto place = std::find(users.begin(), users.end(), slot);
    ensure(place != users.end(), "a task that leaves was running");
    *place = users.back();
    users.pop_back();
    dirty_.push_back(pool);
  }
  free_.push_back(slot);
}

void FairShare::collect_component() {
  component_.clear();
  std::vector<PoolIndex>& queue = dirty_;
  std::size_t kept = 0;
  for (const PoolIndex pool : queue) {
    if (!pool_seen_[pool]) queue[kept++] = pool;
    pool_seen_[pool] = true;
  }
  queue.resize(kept);
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const Slot slot : users_[queue[i]]) {
      if (slot_seen_[slot]) continue;
      slot_seen_[slot] = true;
      component_.push_back(slot);
      for (const PoolIndex pool : routes_[running_[slot].route].pools) {
        if (pool_seen_[pool]) continue;
        pool_seen_[pool] = true;
        queue.push_back(pool);
      }
    }
  }
  for (const PoolIndex pool : queue) pool_seen_[pool] = false;
  for (const Slot slot : component_) slot_seen_[slot] = false;
  queue.clear();
  // The order of joining, not that of the pools' lists, decides every tie.
  std::sort(component_.begin(), component_.end(),
            [&](Slot a, Slot b) { return running_[a].joined < running_[b].joined; });
}

void FairShare::update(std::int64_t now_ps) {
  collect_component();
  component_routes_.clear();
  for (const Slot slot : component_) component_routes_.push_back(&routes_[running_[slot].route]);
  rates_.resize(component_.size());
  max_min_.rates(component_routes_, capacity_, rates_);
  changed_.clear();
  for (std::size_t i = 0; i < component_.size(); ++i) {
    Running& running = running_[component_[i]];
    const double speed = rates_[i] / alone_rate_[running.route];
    if (speed == running.speed) continue;
    const auto passed = static_cast<double>(now_ps - running.since_ps);
    running.left_ps = std::max(0.0, running.left_ps - passed * running.speed);
    running.since_ps = now_ps;
    running.speed = speed;
    changed_.emplace_back(running.task, now_ps + std::llround(running.left_ps / speed));
  }
}

void FairShare::clear() {
  running_.clear();
  free_.clear();
  slot_seen_.clear();
  dirty_.clear();
  for (auto& users : users_) users.clear();
  joined_ = 0;
}

}  // namespace parplan::sim
