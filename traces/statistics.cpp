#include "traces/statistics.hpp"

#include <algorithm>
#include <cstddef>

namespace parplan::traces {

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

double trimmed_mean(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const std::size_t kept = std::max<std::size_t>(1, (values.size() * 9 + 9) / 10);
  double sum = 0.0;
  for (std::size_t i = 0; i < kept; ++i) sum += values[i];
  return sum / static_cast<double>(kept);
}

double relative_spread(const std::vector<double>& values, double middle) {
  return middle > 0.0 ? (quantile(values, 0.9) - quantile(values, 0.1)) / middle : 0.0;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2.0;
}

}  // namespace parplan::traces
