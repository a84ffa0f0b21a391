#include "traces/core_share.hpp"

#include <algorithm>

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
  const sim::TransferCost cost = costs.point_to_point(e.bytes, span);
  const bool sends =
      e.key.phase() == Phase::kSendActivation || e.key.phase() == Phase::kSendGradient;
  return sends ? cost.sender_cpu : cost.cpu;
}

}  // namespace

double CoreShare::Period::share() const {
  return std::min(kMost, cpu_s / std::max(to_seconds(end - begin).value, 1e-12));
}

CoreShare::CoreShare(const TraceFile& file, const Program& program, const sim::CostModel& costs) {
  std::map<std::int32_t, std::vector<Period>> transfers;
  for (const TraceEvent& e : file.trace.events) {
    if (e.stream == Stream::kCompute || e.bytes.value <= 0 || e.end <= e.start + e.waiting)
      continue;
    transfers[e.rank].push_back(
        {e.start + e.waiting, e.end, core_time_of(e, program.layout, costs).value});
  }
  for (auto& [rank, each] : transfers) {
    std::sort(each.begin(), each.end(),
              [](const Period& a, const Period& b) { return a.begin < b.begin; });
    std::vector<Period>& periods = periods_[rank];
    for (const Period& p : each) {
      if (periods.empty() || p.begin > periods.back().end) {
        periods.push_back(p);
      } else {
        periods.back().end = std::max(periods.back().end, p.end);
        periods.back().cpu_s += p.cpu_s;
      }
    }
  }
}

double CoreShare::taken(std::int32_t rank, Picoseconds start, Picoseconds end) const {
  const auto found = periods_.find(rank);
  if (found == periods_.end() || end <= start) return 0.0;
  double taken_s = 0.0;
  auto p = std::partition_point(found->second.begin(), found->second.end(),
                                [start](const Period& q) { return q.end <= start; });
  for (; p != found->second.end() && p->begin < end; ++p) {
    taken_s += p->share() * to_seconds(std::min(end, p->end) - std::max(start, p->begin)).value;
  }
  return taken_s / to_seconds(end - start).value;
}

}  // namespace parplan::traces
