#pragma once

#include <string>

#include "sim/core/units.hpp"

namespace parplan::tools {

/// "12.3 ms", three significant digits with the unit that keeps the number readable.
std::string text_of(Seconds time);
/// "1.50 GiB".
std::string text_of(Bytes size);
/// "43.9 M" for counts.
std::string text_of_count(double count);
/// "151 GFLOP/s", decimal prefixes.
std::string text_of_rate(double per_second, const char* unit);
/// "1.03x", three significant digits.
std::string text_of_factor(double factor);
/// "+3.1 %".
std::string text_of_percent(double share, bool sign = false);

}  // namespace parplan::tools
