#pragma once

#include <string>

#include "sim/core/layout.hpp"
#include "traces/compare.hpp"

namespace parplan::tools {

/// Predictions set against one measured trace: the first one, and the calibrated one where there is
/// one (else null).
struct Comparisons {
  const traces::Comparison& first;
  const traces::Comparison* calibrated = nullptr;
};

/// Relative error of a prediction of the step time; 0 when nothing was measured.
double step_error(const traces::Comparison& comparison);

/// One to four sentences: how far the prediction is off, against the machine's own spread, and what
/// makes most of the gap. Plain text.
std::string verdict(const Comparisons& comparisons);

/// The gap of the step time part by part: bars of both breakdowns, and a table.
std::string gap_markup(const Comparisons& comparisons);

/// Error tables; `kinds` and `layers` are sums over ranks, `operations` the largest differences,
/// every operation once, on the rank where it is farthest off.
std::string kinds_markup(const Comparisons& comparisons);
std::string layers_markup(const Comparisons& comparisons);
std::string operations_markup(const Comparisons& comparisons);
/// Events without a partner; empty when there are none.
std::string unmatched_markup(const Comparisons& comparisons);
std::string ranks_markup(const Comparisons& comparisons, const Layout& layout);
/// Curve and table of the measured step times.
std::string steps_markup(const Comparisons& comparisons);
std::string steps_table(const Comparisons& comparisons);

}  // namespace parplan::tools
