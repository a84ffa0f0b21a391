#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/cluster.hpp"
#include "sim/core/plan.hpp"
#include "sim/simulate.hpp"

namespace parplan::planner {

/// Axes that the caller fixes; open ones are searched.
struct Pins {
  std::optional<int> dp, tp, pp, mp, microbatches;
  std::optional<PipelineSchedule> schedule;
};
/// "tp=2,schedule=1f1b". Throws InputError naming the item.
Pins parse_pins(std::string_view text);

struct SearchRequest {
  const Model& model;
  Workload workload;
  const Cluster& cluster;
  std::optional<int> ranks;  ///< exactly this many; none: any divisor of the cluster's devices
  Pins pins;
  Stack stack;
  int top = 5;      ///< candidates to keep
  int threads = 1;  ///< the result does not depend on it
  bool prune =
      true;  ///< skip candidates whose lower bound cannot enter the top; never changes the result
};

struct Candidate {
  Layout layout;
  sim::Simulation simulation;
};

/// How many layouts were dropped for one reason.
struct Dropped {
  std::string reason;
  std::string suggestion;
  std::int64_t count = 0;
};

struct SearchResult {
  std::vector<Candidate>
      best;  ///< that fit, fastest first; ties by fewer ranks, then by layout text
  std::vector<Dropped> dropped;
  std::optional<Candidate> nearest_miss;  ///< when nothing fits: the one that lacks least memory
  std::int64_t considered = 0;
  std::int64_t simulated = 0;
  std::int64_t pruned = 0;
};

/// Progress of a search, called now and then from one thread: done and total candidates.
using SearchProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Enumerates every layout of dp x tp x (pp or mp), schedules and microbatch counts for the allowed
/// rank counts, places layers by their predicted cost, simulates what passes `check_layout`, and
/// ranks. `interrupt` (may be null) ends the search early with what was found.
SearchResult search(const SearchRequest& request, const SearchProgress& progress = {},
                    const std::atomic<bool>* interrupt = nullptr);

/// All layouts the search considers, in a fixed order, before any is checked.
std::vector<Layout> enumerate_layouts(const SearchRequest& request);

/// A time that no simulation of the layout can undercut: all matrix-product flop over the ranks at
/// the fastest measured (or peak) rate.
Seconds lower_bound(const SearchRequest& request, const Layout& layout);

/// Predicted forward + backward time of every layer for one microbatch on one rank of a tp group.
std::vector<double> layer_costs(const Model& model, const Workload& workload,
                                const sim::CostModel& costs, int tp, std::int64_t samples);

}  // namespace parplan::planner
