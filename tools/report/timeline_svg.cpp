#include <algorithm>
#include <cmath>
#include <set>

#include "tools/report/markup.hpp"
#include "tools/report/timeline.hpp"
#include "tools/units_text.hpp"

namespace parplan::tools {
namespace {

// In units of the view box; the page scales it to its width.
constexpr double kWidth = 1240.0;
constexpr double kGutter = 148.0;
constexpr double kPlot = kWidth - kGutter - 6.0;
constexpr double kAxisHeight = 22.0;
constexpr double kTitleHeight = 24.0;

/// Heights shrink with the number of ranks, so that 64 of them still fit a few screens.
struct Heights {
  double compute, transfer, blocks, between_lanes, between_ranks, font;
};
Heights heights_for(std::size_t ranks) {
  if (ranks <= 4) return {20, 9, 11, 2, 8, 11};
  if (ranks <= 16) return {14, 7, 10, 1, 5, 10};
  return {9, 4, 4, 1, 3, 8};
}

std::string px(double value) { return number_text(value, 4); }

class Drawing {
 public:
  Drawing(const Timeline& timeline, const Layout& layout)
      : timeline_(timeline), layout_(layout), heights_(heights_for(ranks())) {
    scale_ = kPlot / std::max(timeline.end_us - timeline.begin_us, 1e-9);
    place_lanes();
  }

  std::string markup() {
    std::string bars = bars_markup();
    std::string out = "<div class=\"timeline\" id=\"timeline-view\">\n" + toolbar() + legend();
    out += "<div class=\"timeline-scroll\">\n" + axis();
    out += "<svg id=\"tl-body\" class=\"tl\" viewBox=\"0 0 " + px(kWidth) + " " + px(stacked_end_) +
           "\" data-hs=\"" + px(stacked_end_) + "\" data-hp=\"" + px(paired_end_) +
           "\" role=\"img\" aria-label=\"Timelines of one step\">\n";
    out += definitions();
    out += "<g id=\"tl-grid\">" + grid() + "</g>\n" + labels();
    out += "<g clip-path=\"url(#tl-clip)\"><g id=\"tl-zoomed\" transform=\"translate(" +
           px(kGutter) + ",0)\">\n" + bars + "</g></g>\n";
    out += "<g id=\"tl-text\" clip-path=\"url(#tl-clip)\"></g>\n</svg>\n</div>\n";
    out += "<div id=\"tl-tip\" class=\"tip\" hidden=\"hidden\"></div>\n</div>\n";
    return out + data();
  }

 private:
  struct Place {
    double stacked, paired, height;
  };

  std::size_t ranks() const {
    std::set<std::int32_t> ranks;
    for (const TimelinePanel& panel : timeline_.panels) {
      for (const TimelineLane& lane : panel.lanes) ranks.insert(lane.rank);
    }
    return ranks.size();
  }

  double x_of(double us) const { return (us - timeline_.begin_us) * scale_; }

  double lane_height(const TimelineLane& lane) const {
    return lane.stream == Stream::kCompute ? heights_.blocks + heights_.compute * lane.rows
                                           : heights_.transfer * lane.rows;
  }

  void place_lanes() {
    const std::size_t panels = timeline_.panels.size();
    places_.assign(panels, {});
    double y = 0.0;
    for (std::size_t p = 0; p < panels; ++p) {
      const auto& lanes = timeline_.panels[p].lanes;
      titles_.push_back(y);
      y += kTitleHeight;
      for (std::size_t l = 0; l < lanes.size(); ++l) {
        places_[p].push_back({y, 0.0, lane_height(lanes[l])});
        y += lane_height(lanes[l]) + gap_after(lanes, l);
      }
      y += 6.0;
    }
    stacked_end_ = y;
    place_paired();
  }

  void place_paired() {
    double y = 4.0;
    const std::size_t panels = timeline_.panels.size();
    const std::size_t lanes = panels == 0 ? 0 : timeline_.panels[0].lanes.size();
    for (std::size_t l = 0; l < lanes; ++l) {
      for (std::size_t p = 0; p < panels; ++p) {
        places_[p][l].paired = y;
        y += places_[p][l].height + 1.0;
      }
      y += gap_after(timeline_.panels[0].lanes, l);
    }
    paired_end_ = y + 4.0;
  }

  double gap_after(const std::vector<TimelineLane>& lanes, std::size_t l) const {
    const bool last = l + 1 == lanes.size() || lanes[l + 1].rank != lanes[l].rank;
    return last ? heights_.between_ranks : heights_.between_lanes;
  }

  static std::string toolbar() {
    return "<div class=\"toolbar no-print\">"
           "<button type=\"button\" data-zoom=\"in\">Zoom in</button>"
           "<button type=\"button\" data-zoom=\"out\">Zoom out</button>"
           "<button type=\"button\" data-zoom=\"all\">Whole step</button>"
           "<label>Arrange <select id=\"tl-arrange\"><option value=\"stacked\">predicted above "
           "measured</option><option value=\"paired\">lane by lane</option></select></label>"
           "<span class=\"hint\">Drag to move, double-click or Ctrl + wheel to zoom, point at a "
           "bar "
           "for its numbers.</span></div>\n";
  }

  std::string legend() const {
    std::set<EventStyle> used;
    bool backward = false;
    bool waiting = false;
    for (const TimelinePanel& panel : timeline_.panels) {
      for (const TimelineLane& lane : panel.lanes) {
        for (const TimelineBar& bar : lane.bars) {
          used.insert(bar.style);
          backward = backward || bar.backward;
          waiting = waiting || bar.waiting_us > 0.0;
        }
      }
    }
    std::string out = "<ul class=\"legend\">";
    for (const EventStyle style : used) {
      out += "<li><svg width=\"14\" height=\"12\"><rect class=\"" + std::string(css_of(style)) +
             "\" width=\"14\" height=\"12\"></rect></svg> " + escaped(name_of(style)) + "</li>";
    }
    if (backward) {
      out +=
          "<li><svg width=\"14\" height=\"12\"><rect class=\"k-linear b\" width=\"14\" "
          "height=\"12\"></rect></svg> darker: backward</li>";
    }
    if (waiting) {
      out +=
          "<li><svg width=\"14\" height=\"12\"><rect class=\"k-point w\" width=\"14\" "
          "height=\"12\"></rect></svg> hatched: waiting for a peer</li>";
    }
    return out +
           "<li><svg width=\"8\" height=\"12\"><line class=\"step-end\" x1=\"4\" x2=\"4\" "
           "y2=\"12\"></line></svg> the rank's step begins, ends</li>"
           "<li><svg width=\"22\" height=\"12\"><rect class=\"block f0\" width=\"11\" "
           "height=\"12\"></rect><rect class=\"block b0\" x=\"11\" width=\"11\" "
           "height=\"12\"></rect></svg> forward, backward of one microbatch</li></ul>\n";
  }

  std::string axis() const {
    std::string out = "<svg id=\"tl-axis\" class=\"tl\" viewBox=\"0 0 " + px(kWidth) + " " +
                      px(kAxisHeight) + "\" aria-hidden=\"true\"><g id=\"tl-ticks\">";
    const auto ticks = nice_ticks(timeline_.begin_us, timeline_.end_us, 10);
    for (const double t : ticks) {
      out += "<text x=\"" + px(kGutter + x_of(t)) + "\" y=\"14\" text-anchor=\"middle\">" +
             time_text(Seconds{t * 1e-6}) + "</text>";
    }
    return out + "</g></svg>\n";
  }

  std::string grid() const {
    std::string out;
    for (const double t : nice_ticks(timeline_.begin_us, timeline_.end_us, 10)) {
      const std::string x = px(kGutter + x_of(t));
      out += "<line x1=\"" + x + "\" x2=\"" + x + "\" y1=\"0\" y2=\"" +
             px(std::max(stacked_end_, paired_end_)) + "\"></line>";
    }
    return out;
  }

  std::string definitions() const {
    std::string out = "<defs><clipPath id=\"tl-clip\"><rect x=\"" + px(kGutter) +
                      "\" y=\"0\" width=\"" + px(kPlot) + "\" height=\"" +
                      px(std::max(stacked_end_, paired_end_)) + "\"></rect></clipPath>";
    for (const std::string_view kind : {"tensor", "point", "gradient", "tied"}) {
      const std::string name(kind);
      out += "<pattern id=\"hatch-" + name +
             "\" class=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
             "patternTransform=\"rotate(45)\"><rect class=\"k-" +
             name + "\" width=\"5\" height=\"5\" fill-opacity=\"0.18\"></rect><rect class=\"k-" +
             name + "\" width=\"1.6\" height=\"5\" fill-opacity=\"0.75\"></rect></pattern>";
    }
    return out + "</defs>\n";
  }

  std::string labels() const {
    std::string out;
    for (std::size_t p = 0; p < timeline_.panels.size(); ++p) {
      const TimelinePanel& panel = timeline_.panels[p];
      out += "<text class=\"panel-title\" x=\"0\" y=\"" + px(titles_[p] + 16) + "\">" +
             escaped(panel.title) + ": " + time_text(Seconds{panel.step_us * 1e-6}) + "</text>\n";
      for (std::size_t l = 0; l < panel.lanes.size(); ++l) out += lane_label(p, l);
    }
    return out;
  }

  std::string lane_label(std::size_t p, std::size_t l) const {
    const auto& lanes = timeline_.panels[p].lanes;
    const TimelineLane& lane = lanes[l];
    const bool first = l == 0 || lanes[l - 1].rank != lane.rank;
    std::string out = lane_group("tl-label", p, l);
    if (first) {
      out += "<text class=\"rank\" x=\"0\" y=\"" + px(heights_.font) + "\" font-size=\"" +
             px(heights_.font) + "\">" + rank_text(lane.rank) + "</text>";
    }
    // Crowded lanes go without the name of the stream; the tooltip has it.
    if (heights_.font > 9) {
      // Beside its bars: the rank's name has the line of the blocks above them.
      const double y = lane.stream == Stream::kCompute
                           ? heights_.blocks + heights_.compute / 2 + 3
                           : std::min(places_[p][l].height, heights_.font) - 1;
      out += "<text class=\"stream\" x=\"" + px(kGutter - 16) + "\" y=\"" + px(y) +
             "\" text-anchor=\"end\" font-size=\"" + px(std::min(heights_.font - 1, 9.0)) + "\">" +
             escaped(name_of(lane.stream)) + "</text>";
    }
    out += "<text class=\"side\" x=\"" + px(kGutter - 4) + "\" y=\"" +
           px(std::min(places_[p][l].height, 9.0)) + "\" text-anchor=\"end\" font-size=\"8\">" +
           side_letter(p) + "</text>";
    return out + "</g>\n";
  }

  std::string side_letter(std::size_t p) const {
    const std::string& title = timeline_.panels[p].title;
    std::string letter = title.empty() ? "?" : escaped(title.substr(0, 1));
    for (char& c : letter) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    return letter;
  }

  std::string rank_text(std::int32_t rank) const {
    std::string text = "rank " + std::to_string(rank);
    if (layout_.positions() > 1 && heights_.font > 9) {
      text += (layout_.pp > 1 ? " \xC2\xB7 stage " : " \xC2\xB7 device ") +
              std::to_string(coordinates_of(rank, layout_).position);
    }
    return text;
  }

  std::string lane_group(std::string_view css, std::size_t p, std::size_t l) const {
    const Place& place = places_[p][l];
    return "<g class=\"" + std::string(css) + "\" transform=\"translate(0," + px(place.stacked) +
           ")\" data-ys=\"" + px(place.stacked) + "\" data-yp=\"" + px(place.paired) + "\">";
  }

  std::string bars_markup() {
    std::string out;
    for (std::size_t p = 0; p < timeline_.panels.size(); ++p) {
      const TimelinePanel& panel = timeline_.panels[p];
      for (std::size_t l = 0; l < panel.lanes.size(); ++l) {
        const TimelineLane& lane = panel.lanes[l];
        std::string group = lane_group("tl-lane", p, l);
        group.insert(group.size() - 1, " data-panel=\"" + std::to_string(p) + "\" data-rank=\"" +
                                           std::to_string(lane.rank) + "\" data-stream=\"" +
                                           escaped(name_of(lane.stream)) + "\"");
        out += group;
        if (lane.step_end_us > lane.step_start_us) {
          rect(out, "idle", lane.step_start_us, lane.step_end_us, 0, places_[p][l].height, {});
          step_mark(out, lane.step_start_us, places_[p][l].height);
          step_mark(out, lane.step_end_us, places_[p][l].height);
        }
        for (const TimelineBlock& block : lane.blocks) add_block(out, block);
        for (const TimelineBar& bar : lane.bars) add_bar(out, bar, p, lane);
        out += "</g>\n";
      }
    }
    return out;
  }

  void rect(std::string& out, std::string_view css, double start_us, double end_us, double y,
            double height, std::string_view more) const {
    out += "<rect class=\"";
    out += css;
    out += "\" x=\"" + px(x_of(start_us)) + "\" y=\"" + px(y) + "\" width=\"" +
           px((end_us - start_us) * scale_) + "\" height=\"" + px(height) + "\"";
    out += more;
    out += "></rect>";
  }

  /// Where the rank's own step begins or ends; ranks of a pipeline are steps ahead of each other.
  void step_mark(std::string& out, double us, double height) const {
    const std::string x = px(x_of(us));
    out += "<line class=\"step-end\" x1=\"" + x + "\" x2=\"" + x + "\" y1=\"-1\" y2=\"" +
           px(height + 1) + "\"></line>";
  }

  void add_block(std::string& out, const TimelineBlock& block) const {
    const std::string css = std::string("block ") + (block.backward ? "b" : "f") +
                            (block.microbatch % 2 == 0 ? "0" : "1");
    const std::string label = std::string(" data-l=\"") + (block.backward ? "B" : "F") +
                              std::to_string(block.microbatch) + "\"";
    rect(out, css, block.start_us, block.end_us, 0, heights_.blocks - 1, label);
  }

  void add_bar(std::string& out, const TimelineBar& bar, std::size_t p, const TimelineLane& lane) {
    const bool compute = lane.stream == Stream::kCompute;
    const double height = compute ? heights_.compute : heights_.transfer;
    const double y = (compute ? heights_.blocks : 0.0) + height * bar.row;
    const std::string index = " data-i=\"" + std::to_string(bars_++) + "\"";
    std::string css(css_of(bar.style));
    if (bar.backward) css += " b";
    const double moves = bar.start_us + bar.waiting_us;
    if (bar.waiting_us > 0.0) rect(out, css + " w", bar.start_us, moves, y, height, index);
    if (bar.end_us > moves || bar.waiting_us == 0.0) {
      rect(out, css, moves, bar.end_us, y, height, index);
    }
    add_bar_data(bar, p, lane);
  }

  /// [panel, rank, stream, name, event or -1, start, end, waiting, bytes, events, busy]
  void add_bar_data(const TimelineBar& bar, std::size_t p, const TimelineLane& lane) {
    if (!bar_data_.empty()) bar_data_ += ",\n";
    bar_data_ += "[" + std::to_string(p) + "," + std::to_string(lane.rank) + "," +
                 std::to_string(static_cast<int>(lane.stream)) + "," + std::to_string(bar.name) +
                 "," + (bar.merged > 1 ? "-1" : std::to_string(bar.event)) + "," +
                 number_text(bar.start_us, 3) + "," + number_text(bar.end_us, 3) + "," +
                 number_text(bar.waiting_us, 3) + "," + std::to_string(bar.bytes) + "," +
                 std::to_string(bar.merged) + "," + number_text(bar.busy_us, 3) + "]";
  }

  /// What the script needs for tooltips, zoom and highlighting.
  std::string data() const {
    std::string out = "<script type=\"application/json\" id=\"tl-data\">{\"plot\":" + px(kPlot) +
                      ",\"gutter\":" + px(kGutter) +
                      ",\"begin\":" + number_text(timeline_.begin_us, 6) +
                      ",\"end\":" + number_text(timeline_.end_us, 6) + ",\"panels\":[";
    for (std::size_t p = 0; p < timeline_.panels.size(); ++p) {
      out += (p > 0 ? "," : "") + script_string(timeline_.panels[p].title);
    }
    out += "],\"streams\":[";
    for (int s = 0; s < kStreams; ++s) {
      out += (s > 0 ? "," : "") + script_string(name_of(static_cast<Stream>(s)));
    }
    out += "],\n\"names\":[";
    for (std::size_t n = 0; n < timeline_.names.size(); ++n) {
      out += (n > 0 ? ",\n" : "") + script_string(timeline_.names[n]);
    }
    out += "],\n\"bars\":[" + bar_data_ + "],\n\"events\":[";
    for (std::size_t e = 0; e < timeline_.events.size(); ++e) {
      out += e > 0 ? ",[" : "[";
      for (std::size_t p = 0; p < timeline_.panels.size(); ++p) {
        out += (p > 0 ? "," : "") + number_text(timeline_.events[e].duration_us[p], 3) + "," +
               number_text(timeline_.events[e].waiting_us[p], 3);
      }
      out += "]";
    }
    return out + "]}</script>\n";
  }

  const Timeline& timeline_;
  const Layout& layout_;
  Heights heights_;
  double scale_ = 1.0;
  std::vector<std::vector<Place>> places_;  ///< by panel and lane
  std::vector<double> titles_;
  double stacked_end_ = 0.0;
  double paired_end_ = 0.0;
  std::size_t bars_ = 0;
  std::string bar_data_;
};

}  // namespace

std::string timeline_markup(const Timeline& timeline, const Layout& layout) {
  return Drawing(timeline, layout).markup();
}

}  // namespace parplan::tools
