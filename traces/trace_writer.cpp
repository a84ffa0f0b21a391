#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/core/file_io.hpp"
#include "sim/core/json_writer.hpp"
#include "sim/core/plan_json.hpp"
#include "traces/trace_file.hpp"

namespace parplan::traces {
namespace {

/// Microseconds with six decimals: picoseconds, exactly.
std::string microseconds(Picoseconds t) {
  char text[40];
  const bool negative = t.value < 0;
  const std::uint64_t size =
      negative ? 0 - static_cast<std::uint64_t>(t.value) : static_cast<std::uint64_t>(t.value);
  std::snprintf(text, sizeof text, "%s%llu.%06llu", negative ? "-" : "",
                static_cast<unsigned long long>(size / 1000000),
                static_cast<unsigned long long>(size % 1000000));
  return text;
}

std::string hexadecimal(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

void write_metadata(const Trace& trace, std::string& out) {
  std::set<std::pair<int, int>> threads;
  for (const TraceEvent& e : trace.events) threads.emplace(e.rank, static_cast<int>(e.stream));
  int named = -1;
  for (const auto& [rank, stream] : threads) {
    const std::string pid = std::to_string(rank);
    if (rank != named) {
      out += R"({"ph":"M","name":"process_name","pid":)" + pid + R"(,"args":{"name":"rank )" + pid +
             "\"}},\n";
      named = rank;
    }
    out += R"({"ph":"M","name":"thread_name","pid":)" + pid + R"(,"tid":)" +
           std::to_string(stream) + R"(,"args":{"name":")" +
           std::string(name_of(static_cast<Stream>(stream))) + "\"}},\n";
  }
}

void write_event(const TraceEvent& e, const std::string& name, std::string& out) {
  const bool asynchronous = e.stream != Stream::kCompute;
  out += R"({"ph":"X","name":)" + quoted(name) + R"(,"cat":")" + std::string(name_of(e.stream)) +
         R"(","pid":)" + std::to_string(e.rank) + R"(,"tid":)" +
         std::to_string(static_cast<int>(e.stream)) + R"(,"ts":)" + microseconds(e.start) +
         R"(,"dur":)" + microseconds(e.end - e.start) + R"(,"args":{"key":")" +
         hexadecimal(e.key.packed) + R"(","step":)" + std::to_string(e.step);
  if (e.bytes.value != 0) out += R"(,"bytes":)" + std::to_string(e.bytes.value);
  if (e.flop.value != 0.0) out += R"(,"flop":)" + nlohmann::json(e.flop.value).dump();
  if (asynchronous || e.waiting.value != 0) out += R"(,"waiting_us":)" + microseconds(e.waiting);
  if (asynchronous || e.cpu.value != 0) out += R"(,"cpu_us":)" + microseconds(e.cpu);
  out += "}},\n";
}

void write_memory(const MemorySample& m, std::string& out) {
  out += R"({"ph":"C","name":"memory","pid":)" + std::to_string(m.rank) + R"(,"ts":)" +
         microseconds(m.time) + R"(,"args":{"step":)" + std::to_string(m.step) +
         R"(,"parameters_bytes":)" + std::to_string(m.parameters.value) + R"(,"gradients_bytes":)" +
         std::to_string(m.gradients.value) + R"(,"moments_bytes":)" +
         std::to_string(m.moments.value) + R"(,"activations_bytes":)" +
         std::to_string(m.activations.value) + R"(,"buffers_bytes":)" +
         std::to_string(m.buffers.value) + "}},\n";
}

std::string own_section(const TraceFile& file) {
  const Trace& trace = file.trace;
  nlohmann::ordered_json json{{"format", "parplan/trace"}, {"version", 1}};
  json["source"] = trace.source == TraceSource::kPredicted ? "predicted" : "measured";
  json["machine"] = trace.machine;
  if (!trace.device.empty()) json["device"] = trace.device;
  json["ranks"] = trace.ranks;
  if (trace.threads_per_rank != 1) json["threads_per_rank"] = trace.threads_per_rank;
  json["steps"] = trace.steps;
  json["losses"] = numbers_or_null(trace.losses);
  nlohmann::ordered_json summaries = nlohmann::ordered_json::array();
  for (const RankSummary& s : trace.summaries) {
    summaries.push_back({{"rank", s.rank},
                         {"peak_tensor_bytes", s.peak_tensor_bytes.value},
                         {"peak_process_bytes", s.peak_process_bytes.value}});
  }
  json["summaries"] = std::move(summaries);
  json["plan"] = to_json(file.plan);
  return dump(json);
}

}  // namespace

std::string to_chrome_trace(const TraceFile& file) {
  std::map<std::uint64_t, std::string> names;
  std::string out = "{\"displayTimeUnit\":\"ms\",\n\"traceEvents\":[\n";
  out.reserve(256 * (file.trace.events.size() + file.trace.memory.size()) + 65536);
  write_metadata(file.trace, out);
  for (const TraceEvent& e : file.trace.events) {
    auto& name = names[e.key.packed];
    if (name.empty()) name = to_string(e.key, file.plan.model);
    write_event(e, name, out);
  }
  for (const MemorySample& m : file.trace.memory) write_memory(m, out);
  if (out.ends_with(",\n")) out.erase(out.size() - 2, 1);
  out += "],\n\"parplan\":" + own_section(file) + "}\n";
  return out;
}

void write_trace(const TraceFile& file, const std::filesystem::path& path) {
  write_file_atomically(path, to_chrome_trace(file));
}

}  // namespace parplan::traces
