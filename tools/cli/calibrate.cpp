#include <CLI/Option.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "sim/core/cluster_json.hpp"
#include "sim/core/file_io.hpp"
#include "sim/core/json_writer.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/plan_options.hpp"
#include "tools/progress_line.hpp"
#include "tools/text_table.hpp"
#include "tools/units_text.hpp"
#include "traces/calibrate.hpp"

namespace parplan::tools {
namespace {

class Calibrate : public Command {
 public:
  explicit Calibrate(CLI::App& parent)
      : app_(*parent.add_subcommand("calibrate", "Refit a machine file from measured traces")) {
    app_.footer(
        "Example:\n  parplan calibrate --cluster machine.json measured.json -o calibrated.json");
    add_text(app_, "--cluster", cluster_, "Machine file to refit")->required();
    app_.add_option("traces", traces_, "Measured traces (parplan execute --trace)")->required();
    add_text(app_, "-o,--output", output_, "Where to write the refitted machine file")->required();
    add_format_option(app_, format_);
  }

  CLI::App& app() override { return app_; }

  int run() override {
    std::vector<InputFile> inputs{{"--cluster", cluster_}};
    for (const std::string& trace : traces_) inputs.push_back({"a trace", trace});
    check_output("--output", output_, inputs);
    const Cluster machine = load_cluster_argument(cluster_);
    std::vector<traces::NamedTrace> named;
    ProgressLine line;
    for (const std::string& path : traces_) {
      line.update("reading " + path);
      named.push_back({path, traces::load_trace(path)});
    }
    traces::CalibrationSummary summary;
    const Cluster result = traces::calibrate(machine, named, &summary);
    write_file_atomically(output_, dump(to_json(result)));
    if (format_ == OutputFormat::kJson) {
      print_json(summary);
    } else {
      print_text(summary);
    }
    return kSuccess;
  }

 private:
  void print_text(const traces::CalibrationSummary& s) const {
    std::cout << s.events << " events of " << traces_.size()
              << (traces_.size() == 1 ? " trace: " : " traces: ") << s.new_shapes
              << " shapes added, " << s.refitted_shapes << " refitted, " << s.new_transfers
              << " sizes of transfers added, " << s.refitted_transfers << " refitted\n\n";
    TextTable table({"what", "factor", "spread", "samples"});
    for (const CalibrationFactor& f : s.factors) {
      table.add({f.key, text_of_factor(f.factor), text_of_percent(f.relative_spread),
                 std::to_string(f.samples)});
    }
    table.print(std::cout, colour_on_stdout());
    std::cout << "\nmachine file written to " << output_ << "\n";
  }

  static void print_json(const traces::CalibrationSummary& s) {
    nlohmann::ordered_json json{{"format", "parplan/calibration"}, {"version", 1}};
    json["events"] = s.events;
    json["new_shapes"] = s.new_shapes;
    json["refitted_shapes"] = s.refitted_shapes;
    json["new_transfers"] = s.new_transfers;
    json["refitted_transfers"] = s.refitted_transfers;
    nlohmann::ordered_json factors = nlohmann::ordered_json::array();
    for (const CalibrationFactor& f : s.factors) {
      factors.push_back({{"key", f.key},
                         {"factor", f.factor},
                         {"relative_spread", f.relative_spread},
                         {"samples", f.samples}});
    }
    json["factors"] = std::move(factors);
    std::cout << dump(json);
  }

  CLI::App& app_;
  std::string cluster_;
  std::vector<std::string> traces_;
  std::string output_;
  OutputFormat format_ = OutputFormat::kText;
};

}  // namespace

std::unique_ptr<Command> make_calibrate(CLI::App& parent) {
  return std::make_unique<Calibrate>(parent);
}

}  // namespace parplan::tools
