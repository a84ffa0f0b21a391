#include "traces/step_times.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "traces/statistics.hpp"

namespace parplan::traces {

StepTimes step_times(const Trace& trace) {
  StepTimes slowest;
  for (const TraceEvent& e : trace.events) {
    if (e.key.phase() != Phase::kStep) continue;
    Seconds& time = slowest[e.step];
    time = std::max(time, to_seconds(e.end - e.start));
  }
  return slowest;
}

StepTimes without_warm_up(StepTimes times) {
  constexpr std::size_t kFewest = 3;
  if (times.size() >= kFewest) times.erase(0);
  return times;
}

Seconds median_step(const StepTimes& times) {
  std::vector<double> values;
  for (const auto& [step, time] : times) values.push_back(time.value);
  return Seconds{median_of(std::move(values))};
}

Seconds step_time_of(const Trace& trace) { return median_step(without_warm_up(step_times(trace))); }

std::set<std::int32_t> typical_steps(const Trace& trace) {
  std::vector<std::pair<Seconds, std::int32_t>> by_time;
  for (const auto& [step, time] : without_warm_up(step_times(trace))) {
    by_time.emplace_back(time, step);
  }
  std::sort(by_time.begin(), by_time.end());
  const std::size_t quarter = by_time.size() / 4;
  std::set<std::int32_t> typical;
  for (std::size_t i = quarter; i < by_time.size() - quarter; ++i) {
    typical.insert(by_time[i].second);
  }
  return typical;
}

}  // namespace parplan::traces
