#pragma once

#include <string>

#include "traces/trace_file.hpp"

namespace parplan::traces {

/// Throws InputError, beginning with `name`, when a trace contradicts itself: a file that was cut,
/// joined or edited.
/// - Every rank of a measured trace, and the ranks of a predicted one that have any event, have one
///   whole-step event of each of the trace's steps.
/// - Every other event lies within its step of its rank.
/// - A rank computes one thing at a time.
/// - Steps follow one another; the last is that of the last loss, where there are losses.
/// - The ranks' clocks agree: all of them are within a step at once.
/// - All steps of a rank have the same events on the same streams.
/// - No rank has two summaries.
void check_trace(const TraceFile& file, const std::string& name);

}  // namespace parplan::traces
