#include "tests/hw/training.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "hw/world.hpp"

namespace parplan::hw {

Plan small_plan(const Model& model, const Workload& workload, std::string_view layout) {
  Plan plan;
  plan.model = model;
  plan.workload = workload;
  plan.layout = parse_layout(layout);
  plan.stack.bucket_bytes = Bytes{8 * 1024};
  return plan;
}

RunResult train(const Plan& plan, const RunOptions& options) {
  RunResult result;
  run_thread_ranks(plan.layout.ranks(), [&](World& world) {
    RunResult own = run_plan(world, plan, options);
    if (world.rank() == 0) result = std::move(own);
  });
  return result;
}

RunResult train_steps(const Model& model, const Workload& workload, std::string_view layout,
                      std::int64_t steps) {
  RunOptions options;
  options.steps = steps;
  options.snapshot_after = {1, steps};
  return train(small_plan(model, workload, layout), options);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += (a.at(i) - b[i]) * (a.at(i) - b[i]);
  return std::sqrt(sum);
}

double norm(const std::vector<double>& b) { return distance(std::vector<double>(b.size()), b); }

namespace {

double gap(const LogicalTensor& a, const LogicalTensor& b, double noise) {
  double largest = is_zero_by_nature(b.name) ? noise : 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < b.values.size(); ++i) {
    largest = std::max(largest, std::abs(b.values[i]));
    difference = std::max(difference, std::abs(a.values.at(i) - b.values[i]));
  }
  return difference / largest;
}

std::string first_difference(const std::string& what, const std::vector<LogicalTensor>& tensors,
                             const std::vector<LogicalTensor>& expected, double noise,
                             double tolerance) {
  for (std::size_t t = 0; t < expected.size(); ++t) {
    const double found = gap(tensors.at(t), expected[t], noise);
    if (!(found < tolerance)) {
      std::ostringstream text;
      text << what << " of " << expected[t].name << " differs by " << found;
      return text.str();
    }
  }
  return {};
}

}  // namespace

std::string first_difference(const RunResult& run, const RunResult& expected, double tolerance) {
  if (run.losses.size() != expected.losses.size()) return "the number of losses differs";
  for (std::size_t s = 0; s < expected.losses.size(); ++s) {
    const double found = std::abs(run.losses[s] / expected.losses[s] - 1.0);
    if (!(found < tolerance)) {
      std::ostringstream text;
      text << "the loss of step " << s + 1 << " differs by " << found;
      return text.str();
    }
  }
  const std::string gradients =
      first_difference("the gradient in step 1", run.snapshots.at(0).gradients,
                       expected.snapshots.at(0).gradients, 1e-6, tolerance);
  if (!gradients.empty()) return gradients;
  return first_difference("the last value", run.snapshots.at(1).parameters,
                          expected.snapshots.at(1).parameters, 1.0, tolerance);
}

bool is_zero_by_nature(const std::string& parameter) {
  return parameter.ends_with("attention.key.bias");
}

}  // namespace parplan::hw
