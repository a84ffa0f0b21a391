#include <CLI/Option.hpp>

#include "sim/core/cluster_json.hpp"
#include "sim/core/error.hpp"
#include "sim/core/file_io.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/plan_json.hpp"
#include "sim/simulate.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/describe.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/plan_options.hpp"
#include "traces/trace_file.hpp"

namespace parplan::tools {
namespace {

class Simulate : public Command {
 public:
  explicit Simulate(CLI::App& parent)
      : app_(*parent.add_subcommand("simulate", "Predict a plan's step time, timeline, memory")) {
    app_.footer(
        "Example:\n  parplan simulate plan.json --cluster calibrated.json --trace predicted.json");
    add_text(app_, "plan", plan_, "Plan file")->required();
    add_text(app_, "--cluster", cluster_,
             "Preset or machine file to price with (default: the preset the plan names)");
    add_text(app_, "--trace", trace_, "Write the predicted timeline here (Chrome trace JSON)");
    add_format_option(app_, format_);
  }

  CLI::App& app() override { return app_; }

  int run() override {
    if (!trace_.empty()) {
      const std::vector<InputFile> inputs{{"the plan", plan_}, {"--cluster", cluster_}};
      check_output("--trace", trace_, inputs);
    }
    const Plan plan = load_plan(plan_);
    const Cluster cluster = find_cluster(plan);
    const sim::Simulation simulation = sim::simulate(plan, cluster, {.trace = !trace_.empty()});
    report_simulation(plan, simulation, cluster, format_);
    if (!trace_.empty()) traces::write_trace({simulation.trace, plan}, trace_);
    return simulation.fits(cluster) ? kSuccess : kNothingFits;
  }

 private:
  Cluster find_cluster(const Plan& plan) const {
    if (!cluster_.empty()) return load_cluster_argument(cluster_);
    try {
      return load_cluster_argument(plan.cluster_name);
    } catch (const InputError&) {
      throw InputError(plan_ + ": planned for " + quoted_name(plan.cluster_name) +
                       ", which is no preset; give its machine file with --cluster");
    }
  }

  CLI::App& app_;
  std::string plan_;
  std::string cluster_;
  std::string trace_;
  OutputFormat format_ = OutputFormat::kText;
};

}  // namespace

std::unique_ptr<Command> make_simulate(CLI::App& parent) {
  return std::make_unique<Simulate>(parent);
}

}  // namespace parplan::tools
