#include <simdjson.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "sim/core/error.hpp"
#include "sim/core/file_io.hpp"
#include "sim/core/json_document.hpp"
#include "sim/core/json_scanner.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/op_code.hpp"
#include "sim/core/plan_json.hpp"
#include "traces/trace_check.hpp"
#include "traces/trace_file.hpp"

namespace parplan::traces {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t kShownBytes = 40;

/// Reads one trace; every failure names the file and the event or member.
class TraceParser {
 public:
  TraceParser(const std::string& name, const std::string& text) : name_(name) {
    const auto error = parser_.parse(text).get(root_);
    if (error != simdjson::SUCCESS) fail_parse(text, simdjson::error_message(error));
  }

  TraceFile parse() {
    dom::element own;
    if (root_["parplan"].get(own) != simdjson::SUCCESS) {
      refuse_other_formats();
      fail("no \"parplan\" section: this trace was not written by parplan execute or simulate");
    }
    read_own(own);
    dom::array events;
    if (root_["traceEvents"].get(events) != simdjson::SUCCESS) fail("no \"traceEvents\" array");
    std::size_t index = 0;
    for (const dom::element event : events) {
      where_ = "$.traceEvents[" + std::to_string(index++) + "]";
      read_event(event);
    }
    return std::move(file_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(name_ + ": " + (where_.empty() ? "" : where_ + ": ") + what);
  }

  /// simdjson does not say where it stopped.
  [[noreturn]] void fail_parse(const std::string& text, const char* otherwise) const {
    const std::optional<JsonFault> fault = find_fault(text);
    if (!fault) fail(std::string("not valid JSON: ") + otherwise);
    throw InputError(located(name_, text, *fault));
  }

  /// A file of ours or of others that is no trace.
  void refuse_other_formats() const {
    std::string_view format;
    if (root_["format"].get(format) == simdjson::SUCCESS) {
      fail("this is a " + shortened(format, kShownBytes) + " file, a trace is needed here");
    }
    dom::element type;
    if (root_["model_type"].get(type) == simdjson::SUCCESS) {
      fail("this is a Hugging Face config.json, a trace is needed here");
    }
  }

  template <class T>
  T get(const dom::element& object, const char* key) const {
    T value{};
    if (object[key].get(value) != simdjson::SUCCESS) {
      fail(std::string("\"") + key + "\" is missing or of the wrong type");
    }
    return value;
  }
  std::int64_t integer_or(const dom::element& object, const char* key,
                          std::int64_t otherwise) const {
    std::int64_t value = otherwise;
    const auto error = object[key].get(value);
    if (error != simdjson::SUCCESS && error != simdjson::NO_SUCH_FIELD) {
      fail(std::string("\"") + key + "\" must be an integer");
    }
    return value;
  }
  Bytes size(const dom::element& object, const char* key) const {
    return checked_size(get<std::int64_t>(object, key), key);
  }
  Bytes checked_size(std::int64_t bytes, const char* key) const {
    if (bytes < 0 || bytes > kMostBytes.value) fail(std::string("\"") + key + "\" is out of range");
    return Bytes{bytes};
  }
  std::int32_t count(const dom::element& object, const char* key) const {
    const auto value = get<std::int64_t>(object, key);
    if (value < 0 || value > std::numeric_limits<std::int32_t>::max()) {
      fail(std::string("\"") + key + "\" is out of range");
    }
    return static_cast<std::int32_t>(value);
  }
  Picoseconds time(const dom::element& object, const char* key) const {
    const double us = get<double>(object, key);
    // Half of what 64 bits of picoseconds hold, so that a start and a duration can be added.
    if (!(std::abs(us) < 4e12)) fail(std::string("\"") + key + "\" is out of range");
    return Picoseconds{std::llround(us * 1e6)};
  }
  Picoseconds time_or_zero(const dom::element& object, const char* key) const {
    dom::element value;
    if (object[key].get(value) != simdjson::SUCCESS) return {};
    const Picoseconds t = time(object, key);
    if (t.value < 0) fail(std::string("\"") + key + "\" is negative");
    return t;
  }

  void read_own(const dom::element& own) {
    where_ = "$.parplan";
    if (get<std::string_view>(own, "format") != "parplan/trace") fail("not a parplan/trace");
    if (get<std::int64_t>(own, "version") != 1) fail("only version 1 can be read");
    Trace& trace = file_.trace;
    const auto source = get<std::string_view>(own, "source");
    if (source != "predicted" && source != "measured") {
      fail("\"source\" must be predicted or measured");
    }
    trace.source = source == "predicted" ? TraceSource::kPredicted : TraceSource::kMeasured;
    trace.machine = std::string(get<std::string_view>(own, "machine"));
    if (own["device"].error() != simdjson::NO_SUCH_FIELD) {
      trace.device = std::string(get<std::string_view>(own, "device"));
    }
    trace.ranks = count(own, "ranks");
    if (own["threads_per_rank"].error() != simdjson::NO_SUCH_FIELD) {
      trace.threads_per_rank = count(own, "threads_per_rank");
      if (trace.threads_per_rank < 1) fail("\"threads_per_rank\" is 0; a rank has a thread");
    }
    trace.steps = count(own, "steps");
    if (trace.steps < 1) fail("\"steps\" is 0; a trace has at least one step");
    for (const dom::element loss : get<dom::array>(own, "losses")) {
      double value = 0;
      if (loss.is_null()) {
        value = std::numeric_limits<double>::quiet_NaN();
      } else if (loss.get(value) != simdjson::SUCCESS) {
        fail("\"losses\" must hold numbers or null");
      }
      trace.losses.push_back(value);
    }
    for (const dom::element s : get<dom::array>(own, "summaries")) {
      trace.summaries.push_back(
          {rank(s, "rank"), size(s, "peak_tensor_bytes"), size(s, "peak_process_bytes")});
    }
    const JsonDocument plan(name_ + " (plan)", simdjson::minify(get<dom::element>(own, "plan")));
    file_.plan = read_plan(plan);
    if (trace.ranks != file_.plan.layout.ranks()) {
      fail("\"ranks\" is " + std::to_string(trace.ranks) + ", the plan has " +
           std::to_string(file_.plan.layout.ranks()));
    }
    trace.plan_digest = digest_of(file_.plan);
    where_.clear();
  }

  void read_event(const dom::element& event) {
    const auto phase = get<std::string_view>(event, "ph");
    if (phase == "X") {
      read_interval(event);
    } else if (phase == "C") {
      read_memory(event);
    } else if (phase != "M") {
      fail("an event of phase \"" + shortened(phase, kShownBytes) + "\"");
    }
  }

  std::int32_t rank(const dom::element& object, const char* key) const {
    const auto rank = get<std::int64_t>(object, key);
    if (rank < 0 || rank >= file_.trace.ranks) {
      fail(std::string("\"") + key + "\" is not a rank of the trace");
    }
    return static_cast<std::int32_t>(rank);
  }

  static bool names_something(Key key) {
    return key.phase() <= Phase::kReduceNorm &&
           (key.code() < static_cast<std::uint32_t>(OpCode::kCount) ||
            key.code() == Key::kWholeInstruction);
  }

  void read_interval(const dom::element& event) {
    const auto args = get<dom::element>(event, "args");
    TraceEvent e;
    const auto key = get<std::string_view>(args, "key");
    constexpr std::size_t kDigits = 16;
    const auto [end, error] =
        std::from_chars(key.data(), key.data() + key.size(), e.key.packed, 16);
    if (key.size() != kDigits || error != std::errc{} || end != key.data() + key.size()) {
      fail("\"key\" is not hexadecimal, of 16 digits");
    }
    if (!names_something(e.key)) fail("\"key\" " + std::string(key) + " names nothing");
    e.rank = rank(event, "pid");
    const auto stream = get<std::int64_t>(event, "tid");
    if (stream < 0 || stream >= kStreams) fail("unknown stream");
    e.stream = static_cast<Stream>(stream);
    e.step = count(args, "step");
    e.start = time(event, "ts");
    e.end = e.start + time(event, "dur");
    if (e.end < e.start) fail("\"dur\" is negative");
    e.waiting = time_or_zero(args, "waiting_us");
    if (e.waiting > e.end - e.start) fail("\"waiting_us\" is longer than \"dur\"");
    e.cpu = time_or_zero(args, "cpu_us");
    e.bytes = checked_size(integer_or(args, "bytes", 0), "bytes");
    dom::element flop;
    if (args["flop"].get(flop) == simdjson::SUCCESS) e.flop = Flop{get<double>(args, "flop")};
    if (e.flop.value < 0.0) fail("\"flop\" is negative");
    file_.trace.events.push_back(e);
  }

  void read_memory(const dom::element& event) {
    const auto args = get<dom::element>(event, "args");
    MemorySample m;
    m.rank = rank(event, "pid");
    m.time = time(event, "ts");
    if (integer_or(args, "step", 0) != 0) m.step = count(args, "step");
    m.parameters = size(args, "parameters_bytes");
    m.gradients = size(args, "gradients_bytes");
    m.moments = size(args, "moments_bytes");
    m.activations = size(args, "activations_bytes");
    m.buffers = size(args, "buffers_bytes");
    file_.trace.memory.push_back(m);
  }

  std::string name_;
  dom::parser parser_;
  dom::element root_;
  std::string where_;
  TraceFile file_;
};

}  // namespace

TraceFile parse_trace(const std::string& name, const std::string& text) {
  TraceFile file = TraceParser(name, text).parse();
  check_trace(file, name);
  return file;
}

TraceFile load_trace(const std::filesystem::path& path) {
  return parse_trace(path.string(), read_text_file(path, std::uintmax_t{8} << 30));
}

}  // namespace parplan::traces
