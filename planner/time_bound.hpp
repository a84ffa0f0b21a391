#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/core/cluster.hpp"
#include "sim/core/layout.hpp"
#include "sim/core/model.hpp"
#include "sim/core/program.hpp"
#include "sim/core/workload.hpp"
#include "sim/cost_model.hpp"
#include "sim/pipeline_closed_form.hpp"

namespace parplan::planner {

/// Times that no simulation of a layout undercuts, from the prices that the simulation itself uses
/// and without walking through the microbatches.
///
/// - Every position computes its layers' operations for all microbatches, one after the other.
/// - In a pipeline whose stages hand on one value, the first stage ends its last backward no sooner
///   than `sim::PipelineClosedForm` says for free transfers, and only then begins the next step.
///   Of a backward that counts what is needed before the gradient goes on to the stage before.
///
/// Overheads of instructions, transfers, reductions and the optimizer are left out. Threads may
/// share one; the arguments must outlive it.
class TimeBound {
 public:
  TimeBound(const Model& model, const Workload& workload, const sim::CostModel& costs);

  /// `placed`: with its stages or devices, see place_layers().
  Seconds of(const Layout& placed);
  /// What `of` says at least, however the layers are placed: the mean work of the positions. Much
  /// cheaper.
  Seconds of_any_placement(const Layout& layout);

 private:
  /// Of one layer and one microbatch on one rank.
  struct LayerTimes {
    double forward_s = 0.0;
    double backward_s = 0.0;
    /// The part of `backward_s` that comes after the gradient of what the layer was handed.
    double after_gradient_s = 0.0;
  };
  struct Priced {
    std::vector<LayerTimes> layers;
    double all_s = 0.0;  ///< forward and backward of all of them
  };
  /// One microbatch on one rank of a tensor-parallel group.
  struct Microbatch {
    Program program;
    std::map<double, Priced> times;  ///< by busy ranks
  };

  const Priced& times_of(int tp, std::int64_t samples, double busy_ranks);
  std::int64_t samples_of(const Layout& layout) const;
  std::vector<LayerTimes> priced(const Program& program, double busy_ranks) const;
  const sim::PipelineClosedForm& pipeline(const Layout& layout);
  bool is_chain(const Layout& layout) const;
  Seconds of_pipeline(const Layout& layout, const std::vector<LayerTimes>& stages);

  const Model& model_;
  const Workload& workload_;
  const sim::CostModel& costs_;
  /// By layer: whether all that it and later ones need of earlier ones is the last value of the one
  /// before, and its first op is what needs it.
  std::vector<bool> chained_;
  std::mutex mutex_;
  std::map<std::pair<int, std::int64_t>, Microbatch> microbatches_;  ///< by tp and samples
  std::map<std::tuple<PipelineSchedule, int, int>, sim::PipelineClosedForm> pipelines_;
};

}  // namespace parplan::planner
