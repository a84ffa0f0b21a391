#include "tools/report/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "traces/breakdown.hpp"
#include "traces/step_times.hpp"

namespace parplan::tools {
namespace {

constexpr int kMostRows = 4;

double microseconds(Picoseconds t) { return static_cast<double>(t.value) * 1e-6; }

using LaneKey = std::pair<std::int32_t, Stream>;

class Builder {
 public:
  Builder(const std::vector<TimelineSource>& sources, std::size_t most_bars)
      : sources_(sources), most_bars_(most_bars) {}

  Timeline build() {
    find_lanes();
    for (std::size_t p = 0; p < sources_.size(); ++p) add_panel(p);
    for (TimelinePanel& panel : timeline_.panels) {
      for (TimelineLane& lane : panel.lanes) assign_rows(lane);
    }
    align_rows();
    merge_until_few();
    return std::move(timeline_);
  }

 private:
  void find_lanes() {
    std::set<LaneKey> lanes;
    for (const TimelineSource& source : sources_) {
      for (const TraceEvent& e : source.file->trace.events) {
        lanes.emplace(e.rank, e.key.phase() == Phase::kStep ? Stream::kCompute : e.stream);
      }
    }
    for (const LaneKey& key : lanes) {
      lane_index_[key] = empty_lanes_.size();
      empty_lanes_.push_back({key.first, key.second, 1, 0.0, 0.0, {}, {}});
    }
  }

  void add_panel(std::size_t p) {
    const traces::TraceFile& file = *sources_[p].file;
    TimelinePanel panel;
    panel.title = sources_[p].title;
    panel.step = typical_step(file.trace);
    panel.lanes = empty_lanes_;
    const Picoseconds origin = start_of_step(file.trace, panel.step);
    std::map<std::pair<std::uint64_t, std::int32_t>, int> occurrences;
    for (const TraceEvent& e : file.trace.events) {
      if (e.step != panel.step) continue;
      const double start = microseconds(e.start - origin);
      const double end = microseconds(e.end - origin);
      timeline_.begin_us = std::min(timeline_.begin_us, start);
      timeline_.end_us = std::max(timeline_.end_us, end);
      if (e.key.phase() == Phase::kStep) {
        TimelineLane& lane = panel.lanes[lane_index_.at({e.rank, Stream::kCompute})];
        lane.step_start_us = start;
        lane.step_end_us = end;
        panel.step_us = std::max(panel.step_us, end - start);
        continue;
      }
      const int occurrence = occurrences[{e.key.packed, e.rank}]++;
      TimelineLane& lane = panel.lanes[lane_index_.at({e.rank, e.stream})];
      lane.bars.push_back(bar_of(e, start, end, file.plan.model, p, occurrence));
      const bool body = e.key.phase() == Phase::kForward || e.key.phase() == Phase::kBackward;
      if (body && e.stream == Stream::kCompute) {
        lane.blocks.push_back(
            {e.key.phase() == Phase::kBackward, e.key.chunk(), e.key.microbatch(), start, end});
      }
    }
    for (TimelineLane& lane : panel.lanes) {
      join_blocks(lane.blocks);
      std::stable_sort(lane.bars.begin(), lane.bars.end(),
                       [](const auto& a, const auto& b) { return a.start_us < b.start_us; });
      timeline_.event_count += lane.bars.size();
    }
    timeline_.panels.push_back(std::move(panel));
  }

  /// Operations become chunk-level blocks: neighbours of one chunk, direction and microbatch.
  static void join_blocks(std::vector<TimelineBlock>& blocks) {
    std::stable_sort(blocks.begin(), blocks.end(),
                     [](const auto& a, const auto& b) { return a.start_us < b.start_us; });
    std::vector<TimelineBlock> result;
    for (const TimelineBlock& block : blocks) {
      if (!result.empty() && result.back().backward == block.backward &&
          result.back().chunk == block.chunk && result.back().microbatch == block.microbatch) {
        result.back().end_us = std::max(result.back().end_us, block.end_us);
      } else {
        result.push_back(block);
      }
    }
    blocks = std::move(result);
  }

  TimelineBar bar_of(const TraceEvent& e, double start, double end, const Model& model,
                     std::size_t panel, int occurrence) {
    TimelineBar bar;
    bar.name = name_index(e.key, model);
    bar.style = style_of(e.key);
    bar.backward = e.key.phase() == Phase::kBackward && has_backward(bar.style);
    bar.start_us = start;
    bar.end_us = end;
    bar.busy_us = end - start;
    bar.waiting_us = std::clamp(microseconds(e.waiting), 0.0, end - start);
    bar.bytes = e.bytes.value;
    bar.event = event_index(e, occurrence);
    TimelineEvent& joined = timeline_.events[bar.event];
    joined.duration_us[panel] = bar.busy_us;
    joined.waiting_us[panel] = bar.waiting_us;
    return bar;
  }

  std::size_t name_index(Key key, const Model& model) {
    const auto [at, added] = names_.try_emplace(key.packed, timeline_.names.size());
    if (added) timeline_.names.push_back(to_string(key, model));
    return at->second;
  }

  std::size_t event_index(const TraceEvent& e, int occurrence) {
    const auto [at, added] =
        events_.try_emplace({e.key.packed, e.rank, occurrence}, timeline_.events.size());
    if (added) {
      const std::vector<double> absent(sources_.size(), -1.0);
      timeline_.events.push_back({absent, absent});
    }
    return at->second;
  }

  /// The first row that is free; the last one takes what finds none.
  static void assign_rows(TimelineLane& lane) {
    std::vector<double> busy_until;
    for (TimelineBar& bar : lane.bars) {
      std::size_t row = 0;
      // A thousandth of a microsecond of overlap is rounding of the clock, not concurrency.
      while (row < busy_until.size() && busy_until[row] > bar.start_us + 1e-3) ++row;
      if (row == busy_until.size()) {
        if (row < kMostRows) {
          busy_until.push_back(bar.end_us);
        } else {
          row = kMostRows - 1;
        }
      }
      busy_until[row] = std::max(busy_until[row], bar.end_us);
      bar.row = static_cast<int>(row);
    }
    lane.rows = std::max<int>(1, static_cast<int>(busy_until.size()));
  }

  void align_rows() {
    for (std::size_t l = 0; l < empty_lanes_.size(); ++l) {
      int rows = 1;
      for (const TimelinePanel& panel : timeline_.panels)
        rows = std::max(rows, panel.lanes[l].rows);
      for (TimelinePanel& panel : timeline_.panels) panel.lanes[l].rows = rows;
    }
  }

  void merge_until_few() {
    timeline_.bar_count = timeline_.event_count;
    const double span = timeline_.end_us - timeline_.begin_us;
    const std::vector<TimelinePanel> whole = timeline_.panels;
    for (double below = span / 8192; timeline_.bar_count > most_bars_ && below < span / 50;
         below *= 2) {
      timeline_.panels = whole;
      timeline_.bar_count = 0;
      timeline_.merge_below_us = below;
      for (TimelinePanel& panel : timeline_.panels) {
        for (TimelineLane& lane : panel.lanes) {
          lane.bars = merged(lane.bars, lane.rows, below);
          timeline_.bar_count += lane.bars.size();
        }
      }
    }
  }

  /// Joins runs of bars of one row that are shorter than `below` and less than that apart. A merged
  /// bar stays below four times that length, so that the structure of the step remains visible.
  static std::vector<TimelineBar> merged(const std::vector<TimelineBar>& bars, int rows,
                                         double below) {
    std::vector<TimelineBar> result;
    for (int row = 0; row < rows; ++row) {
      std::vector<const TimelineBar*> run;
      const auto flush = [&] {
        if (!run.empty()) result.push_back(joined(run));
        run.clear();
      };
      for (const TimelineBar& bar : bars) {
        if (bar.row != row) continue;
        const bool is_short = bar.end_us - bar.start_us < below;
        if (!run.empty() && (!is_short || bar.start_us - run.back()->end_us > below ||
                             bar.end_us - run.front()->start_us > 4 * below)) {
          flush();
        }
        if (is_short) {
          run.push_back(&bar);
        } else {
          result.push_back(bar);
        }
      }
      flush();
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const auto& a, const auto& b) { return a.start_us < b.start_us; });
    return result;
  }

  /// Looks like the kind of event that took most of the time.
  static TimelineBar joined(const std::vector<const TimelineBar*>& run) {
    if (run.size() == 1) return *run.front();
    std::map<std::pair<EventStyle, bool>, double> time_by_look;
    std::map<std::pair<EventStyle, bool>, const TimelineBar*> longest;
    TimelineBar bar = *run.front();
    bar.merged = static_cast<std::int64_t>(run.size());
    bar.busy_us = bar.waiting_us = 0.0;
    bar.bytes = 0;
    for (const TimelineBar* part : run) {
      const std::pair look(part->style, part->backward);
      time_by_look[look] += part->busy_us;
      const TimelineBar*& of_look = longest[look];
      if (of_look == nullptr || part->busy_us > of_look->busy_us) of_look = part;
      bar.busy_us += part->busy_us;
      bar.bytes += part->bytes;
      bar.end_us = std::max(bar.end_us, part->end_us);
    }
    const auto most =
        std::max_element(time_by_look.begin(), time_by_look.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const TimelineBar& model = *longest.at(most->first);
    bar.style = model.style;
    bar.backward = model.backward;
    bar.name = model.name;
    return bar;
  }

  const std::vector<TimelineSource>& sources_;
  std::size_t most_bars_;
  Timeline timeline_;
  std::vector<TimelineLane> empty_lanes_;
  std::map<LaneKey, std::size_t> lane_index_;
  std::map<std::uint64_t, std::size_t> names_;
  std::map<std::tuple<std::uint64_t, std::int32_t, int>, std::size_t> events_;
};

}  // namespace

std::int32_t typical_step(const Trace& trace) {
  const traces::StepTimes times = traces::without_warm_up(traces::step_times(trace));
  if (times.empty()) return trace.events.empty() ? 0 : trace.events.front().step;
  const Seconds median = traces::median_step(times);
  return std::min_element(times.begin(), times.end(),
                          [&](const auto& a, const auto& b) {
                            return std::abs((a.second - median).value) <
                                   std::abs((b.second - median).value);
                          })
      ->first;
}

Picoseconds start_of_step(const Trace& trace, std::int32_t step) {
  std::optional<Picoseconds> whole, any;
  for (const TraceEvent& e : trace.events) {
    if (e.step != step) continue;
    std::optional<Picoseconds>& earliest = e.key.phase() == Phase::kStep ? whole : any;
    if (!earliest || e.start < *earliest) earliest = e.start;
  }
  return whole ? *whole : any.value_or(Picoseconds{});
}

Timeline build_timeline(const std::vector<TimelineSource>& sources, std::size_t most_bars) {
  return Builder(sources, most_bars).build();
}

}  // namespace parplan::tools
