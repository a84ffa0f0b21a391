#include <CLI/Option.hpp>

#include "planner/search.hpp"
#include "sim/core/error.hpp"
#include "sim/core/message_text.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/describe.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/plan_options.hpp"

namespace parplan::tools {
namespace {

class MakePlan : public Command {
 public:
  explicit MakePlan(CLI::App& parent)
      : app_(*parent.add_subcommand("plan", "Write a plan for a layout given by hand")) {
    app_.footer(
        "Example:\n  parplan plan --model gpt2 --cluster dgx-h100 --global-batch 16 "
        "--layout dp=2,pp=2,schedule=1f1b,microbatches=8 -o plan.json");
    add_plan_options(app_, options_);
    add_text(app_, "--layout", layout_,
             "dp=..,tp=..,pp=..,mp=..,schedule=gpipe|1f1b,microbatches=..,stages=a+b,"
             "devices=a+b+.. or 'single'")
        ->required();
    add_format_option(app_, format_);
  }

  CLI::App& app() override { return app_; }

  int run() override {
    check_plan_output(options_);
    const auto [model, workload] = load_training(options_);
    const Cluster cluster = load_cluster_argument(options_.cluster);
    const Layout layout = place(model, workload, cluster);
    Plan plan = make_plan(options_, model, workload, layout, cluster);
    const sim::Simulation simulation = sim::simulate(plan, cluster, {.trace = false});
    plan.expectation = Expectation{simulation.step_time, simulation.peak_memory()};
    report_simulation(plan, simulation, cluster, format_);
    if (!options_.output.empty()) write_plan(plan, options_.output);
    return simulation.fits(cluster) ? kSuccess : kNothingFits;
  }

 private:
  std::string shown_layout() const { return shortened(layout_, 80); }

  Layout place(const Model& model, const Workload& workload, const Cluster& cluster) const {
    const Layout wanted = parse_layout(layout_);
    if (wanted.ranks() > cluster.devices()) {
      throw InputError("layout " + shown_layout() + " needs " + std::to_string(wanted.ranks()) +
                       " ranks, " + cluster.name + " has " + std::to_string(cluster.devices()) +
                       " devices");
    }
    const std::vector<Refusal> refusals = check_layout(model, workload, wanted);
    if (!refusals.empty()) {
      std::string message = "layout " + shown_layout() + ":";
      for (const Refusal& r : refusals) message += " " + r.reason + " (try " + r.suggestion + ");";
      message.pop_back();
      throw InputError(message);
    }
    std::vector<double> costs;
    if (wanted.pp > 1 && wanted.stage_layers.empty()) {
      const std::int64_t samples = workload.global_batch / wanted.dp / wanted.microbatches;
      costs = planner::layer_costs(model, workload, sim::CostModel(cluster), wanted.tp, samples);
    }
    return place_layers(model, workload, wanted, costs);
  }

  CLI::App& app_;
  PlanOptions options_;
  std::string layout_;
  OutputFormat format_ = OutputFormat::kText;
};

}  // namespace

std::unique_ptr<Command> make_plan(CLI::App& parent) { return std::make_unique<MakePlan>(parent); }

}  // namespace parplan::tools
