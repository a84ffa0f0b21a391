#include "planner/search.hpp"
#include "sim/core/resident_memory.hpp"

namespace parplan::planner {

Bytes least_memory(const SearchRequest& request, const Layout& layout) {
  const std::int64_t parts = std::int64_t{layout.tp} * layout.pp * layout.mp;
  const FlatBuffers flat =
      flat_buffers(request.model.parameter_count() / parts, request.workload.precision);
  return flat.parameters + flat.gradients + flat.optimizer_state();
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
