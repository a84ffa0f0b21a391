#include <algorithm>

#include "planner/search.hpp"
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

}  // namespace parplan::planner
