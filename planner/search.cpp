#include "planner/search.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "sim/core/error.hpp"
#include "sim/core/op_work.hpp"
#include "sim/core/positions.hpp"

namespace parplan::planner {
namespace {

/// Forward and backward flop of all linear ops for the whole batch; a first layer needs no input
/// gradient, so 4 x rows x in x out is what no layout can avoid.
double linear_flop(const Model& model, const Workload& workload) {
  double flop = 0.0;
  for (const Op& op : model.ops) {
    const auto* linear = std::get_if<LinearOp>(&op.body);
    if (linear == nullptr) continue;
    const auto rows =
        static_cast<double>(workload.global_batch * positions_of(model.value(op.output), workload));
    flop += 4.0 * rows * static_cast<double>(linear->in) * static_cast<double>(linear->out);
  }
  return flop;
}

/// The highest rate that any price can rest on: the best measured sample with room for what
/// interpolation may add, or the peak.
double fastest_rate(const Cluster& cluster, DType dtype) {
  constexpr double kInterpolationRoom = 1.5;
  double rate = 0.0;
  for (const OperationSample& s : cluster.operations) {
    if (s.dtype == dtype && s.shape.inner > 0 && s.median.value > 0.0) {
      rate = std::max(rate, kInterpolationRoom * flop_of(s.code, s.shape).value / s.median.value);
    }
  }
  if (const auto peak = cluster.device.peak.find(dtype); peak != cluster.device.peak.end()) {
    rate = std::max(rate, peak->second.value);
  }
  return rate;
}

using Order = std::tuple<double, int, std::string>;
Order order_of(const Candidate& c) {
  return {c.simulation.step_time.value, c.layout.ranks(), to_string(c.layout)};
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
        layouts_(enumerate_layouts(request)) {
    // Those with the lowest bounds first: they fill the top early, and the others need no look.
    std::stable_sort(layouts_.begin(), layouts_.end(),
                     [](const Layout& a, const Layout& b) { return a.ranks() > b.ranks(); });
  }

  SearchResult run() {
    costs_.require_products(request_.model, request_.workload.precision);
    result_.considered = static_cast<std::int64_t>(layouts_.size());
    const int workers = std::max(1, request_.threads);
    std::vector<std::thread> threads;
    for (int w = 1; w < workers; ++w) threads.emplace_back([this] { work(); });
    work();
    for (std::thread& t : threads) t.join();
    if (failure_) std::rethrow_exception(failure_);
    if (result_.best.empty() && !result_.nearest_miss) simulate_skipped();
    for (auto& [reason, dropped] : dropped_) result_.dropped.push_back(dropped);
    std::sort(result_.dropped.begin(), result_.dropped.end(),
              [](const Dropped& a, const Dropped& b) {
                return std::tie(b.count, a.reason) < std::tie(a.count, b.reason);
              });
    return std::move(result_);
  }

 private:
  Plan plan_without_layout() const {
    return {request_.model, request_.workload, {}, request_.stack, {}, {}, {}};
  }

  void work() {
    // The model is large: one copy per worker, not per layout.
    Plan plan = plan_without_layout();
    while (true) {
      const std::size_t i = next_.fetch_add(1);
      if (i >= layouts_.size()) return;
      if (interrupt_ != nullptr && interrupt_->load()) return;
      try {
        consider(layouts_[i], plan);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        next_ = layouts_.size();
        return;
      }
      const std::int64_t done = ++done_;
      if (progress_) {
        const std::lock_guard lock(mutex_);
        progress_(done, result_.considered);
      }
    }
  }

  /// `plan`: the worker's own, which gets the layout.
  void consider(const Layout& layout, Plan& plan) {
    const std::vector<Refusal> refusals = check_layout(request_.model, request_.workload, layout);
    if (!refusals.empty()) {
      drop({refusals.front().reason, refusals.front().suggestion, 0});
      return;
    }
    if (request_.prune && cannot_enter(lower_bound(request_, layout))) {
      const std::lock_guard lock(mutex_);
      ++result_.pruned;
      return;
    }
    const Bytes least = least_memory(request_, layout);
    if (request_.prune && least > request_.cluster.device.memory) {
      skip(layout, least);
      return;
    }
    try {
      insert(simulated(layout, plan));
    } catch (const InputError& error) {
      // What only this layout asks for, a step beyond the simulator's clock for instance.
      drop({error.what(), "more devices or a smaller batch", 0});
    }
  }

  Candidate simulated(const Layout& layout, Plan& plan) {
    plan.layout = placed(layout);
    return {plan.layout, sim::simulate(plan, lower(plan), costs_, {.trace = false})};
  }

  void skip(const Layout& layout, Bytes least) {
    const std::lock_guard lock(mutex_);
    ++result_.cannot_fit;
    count(too_large());
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
    for (const auto& [axes, layout] : skipped_) {
      if (interrupt_ != nullptr && interrupt_->load()) return;
      try {
        keep_nearest(simulated(layout, plan));
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

  Dropped too_large() const {
    std::string suggestion = "more ranks, tp or pp, or ";
    if (request_.workload.global_batch > kMostMicrobatches && !request_.pins.microbatches) {
      suggestion += "pin more microbatches than the " + std::to_string(kMostMicrobatches) +
                    " that are searched";
    } else {
      suggestion += "more microbatches";
    }
    return {"does not fit into the device's memory", suggestion, 0};
  }

  /// With `mutex_` held.
  void count(const Dropped& what) { ++dropped_.try_emplace(what.reason, what).first->second.count; }

  void drop(const Dropped& what) {
    const std::lock_guard lock(mutex_);
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
      count(too_large());
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
  std::vector<Layout> layouts_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::int64_t> done_{0};
  std::mutex mutex_;
  std::map<std::pair<int, std::int64_t>, std::vector<double>> layer_costs_;
  std::map<std::string, Dropped> dropped_;
  /// Of the skipped layouts with the smallest `least_memory`, by tp, pp and mp, the one with the
  /// smallest microbatches.
  std::map<std::tuple<int, int, int>, Layout> skipped_;
  Bytes least_skipped_{std::numeric_limits<std::int64_t>::max()};
  std::exception_ptr failure_;
  SearchResult result_;
};

}  // namespace

Seconds lower_bound(const SearchRequest& request, const Layout& layout) {
  const double rate = fastest_rate(request.cluster, request.workload.precision);
  if (rate <= 0.0) return Seconds{0.0};
  return Seconds{linear_flop(request.model, request.workload) / rate / layout.ranks()};
}

Bytes least_memory(const SearchRequest& request, const Layout& layout) {
  constexpr std::int64_t kCopies = 4;  // the parameter, its gradient, and Adam's two moments
  const std::int64_t parts = std::int64_t{layout.tp} * layout.pp * layout.mp;
  return Bytes{kCopies * bytes_of(request.workload.precision) *
               (request.model.parameter_count() / parts)};
}

std::vector<double> layer_costs(const Model& model, const Workload& workload,
                                const sim::CostModel& costs, int tp, std::int64_t samples) {
  Workload micro = workload;
  micro.global_batch = samples;
  Layout layout;
  layout.tp = tp;
  const Program program = lower(model, micro, layout, Stack{});
  std::vector<double> result(model.layers.size(), 0.0);
  for (const Body& body : program.classes[0].bodies) {
    for (const Operation& o : body.operations) {
      if (is_tensor_collective(o.code)) continue;
      result[o.layer.index] +=
          costs.operation(o, model.op(o.op).body, workload.precision, 1).time.value;
    }
  }
  return result;
}

SearchResult search(const SearchRequest& request, const SearchProgress& progress,
                    const std::atomic<bool>* interrupt) {
  return Search(request, progress, interrupt).run();
}

}  // namespace parplan::planner
