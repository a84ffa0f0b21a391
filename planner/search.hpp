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

/// Microbatches that are searched first unless pinned; more only lengthen a step, so that they are
/// looked at where nothing fits with these.
inline constexpr int kManyMicrobatches = 256;

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
  std::optional<int> ranks;  ///< exactly this many; none: any number up to the cluster's devices
  Pins pins;
  Stack stack;
  int top = 5;        ///< candidates to keep
  int threads = 1;    ///< the result does not depend on it
  bool prune = true;  ///< skip what a lower bound of time or memory rules out; never changes `best`
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
  std::vector<Dropped> dropped;  ///< the reason that most layouts have first
  /// When nothing fits: of those simulated the one that lacks least memory; when all were skipped,
  /// the nearest of those with the fewest parameters per device and the smallest microbatches.
  /// With many microbatches its times are of a step with fewer of the same size.
  std::optional<Candidate> nearest_miss;
  std::int64_t considered = 0;  ///< all that there are to look at
  std::int64_t simulated = 0;
  /// Skipped, slower than all of `best`: by their `TimeBound`, or beyond kManyMicrobatches by the
  /// growth of a shorter step.
  std::int64_t pruned = 0;
  /// Skipped: `least_memory`, or a shorter step with microbatches of the same size or smaller ones,
  /// needs more than the device has.
  std::int64_t cannot_fit = 0;
  std::int64_t refused = 0;  ///< break a rule, or their step is beyond the simulator's clock

  /// Fewer than `considered` when the search was interrupted.
  std::int64_t looked_at() const { return simulated + pruned + cannot_fit + refused; }
};

/// Progress of a search, called now and then from one thread: done and total candidates.
using SearchProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Enumerates every layout of dp x tp x (pp or mp), schedules and microbatch counts for the allowed
/// rank counts, places layers by their predicted cost, simulates what passes `check_layout`, those
/// with the lowest `TimeBound` first, and ranks. `interrupt` (may be null) ends the search early
/// with what was found.
///
/// When nothing fits and `pins` leave microbatches open, more than kManyMicrobatches follow, 1f1b
/// alone unless pinned: gpipe keeps the activations of all microbatches, so that it needs no less
/// than 1f1b. Their steps are long, so whether they fit and about how long they take is read off
/// steps of few microbatches of the same size; only those that may enter `best` are simulated.
SearchResult search(const SearchRequest& request, const SearchProgress& progress = {},
                    const std::atomic<bool>* interrupt = nullptr);

/// All layouts the search considers first, in a fixed order. Those of as many ranks as divide the
/// devices, or as were asked for, are not checked yet, so that what they break is told; of other
/// numbers of ranks there are only those whose axes suit the model and the batch.
std::vector<Layout> enumerate_layouts(const SearchRequest& request);

/// Those with more than kManyMicrobatches: layouts of one list differ in nothing else, the fewest
/// microbatches come first. Empty when microbatches are pinned.
std::vector<std::vector<Layout>> enumerate_many_microbatches(const SearchRequest& request);

/// Memory that no rank of the layout can do without: its share of parameters, gradients and
/// moments, were they divided evenly.
Bytes least_memory(const SearchRequest& request, const Layout& layout);

/// Predicted forward + backward time of every layer for one microbatch on one rank of a tp group.
std::vector<double> layer_costs(const Model& model, const Workload& workload,
                                const sim::CostModel& costs, int tp, std::int64_t samples);

}  // namespace parplan::planner
