#include "traces/intervals.hpp"

#include <algorithm>
#include <cstddef>

namespace parplan::traces {

Intervals joined(Intervals each) {
  std::sort(each.begin(), each.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Intervals result;
  for (const Interval& i : each) {
    if (i.end <= i.begin) continue;
    if (result.empty() || i.begin > result.back().end) {
      result.push_back(i);
    } else {
      result.back().end = std::max(result.back().end, i.end);
    }
  }
  return result;
}

Seconds length_of(const Intervals& joined) {
  Picoseconds sum;
  for (const Interval& i : joined) sum += i.end - i.begin;
  return to_seconds(sum);
}

Seconds common(const Intervals& a, const Intervals& b) {
  Picoseconds sum;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    const Picoseconds begin = std::max(a[i].begin, b[j].begin);
    const Picoseconds end = std::min(a[i].end, b[j].end);
    if (end > begin) sum += end - begin;
    ++(a[i].end < b[j].end ? i : j);
  }
  return to_seconds(sum);
}

}  // namespace parplan::traces
