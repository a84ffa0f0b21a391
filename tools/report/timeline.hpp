#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/layout.hpp"
#include "sim/core/trace.hpp"
#include "tools/report/event_style.hpp"
#include "traces/trace_file.hpp"

namespace parplan::tools {

/// One drawn bar: an event, or several adjacent short ones merged. Times in microseconds from the
/// start of the panel's step.
struct TimelineBar {
  std::size_t name = 0;  ///< into Timeline::names
  EventStyle style = EventStyle::kPointwise;
  bool backward = false;
  int row = 0;  ///< events of one stream may overlap (posted receives): row within the lane
  double start_us = 0.0;
  double end_us = 0.0;
  double waiting_us = 0.0;  ///< from `start_us`; the peer had not arrived
  double busy_us = 0.0;     ///< merged: sum of the durations
  std::int64_t bytes = 0;
  std::int64_t merged = 1;  ///< events behind the bar
  std::size_t event = 0;    ///< into Timeline::events; of a merged bar meaningless
};

/// A chunk's forward or backward of one microbatch, from its first operation to its last.
struct TimelineBlock {
  bool backward = false;
  std::uint32_t chunk = 0;
  std::uint32_t microbatch = 0;
  double start_us = 0.0;
  double end_us = 0.0;
};

struct TimelineLane {
  std::int32_t rank = 0;
  Stream stream = Stream::kCompute;
  int rows = 1;
  double step_start_us = 0.0;  ///< the rank's step, for the background; empty when equal
  double step_end_us = 0.0;
  std::vector<TimelineBar> bars;      ///< by start
  std::vector<TimelineBlock> blocks;  ///< compute lanes only, by start
};

/// One trace's step. All panels of a timeline have the same lanes in the same order.
struct TimelinePanel {
  std::string title;
  std::int32_t step = 0;
  double step_us = 0.0;  ///< of the slowest rank
  std::vector<TimelineLane> lanes;
};

/// The same event (key, rank, occurrence within the step) over the panels.
struct TimelineEvent {
  std::vector<double> duration_us;  ///< by panel; negative: not in that panel
  std::vector<double> waiting_us;
};

struct Timeline {
  std::vector<TimelinePanel> panels;
  std::vector<std::string> names;  ///< of keys
  std::vector<TimelineEvent> events;
  double begin_us = 0.0;  ///< of the common axis; negative when something starts before the step
  double end_us = 0.0;
  std::size_t event_count = 0;  ///< drawn events before merging
  std::size_t bar_count = 0;
  double merge_below_us = 0.0;  ///< bars shorter than this were merged with neighbours; 0: none
};

struct TimelineSource {
  std::string title;
  const traces::TraceFile* file = nullptr;
};

/// The step of a trace that is drawn: the one nearest to the median, the first of equals.
std::int32_t typical_step(const Trace& trace);

/// Start of a step: the earliest start of its step events over the ranks (of any event when there
/// are none).
Picoseconds start_of_step(const Trace& trace, std::int32_t step);

/// Collects one step of each source into aligned lanes: one per rank and stream that any of the
/// sources has. Merges adjacent short events until at most `most_bars` bars are left (or a bar's
/// length is a fiftieth of the step: then more remain).
Timeline build_timeline(const std::vector<TimelineSource>& sources, std::size_t most_bars);

/// The SVG with its axis, legend, buttons and the data for tooltips (a JSON script element).
std::string timeline_markup(const Timeline& timeline, const Layout& layout);

}  // namespace parplan::tools
