#pragma once

#include <vector>

namespace parplan::traces {

/// Of the sorted values the one nearest to `share` of the way from the first to the last. 0 of
/// nothing.
double quantile(std::vector<double> values, double share);

/// 0 of nothing.
double mean_of(const std::vector<double>& values);

/// (p90 - p10) / `middle`; 0 when that is not positive.
double relative_spread(const std::vector<double>& values, double middle);

double median_of(std::vector<double> values);

}  // namespace parplan::traces
