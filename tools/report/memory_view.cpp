#include "tools/report/memory_view.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "tools/report/curves.hpp"
#include "tools/report/markup.hpp"
#include "tools/units_text.hpp"

namespace parplan::tools {
namespace {

constexpr std::size_t kMostRanks = 8;
constexpr std::size_t kMostPoints = 400;

struct Kind {
  std::string_view name;
  std::string_view css;
  Bytes MemorySample::*bytes;
};
constexpr std::array<Kind, 5> kKinds{{
    {"parameters", "m-parameters", &MemorySample::parameters},
    {"gradients", "m-gradients", &MemorySample::gradients},
    {"optimizer state", "m-moments", &MemorySample::moments},
    {"activations", "m-activations", &MemorySample::activations},
    {"buffers", "m-buffers", &MemorySample::buffers},
}};

/// The samples of one rank in one step, by time from the start of the rank's step.
struct Track {
  std::vector<MemorySample> samples;
  Picoseconds origin;
  std::int32_t step = 0;

  double milliseconds(const MemorySample& s) const {
    return static_cast<double>((s.time - origin).value) * 1e-9;
  }
};

/// Of the drawn step, or of the first one that has samples.
Track track_of(const Trace& trace, std::int32_t rank, std::int32_t wanted) {
  std::optional<std::int32_t> step;
  for (const MemorySample& s : trace.memory) {
    if (s.rank == rank && (!step || s.step == wanted)) step = s.step;
  }
  Track track;
  if (!step) return track;
  track.step = *step;
  track.origin = start_of_step(trace, *step);
  for (const TraceEvent& e : trace.events) {
    const bool own = e.key.phase() == Phase::kStep && e.rank == rank && e.step == *step;
    if (own) track.origin = e.start;
  }
  for (const MemorySample& s : trace.memory) {
    if (s.rank == rank && s.step == *step) track.samples.push_back(s);
  }
  std::stable_sort(track.samples.begin(), track.samples.end(),
                   [](const auto& a, const auto& b) { return a.time < b.time; });
  return track;
}

/// Keeps of each of equal slices the fullest and the emptiest moment, in order of time.
void thin(Track& track) {
  const std::size_t count = track.samples.size();
  if (count <= kMostPoints) return;
  const auto less = [](const MemorySample& a, const MemorySample& b) {
    return a.total() < b.total();
  };
  std::vector<MemorySample> kept{track.samples.front()};
  const std::size_t slices = kMostPoints / 2 - 1;
  for (std::size_t s = 0; s < slices; ++s) {
    const auto from =
        track.samples.begin() + static_cast<std::ptrdiff_t>(1 + s * (count - 2) / slices);
    const auto to =
        track.samples.begin() + static_cast<std::ptrdiff_t>(1 + (s + 1) * (count - 2) / slices);
    if (from == to) continue;
    auto first = std::min_element(from, to, less);
    auto second = std::max_element(from, to, less);
    if (second < first) std::swap(first, second);
    kept.push_back(*first);
    if (second != first) kept.push_back(*second);
  }
  kept.push_back(track.samples.back());
  track.samples = std::move(kept);
}

struct RankTracks {
  std::int32_t rank = 0;
  std::vector<Track> tracks;  ///< by source
  double end_ms = 0.0;
  double top_mib = 0.0;
};

constexpr double kMiB = 1048576.0;

class MemoryView {
 public:
  MemoryView(const std::vector<TimelineSource>& sources, const traces::Comparison& comparison,
             const std::string& chart_js)
      : sources_(sources), comparison_(comparison), chart_js_(chart_js) {}

  std::string markup() {
    choose_ranks();
    for (const std::int32_t rank : ranks_) collect(rank);
    std::string out = peaks_table();
    if (tracks_.empty()) {
      return out + "<p class=\"note\">Neither trace has memory samples.</p>\n";
    }
    out += legend() + "<p class=\"note\">" + selection_text() + "</p>\n<div class=\"pairs\">\n";
    std::string data;
    for (const RankTracks& rank : tracks_) {
      for (std::size_t s = 0; s < sources_.size(); ++s) out += figure(rank, s, data);
    }
    out += "</div>\n";
    if (!chart_js_.empty()) {
      out += "<script type=\"application/json\" id=\"memory-data\">[" + data + "]</script>\n";
    }
    return out;
  }

 private:
  const Layout& layout() const { return sources_.front().file->plan.layout; }

  /// Peak of the measured tensors, or of the predicted ones where the rank was not measured.
  std::map<std::int32_t, std::int64_t> peaks() const {
    std::map<std::int32_t, std::int64_t> peaks;
    for (const TimelineSource& source : sources_) {
      for (const MemorySample& s : source.file->trace.memory) peaks.try_emplace(s.rank, 0);
    }
    for (auto& [rank, peak] : peaks) {
      for (const TimelineSource& source : sources_) {
        for (const RankSummary& s : source.file->trace.summaries) {
          if (s.rank == rank) peak = s.peak_tensor_bytes.value;
        }
      }
    }
    return peaks;
  }

  void choose_ranks() {
    const auto all = peaks();
    rank_count_ = all.size();
    if (all.size() <= kMostRanks) {
      for (const auto& [rank, peak] : all) ranks_.push_back(rank);
      return;
    }
    std::map<int, std::pair<std::int64_t, std::int32_t>> fullest;  // by position
    for (const auto& [rank, peak] : all) {
      const int position = coordinates_of(rank, layout()).position;
      const auto [at, added] = fullest.try_emplace(position, peak, rank);
      if (!added && peak > at->second.first) at->second = {peak, rank};
    }
    std::vector<std::pair<std::int64_t, std::int32_t>> chosen;
    for (const auto& [position, entry] : fullest) chosen.push_back(entry);
    std::stable_sort(chosen.begin(), chosen.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    if (chosen.size() > kMostRanks) chosen.resize(kMostRanks);
    for (const auto& [peak, rank] : chosen) ranks_.push_back(rank);
    std::sort(ranks_.begin(), ranks_.end());
  }

  void collect(std::int32_t rank) {
    RankTracks result{rank, {}, 0.0, 0.0};
    for (const TimelineSource& source : sources_) {
      const Trace& trace = source.file->trace;
      Track track = track_of(trace, rank, typical_step(trace));
      thin(track);
      for (const MemorySample& s : track.samples) {
        result.end_ms = std::max(result.end_ms, track.milliseconds(s));
        result.top_mib = std::max(result.top_mib, static_cast<double>(s.total().value) / kMiB);
      }
      for (const TraceEvent& e : trace.events) {
        if (e.key.phase() != Phase::kStep || e.rank != rank || e.step != track.step) continue;
        result.end_ms =
            std::max(result.end_ms, static_cast<double>((e.end - track.origin).value) * 1e-9);
      }
      result.tracks.push_back(std::move(track));
    }
    // Up to the next round number above the peak.
    const std::vector<double> ticks = nice_ticks(0.0, result.top_mib, 5);
    if (ticks.size() > 1)
      result.top_mib = ticks.back() + ticks[1] * (ticks.back() < result.top_mib);
    tracks_.push_back(std::move(result));
  }

  std::string selection_text() const {
    std::string text = "Tensors of the drawn step, predicted and measured on the same scales.";
    if (ranks_.size() < rank_count_) {
      text += " Shown are " + std::to_string(ranks_.size()) + " of " + std::to_string(rank_count_) +
              " ranks: the fullest of each " + (layout().pp > 1 ? "stage" : "device") +
              "; the table has all.";
    }
    return text + " Long tracks are thinned to " + std::to_string(kMostPoints) +
           " points that keep every peak.";
  }

  static std::string legend() {
    std::string out = "<ul class=\"legend\">";
    for (const Kind& kind : kKinds) {
      out += "<li><svg width=\"14\" height=\"12\"><rect class=\"" + std::string(kind.css) +
             "\" width=\"14\" height=\"12\"></rect></svg> " + std::string(kind.name) + "</li>";
    }
    return out + "</ul>\n";
  }

  std::string figure(const RankTracks& rank, std::size_t s, std::string& data) {
    const Track& track = rank.tracks[s];
    const std::string title = "rank " + std::to_string(rank.rank) + ", " + sources_[s].title;
    std::string out = "<figure><figcaption>" + escaped(title) + "</figcaption>";
    if (track.samples.empty()) {
      return out + "<p class=\"note\">no samples</p></figure>\n";
    }
    if (chart_js_.empty()) {
      out += stack_svg(stack_of(track, title), rank.end_ms, rank.top_mib,
                       {"ms from the start of the rank's step", "MiB", true});
    } else {
      const std::string id = "memory-" + std::to_string(canvases_++);
      out += "<div class=\"chart\"><canvas id=\"" + id + "\"></canvas></div>";
      if (!data.empty()) data += ",\n";
      data += chart_data(id, track, rank);
    }
    return out + "</figure>\n";
  }

  static Stack stack_of(const Track& track, const std::string& title) {
    Stack stack;
    stack.title = title;
    for (const MemorySample& s : track.samples) {
      stack.x.push_back(std::max(0.0, track.milliseconds(s)));
    }
    for (const Kind& kind : kKinds) {
      stack.css.emplace_back(kind.css);
      std::vector<double>& layer = stack.layers.emplace_back();
      for (const MemorySample& s : track.samples) {
        layer.push_back(static_cast<double>((s.*kind.bytes).value) / kMiB);
      }
    }
    return stack;
  }

  static std::string list(const std::vector<double>& values) {
    std::string out = "[";
    for (std::size_t i = 0; i < values.size(); ++i) {
      out += (i > 0 ? "," : "") + number_text(values[i], 5);
    }
    return out + "]";
  }

  static std::string chart_data(const std::string& id, const Track& track, const RankTracks& rank) {
    Stack stack = stack_of(track, id);
    // The last value holds to the end of the step.
    stack.x.push_back(rank.end_ms);
    std::string out = "{\"id\":" + script_string(id) + ",\"x_end\":" + number_text(rank.end_ms, 6) +
                      ",\"y_top\":" + number_text(rank.top_mib, 6) + ",\"x\":" + list(stack.x) +
                      ",\"kinds\":[";
    for (std::size_t k = 0; k < kKinds.size(); ++k) {
      stack.layers[k].push_back(stack.layers[k].back());
      out += k > 0 ? "," : "";
      out += "{\"name\":" + script_string(kKinds[k].name) +
             ",\"css\":" + script_string(kKinds[k].css) + ",\"y\":" + list(stack.layers[k]) + "}";
    }
    return out + "]}";
  }

  std::string peaks_table() const {
    if (comparison_.memory.empty()) return {};
    std::vector<std::vector<Cell>> rows;
    for (const traces::MemoryRow& m : comparison_.memory) {
      rows.push_back(
          {Cell::count(m.rank), Cell::bytes(m.predicted_tensors), Cell::bytes(m.measured_tensors),
           relative(m.predicted_tensors, m.measured_tensors), Cell::bytes(m.predicted_process),
           Cell::bytes(m.measured_process), relative(m.predicted_process, m.measured_process)});
    }
    return sortable_table("memory",
                          {{"rank"},
                           {"tensors predicted"},
                           {"tensors measured"},
                           {"error"},
                           {"process predicted"},
                           {"process measured"},
                           {"error"}},
                          rows);
  }

  static Cell relative(Bytes predicted, Bytes measured) {
    return measured.value > 0 ? Cell::error(predicted / measured - 1.0) : Cell::none();
  }

  const std::vector<TimelineSource>& sources_;
  const traces::Comparison& comparison_;
  const std::string& chart_js_;
  std::vector<std::int32_t> ranks_;
  std::size_t rank_count_ = 0;
  std::vector<RankTracks> tracks_;
  int canvases_ = 0;
};

}  // namespace

std::string memory_markup(const std::vector<TimelineSource>& sources,
                          const traces::Comparison& comparison, const std::string& chart_js) {
  return MemoryView(sources, comparison, chart_js).markup();
}

}  // namespace parplan::tools
