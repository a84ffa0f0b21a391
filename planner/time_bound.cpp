#include "planner/time_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "sim/core/op_code.hpp"
#include "sim/core/plan.hpp"
#include "sim/core_sharing.hpp"
#include "sim/step_graph.hpp"

namespace parplan::planner {
namespace {

/// By layer: whether exactly one value passes from earlier layers into it and later ones, from the
/// last op before to, among others, its first op.
std::vector<bool> chained_layers(const Model& model) {
  const std::vector<LayerId> layer_of = layer_of_ops(model);
  const std::vector<std::optional<OpId>> producers = producer_of_values(model);
  std::vector<std::uint32_t> last_needed(model.values.size(), 0);  // the last layer that does
  for (std::size_t op = 0; op < model.ops.size(); ++op) {
    for (const ValueId value : model.ops[op].inputs) last_needed[value.index] = layer_of[op].index;
  }
  std::vector<int> passing(model.layers.size(), 0);
  for (std::size_t value = 0; value < model.values.size(); ++value) {
    if (!producers[value]) continue;
    const std::uint32_t from = layer_of[producers[value]->index].index;
    for (std::uint32_t layer = from + 1; layer <= last_needed[value]; ++layer) ++passing[layer];
  }
  std::vector<bool> chained(model.layers.size(), false);
  for (std::size_t layer = 1; layer < model.layers.size(); ++layer) {
    const OpId first = model.layers[layer].first;
    const std::vector<ValueId>& needs = model.op(first).inputs;
    const ValueId handed = model.ops[first.index - 1].output;
    chained[layer] =
        passing[layer] == 1 && std::find(needs.begin(), needs.end(), handed) != needs.end();
  }
  return chained;
}

sim::PipelineTimes free_transfers(std::size_t stages) {
  sim::PipelineTimes times;
  times.activation_transfer_ps.assign(stages - 1, 0);
  times.gradient_transfer_ps.assign(stages - 1, 0);
  return times;
}

/// A simulation rounds each of its tasks to picoseconds; so many times the sum stay below it.
constexpr double kRounding = 1.0 - 1e-6;

}  // namespace

TimeBound::TimeBound(const Model& model, const Workload& workload, const sim::CostModel& costs)
    : model_(model), workload_(workload), costs_(costs), chained_(chained_layers(model)) {}

std::vector<TimeBound::LayerTimes> TimeBound::priced(const Program& program,
                                                     double busy_ranks) const {
  const Seconds overhead = costs_.operation_overhead();
  const auto group = static_cast<int>(program.layout.tp);
  const auto collective = [&](const Operation& o) {
    const bool reduces = o.code == OpCode::kTensorAllReduce;
    const Bytes size{o.bytes.value * (reduces ? 1 : group)};
    return costs_
        .collective(reduces ? CollectiveKind::kAllReduce : CollectiveKind::kAllGather, group, size,
                    sim::span_of_tensor_group(program.layout, costs_.cluster()))
        .wall;
  };
  const auto price = [&](const Operation& o) {
    if (is_tensor_collective(o.code)) return collective(o) + overhead;
    const OpBody& body = model_.op(o.op).body;
    const auto in = [&](int microbatch) {
      return costs_.operation(o, body, program.precision, microbatch, {busy_ranks, Bytes{}}).time;
    };
    return std::min(in(0), in(1)) + overhead;  // the first may write where others add
  };
  std::vector<LayerTimes> layers(model_.layers.size());
  for (const Body& body : program.classes[0].bodies) {
    for (const Operation& o : body.operations) {
      if (o.code == OpCode::kLoadInput) continue;  // needs nothing of other stages
      LayerTimes& layer = layers[o.layer.index];
      const double time = price(o).value;
      (body.kind == BodyKind::kForward ? layer.forward_s : layer.backward_s) += time;
      if (o.code == OpCode::kLinearBackwardWeight && o.op == model_.layers[o.layer.index].first) {
        layer.after_gradient_s += time;
      }
    }
  }
  return layers;
}

std::int64_t TimeBound::samples_of(const Layout& layout) const {
  return workload_.global_batch / layout.dp / layout.microbatches;
}

const TimeBound::Priced& TimeBound::times_of(int tp, std::int64_t samples, double busy_ranks) {
  const std::lock_guard lock(mutex_);
  auto known = microbatches_.find({tp, samples});
  if (known == microbatches_.end()) {
    Workload one = workload_;
    one.global_batch = samples;
    Layout layout;
    layout.tp = tp;
    known =
        microbatches_
            .emplace(std::pair{tp, samples}, Microbatch{lower(model_, one, layout, Stack{}), {}})
            .first;
  }
  Microbatch& microbatch = known->second;
  const auto priced_before = microbatch.times.find(busy_ranks);
  if (priced_before != microbatch.times.end()) return priced_before->second;
  Priced priced_now{priced(microbatch.program, busy_ranks), 0.0};
  for (const LayerTimes& one : priced_now.layers) {
    priced_now.all_s += one.forward_s + one.backward_s;
  }
  return microbatch.times.emplace(busy_ranks, std::move(priced_now)).first->second;
}

Seconds TimeBound::of_any_placement(const Layout& layout) {
  std::set<double> busy;
  for (int position = 0; position < layout.positions(); ++position) {
    busy.insert(sim::busy_ranks_of(layout, costs_.cluster(), position));
  }
  const Priced& some = times_of(layout.tp, samples_of(layout), *busy.begin());
  double all_s = some.all_s;
  if (busy.size() > 1) {  // each layer may be placed where it takes least
    std::vector<double> least(some.layers.size(), std::numeric_limits<double>::max());
    for (const double ranks : busy) {
      const Priced& priced = times_of(layout.tp, samples_of(layout), ranks);
      for (std::size_t l = 0; l < least.size(); ++l) {
        const LayerTimes& one = priced.layers[l];
        least[l] = std::min(least[l], one.forward_s + one.backward_s);
      }
    }
    all_s = std::accumulate(least.begin(), least.end(), 0.0);
  }
  return Seconds{all_s * layout.microbatches / layout.positions()} * kRounding;
}

const sim::PipelineClosedForm& TimeBound::pipeline(const Layout& layout) {
  const std::lock_guard lock(mutex_);
  const std::tuple key{layout.schedule, layout.pp, layout.microbatches};
  const auto known = pipelines_.find(key);
  if (known != pipelines_.end()) return known->second;
  return pipelines_
      .emplace(key, sim::PipelineClosedForm(layout.schedule, layout.pp, layout.microbatches,
                                            sim::TransferMode::kEager))
      .first->second;
}

bool TimeBound::is_chain(const Layout& layout) const {
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage + 1 < layout.stage_layers.size(); ++stage) {
    layer += static_cast<std::size_t>(layout.stage_layers[stage]);
    if (!chained_[layer]) return false;
  }
  return true;
}

Seconds TimeBound::of_pipeline(const Layout& layout, const std::vector<LayerTimes>& stages) {
  sim::PipelineTimes times = free_transfers(stages.size());
  for (const LayerTimes& stage : stages) {
    times.forward_ps.push_back(to_picoseconds(Seconds{stage.forward_s}).value);
    times.backward_ps.push_back(
        to_picoseconds(Seconds{stage.backward_s - stage.after_gradient_s}).value);
  }
  sim::PipelineScratch scratch;
  std::vector<std::int64_t> finish(stages.size());
  pipeline(layout).evaluate(times, scratch, finish);
  return to_seconds(Picoseconds{finish.front()});
}

Seconds TimeBound::of(const Layout& layout) {
  const int positions = layout.positions();
  std::vector<LayerTimes> work(static_cast<std::size_t>(positions));
  std::size_t layer = 0;
  for (int position = 0; position < positions; ++position) {
    const double busy = sim::busy_ranks_of(layout, costs_.cluster(), position);
    const std::vector<LayerTimes>& times = times_of(layout.tp, samples_of(layout), busy).layers;
    LayerTimes& sum = work[static_cast<std::size_t>(position)];
    const auto take = [&](const LayerTimes& one, bool first) {
      sum.forward_s += one.forward_s;
      sum.backward_s += one.backward_s;
      if (first && position > 0) sum.after_gradient_s = one.after_gradient_s;
    };
    if (layout.mp > 1) {
      for (std::size_t l = 0; l < times.size(); ++l) {
        if (layout.layer_devices[l] == position) take(times[l], false);
      }
    } else if (layout.pp > 1) {
      const auto count = static_cast<std::size_t>(layout.stage_layers[position]);
      for (std::size_t l = 0; l < count; ++l) take(times[layer + l], l == 0);
      layer += count;
    } else {
      for (const LayerTimes& one : times) take(one, false);
    }
  }
  Seconds most;
  Seconds all;
  for (const LayerTimes& w : work) {
    const Seconds one{(w.forward_s + w.backward_s) * layout.microbatches};
    most = std::max(most, one);
    all += one;
  }
  // Of what is beyond the simulator's clock it is enough to know that.
  if (layout.pp > 1 && all < sim::kMostWork && is_chain(layout)) {
    most = std::max(most, of_pipeline(layout, work));
  }
  return most * kRounding;
}

}  // namespace parplan::planner
