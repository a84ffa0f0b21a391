#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "sim/core/plan.hpp"
#include "sim/core/trace.hpp"

namespace parplan::traces {

/// A trace with what is needed to read it alone: the plan that was simulated or run.
struct TraceFile {
  Trace trace;
  Plan plan;
};

/// Chrome trace JSON that Perfetto and chrome://tracing open (docs/formats/trace.md): one process
/// per rank, one thread per stream, memory as counters; our fields in "args", everything else under
/// "parplan". Times are in microseconds with a fraction, so that picoseconds survive.
std::string to_chrome_trace(const TraceFile& file);
void write_trace(const TraceFile& file, const std::filesystem::path& path);

/// Reads what `to_chrome_trace` wrote. Throws InputError that names the file and, where it can,
/// the event; traces of other programs are refused with what is missing, and those that contradict
/// themselves (trace_check.hpp).
TraceFile load_trace(const std::filesystem::path& path);
TraceFile parse_trace(const std::string& name, const std::string& text);

}  // namespace parplan::traces
