#include "tools/report/html_report.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <system_error>

#include "sim/core/dtype.hpp"
#include "sim/core/error.hpp"
#include "sim/core/file_io.hpp"
#include "sim/core/message_text.hpp"
#include "tools/report/assets.hpp"
#include "tools/report/curves.hpp"
#include "tools/report/graphviz.hpp"
#include "tools/report/markup.hpp"
#include "tools/report/memory_view.hpp"
#include "tools/report/plan_graph.hpp"
#include "tools/report/tables.hpp"
#include "tools/report/timeline.hpp"
#include "tools/units_text.hpp"

namespace parplan::tools {
namespace {

using traces::Comparison;
using traces::TraceFile;

constexpr std::uintmax_t kChartLimitBytes = 8 << 20;

/// Text of Chart.js that may stand inside a script element; empty when there is none.
std::string chart_text(const std::filesystem::path& path) {
  if (path.empty()) return {};
  std::string text;
  try {
    text = read_text_file(path, kChartLimitBytes);
  } catch (const InputError&) {
    return {};  // the contract: unreadable means SVG curves
  }
  for (std::size_t at = 0; (at = text.find("</script", at)) != std::string::npos;) {
    text.replace(at, 2, "<\\/");
  }
  return text;
}

std::string schedule_text(const LearningRateSchedule& s) {
  std::string text;
  if (s.warmup_steps > 0) text += ", warm-up of " + std::to_string(s.warmup_steps) + " steps";
  if (s.decay == Decay::kConstant) return text;
  return text + (s.decay == Decay::kLinear ? ", linear" : ", cosine") + " decay to " +
         number_text(s.min_learning_rate, 9) + " at step " + std::to_string(s.decay_steps);
}

std::string optimizer_text(const Optimizer& o) {
  return (o.kind == OptimizerKind::kAdamW ? "AdamW" : "Adam") + std::string(", learning rate ") +
         number_text(o.learning_rate, 9) + schedule_text(o.schedule);
}

std::string workload_text(const Model& model, const Workload& w) {
  std::string text = std::to_string(w.global_batch) + " samples";
  const auto uses = [&](Positions positions) {
    return std::any_of(model.values.begin(), model.values.end(),
                       [&](const Value& v) { return v.positions == positions; });
  };
  if (uses(Positions::kSequence)) text += " of " + std::to_string(w.sequence) + " positions";
  if (uses(Positions::kSource)) {
    text += " and " + std::to_string(w.source_sequence) + " source positions";
  }
  return text + " a step, " + std::string(name_of(w.precision)) + ", " +
         optimizer_text(w.optimizer);
}

std::string section(std::string_view id, std::string_view title, const std::string& body) {
  if (body.empty()) return {};
  return "<section id=\"" + std::string(id) + "\"><h2>" + escaped(title) + "</h2>\n" + body +
         "</section>\n";
}

class Report {
 public:
  Report(const TraceFile& predicted, const TraceFile& measured, const Comparison& comparison,
         const ReportOptions& options)
      : measured_(measured),
        comparisons_{comparison, options.calibrated_comparison},
        options_(options),
        plan_(measured.plan),
        chart_js_(chart_text(options.chart_js)) {
    sources_.push_back({"predicted", &predicted});
    if (options.calibrated != nullptr) sources_.push_back({"calibrated", options.calibrated});
    sources_.push_back({"measured", &measured});
  }

  std::string page() const {
    const std::string title =
        options_.title.empty() ? plan_.model.name + ", " + to_string(plan_.layout) : options_.title;
    std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n";
    out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
    out += "<meta name=\"color-scheme\" content=\"light dark\"/>\n";
    out += "<title>" + escaped(title) + "</title>\n<style>\n" + std::string(report_css()) +
           "</style>\n</head>\n<body>\n<main>\n";
    out += head(title) + timeline() + gap() + errors();
    out += section("ranks", "Ranks", ranks_markup(comparisons_, plan_.layout));
    out += section("steps", "Steps",
                   "<div class=\"pairs\">" + steps_markup(comparisons_) + losses() + "</div>\n" +
                       steps_table(comparisons_));
    // Calibration changes times, not bytes: two tracks tell all.
    const std::vector<TimelineSource> pair{sources_.front(), sources_.back()};
    out += section("memory", "Memory", memory_markup(pair, comparisons_.first, chart_js_));
    out += plan_section() + provenance() + "</main>\n";
    if (!chart_js_.empty()) out += "<script>" + chart_js_ + "</script>\n";
    return out + "<script>\n" + std::string(report_js()) + "</script>\n</body>\n</html>\n";
  }

 private:
  static std::string card(std::string_view label, const std::string& value, std::string_view css,
                          const std::string& below) {
    return "<div class=\"card\"><span class=\"label\">" + escaped(label) +
           "</span><span class=\"value " + std::string(css) + "\">" + value +
           "</span><span class=\"below\">" + escaped(below) + "</span></div>\n";
  }

  std::string cards() const {
    const Comparison& first = comparisons_.first;
    const Cell error = Cell::error(step_error(first));
    const auto rate = [&](Seconds step) {
      if (!(step.value > 0.0)) return std::string();
      return text_of_count(static_cast<double>(plan_.workload.global_batch) / step.value) +
             " samples/s";
    };
    std::string out = "<div class=\"cards\">\n";
    out += card("predicted step", time_text(first.predicted_step), "", rate(first.predicted_step));
    if (comparisons_.calibrated != nullptr) {
      const Seconds step = comparisons_.calibrated->predicted_step;
      out += card("after calibration", time_text(step), "", rate(step));
    }
    out += card("measured step", time_text(first.measured_step), "",
                "median of " + std::to_string(first.counted_steps) +
                    (first.counted_steps == 1 ? " step" : " steps") +
                    (first.counted_steps < first.steps.size() ? " without the first" : ""));
    out += card("error", error.markup, error.css, "predicted / measured \xE2\x88\x92 1");
    if (comparisons_.calibrated != nullptr) {
      const Cell after = Cell::error(step_error(*comparisons_.calibrated));
      out += card("error after calibration", after.markup, after.css, "same measurement");
    }
    out += card("machine's spread", text_of_percent(first.measured_spread), "",
                "(p90 \xE2\x88\x92 p10) / median");
    return out + "</div>\n";
  }

  std::string facts() const {
    const Model& model = plan_.model;
    std::string machine = measured_.trace.machine;
    if (sources_.front().file->trace.machine != machine) {
      machine += " (predicted for " + sources_.front().file->trace.machine + ")";
    }
    const std::array<std::pair<std::string_view, std::string>, 4> rows{{
        {"model", model.name + ", " + text_of_count(static_cast<double>(model.parameter_count())) +
                      " parameters, " + std::to_string(model.layers.size()) + " layers"},
        {"layout", to_string(plan_.layout) + ", " + std::to_string(plan_.layout.ranks()) +
                       (plan_.layout.ranks() == 1 ? " rank" : " ranks")},
        {"workload", workload_text(model, plan_.workload)},
        {"machine", machine},
    }};
    std::string out = "<dl class=\"facts\">";
    for (const auto& [name, value] : rows) {
      out += "<dt>" + std::string(name) + "</dt><dd>" + escaped(value) + "</dd>";
    }
    return out + "</dl>\n";
  }

  std::string head(const std::string& title) const {
    std::string out =
        "<header id=\"top\"><p class=\"kicker\">parplan: predicted against measured</p>"
        "<h1>" +
        escaped(title) + "</h1>\n";
    out += facts() + cards() + "<p class=\"verdict\">" + escaped(verdict(comparisons_)) + "</p>\n";
    out +=
        "<details class=\"how\"><summary>How to read this page</summary><p>Predicted and measured "
        "events carry the same keys, so every bar and every row compares one operation with the "
        "prediction of that same operation. Errors are predicted / measured \xE2\x88\x92 1: "
        "positive means that the prediction was too long. Look at the gap first, then at the kind "
        "of operation behind its largest part, and trust no difference that is smaller than the "
        "spread.</p></details>\n";
    return out +
           "<nav class=\"no-print\"><a href=\"#timeline\">Timeline</a> <a "
           "href=\"#gap\">Gap</a> <a href=\"#errors\">Errors</a> <a href=\"#ranks\">Ranks</a> <a "
           "href=\"#steps\">Steps</a> <a href=\"#memory\">Memory</a> <a href=\"#plan\">Plan</a> "
           "<a href=\"#provenance\">Provenance</a></nav>\n</header>\n";
  }

  std::string timeline() const {
    const Timeline view = build_timeline(sources_, options_.most_bars);
    std::string note = "<p class=\"note\">One step on every rank; measured is step " +
                       std::to_string(view.panels.back().step) + ", of the " +
                       std::to_string(comparisons_.first.steps.size()) +
                       " traced the one nearest to the median. Both start at 0.";
    if (view.merge_below_us > 0.0) {
      note += " To stay readable, " + std::to_string(view.event_count) + " events are drawn as " +
              std::to_string(view.bar_count) + " bars: neighbours shorter than " +
              time_text(Seconds{view.merge_below_us * 1e-6}) +
              " are one bar in the colour of what took most of it.";
    }
    return section("timeline", "One step", note + "</p>\n" + timeline_markup(view, plan_.layout));
  }

  std::string gap() const {
    return section("gap", "Where the gap comes from", gap_markup(comparisons_));
  }

  std::string errors() const {
    std::string body =
        "<h3>By kind</h3>\n<p class=\"note\">Sums over all ranks of one step. Click a "
        "column to sort; the bar behind a name is the size of its difference.</p>\n" +
        kinds_markup(comparisons_);
    body += "<h3>By layer</h3>\n" + layers_markup(comparisons_);
    body += "<h3>Largest differences</h3>\n" + operations_markup(comparisons_);
    return section("errors", "Errors", body + unmatched_markup(comparisons_));
  }

  static std::string loss_text(double loss) {
    return std::isfinite(loss) ? number_text(loss, 4) : shortest_text(loss);
  }

  std::string losses() const {
    const std::vector<double>& losses = measured_.trace.losses;
    if (losses.empty()) return {};
    Curve curve{"loss", "c-measured", {}, losses, false};
    for (std::size_t i = 0; i < losses.size(); ++i) curve.x.push_back(static_cast<double>(i));
    const std::string svg = curves_svg({curve}, {"step", "loss", false});
    if (svg.empty()) return "<p class=\"note\">No loss of the measured run is a number.</p>\n";
    return "<figure><figcaption>Loss of the global batch, " + loss_text(losses.front()) +
           " at first, " + loss_text(losses.back()) + " at last</figcaption>" + svg + "</figure>\n";
  }

  std::string plan_section() const {
    const std::string dot = plan_dot(plan_);
    const std::optional<std::string> svg = run_dot(options_.dot, dot);
    const std::string text = "<pre class=\"dot\">" + escaped(dot) + "</pre>";
    std::string body = "<p class=\"note\">Layers by " +
                       std::string(plan_.layout.mp > 1 ? "device" : "stage") +
                       ", with what is sent between them in one step of one replica.</p>\n";
    if (svg) {
      body += "<div class=\"plan\">" + *svg +
              "</div>\n<details class=\"no-print\"><summary>The same "
              "in DOT</summary>" +
              text + "</details>\n";
    } else {
      body +=
          "<p class=\"note\">Graphviz did not draw this plan; the text below can be given to "
          "<code>dot -Tsvg</code>.</p>" +
          text + "\n";
    }
    return section("plan", "The plan", body);
  }

  std::string provenance() const {
    std::vector<std::pair<std::string, std::string>> rows;
    const auto add = [&](const std::string& name, const std::string& value) {
      if (!value.empty()) rows.emplace_back(name, value);
    };
    add("predicted trace", options_.predicted_file);
    add("calibrated trace", options_.calibrated_file);
    add("measured trace", options_.measured_file);
    add("plan digest", measured_.trace.plan_digest);
    add("machine file", options_.machine_file);
    if (options_.machine != nullptr) {
      const Provenance& p = options_.machine->provenance;
      add("machine", options_.machine->name);
      add("measured on", p.date);
      add("host", p.host);
      add("versions", p.versions);
      add("command", p.command);
      for (const std::string& trace : p.fitted_from) add("fitted from", trace);
    }
    add("planned for", plan_.cluster_name);
    add("machine digest", plan_.cluster_digest);
    std::string body = "<dl class=\"facts\">";
    for (const auto& [name, value] : rows) {
      body += "<dt>" + escaped(name) + "</dt><dd>" + escaped(value) + "</dd>";
    }
    return section("provenance", "Where the numbers come from", body + "</dl>\n");
  }

  const TraceFile& measured_;
  Comparisons comparisons_;
  const ReportOptions& options_;
  const Plan& plan_;
  std::string chart_js_;
  std::vector<TimelineSource> sources_;
};

}  // namespace

std::filesystem::path find_chart_js() {
  for (const char* path : {"/usr/share/javascript/chart.js/chart.min.js",
                           "/usr/share/nodejs/chart.js/dist/chart.min.js"}) {
    std::error_code failed;
    if (std::filesystem::is_regular_file(path, failed)) return path;
  }
  return {};
}

std::filesystem::path find_dot() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty()) continue;
    std::filesystem::path program = std::filesystem::path(folder) / "dot";
    std::error_code failed;
    if (std::filesystem::is_regular_file(program, failed) && access(program.c_str(), X_OK) == 0) {
      return program;
    }
  }
  return {};
}

std::string html_report(const TraceFile& predicted, const TraceFile& measured,
                        const Comparison& comparison, const ReportOptions& options) {
  if ((options.calibrated == nullptr) != (options.calibrated_comparison == nullptr)) {
    throw InputError("a report with a calibrated prediction needs its trace and its comparison");
  }
  return Report(predicted, measured, comparison, options).page();
}

}  // namespace parplan::tools
