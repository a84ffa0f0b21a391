#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "sim/core/cluster.hpp"
#include "traces/compare.hpp"
#include "traces/trace_file.hpp"

namespace parplan::tools {

/// chart.min.js of the system package libjs-chart.js; an empty path when it is not installed.
std::filesystem::path find_chart_js();
/// The first `dot` on PATH; an empty path when Graphviz is not installed.
std::filesystem::path find_dot();

struct ReportOptions {
  std::string title;  ///< of the page; empty: model and layout

  /// The prediction of the same plan after calibration, with its comparison against the same
  /// measured trace: the report then shows before and after. Both or none.
  const traces::TraceFile* calibrated = nullptr;
  const traces::Comparison* calibrated_comparison = nullptr;

  // Where the numbers come from; shown as given, left out when empty or null.
  std::string predicted_file;
  std::string measured_file;
  std::string calibrated_file;
  std::string machine_file;
  const Cluster* machine = nullptr;  ///< the machine file behind the first prediction

  /// Read when the report is made and put into the page. Empty, missing or unreadable: the memory
  /// curves are drawn as SVG.
  std::filesystem::path chart_js = find_chart_js();
  /// Run to draw the plan. Empty, missing or failing: the page shows the DOT text.
  std::filesystem::path dot = find_dot();

  /// Bars in all timelines together; above it adjacent short bars are drawn as one, and the page
  /// says so.
  std::size_t most_bars = 6000;
};

/// A page of its own: no network, no other file. It holds the step time predicted and measured,
/// both timelines of one steady step on one axis, the gap part by part, error tables, memory over
/// time, the plan as a graph, losses and where the numbers come from.
///
/// `comparison` is `traces::compare(predicted, measured)`. Equal arguments give equal bytes, as
/// long as Chart.js and Graphviz stay the same. Text from files is escaped; invalid UTF-8 becomes
/// U+FFFD. Throws InputError when only one of the two calibrated options is given, or when the plan
/// cannot be lowered.
std::string html_report(const traces::TraceFile& predicted, const traces::TraceFile& measured,
                        const traces::Comparison& comparison, const ReportOptions& options = {});

}  // namespace parplan::tools
