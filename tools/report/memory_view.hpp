#pragma once

#include <string>

#include "tools/report/timeline.hpp"
#include "traces/compare.hpp"

namespace parplan::tools {

/// Memory over one step, predicted beside measured, for every rank or, beyond eight, for one rank
/// of each stage or device (the one with the highest peak, at most eight). `chart_js` is the text
/// of Chart.js, which draws the curves then; without it they are SVG. `sources` as for the
/// timeline.
std::string memory_markup(const std::vector<TimelineSource>& sources,
                          const traces::Comparison& comparison, const std::string& chart_js);

}  // namespace parplan::tools
