#include "planner/search.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>

#include "planner/time_bound.hpp"
#include "sim/core/error.hpp"

namespace parplan::planner {
namespace {

using Order = std::tuple<double, int, std::string>;
Order order_of(const Candidate& c) {
  return {c.simulation.step_time.value, c.layout.ranks(), to_string(c.layout)};
}

constexpr const char* kTooLarge = "does not fit into the device's memory";

/// Estimates of step times are taken to be this near to what a simulation says. They are exact
/// where the microbatches in between all take the same time.
constexpr double kEstimateSlack = 1.05;

/// From so many times a short step's microbatches on, a look at the short step first pays.
constexpr int kLongStep = 8;

/// A placed layout with a bound or an estimate of its step time.
struct TimedLayout {
  Layout layout;
  Seconds time;
};

bool by_time(const TimedLayout& a, const TimedLayout& b) {
  if (a.time != b.time) return a.time < b.time;
  return to_string(a.layout) < to_string(b.layout);
}

/// A layout with a time that it takes at least.
struct BoundedLayout {
  Layout layout;
  Seconds least;
  bool placed = false;
  std::size_t number = 0;  ///< in the order of enumeration
};

/// For a heap whose front is the lowest bound.
bool later(const BoundedLayout& a, const BoundedLayout& b) {
  if (a.least != b.least) return b.least < a.least;
  return b.number < a.number;
}

/// State that the worker threads of a search share.
class Search {
 public:
  Search(const SearchRequest& request, const SearchProgress& progress,
         const std::atomic<bool>* interrupt)
      : request_(request),
        progress_(progress),
        interrupt_(interrupt),
        costs_(request.cluster),
        bound_(request.model, request.workload, costs_) {}

  SearchResult run() {
    costs_.require_products(request_.model, request_.workload.precision);
    const std::vector<Layout> layouts = enumerate_layouts(request_);
    result_.considered = static_cast<std::int64_t>(layouts.size());
    in_parallel(layouts.size(), [&](std::size_t i, Plan&) {
      if (!is_usable(layouts[i], i)) report_done(1);
    });
    // Those with the lowest bounds fill the top early, and the others need no look. Each is taken
    // twice: with the bound of any placement, then, if that is low enough, with its own.
    std::make_heap(bounded_.begin(), bounded_.end(), later);
    in_parallel(static_cast<std::size_t>(std::max(1, request_.threads)),
                [this](std::size_t, Plan& plan) {
                  while (std::optional<BoundedLayout> next = take_lowest()) consider(*next, plan);
                });
    if (result_.best.empty() && !stopped()) search_many_microbatches();
    if (result_.best.empty() && !result_.nearest_miss) simulate_skipped();
    for (auto& [reason, dropped] : dropped_) {
      if (reason == kTooLarge) dropped.suggestion = room();
      result_.dropped.push_back(dropped);
    }
    std::sort(result_.dropped.begin(), result_.dropped.end(),
              [](const Dropped& a, const Dropped& b) {
                return std::tie(b.count, a.reason) < std::tie(a.count, b.reason);
              });
    return std::move(result_);
  }

 private:
  bool stopped() const { return interrupt_ != nullptr && interrupt_->load(); }

  Plan plan_without_layout() const {
    return {request_.model, request_.workload, {}, request_.stack, {}, {}, {}};
  }

  /// Calls `work(i, plan)` for all i < count until interrupted, on all threads; rethrows. The model
  /// is large: one plan per worker, not per layout.
  template <class Work>
  void in_parallel(std::size_t count, const Work& work) {
    std::atomic<std::size_t> next{0};
    std::exception_ptr failure;
    const auto worker = [&] {
      Plan plan = plan_without_layout();
      while (!stopped()) {
        const std::size_t i = next.fetch_add(1);
        if (i >= count) return;
        try {
          work(i, plan);
        } catch (...) {
          const std::lock_guard lock(mutex_);
          if (!failure) failure = std::current_exception();
          next = count;
          return;
        }
      }
    };
    const auto workers = std::min(static_cast<std::size_t>(std::max(1, request_.threads)), count);
    std::vector<std::thread> threads;
    for (std::size_t w = 1; w < workers; ++w) threads.emplace_back(worker);
    worker();
    for (std::thread& t : threads) t.join();
    if (failure) std::rethrow_exception(failure);
  }

  void report_done(std::int64_t layouts) {
    const std::lock_guard lock(mutex_);
    done_ += layouts;
    if (progress_) progress_(done_, result_.considered);
  }

  /// Counts a layout that breaks a rule or cannot fit; others go into `bounded_`.
  bool is_usable(const Layout& layout, std::size_t number) {
    if (!keeps_rules(layout)) return false;
    if (const Bytes least = least_memory(request_, layout); request_.prune && too_much(least)) {
      skip(layout, least);
      return false;
    }
    try {
      const Seconds least = request_.prune ? bound_.of_any_placement(layout) : Seconds{};
      const std::lock_guard lock(mutex_);
      bounded_.push_back({layout, least, false, number});
      return true;
    } catch (const InputError& error) {
      drop({error.what(), "a smaller batch", 0});
      return false;
    }
  }

  /// None when interrupted, or when others work on what is left.
  std::optional<BoundedLayout> take_lowest() {
    const std::lock_guard lock(mutex_);
    if (bounded_.empty() || stopped()) return std::nullopt;
    std::pop_heap(bounded_.begin(), bounded_.end(), later);
    BoundedLayout lowest = std::move(bounded_.back());
    bounded_.pop_back();
    return lowest;
  }

  /// `plan`: the worker's own, which gets the layout.
  void consider(BoundedLayout& layout, Plan& plan) {
    if (!cannot_enter(layout.least)) {
      if (!layout.placed) {
        place_again(layout);
        return;
      }
      look_at(layout.layout, plan);
    } else {
      const std::lock_guard lock(mutex_);
      ++result_.pruned;
    }
    report_done(1);
  }

  /// Back into `bounded_`, with its layers placed and the bound that they give it.
  void place_again(BoundedLayout& layout) {
    try {
      layout.layout = placed(layout.layout);
      if (request_.prune) layout.least = bound_.of(layout.layout);
      layout.placed = true;
      const std::lock_guard lock(mutex_);
      bounded_.push_back(std::move(layout));
      std::push_heap(bounded_.begin(), bounded_.end(), later);
    } catch (const InputError& error) {
      drop({error.what(), "a smaller batch", 0});
      report_done(1);
    }
  }

  void look_at(const Layout& whole, Plan& plan) {
    if (request_.prune && larger_than_one_that_is(whole)) {
      const std::lock_guard lock(mutex_);
      ++result_.cannot_fit;
      count({kTooLarge, "", 0});
      return;
    }
    if (request_.prune && whole.microbatches >= kLongStep * short_step(whole) &&
        !short_step_is_room(whole, plan)) {
      return;
    }
    simulate_and_insert(whole, plan);
  }

  static auto mesh_of(const Layout& layout) {
    return std::tuple(layout.dp, layout.tp, layout.pp, layout.mp);
  }

  /// With `mutex_` held: a 1f1b layout, or the first microbatches of it, that needs `memory`.
  void note_too_large(const Layout& layout, Bytes memory) {
    // What memory a layout takes beside its tensors, and what the arena loses, may differ a little.
    constexpr double kClearly = 1.01;
    if (static_cast<double>(memory.value) <
        kClearly * static_cast<double>(request_.cluster.device.memory.value)) {
      return;
    }
    int& most = too_large_.try_emplace(mesh_of(layout), 0).first->second;
    most = std::max(most, layout.microbatches);
  }

  /// Whether one of the same mesh with as many microbatches or more is known to be too large:
  /// larger microbatches never need less, and gpipe no less than 1f1b.
  bool larger_than_one_that_is(const Layout& layout) {
    const std::lock_guard lock(mutex_);
    const auto known = too_large_.find(mesh_of(layout));
    return known != too_large_.end() && layout.microbatches <= known->second;
  }

  /// Whether a short step fits; counts the layout when it does not. What a short step cannot say,
  /// the whole one shall.
  bool short_step_is_room(const Layout& placed, Plan& plan) {
    try {
      if (short_step_fits(placed, plan)) return true;
    } catch (const InputError&) {
      return true;
    }
    const std::lock_guard lock(mutex_);
    ++result_.cannot_fit;
    count({kTooLarge, "", 0});
    return false;
  }

  bool keeps_rules(const Layout& layout) {
    const std::vector<Refusal> refusals = check_layout(request_.model, request_.workload, layout);
    if (refusals.empty()) return true;
    drop({refusals.front().reason, refusals.front().suggestion, 0});
    return false;
  }

  bool too_much(Bytes memory) const { return memory > request_.cluster.device.memory; }

  /// Of the whole step, or of its first `microbatches`.
  sim::Simulation simulated(const Layout& placed, Plan& plan, int microbatches) const {
    const std::int64_t samples = request_.workload.global_batch / placed.microbatches;
    plan.layout = placed;
    plan.layout.microbatches = microbatches;
    plan.workload.global_batch = samples * microbatches;
    return sim::simulate(plan, lower(plan), costs_, {.trace = false});
  }

  void simulate_and_insert(const Layout& placed, Plan& plan) {
    try {
      insert({placed, simulated(placed, plan, placed.microbatches)});
    } catch (const InputError& error) {
      // What only this layout asks for, a step beyond the simulator's clock for instance.
      drop({error.what(), "more devices or a smaller batch", 0});
    }
  }

  void search_many_microbatches() {
    const std::vector<std::vector<Layout>> lists = enumerate_many_microbatches(request_);
    for (const std::vector<Layout>& list : lists) {
      result_.considered += static_cast<std::int64_t>(list.size());
    }
    in_parallel(lists.size(), [&](std::size_t i, Plan& plan) {
      if (!request_.prune) {
        for (const Layout& layout : lists[i]) {
          if (!stopped() && keeps_rules(layout)) simulate_and_insert(placed(layout), plan);
        }
        return;
      }
      const std::size_t kept = estimate_list(lists[i], plan);
      report_done(static_cast<std::int64_t>(lists[i].size() - kept));
    });
    std::sort(estimates_.begin(), estimates_.end(), by_time);
    in_parallel(estimates_.size(), [this](std::size_t i, Plan& plan) {
      const TimedLayout& e = estimates_[i];
      if (cannot_enter(Seconds{e.time.value / kEstimateSlack})) {
        const std::lock_guard lock(mutex_);
        ++result_.pruned;
      } else {
        simulate_and_insert(e.layout, plan);
      }
      report_done(1);
    });
  }

  /// Puts what may become one of `best` into `estimates_`, counts the others, and returns how many
  /// the former are. `list`: as of enumerate_many_microbatches().
  std::size_t estimate_list(const std::vector<Layout>& list, Plan& plan) {
    std::vector<Layout> usable;
    for (const Layout& layout : list) {
      if (keeps_rules(layout)) usable.push_back(layout);
    }
    if (usable.empty()) return 0;
    if (const Bytes least = least_memory(request_, usable.front()); too_much(least)) {
      for (const Layout& layout : usable) skip(layout, least);
      return 0;
    }
    try {
      return estimate_usable(usable, plan);
    } catch (const InputError& error) {
      for (std::size_t i = 0; i < usable.size(); ++i) {
        drop({error.what(), "more devices or a smaller batch", 0});
      }
      return 0;
    }
  }

  std::size_t estimate_usable(std::vector<Layout>& usable, Plan& plan) {
    // Smaller microbatches never need more memory: the first that fits parts those that do.
    std::size_t first = usable.size();
    for (std::size_t low = 0, at = first - 1; low < first; at = low + (first - low) / 2) {
      if (stopped()) return 0;
      usable[at] = placed(usable[at]);
      if (short_step_fits(usable[at], plan)) {
        first = at;
      } else {
        low = at + 1;
      }
    }
    std::vector<TimedLayout> estimates;
    std::vector<Seconds> fastest;  // the best `top` of them
    std::size_t at = first;
    for (; at < usable.size(); ++at) {
      if (stopped()) return 0;
      const Layout layout = placed(usable[at]);
      const Seconds time = estimated_time(layout, plan);
      // More microbatches first fill the pipeline and from then on only cost.
      const bool full = static_cast<int>(fastest.size()) >= request_.top;
      if (full && bounded_by_1f1b(layout) && time > fastest.back() * kEstimateSlack) break;
      estimates.push_back({layout, time});
      fastest.insert(std::upper_bound(fastest.begin(), fastest.end(), time), time);
      if (static_cast<int>(fastest.size()) > request_.top) fastest.pop_back();
    }
    const std::lock_guard lock(mutex_);
    result_.cannot_fit += static_cast<std::int64_t>(first);
    for (std::size_t i = 0; i < first; ++i) count({kTooLarge, "", 0});
    result_.pruned += static_cast<std::int64_t>(usable.size() - at);
    estimates_.insert(estimates_.end(), estimates.begin(), estimates.end());
    return estimates.size();
  }

  /// Whether 1f1b's memory is the layout's: gpipe needs more, how much only its whole step shows.
  static bool bounded_by_1f1b(const Layout& layout) {
    return layout.schedule == PipelineSchedule::kOneForwardOneBackward;
  }

  /// Microbatches after which 1f1b holds as many activations as it ever does, with a period to
  /// spare.
  static int short_step(const Layout& layout) {
    return std::min(layout.microbatches, 2 * layout.pp + 2);
  }

  bool short_step_fits(const Layout& placed, Plan& plan) {
    Layout least = placed;
    least.schedule = PipelineSchedule::kOneForwardOneBackward;
    Candidate candidate{placed, simulated(least, plan, short_step(least))};
    if (candidate.simulation.fits(request_.cluster)) return true;
    const std::lock_guard lock(mutex_);
    note_too_large(placed, candidate.simulation.peak_memory());
    if (!bounded_by_1f1b(placed)) {
      const Bytes needed = candidate.simulation.peak_memory();
      if (needed < least_of_gpipe_) {
        least_of_gpipe_ = needed;
        gpipe_too_large_ = placed;
      }
      return false;
    }
    keep_nearest(std::move(candidate));
    return false;
  }

  /// A step of few microbatches, and what further ones add to it.
  Seconds estimated_time(const Layout& placed, Plan& plan) const {
    const int few = short_step(placed);
    const int more = std::min(placed.microbatches, few + placed.pp);
    const Seconds first = simulated(placed, plan, few).step_time;
    if (more == few) return first;
    const Seconds second = simulated(placed, plan, more).step_time;
    return first + (second - first) * (static_cast<double>(placed.microbatches - few) /
                                       static_cast<double>(more - few));
  }

  void skip(const Layout& layout, Bytes least) {
    const std::lock_guard lock(mutex_);
    ++result_.cannot_fit;
    count({kTooLarge, "", 0});
    if (least > least_skipped_) return;
    if (least < least_skipped_) skipped_.clear();
    least_skipped_ = least;
    const auto order = [](const Layout& l) { return std::tuple(-l.microbatches, to_string(l)); };
    const auto [known, added] =
        skipped_.try_emplace(std::tuple(layout.tp, layout.pp, layout.mp), layout);
    if (!added && order(layout) < order(known->second)) known->second = layout;
  }

  /// Nothing fits and nothing was simulated: the nearest of what was skipped says how much it
  /// lacks.
  void simulate_skipped() {
    Plan plan = plan_without_layout();
    std::vector<Layout> layouts;
    if (gpipe_too_large_) layouts.push_back(*gpipe_too_large_);
    for (const auto& [axes, layout] : skipped_) layouts.push_back(layout);
    for (const Layout& layout : layouts) {
      if (stopped()) return;
      try {
        const Layout whole = placed(layout);
        const bool shortened = whole.microbatches > kManyMicrobatches && bounded_by_1f1b(whole);
        const int microbatches = shortened ? short_step(whole) : whole.microbatches;
        keep_nearest({whole, simulated(whole, plan, microbatches)});
      } catch (const InputError&) {  // its step is beyond the simulator's clock: no miss to show
      }
    }
  }

  void keep_nearest(Candidate candidate) {
    if (!result_.nearest_miss ||
        candidate.simulation.peak_memory() < result_.nearest_miss->simulation.peak_memory()) {
      result_.nearest_miss = std::move(candidate);
    }
  }

  /// What would make room. Where nothing fits, all numbers of microbatches were tried.
  std::string room() const {
    const bool tried_all = result_.best.empty() && !request_.pins.microbatches && !stopped();
    return std::string("more ranks, tp or pp, or ") +
           (tried_all ? "a smaller model or sequence" : "more microbatches");
  }

  /// With `mutex_` held.
  void count(const Dropped& what) { ++dropped_.try_emplace(what.reason, what).first->second.count; }

  void drop(const Dropped& what) {
    const std::lock_guard lock(mutex_);
    ++result_.refused;
    count(what);
  }

  Layout placed(const Layout& layout) {
    if (layout.pp == 1) return place_layers(request_.model, request_.workload, layout);
    const std::int64_t samples = request_.workload.global_batch / layout.dp / layout.microbatches;
    const std::pair key{layout.tp, samples};
    std::vector<double> costs;
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = layer_costs_.find(key); known != layer_costs_.end()) {
        costs = known->second;
      }
    }
    if (costs.empty()) {
      costs = layer_costs(request_.model, request_.workload, costs_, layout.tp, samples);
      const std::lock_guard lock(mutex_);
      layer_costs_[key] = costs;
    }
    return place_layers(request_.model, request_.workload, layout, costs);
  }

  bool cannot_enter(Seconds bound) {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(result_.best.size()) >= request_.top &&
           bound > result_.best.back().simulation.step_time;
  }

  void insert(Candidate candidate) {
    const std::lock_guard lock(mutex_);
    ++result_.simulated;
    if (!candidate.simulation.fits(request_.cluster)) {
      count({kTooLarge, "", 0});
      if (bounded_by_1f1b(candidate.layout)) {
        note_too_large(candidate.layout, candidate.simulation.peak_memory());
      }
      keep_nearest(std::move(candidate));
      return;
    }
    auto& best = result_.best;
    const auto at = std::lower_bound(
        best.begin(), best.end(), candidate,
        [](const Candidate& a, const Candidate& b) { return order_of(a) < order_of(b); });
    best.insert(at, std::move(candidate));
    if (static_cast<int>(best.size()) > request_.top) best.pop_back();
  }

  const SearchRequest& request_;
  const SearchProgress& progress_;
  const std::atomic<bool>* interrupt_;
  sim::CostModel costs_;
  TimeBound bound_;
  std::int64_t done_ = 0;
  std::mutex mutex_;
  std::map<std::pair<int, std::int64_t>, std::vector<double>> layer_costs_;
  std::map<std::string, Dropped> dropped_;
  /// By mesh, the most microbatches of a layout that does not fit.
  std::map<std::tuple<int, int, int, int>, int> too_large_;
  /// Of the skipped layouts with the smallest `least_memory`, by tp, pp and mp, the one with the
  /// smallest microbatches.
  std::map<std::tuple<int, int, int>, Layout> skipped_;
  Bytes least_skipped_{std::numeric_limits<std::int64_t>::max()};
  /// Of the gpipe layouts that would not fit even as 1f1b, the one that needs least as that.
  std::optional<Layout> gpipe_too_large_;
  Bytes least_of_gpipe_{std::numeric_limits<std::int64_t>::max()};
  std::vector<BoundedLayout> bounded_;  ///< a heap, see `later`
  std::vector<TimedLayout> estimates_;  ///< of those beyond kManyMicrobatches
  SearchResult result_;
};

}  // namespace

SearchResult search(const SearchRequest& request, const SearchProgress& progress,
                    const std::atomic<bool>* interrupt) {
  return Search(request, progress, interrupt).run();
}

}  // namespace parplan::planner
