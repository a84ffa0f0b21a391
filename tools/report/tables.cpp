#include "tools/report/tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "sim/core/op_code.hpp"
#include "sim/core/program.hpp"
#include "tools/report/curves.hpp"
#include "tools/report/markup.hpp"
#include "tools/units_text.hpp"

namespace parplan::tools {
namespace {

using traces::Comparison;
using traces::ErrorRow;
using traces::GapDecomposition;
using traces::RankBreakdown;

constexpr std::size_t kMostOperations = 30;
constexpr std::size_t kMostUnmatched = 50;

struct Part {
  std::string_view name;
  std::string_view css;
  Seconds RankBreakdown::*time;
  Seconds GapDecomposition::*gap;
};
constexpr std::array<Part, 4> kParts{{
    {"compute", "p-compute", &RankBreakdown::compute, &GapDecomposition::compute},
    {"communication", "p-communication", &RankBreakdown::communication,
     &GapDecomposition::communication},
    {"waiting", "p-waiting", &RankBreakdown::waiting, &GapDecomposition::waiting},
    {"overhead", "p-overhead", &RankBreakdown::overhead, &GapDecomposition::overhead},
}};

const RankBreakdown* slowest(const std::vector<RankBreakdown>& ranks) {
  const auto at = std::max_element(ranks.begin(), ranks.end(),
                                   [](const auto& a, const auto& b) { return a.step < b.step; });
  return at == ranks.end() ? nullptr : &*at;
}

const RankBreakdown* of_rank(const std::vector<RankBreakdown>& ranks, std::int32_t rank) {
  for (const RankBreakdown& b : ranks) {
    if (b.rank == rank) return &b;
  }
  return nullptr;
}

/// The breakdown that the gap was taken from: the slowest measured rank, or the slowest predicted
/// one where that rank was not predicted.
const RankBreakdown* of_gap(const std::vector<RankBreakdown>& ranks,
                            const RankBreakdown* measured) {
  const RankBreakdown* same = measured == nullptr ? nullptr : of_rank(ranks, measured->rank);
  return same != nullptr ? same : slowest(ranks);
}

std::string percent_off(double error) {
  return text_of_percent(std::abs(error)) + (error >= 0.0 ? " too long" : " too short");
}

bool moves_data(std::string_view kind) {
  return kind == "receive" || kind.ends_with("all-reduce") ||
         kind == name_of(OpCode::kTensorAllReduce) || kind == name_of(OpCode::kTensorAllGather);
}

/// The kind of operation or transfer behind the largest difference, where the gap is of that sort.
std::string farthest_kind(const Comparison& c, std::string_view part) {
  const ErrorRow* farthest = nullptr;
  for (const ErrorRow& row : c.kinds) {
    if (row.measured.value <= 0.0 || moves_data(row.name) != (part == "communication")) continue;
    if (farthest == nullptr ||
        std::abs(row.difference().value) > std::abs(farthest->difference().value)) {
      farthest = &row;
    }
  }
  if (farthest == nullptr) return {};
  return " Summed over the ranks, " + farthest->name + " is farthest off: predicted " +
         time_text(farthest->predicted_exposed) + ", measured " +
         time_text(farthest->measured_exposed) +
         (moves_data(farthest->name) ? " outside operations." : ".");
}

std::string largest_part(const Comparison& c) {
  std::string_view name = "what the events do not cover";
  Seconds largest = c.gap.unexplained;
  for (const Part& part : kParts) {
    if (std::abs((c.gap.*part.gap).value) > std::abs(largest.value)) {
      largest = c.gap.*part.gap;
      name = part.name;
    }
  }
  std::string text = "The largest part of the gap is " + std::string(name) + ", predicted " +
                     time_text(Seconds{std::abs(largest.value)}) +
                     (largest.value >= 0.0 ? " too long." : " too short.");
  if (name == "compute" || name == "communication") text += farthest_kind(c, name);
  return text;
}

std::string judgement(const Comparison& c) {
  const double error = std::abs(step_error(c));
  if (c.counted_steps < 3) {
    return " Too few steps were measured to tell this from the machine's own spread.";
  }
  const std::string spread =
      " the " + text_of_percent(c.measured_spread) + " by which the measured steps themselves vary";
  if (error <= c.measured_spread) return " That is within" + spread + ".";
  return " That is outside" + spread +
         (error <= 0.10   ? ", and close enough to plan with."
          : error <= 0.30 ? ", good enough to rank layouts, not to promise a time."
                          : ": do not plan with it before calibrating.");
}

/// One row of a table of errors, with the calibrated columns when there are any.
std::vector<Cell> error_cells(const ErrorRow& row, const ErrorRow* calibrated,
                              bool with_calibrated) {
  std::vector<Cell> cells{
      Cell::time(row.predicted), Cell::time(row.measured), Cell::time(row.difference(), true),
      row.measured.value > 0.0 ? Cell::error(row.relative_error()) : Cell::none()};
  if (with_calibrated) {
    cells.push_back(calibrated != nullptr ? Cell::time(calibrated->predicted) : Cell::none());
    cells.push_back(calibrated != nullptr && calibrated->measured.value > 0.0
                        ? Cell::error(calibrated->relative_error())
                        : Cell::none());
  }
  cells.push_back(Cell::percent(row.relative_spread));
  return cells;
}

void add_error_columns(std::vector<Column>& columns, bool with_calibrated) {
  for (const char* title : {"predicted", "measured", "difference", "error"}) {
    columns.push_back({title});
  }
  if (with_calibrated) {
    columns.push_back({"calibrated"});
    columns.push_back({"error after"});
  }
  columns.push_back({"spread"});
}

using RowIndex = std::map<std::pair<std::string, std::int32_t>, const ErrorRow*>;
RowIndex index_of(const std::vector<ErrorRow>& rows) {
  RowIndex index;
  for (const ErrorRow& row : rows) index.try_emplace({row.name, row.rank}, &row);
  return index;
}

const ErrorRow* find(const RowIndex& index, const ErrorRow& row) {
  const auto at = index.find({row.name, row.rank});
  return at == index.end() ? nullptr : at->second;
}

/// Name with a bar of the difference's size behind it, so that the eye finds the large ones.
Cell name_cell(const ErrorRow& row, double largest) {
  Cell cell = Cell::text(row.name);
  const double share = largest > 0.0 ? std::abs(row.difference().value) / largest : 0.0;
  cell.markup = "<span class=\"meter\" style=\"--share:" + number_text(share, 3) + "\">" +
                cell.markup + "</span>";
  return cell;
}

std::string error_table(const std::vector<ErrorRow>& rows, const std::vector<ErrorRow>* calibrated,
                        const std::string& what, bool with_rank) {
  const RowIndex after = calibrated != nullptr ? index_of(*calibrated) : RowIndex{};
  double largest = 0.0;
  for (const ErrorRow& row : rows) largest = std::max(largest, std::abs(row.difference().value));
  std::vector<Column> columns{{what, false}};
  if (with_rank) columns.push_back({"rank"});
  columns.push_back({"count"});
  add_error_columns(columns, calibrated != nullptr);
  std::vector<std::vector<Cell>> table;
  for (const ErrorRow& row : rows) {
    std::vector<Cell> cells{name_cell(row, largest)};
    if (with_rank) cells.push_back(Cell::count(row.rank));
    cells.push_back(Cell::count(row.count));
    for (Cell& cell : error_cells(row, find(after, row), calibrated != nullptr)) {
      cells.push_back(std::move(cell));
    }
    table.push_back(std::move(cells));
  }
  return sortable_table("errors", columns, table);
}

std::string stacked_bar(const std::string& label, const RankBreakdown* b, double top) {
  if (b == nullptr || !(top > 0.0)) return {};
  std::string out = "<div class=\"split\"><span class=\"split-label\">" + escaped(label) + " " +
                    time_text(b->step) + "</span><span class=\"split-bar\">";
  for (const Part& part : kParts) {
    const Seconds time = b->*part.time;
    out += "<span class=\"" + std::string(part.css) +
           "\" style=\"width:" + number_text(100.0 * std::max(0.0, time.value) / top, 3) +
           "%\" title=\"" + std::string(part.name) + " " + time_text(time) + "\"></span>";
  }
  return out + "</span></div>\n";
}

/// A bar to the left (predicted too short) or right (too long) of the middle.
std::string diverging_bar(Seconds difference, double largest) {
  const double share = largest > 0.0 ? 50.0 * std::abs(difference.value) / largest : 0.0;
  const bool positive = difference.value >= 0.0;
  return "<span class=\"diverge\"><span class=\"" + std::string(positive ? "over" : "under") +
         "\" style=\"" + (positive ? "left:50%" : "right:50%") + ";width:" + number_text(share, 2) +
         "%\"></span></span>";
}

std::string gap_table(const Comparisons& c, const RankBreakdown* predicted,
                      const RankBreakdown* measured) {
  double largest = std::abs(c.first.gap.unexplained.value);
  for (const Part& part : kParts) {
    largest = std::max(largest, std::abs((c.first.gap.*part.gap).value));
  }
  std::string out =
      "<div class=\"scroll-x\"><table class=\"gap\"><thead><tr><th scope=\"col\" "
      "class=\"text\">part</th><th scope=\"col\">predicted</th><th scope=\"col\">measured</th><th "
      "scope=\"col\">difference</th><th scope=\"col\" class=\"text\">too short \xE2\x86\x90 "
      "\xE2\x86\x92 too long</th>";
  if (c.calibrated != nullptr) out += "<th scope=\"col\">after calibration</th>";
  out += "</tr></thead><tbody>\n";
  const auto row = [&](std::string_view name, std::string_view css, const std::string& p,
                       const std::string& m, Seconds difference, const Seconds* after, bool bar) {
    out += "<tr><td class=\"text\"><i class=\"swatch " + std::string(css) + "\"></i>" +
           std::string(name) + "</td><td>" + p + "</td><td>" + m + "</td><td>" +
           time_text(difference, true) + "</td><td class=\"text\">" +
           (bar ? diverging_bar(difference, largest) : "") + "</td>";
    if (after != nullptr) out += "<td>" + time_text(*after, true) + "</td>";
    out += "</tr>\n";
  };
  const std::string dash = Cell::none().markup;
  for (const Part& part : kParts) {
    row(part.name, part.css, predicted != nullptr ? time_text(predicted->*part.time) : dash,
        measured != nullptr ? time_text(measured->*part.time) : dash, c.first.gap.*part.gap,
        c.calibrated != nullptr ? &(c.calibrated->gap.*part.gap) : nullptr, true);
  }
  row("unexplained", "p-unexplained", dash, dash, c.first.gap.unexplained,
      c.calibrated != nullptr ? &c.calibrated->gap.unexplained : nullptr, true);
  row("<b>step time</b>", "p-none", time_text(c.first.predicted_step),
      time_text(c.first.measured_step), c.first.gap.total,
      c.calibrated != nullptr ? &c.calibrated->gap.total : nullptr, false);
  return out + "</tbody></table></div>\n";
}

std::string name_list(const std::string& title, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::string out =
      "<details><summary>" + std::to_string(names.size()) + " " + escaped(title) + "</summary><ul>";
  for (std::size_t i = 0; i < std::min(names.size(), kMostUnmatched); ++i) {
    out += "<li><code>" + escaped(names[i]) + "</code></li>";
  }
  if (names.size() > kMostUnmatched) {
    out += "<li>and " + std::to_string(names.size() - kMostUnmatched) + " more</li>";
  }
  return out + "</ul></details>\n";
}

/// "predicted / measured" in one cell, sorted by measured.
Cell pair_cell(const RankBreakdown* p, const RankBreakdown& m, Seconds RankBreakdown::*time) {
  Cell cell = Cell::time(m.*time);
  cell.markup =
      (p != nullptr ? time_text(p->*time) : Cell::none().markup) + " / <b>" + cell.markup + "</b>";
  return cell;
}

}  // namespace

double step_error(const Comparison& comparison) {
  return comparison.measured_step.value > 0.0
             ? comparison.predicted_step / comparison.measured_step - 1.0
             : 0.0;
}

std::string verdict(const Comparisons& c) {
  if (!(c.first.measured_step.value > 0.0)) return "The measured trace has no complete step.";
  const double error = step_error(c.first);
  std::string text = "The prediction is " + percent_off(error) + ": a step was predicted to take " +
                     time_text(c.first.predicted_step) + " and took " +
                     time_text(c.first.measured_step) + ".";
  text += judgement(c.first);
  for (const std::string& caveat : c.first.caveats) text += " Beware: " + caveat + ".";
  if (c.calibrated != nullptr) {
    text += " After calibration the prediction is " + time_text(c.calibrated->predicted_step) +
            ", " + percent_off(step_error(*c.calibrated)) + ".";
  }
  if (std::abs(error) > c.first.measured_spread) {
    text += " " + largest_part(c.first);
  }
  return text;
}

std::string gap_markup(const Comparisons& c) {
  const RankBreakdown* measured = slowest(c.first.measured_ranks);
  const RankBreakdown* predicted = of_gap(c.first.predicted_ranks, measured);
  const RankBreakdown* calibrated =
      c.calibrated != nullptr ? of_gap(c.calibrated->predicted_ranks, measured) : nullptr;
  double top = 0.0;
  for (const RankBreakdown* b : {measured, predicted, calibrated}) {
    if (b != nullptr) top = std::max(top, b->step.value);
  }
  std::string out;
  if (measured != nullptr) {
    out += "<p class=\"note\">Of rank " + std::to_string(measured->rank) +
           ", the slowest measured one. Communication is time in which the rank stood still while "
           "data moved; waiting is time in which a peer had not arrived.</p>\n";
  }
  out += stacked_bar("predicted", predicted, top) + stacked_bar("calibrated", calibrated, top) +
         stacked_bar("measured", measured, top);
  return out + gap_table(c, predicted, measured);
}

std::string kinds_markup(const Comparisons& c) {
  return error_table(c.first.kinds, c.calibrated != nullptr ? &c.calibrated->kinds : nullptr,
                     "kind", false);
}

std::string layers_markup(const Comparisons& c) {
  return error_table(c.first.layers, c.calibrated != nullptr ? &c.calibrated->layers : nullptr,
                     "layer", false);
}

std::string operations_markup(const Comparisons& c) {
  // Sorted by size: the first row of a name is its largest difference.
  std::set<std::string_view> seen;
  std::vector<ErrorRow> rows;
  for (const ErrorRow& row : c.first.operations) {
    if (!seen.insert(row.name).second) continue;
    if (rows.size() < kMostOperations) rows.push_back(row);
  }
  const std::size_t total = seen.size();
  std::string out = "<p class=\"note\">";
  out += total > kMostOperations
             ? "The " + std::to_string(kMostOperations) + " largest differences of " +
                   std::to_string(total) +
                   " operations and transfers, each on the rank where it is farthest off."
             : "All " + std::to_string(total) +
                   " operations and transfers, each on the rank where it is farthest off.";
  out +=
      " Time spent waiting for a peer is not in these figures; the difference of a transfer is of "
      "what no operation of its rank hides.</p>\n";
  return out + error_table(rows, c.calibrated != nullptr ? &c.calibrated->operations : nullptr,
                           "operation", true);
}

std::string unmatched_markup(const Comparisons& c) {
  return name_list("events were predicted but not measured", c.first.only_predicted) +
         name_list("events were measured but not predicted", c.first.only_measured);
}

std::string ranks_markup(const Comparisons& c, const Layout& layout) {
  std::vector<Column> columns{{"rank"}};
  if (layout.positions() > 1) columns.push_back({layout.pp > 1 ? "stage" : "device"});
  columns.push_back({"step"});
  columns.push_back({"error"});
  for (const Part& part : kParts) columns.push_back({std::string(part.name)});
  std::vector<std::vector<Cell>> rows;
  for (const RankBreakdown& m : c.first.measured_ranks) {
    const RankBreakdown* p = of_rank(c.first.predicted_ranks, m.rank);
    std::vector<Cell> row{Cell::count(m.rank)};
    if (layout.positions() > 1) {
      row.push_back(Cell::count(coordinates_of(m.rank, layout).position));
    }
    row.push_back(pair_cell(p, m, &RankBreakdown::step));
    row.push_back(p != nullptr && m.step.value > 0.0 ? Cell::error(p->step / m.step - 1.0)
                                                     : Cell::none());
    for (const Part& part : kParts) row.push_back(pair_cell(p, m, part.time));
    rows.push_back(std::move(row));
  }
  return "<p class=\"note\">predicted / <b>measured</b></p>\n" +
         sortable_table("ranks", columns, rows);
}

std::string steps_markup(const Comparisons& c) {
  if (c.first.steps.empty()) return {};
  Curve measured{"measured", "c-measured", {}, {}, true};
  for (const ErrorRow& row : c.first.steps) {
    measured.x.push_back(static_cast<double>(measured.x.size()));
    measured.y.push_back(row.measured.value * 1e3);
  }
  const double last = std::max(1.0, static_cast<double>(measured.x.size()) - 1.0);
  const auto level = [&](const char* name, const char* css, Seconds time) {
    return Curve{name, css, {0.0, last}, {time.value * 1e3, time.value * 1e3}, false};
  };
  std::vector<Curve> curves{level("predicted", "c-predicted", c.first.predicted_step)};
  std::string key = "<span class=\"key c-predicted\">predicted</span> ";
  if (c.calibrated != nullptr) {
    curves.push_back(level("calibrated", "c-calibrated", c.calibrated->predicted_step));
    key += "<span class=\"key c-calibrated\">calibrated</span> ";
  }
  curves.push_back(std::move(measured));
  return "<figure><figcaption>Step time: " + key +
         "<span class=\"key c-measured\">measured</span></figcaption>" +
         curves_svg(curves, {"measured step", "ms", true}) + "</figure>\n";
}

std::string steps_table(const Comparisons& c) {
  if (c.first.steps.empty()) return {};
  std::vector<std::vector<Cell>> rows;
  for (const ErrorRow& row : c.first.steps) {
    rows.push_back({Cell::text(row.name), Cell::time(row.measured),
                    Cell::time(row.difference(), true), Cell::error(row.relative_error())});
  }
  return "<details><summary>All measured steps</summary>" +
         sortable_table("steps", {{"step", false}, {"measured"}, {"difference"}, {"error"}}, rows) +
         "</details>\n";
}

}  // namespace parplan::tools
