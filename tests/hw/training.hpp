#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hw/executor/run_plan.hpp"
#include "sim/core/plan.hpp"

namespace parplan::hw {

/// A plan with buckets so small that even reduced models have several.
Plan small_plan(const Model& model, const Workload& workload, std::string_view layout);

/// Trains on ranks that are threads of this process; what rank 0 returned.
RunResult train(const Plan& plan, const RunOptions& options);

/// `steps` steps with snapshots after the first and the last.
RunResult train_steps(const Model& model, const Workload& workload, std::string_view layout,
                      std::int64_t steps);
inline RunResult train_twenty(const Model& model, const Workload& workload,
                              std::string_view layout) {
  return train_steps(model, workload, layout, 20);
}

/// sqrt of the sum of (a - b)^2, and the same of b alone.
double distance(const std::vector<double>& a, const std::vector<double>& b);
double norm(const std::vector<double>& b);

/// Where two runs of `train_steps` differ by more than `tolerance`: losses relative to themselves,
/// gradients of step 1 and parameters after the last element by element, relative to their largest
/// element. Where gradients vanish by nature all of it may be rounding noise: there gradients are
/// relative to 1e-6, parameters to 1 (Adam moves by learning rate x noise / 1e-8). Empty when they
/// do not.
std::string first_difference(const RunResult& run, const RunResult& expected, double tolerance);

/// Gradients that vanish by nature (softmax ignores a constant added to all scores, so the key's
/// bias has none): they hold rounding noise, and Adam makes steps of up to the learning rate of it.
bool is_zero_by_nature(const std::string& parameter);

}  // namespace parplan::hw
