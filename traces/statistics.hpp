#pragma once

#include <vector>

namespace parplan::traces {

/// The smallest value that at least `share` of the others do not exceed, give or take one. 0 of
/// nothing.
double quantile(std::vector<double> values, double share);

/// Mean of the values up to the 90th percentile. Costs add up along a step, so the mean is wanted,
/// not the median; the slowest tenth is left to disturbances. 0 of nothing.
double trimmed_mean(std::vector<double> values);

/// (p90 - p10) / `middle`; 0 when that is not positive.
double relative_spread(const std::vector<double>& values, double middle);

double median_of(std::vector<double> values);

}  // namespace parplan::traces
