#include <CLI/Option.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "sim/core/error.hpp"
#include "sim/core/file_io.hpp"
#include "sim/core/json_writer.hpp"
#include "sim/core/message_text.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/plan_options.hpp"
#include "tools/report/html_report.hpp"
#include "tools/text_table.hpp"
#include "tools/units_text.hpp"
#include "traces/compare.hpp"

namespace parplan::tools {
namespace {

using traces::Comparison;
using traces::ErrorRow;

constexpr std::size_t kMostRows = 12;

void print_rows(const char* title, const std::vector<ErrorRow>& rows, bool with_rank) {
  std::vector<std::string> header{title,   "predicted", "measured", "difference",
                                  "error", "spread",    "events"};
  if (with_rank) header.push_back("rank");
  TextTable table(header);
  for (std::size_t i = 0; i < rows.size() && i < kMostRows; ++i) {
    const ErrorRow& r = rows[i];
    std::vector<std::string> cells{r.name,
                                   text_of(r.predicted),
                                   text_of(r.measured),
                                   text_of(r.difference()),
                                   text_of_percent(r.relative_error(), true),
                                   text_of_percent(r.relative_spread),
                                   std::to_string(r.count)};
    if (with_rank) cells.push_back(std::to_string(r.rank));
    table.add(std::move(cells));
  }
  table.print(std::cout, colour_on_stdout());
  if (rows.size() > kMostRows) {
    std::cout << "(" << rows.size() - kMostRows << " more; --format json lists all)\n";
  }
  std::cout << "\n";
}

nlohmann::ordered_json rows_json(const std::vector<ErrorRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ErrorRow& r : rows) {
    nlohmann::ordered_json row{{"name", r.name},
                               {"events", r.count},
                               {"predicted_s", r.predicted.value},
                               {"measured_s", r.measured.value},
                               {"predicted_exposed_s", r.predicted_exposed.value},
                               {"measured_exposed_s", r.measured_exposed.value},
                               {"relative_error", r.relative_error()},
                               {"relative_spread", r.relative_spread}};
    if (r.rank >= 0) row["rank"] = r.rank;
    list.push_back(std::move(row));
  }
  return list;
}

nlohmann::ordered_json ranks_json(const std::vector<traces::RankBreakdown>& ranks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const traces::RankBreakdown& b : ranks) {
    list.push_back({{"rank", b.rank},
                    {"step_s", b.step.value},
                    {"compute_s", b.compute.value},
                    {"communication_s", b.communication.value},
                    {"waiting_s", b.waiting.value},
                    {"overhead_s", b.overhead.value}});
  }
  return list;
}

class Compare : public Command {
 public:
  explicit Compare(CLI::App& parent)
      : app_(*parent.add_subcommand("compare", "Set a predicted beside a measured trace")) {
    app_.footer("Example:\n  parplan compare predicted.json measured.json --html report.html");
    add_text(app_, "predicted", predicted_, "Trace written by 'parplan simulate'")->required();
    add_text(app_, "measured", measured_, "Trace written by 'parplan execute'")->required();
    add_text(app_, "--calibrated", calibrated_,
             "A second prediction, after calibration; shown beside the first");
    add_text(app_, "--cluster", cluster_,
             "Machine file or preset behind the first prediction; shown in the report");
    add_text(app_, "--html", html_, "Write a self-contained report here");
    add_format_option(app_, format_);
  }

  CLI::App& app() override { return app_; }

  int run() override {
    if (!html_.empty()) {
      const std::vector<InputFile> inputs{{"the predicted trace", predicted_},
                                          {"the measured trace", measured_},
                                          {"--calibrated", calibrated_},
                                          {"--cluster", cluster_}};
      check_output("--html", html_, inputs);
    }
    const traces::TraceFile predicted = traces::load_trace(predicted_);
    const traces::TraceFile measured = traces::load_trace(measured_);
    const Comparison c = traces::compare(predicted, measured, {predicted_, measured_});
    std::optional<Cluster> machine;
    if (!cluster_.empty()) {
      machine = load_cluster_argument(cluster_);
      if (machine->name != predicted.trace.machine) {
        throw InputError("--cluster " + quoted_name(cluster_) + " describes " +
                         quoted_name(machine->name) + ", but " + predicted_ +
                         " is a prediction for " + quoted_name(predicted.trace.machine) +
                         "; give the machine file behind it");
      }
    }
    std::optional<traces::TraceFile> calibrated;
    std::optional<Comparison> after;
    if (!calibrated_.empty()) {
      calibrated = traces::load_trace(calibrated_);
      after = traces::compare(*calibrated, measured, {"--calibrated " + calibrated_, measured_});
    }
    if (format_ == OutputFormat::kJson) {
      print_json(c, after);
    } else {
      print_text(measured.plan, c, after);
    }
    if (!html_.empty()) {
      ReportOptions options;
      options.calibrated = calibrated ? &*calibrated : nullptr;
      options.calibrated_comparison = after ? &*after : nullptr;
      options.predicted_file = predicted_;
      options.measured_file = measured_;
      options.calibrated_file = calibrated_;
      if (machine) {
        options.machine_file = cluster_;
        options.machine = &*machine;
      }
      write_file_atomically(html_, html_report(predicted, measured, c, options));
      if (format_ == OutputFormat::kText) std::cout << "report written to " << html_ << "\n";
    }
    return kSuccess;
  }

 private:
  static void print_text(const Plan& plan, const Comparison& c,
                         const std::optional<Comparison>& after) {
    std::cout << plan.model.name << ", " << to_string(plan.layout) << "\n"
              << "predicted step  " << text_of(c.predicted_step) << "\n";
    if (after) std::cout << "after calibration " << text_of(after->predicted_step) << "\n";
    std::cout << "measured step   " << text_of(c.measured_step) << " (median of " << c.counted_steps
              << (c.counted_steps < c.steps.size() ? " steps without the first" : " steps")
              << ", spread " << text_of_percent(c.measured_spread) << ")\n"
              << "error           "
              << text_of_percent(c.predicted_step / c.measured_step - 1.0, true);
    if (after) {
      std::cout << ", after calibration "
                << text_of_percent(after->predicted_step / c.measured_step - 1.0, true);
    }
    std::cout << "\n";
    for (const std::string& caveat : c.caveats) std::cout << "beware          " << caveat << "\n";
    std::cout << "\nthe gap (predicted - measured), part by part:\n"
              << "  compute " << text_of(c.gap.compute) << ", communication "
              << text_of(c.gap.communication) << ", waiting " << text_of(c.gap.waiting)
              << ", overhead " << text_of(c.gap.overhead) << ", unexplained "
              << text_of(c.gap.unexplained) << ", total " << text_of(c.gap.total) << "\n\n";
    print_rows("kind", c.kinds, false);
    print_rows("operation", c.operations, true);
    std::cout << "difference: of transfers, of what no operation of the rank hides\n\n";
    TextTable memory({"rank", "tensors predicted", "measured", "process predicted", "measured"});
    for (const traces::MemoryRow& m : c.memory) {
      memory.add({std::to_string(m.rank), text_of(m.predicted_tensors), text_of(m.measured_tensors),
                  text_of(m.predicted_process), text_of(m.measured_process)});
    }
    memory.print(std::cout, colour_on_stdout());
    if (!c.only_predicted.empty() || !c.only_measured.empty()) {
      std::cout << "\n"
                << c.only_predicted.size() << " keys only predicted, " << c.only_measured.size()
                << " only measured\n";
    }
  }

  static void print_json(const Comparison& c, const std::optional<Comparison>& after) {
    nlohmann::ordered_json json{{"format", "parplan/comparison"},
                                {"version", 1},
                                {"predicted_step_s", c.predicted_step.value},
                                {"measured_step_s", c.measured_step.value},
                                {"relative_error", c.predicted_step / c.measured_step - 1.0},
                                {"measured_spread", c.measured_spread},
                                {"counted_steps", c.counted_steps}};
    if (after) {
      json["calibrated_step_s"] = after->predicted_step.value;
      json["calibrated_relative_error"] = after->predicted_step / c.measured_step - 1.0;
    }
    json["caveats"] = c.caveats;
    json["gap"] = {
        {"compute_s", c.gap.compute.value},         {"communication_s", c.gap.communication.value},
        {"waiting_s", c.gap.waiting.value},         {"overhead_s", c.gap.overhead.value},
        {"unexplained_s", c.gap.unexplained.value}, {"total_s", c.gap.total.value}};
    json["steps"] = rows_json(c.steps);
    json["kinds"] = rows_json(c.kinds);
    json["layers"] = rows_json(c.layers);
    json["operations"] = rows_json(c.operations);
    json["predicted_ranks"] = ranks_json(c.predicted_ranks);
    json["measured_ranks"] = ranks_json(c.measured_ranks);
    nlohmann::ordered_json memory = nlohmann::ordered_json::array();
    for (const traces::MemoryRow& m : c.memory) {
      memory.push_back({{"rank", m.rank},
                        {"predicted_tensors_bytes", m.predicted_tensors.value},
                        {"measured_tensors_bytes", m.measured_tensors.value},
                        {"predicted_process_bytes", m.predicted_process.value},
                        {"measured_process_bytes", m.measured_process.value}});
    }
    json["memory"] = std::move(memory);
    json["only_predicted"] = c.only_predicted;
    json["only_measured"] = c.only_measured;
    std::cout << dump(json);
  }

  CLI::App& app_;
  std::string predicted_;
  std::string measured_;
  std::string calibrated_;
  std::string cluster_;
  std::string html_;
  OutputFormat format_ = OutputFormat::kText;
};

}  // namespace

std::unique_ptr<Command> make_compare(CLI::App& parent) {
  return std::make_unique<Compare>(parent);
}

}  // namespace parplan::tools
