#include "traces/core_share.hpp"

#include <algorithm>
#include <utility>

#include "sim/node_span.hpp"

namespace parplan::traces {
namespace {

/// What a transfer needs of the core of the rank whose event it is.
Seconds core_time_of(const TraceEvent& e, const Layout& layout, const sim::CostModel& costs) {
  const Cluster& cluster = costs.cluster();
  if (e.key.phase() == Phase::kReduceGradients) {
    return costs
        .collective(CollectiveKind::kAllReduce, layout.dp, e.bytes,
                    sim::span_of_data_group(layout, cluster), sim::Waits::kLater)
        .cpu;
  }
  const sim::Span span = sim::span_of_positions(layout, cluster, 0, layout.positions() - 1);
  if (e.key.phase() == Phase::kReduceTied) {  // between the first and the last position
    return costs.collective(CollectiveKind::kAllReduce, 2, e.bytes, span).cpu;
  }
  if (e.key.phase() == Phase::kReduceNorm) {
    const int ranks = layout.tp * layout.positions();
    return costs.collective(CollectiveKind::kAllReduce, ranks, e.bytes, span).cpu;
  }
  const sim::TransferCost cost = costs.point_to_point(e.bytes, span);
  const bool sends =
      e.key.phase() == Phase::kSendActivation || e.key.phase() == Phase::kSendGradient;
  return sends ? cost.sender_cpu : cost.cpu;
}

/// The first period that ends after `time`.
template <class Periods>
auto first_after(Periods& periods, Picoseconds time) {
  return std::partition_point(periods.begin(), periods.end(),
                              [time](const auto& p) { return p.time.end <= time; });
}

}  // namespace

double CoreShare::Period::share() const {
  return std::min(kMost, cpu_s / std::max(to_seconds(time.end - time.begin).value, 1e-12));
}

CoreShare::CoreShare(const TraceFile& file, const Program& program, const sim::CostModel& costs) {
  const auto moves = [](const TraceEvent& e) {
    return e.stream != Stream::kCompute && e.bytes.value > 0 && e.end > e.start + e.waiting;
  };
  std::map<std::int32_t, Intervals> under_way;
  for (const TraceEvent& e : file.trace.events) {
    if (moves(e)) under_way[e.rank].push_back({e.start + e.waiting, e.end});
  }
  for (auto& [rank, each] : under_way) {
    for (const Interval& time : joined(std::move(each))) periods_[rank].push_back({time});
  }
  for (const TraceEvent& e : file.trace.events) {
    if (!moves(e)) continue;
    first_after(periods_[e.rank], e.start + e.waiting)->cpu_s +=
        core_time_of(e, program.layout, costs).value;
  }
}

double CoreShare::taken(std::int32_t rank, Picoseconds start, Picoseconds end) const {
  const auto found = periods_.find(rank);
  if (found == periods_.end() || end <= start) return 0.0;
  double taken_s = 0.0;
  for (auto p = first_after(found->second, start); p != found->second.end() && p->time.begin < end;
       ++p) {
    const Picoseconds both = std::min(end, p->time.end) - std::max(start, p->time.begin);
    taken_s += p->share() * to_seconds(both).value;
  }
  return taken_s / to_seconds(end - start).value;
}

}  // namespace parplan::traces
