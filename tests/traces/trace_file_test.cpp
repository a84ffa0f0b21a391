#include "traces/trace_file.hpp"

#include <algorithm>
#include <fstream>

#include "sim/core/error.hpp"
#include "sim/core/plan_json.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/traces/small_run.hpp"

using namespace parplan;
using traces::TraceFile;

namespace {

/// `text` with the first occurrence of `from` replaced; the test fails when there is none.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  INFO("looking for " << from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// The text from `from` up to and including `until`.
std::string part(const std::string& text, const std::string& from, const std::string& until) {
  const std::size_t begin = text.find(from);
  REQUIRE(begin != std::string::npos);
  const std::size_t end = text.find(until, begin + from.size());
  REQUIRE(end != std::string::npos);
  return text.substr(begin, end + until.size() - begin);
}

void check_refused(const std::string& text, const std::string& reason) {
  INFO(reason);
  REQUIRE_THROWS_AS(traces::parse_trace("damaged.json", text), InputError);
  try {
    traces::parse_trace("damaged.json", text);
  } catch (const InputError& error) {
    CHECK_THAT(error.what(), ContainsSubstring("damaged.json"));
    CHECK_THAT(error.what(), ContainsSubstring(reason));
  }
}

}  // namespace

TEST_CASE("a predicted trace survives its file bit for bit", "[traces]") {
  for (const char* layout : {"single", "dp=2,microbatches=2", "dp=2,pp=2,microbatches=2", "tp=2"}) {
    INFO(layout);
    const TraceFile before = test::predicted_of(test::tiny_plan(layout), test::round_machine());
    const TraceFile after = traces::parse_trace("trace.json", traces::to_chrome_trace(before));
    REQUIRE(before.trace.events.size() > 100);
    REQUIRE(before.trace.memory.size() > 100);
    CHECK(before.trace.plan_digest == digest_of(before.plan));
    CHECK(after.trace == before.trace);
    CHECK(after.plan == before.plan);
  }
}

TEST_CASE("a measured trace keeps steps, losses and odd picoseconds", "[traces]") {
  TraceFile before = test::measured_on(test::tiny_plan("single"), test::round_machine(), 3);
  before.trace.losses = {6.931471805599453, 0.1, 1e-300};
  before.trace.machine = "a \"quoted\" name\n";
  before.trace.device = "another";
  const std::int64_t two_hours_ps = std::int64_t{7200} * 1000000000000 + 1;
  before.trace.events.back().start = Picoseconds{two_hours_ps};
  before.trace.events.back().end = Picoseconds{two_hours_ps + 7};
  for (TraceEvent& e : before.trace.events) {
    if (e.key.phase() == Phase::kStep && e.step == 2) e.end = Picoseconds{two_hours_ps + 9};
  }
  before.trace.events.front().start = Picoseconds{-3};
  const TraceFile after = traces::parse_trace("trace.json", traces::to_chrome_trace(before));
  CHECK(after.trace == before.trace);
}

TEST_CASE("an operation may be shorter than a microsecond's fraction", "[traces]") {
  TraceFile before = test::predicted_of(test::tiny_plan("single"), test::round_machine());
  for (std::size_t i = 0; i < before.trace.events.size(); ++i) {
    TraceEvent& e = before.trace.events[i];
    e.start = Picoseconds{static_cast<std::int64_t>(i) * 999999937};
    e.end = e.start + Picoseconds{static_cast<std::int64_t>(i % 3)};
  }
  REQUIRE(before.trace.events.front().key.phase() == Phase::kStep);
  before.trace.events.front().end = before.trace.events.back().end;
  CHECK(traces::parse_trace("t", traces::to_chrome_trace(before)).trace == before.trace);
}

TEST_CASE("Perfetto finds a process per rank and a thread per stream", "[traces]") {
  const TraceFile file =
      test::predicted_of(test::tiny_plan("dp=2,microbatches=2"), test::round_machine());
  const std::string text = traces::to_chrome_trace(file);
  for (const char* expected : {
           R"("name":"process_name","pid":0,"args":{"name":"rank 0"})",
           R"("name":"process_name","pid":1,"args":{"name":"rank 1"})",
           R"("name":"thread_name","pid":1,"tid":0,"args":{"name":"compute"})",
           R"("ph":"C","name":"memory","pid":0)",
           R"("displayTimeUnit":"ms")",
       }) {
    CHECK_THAT(text, ContainsSubstring(expected));
  }
}

TEST_CASE("damaged traces are refused and the file is named", "[traces]") {
  const TraceFile file =
      test::predicted_of(test::tiny_plan("dp=2,microbatches=2"), test::round_machine());
  const std::string good = traces::to_chrome_trace(file);
  REQUIRE_NOTHROW(traces::parse_trace("good.json", good));

  for (const std::size_t kept : {std::size_t{0}, good.size() / 3, good.size() - 3}) {
    const std::string cut = good.substr(0, kept);
    // The end is where it was cut, after as many line ends as it has.
    const auto line = 1 + std::count(cut.begin(), cut.end(), '\n');
    check_refused(cut, "damaged.json:" + std::to_string(line) + ":");
    check_refused(cut, cut.empty() ? "the file is empty" : "the end");
  }
  check_refused(R"({"traceEvents":[]})", "no \"parplan\" section");
  check_refused(R"({"format":"parplan/plan"})", "this is a parplan/plan file, a trace is needed");
  check_refused(R"({"model_type":"gpt2"})", "this is a Hugging Face config.json");
  check_refused("[]", "no \"parplan\" section");
  check_refused(replaced(good, "\"traceEvents\"", "\"events\""), "no \"traceEvents\"");
  check_refused(replaced(good, "\"parplan/trace\"", "\"parplan/plan\""), "not a parplan/trace");
  check_refused(replaced(good, "\"parplan/trace\",\n  \"version\": 1",
                         "\"parplan/trace\",\n  \"version\": 2"),
                "only version 1");
  check_refused(replaced(good, "\"predicted\"", "\"guessed\""), "predicted or measured");
  check_refused(replaced(good, "\"steps\": 1", "\"steps\": \"one\""), "\"steps\"");
  check_refused(replaced(good, "\"steps\": 1", "\"threads_per_rank\": 0, \"steps\": 1"),
                "a rank has a thread");
  // The plan inside is checked as a plan file is.
  check_refused(replaced(good, "\"bucket_bytes\"", "\"bucket_byte\""), "bucket_byte");

  const std::string key = part(good, "\"key\":\"", "\"");
  check_refused(replaced(good, key, R"("key":"00xyz")"), "not hexadecimal");
  check_refused(replaced(good, key, R"("key":"11112222333344445")"), "not hexadecimal");
  check_refused(replaced(good, key, R"("key":"f000000000000000")"), "names nothing");
  check_refused(replaced(good, key, R"("key":"00000000000000f0")"), "names nothing");
  check_refused(replaced(good, key, R"("key":7)"), "\"key\"");
  check_refused(replaced(good, key, R"("key":"0")"), "16 digits");
  check_refused(replaced(good, "\"flop\":", "\"flop\":-"), "negative");
  check_refused(replaced(good, "\"bytes\":", "\"bytes\":-"), "\"bytes\"");
  check_refused(replaced(good, "\"waiting_us\":", "\"waiting_us\":-1,\"was\":"), "negative");
  check_refused(replaced(good, "\"waiting_us\":", "\"waiting_us\":\"1\",\"was\":"), "waiting_us");
  check_refused(replaced(good, "\"steps\": 1", "\"steps\": 0"), "at least one step");
  check_refused(replaced(good, "\"rank\": 1,", "\"rank\": 2,"), "not a rank");
  check_refused(replaced(good, "\"parameters_bytes\":", "\"parameters_bytes\":-"), "out of range");
  const std::string interval = R"("cat":"compute","pid":0,"tid":0)";
  check_refused(replaced(good, interval, R"("cat":"compute","pid":2,"tid":0)"), "not a rank");
  check_refused(replaced(good, interval, R"("cat":"compute","pid":-1,"tid":0)"), "not a rank");
  check_refused(replaced(good, interval, R"("cat":"compute","pid":0,"tid":9)"), "stream");
  check_refused(replaced(good, "\"dur\":", "\"dur\":-"), "negative");
  check_refused(replaced(good, "\"dur\":", "\"duration\":"), "\"dur\"");
  check_refused(replaced(good, "\"ts\":", "\"ts\":9e15,\"was\":"), "out of range");
  check_refused(replaced(good, "\"ph\":\"X\"", "\"ph\":\"B\""), "phase \"B\"");
  check_refused(replaced(good, "\"ranks\": 2", "\"ranks\": 3"), "ranks");
  check_refused(replaced(good, "\"parameters_bytes\":", "\"parameter_bytes\":"),
                "parameters_bytes");
}

TEST_CASE("a damaged event is named by its place", "[traces]") {
  const TraceFile file = test::predicted_of(test::tiny_plan("single"), test::round_machine());
  // Two lines of metadata come before the first interval.
  check_refused(replaced(traces::to_chrome_trace(file), "\"dur\":", "\"dur\":-"),
                "$.traceEvents[2]");
}

TEST_CASE("loading names the path", "[traces]") {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "parplan-no-trace";
  std::filesystem::remove(path);
  CHECK_THROWS_WITH(traces::load_trace(path), ContainsSubstring("parplan-no-trace"));
}
