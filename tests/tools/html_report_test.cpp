#include "tools/report/html_report.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/core/error.hpp"
#include "sim/core/model_presets.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/tools/report_fixture.hpp"
#include "tools/report/tables.hpp"

using namespace parplan;
using namespace parplan::test;
using namespace parplan::tools;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Reads markup as strictly as the report writes it: every element is closed by its own end tag or
/// "/>", attributes are quoted, ids are unique, text has no bare "<" or ">".
class MarkupCheck {
 public:
  explicit MarkupCheck(const std::string& page) : page_(page) {
    while (problem_.empty() && at_ < page_.size()) step();
    if (problem_.empty() && !open_.empty()) problem_ = "not closed: " + open_.back();
  }
  const std::string& problem() const { return problem_; }
  const std::vector<std::pair<std::string, std::string>>& attributes() const { return attributes_; }

 private:
  void step() {
    if (page_[at_] == '>') return fail("bare >");
    if (page_[at_] != '<') {
      ++at_;
      return;
    }
    if (page_.compare(at_, 9, "<!DOCTYPE") == 0) {
      at_ = page_.find('>', at_) + 1;
      return;
    }
    if (page_.compare(at_, 2, "</") == 0) return end_tag();
    start_tag();
  }

  std::string name() {
    const std::size_t begin = at_;
    while (at_ < page_.size() && (std::isalnum(static_cast<unsigned char>(page_[at_])) != 0 ||
                                  page_[at_] == '-' || page_[at_] == ':')) {
      ++at_;
    }
    return page_.substr(begin, at_ - begin);
  }

  void spaces() {
    while (at_ < page_.size() && std::isspace(static_cast<unsigned char>(page_[at_])) != 0) ++at_;
  }

  void end_tag() {
    at_ += 2;
    const std::string tag = name();
    if (open_.empty() || open_.back() != tag) return fail("unexpected end of " + tag);
    open_.pop_back();
    if (page_[at_++] != '>') fail("end tag " + tag);
  }

  void start_tag() {
    ++at_;
    const std::string tag = name();
    if (tag.empty()) return fail("bare <");
    for (spaces(); at_ < page_.size() && page_[at_] != '>' && page_[at_] != '/'; spaces()) {
      const std::string attribute = name();
      if (attribute.empty() || page_.compare(at_, 2, "=\"") != 0)
        return fail("attribute of " + tag);
      const std::size_t end = page_.find('"', at_ + 2);
      const std::string value = page_.substr(at_ + 2, end - at_ - 2);
      if (has(value, "<")) return fail("bare < in an attribute of " + tag);
      if (attribute == "id" && !ids_.insert(value).second) return fail("second id " + value);
      attributes_.emplace_back(attribute, value);
      at_ = end + 1;
    }
    if (page_.compare(at_, 2, "/>") == 0) {
      at_ += 2;
      return;
    }
    if (page_[at_++] != '>') return fail("tag " + tag);
    if (tag == "script" || tag == "style") {
      at_ = page_.find("</" + tag, at_);
    }
    open_.push_back(tag);
  }

  void fail(const std::string& why) {
    problem_ = why + " before: " + page_.substr(std::min(at_, page_.size()), 80);
  }

  const std::string& page_;
  std::size_t at_ = 0;
  std::string problem_;
  std::vector<std::string> open_;
  std::set<std::string> ids_;
  std::vector<std::pair<std::string, std::string>> attributes_;
};

/// What is wrong with the page as a page of its own; empty when nothing is.
std::string defect(const std::string& page) {
  const MarkupCheck check(page);
  if (!check.problem().empty()) return check.problem();
  for (const auto& [name, value] : check.attributes()) {
    const bool link = name == "src" || name == "href" || name == "xlink:href" || name == "data";
    if (link && (value.empty() || value[0] != '#')) return "reference to " + value;
  }
  for (std::size_t at = 0; (at = page.find("url(", at)) != std::string::npos; ++at) {
    if (page[at + 4] != '#') return "url() to somewhere else";
  }
  for (const char* tag : {"<link", "<img", "<iframe", "<object", "@import", "fetch(", "XMLHttp"}) {
    if (has(page, tag)) return tag;
  }
  return {};
}

ReportOptions bare() {
  ReportOptions options;
  options.chart_js.clear();
  options.dot.clear();
  return options;
}

nlohmann::json data_of(const std::string& page, const std::string& id) {
  const std::string open = "<script type=\"application/json\" id=\"" + id + "\">";
  const std::size_t begin = page.find(open);
  REQUIRE(begin != std::string::npos);
  const std::size_t end = page.find("</script>", begin);
  return nlohmann::json::parse(page.substr(begin + open.size(), end - begin - open.size()));
}

struct Case {
  traces::TraceFile predicted, measured;
  traces::Comparison comparison;
  std::string page(const ReportOptions& options = bare()) const {
    return html_report(predicted, measured, comparison, options);
  }
};

Case case_of(const Plan& plan) {
  Case c;
  c.predicted = predicted_for(plan, small_machine());
  c.measured = measured_like(c.predicted, 5, 1.2);
  c.comparison = traces::compare(c.predicted, c.measured);
  return c;
}

Case mlp_case(const std::string& layout) { return case_of(plan_of(make_mlp({}), layout, 64, 1)); }

std::size_t lanes_of(const std::string& page, int panel, int rank) {
  const std::string part = "data-panel=\"" + std::to_string(panel) + "\" data-rank=\"" +
                           std::to_string(rank) + "\" data-stream=\"compute\"";
  std::size_t count = 0;
  for (std::size_t at = 0; (at = page.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
    std::string name = (std::filesystem::temp_directory_path() / "parplan-report-XXXXXX").string();
    const int descriptor = mkstemp(name.data());
    REQUIRE(descriptor >= 0);
    close(descriptor);
    path_ = name;
    std::ofstream(path_) << content;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("the checker of these tests finds what it looks for", "[tools]") {
  CHECK(defect("<!DOCTYPE html>\n<p class=\"a\">x &lt; y<br/></p>").empty());
  CHECK(!defect("<p><b></p></b>").empty());
  CHECK(!defect("<p>").empty());
  CHECK(!defect("<p>a < b</p>").empty());
  CHECK(!defect("<p>a > b</p>").empty());
  CHECK(!defect("<p id=\"a\"></p><p id=\"a\"></p>").empty());
  CHECK(!defect("<script src=\"http://x\"></script>").empty());
  CHECK(!defect("<style>a { background: url(http://x) }</style>").empty());
}

TEST_CASE("the page stands alone and every rank has its lanes", "[tools]") {
  const auto [layout, ranks] = GENERATE(table<std::string, int>({{"single", 1},
                                                                 {"dp=2", 2},
                                                                 {"pp=2,microbatches=4", 2},
                                                                 {"dp=2,tp=2,pp=2", 8},
                                                                 {"dp=64", 64}}));
  INFO(layout);
  const std::string page = mlp_case(layout).page();
  CHECK(defect(page) == "");
  for (int rank = 0; rank < ranks; ++rank) {
    CHECK(lanes_of(page, 0, rank) == 1);
    CHECK(lanes_of(page, 1, rank) == 1);
  }
  CHECK(lanes_of(page, 0, ranks) == 0);
  for (const char* id : {"timeline", "gap", "errors", "ranks", "steps", "memory", "plan"}) {
    CHECK(has(page, "<section id=\"" + std::string(id) + "\">"));
  }
}

TEST_CASE("with Graphviz and Chart.js of the system the page still stands alone", "[tools]") {
  ReportOptions options;
  const std::string page = mlp_case("dp=2,pp=2,microbatches=2").page(options);
  CHECK(defect(page) == "");
  CHECK(has(page, "<canvas") == !options.chart_js.empty());
  CHECK(has(page, "class=\"node layer\"") == !options.dot.empty());
}

TEST_CASE("the same input gives the same bytes", "[tools]") {
  const Case c = mlp_case("dp=2,pp=2,microbatches=4");
  CHECK(c.page() == c.page());
  const ReportOptions with_programs;
  CHECK(c.page(with_programs) == c.page(with_programs));
}

TEST_CASE("names from files cannot break out of the page", "[tools]") {
  const std::string markup = "</script><b onload=\"x\">&'";
  const std::string evil = markup + "\xFF";
  Plan plan = plan_of(make_mlp({}), "pp=2", 64, 1);
  // A plan is read from JSON, so that its names are UTF-8.
  plan.model.name = plan.cluster_name = "model " + markup;
  for (Layer& layer : plan.model.layers) layer.name += markup;
  for (Op& op : plan.model.ops) op.name += markup;
  for (Value& value : plan.model.values) value.name += markup;
  for (Parameter& parameter : plan.model.parameters) parameter.name += markup;
  Case c = case_of(plan);
  c.measured.trace.machine = "machine " + evil;
  Cluster machine = small_machine();
  machine.name = machine.provenance.host = machine.provenance.command = evil;
  machine.provenance.fitted_from = {evil};
  ReportOptions options;
  options.title = "title " + evil;
  options.machine = &machine;
  options.machine_file = options.predicted_file = options.measured_file = evil;
  const std::string page = c.page(options);
  CHECK(defect(page) == "");
  CHECK_FALSE(has(page, "<b onload"));
  CHECK_FALSE(has(page, "\xFF"));
  CHECK(has(page,
            "<h1>title &lt;/script&gt;&lt;b onload=&quot;x&quot;&gt;&amp;&#39;\xEF\xBF\xBD</h1>"));
  CHECK_NOTHROW(data_of(page, "tl-data"));
}

TEST_CASE("the tooltips' data belong to the bars and hold both durations", "[tools]") {
  const Case c = mlp_case("dp=2,pp=2,microbatches=2");
  const std::string page = c.page();
  const nlohmann::json data = data_of(page, "tl-data");
  CHECK(data["panels"] == nlohmann::json({"predicted", "measured"}));
  const std::size_t bars = data["bars"].size();
  CHECK(has(page, " data-i=\"" + std::to_string(bars - 1) + "\""));
  CHECK_FALSE(has(page, " data-i=\"" + std::to_string(bars) + "\""));
  // The predicted trace is one step; each of its events has a measured partner of 1.2 times its
  // length give or take the 2 % and 10 % of the made-up noise.
  CHECK(data["events"].size() * 2 == bars);
  for (const auto& event : data["events"]) {
    const double predicted = event[0], measured = event[2];
    if (predicted < 1.0) continue;  // the file has nanoseconds
    CHECK(measured / predicted > 1.2 * 0.98 * 0.9 - 0.01);
    CHECK(measured / predicted < 1.2 * 1.02 + 0.01);
  }
}

TEST_CASE("without Graphviz and Chart.js the page has DOT text and SVG curves", "[tools]") {
  const std::string page = mlp_case("pp=2").page();
  CHECK(has(page, "<pre class=\"dot\">digraph plan {"));
  CHECK(has(page, "Graphviz did not draw this plan"));
  CHECK_FALSE(has(page, "<canvas"));
  CHECK(has(page, "<path class=\"m-activations\""));
}

TEST_CASE("Chart.js is put into the page in a form that cannot end its script", "[tools]") {
  const TemporaryFile chart("/* stand-in </script><p> */");
  ReportOptions options = bare();
  options.chart_js = chart.path();
  const std::string page = mlp_case("pp=2").page(options);
  CHECK(has(page, "<script>/* stand-in <\\/script><p> */</script>"));
  CHECK(defect(page) == "");
  const nlohmann::json memory = data_of(page, "memory-data");
  REQUIRE(memory.size() == 4);  // 2 ranks, predicted and measured
  for (const auto& chart_data : memory) {
    CHECK(has(page, "<canvas id=\"" + chart_data["id"].get<std::string>() + "\">"));
    CHECK(chart_data["kinds"].size() == 5);
    for (const auto& kind : chart_data["kinds"]) CHECK(kind["y"].size() == chart_data["x"].size());
  }
  options.chart_js = "/nonexistent/chart.js";
  CHECK_FALSE(has(mlp_case("pp=2").page(options), "<canvas"));
}

TEST_CASE("beyond eight ranks memory is drawn for one rank of each stage", "[tools]") {
  const std::string page = mlp_case("dp=8,pp=2").page();
  CHECK(has(page, "Shown are 2 of 16 ranks"));
  CHECK(has(page, "rank 0, predicted"));
  CHECK(has(page, "rank 8, measured"));
}

TEST_CASE("too many events are merged and the page says so", "[tools]") {
  ReportOptions options = bare();
  options.most_bars = 50;
  const std::string page = mlp_case("pp=2,microbatches=8").page(options);
  CHECK(has(page, "To stay readable, "));
  CHECK(defect(page) == "");
}

TEST_CASE("replicas of an operation share one row of the largest differences", "[tools]") {
  const std::string page = mlp_case("dp=2").page();
  const std::size_t from = page.find("Largest differences");
  const std::string row = ">forward/chunk 0/microbatch 0/fc1/linear_forward</span>";
  const std::size_t first = page.find(row, from);
  REQUIRE(first != std::string::npos);
  CHECK(page.find(row, first + 1) == std::string::npos);
}

TEST_CASE("a calibrated prediction adds its lanes, its step time and its error", "[tools]") {
  const Case c = mlp_case("dp=2");
  traces::TraceFile calibrated = c.predicted;
  for (TraceEvent& e : calibrated.trace.events) {
    e.start = Picoseconds{e.start.value * 6 / 5};
    e.end = Picoseconds{e.end.value * 6 / 5};
  }
  const traces::Comparison after = traces::compare(calibrated, c.measured);
  ReportOptions options = bare();
  options.calibrated = &calibrated;
  CHECK_THROWS_AS(c.page(options), InputError);
  options.calibrated_comparison = &after;
  const std::string page = c.page(options);
  CHECK(defect(page) == "");
  CHECK(lanes_of(page, 2, 1) == 1);
  CHECK(has(page, "error after calibration"));
  CHECK(has(page, "After calibration the prediction is "));
  CHECK(has(page, "<th scope=\"col\">after calibration</th>"));
}

TEST_CASE("a measured trace without memory and losses still gives a page", "[tools]") {
  Case c = mlp_case("single");
  c.measured.trace.memory.clear();
  c.measured.trace.losses.clear();
  c.measured.trace.summaries.clear();
  c.predicted.trace.memory.clear();
  c.comparison = traces::compare(c.predicted, c.measured);
  const std::string page = c.page();
  CHECK(defect(page) == "");
  CHECK(has(page, "Neither trace has memory samples."));
  CHECK_FALSE(has(page, "Loss of the global batch"));
  c.measured.trace.losses = {2.5, 1.0, -std::numeric_limits<double>::quiet_NaN()};
  CHECK(has(c.page(), "2.5 at first, nan at last"));
  c.measured.trace.losses = {std::numeric_limits<double>::quiet_NaN()};
  CHECK(has(c.page(), "No loss of the measured run is a number."));
}

TEST_CASE("empty traces give a page, not a crash", "[tools]") {
  Case c = mlp_case("single");
  for (traces::TraceFile* file : {&c.predicted, &c.measured}) {
    file->trace.events.clear();
    file->trace.memory.clear();
  }
  c.comparison = {};
  const std::string page = c.page();
  CHECK(defect(page) == "");
  CHECK(has(page, "The measured trace has no complete step."));
}

TEST_CASE("the verdict weighs the error against the machine's own spread", "[tools]") {
  traces::Comparison c;
  c.predicted_step = Seconds{0.95};
  c.measured_step = Seconds{1.0};
  c.measured_spread = 0.06;
  c.counted_steps = 5;
  CHECK(has(verdict({c}), "5.0 % too short: a step was predicted to take 950 ms and took 1.00 s."));
  CHECK(has(verdict({c}), "within the 6.0 %"));
  c.measured_spread = 0.01;
  c.gap.waiting = Seconds{-0.04};
  c.gap.compute = Seconds{0.01};
  CHECK(has(verdict({c}), "outside the 1.0 %"));
  CHECK(has(verdict({c}), "largest part of the gap is waiting, predicted 40.0 ms too short."));
  traces::ErrorRow linear, receive;
  linear.name = "linear_forward";
  receive.name = "receive";
  linear.predicted = linear.predicted_exposed = Seconds{0.3};
  linear.measured = linear.measured_exposed = Seconds{0.2};
  receive.predicted = receive.measured = Seconds{0.6};
  receive.predicted_exposed = Seconds{0.1};
  receive.measured_exposed = Seconds{0.5};
  c.kinds = {linear, receive};
  CHECK_FALSE(has(verdict({c}), "farthest off"));  // waiting belongs to no kind
  c.gap.compute = Seconds{0.1};
  CHECK(has(verdict({c}), "linear_forward is farthest off: predicted 300 ms, measured 200 ms."));
  c.gap.communication = Seconds{-0.4};
  CHECK(has(verdict({c}),
            "receive is farthest off: predicted 100 ms, measured 500 ms outside operations."));
  c.predicted_step = Seconds{1.5};
  CHECK(has(verdict({c}), "50.0 % too long"));
  CHECK(has(verdict({c}), "do not plan with it before calibrating"));
  c.counted_steps = 2;
  CHECK(has(verdict({c}), "Too few steps"));
}
