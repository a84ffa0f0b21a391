#pragma once

#include <vector>

#include "sim/core/units.hpp"

namespace parplan::traces {

struct Interval {
  Picoseconds begin;
  Picoseconds end;
};
using Intervals = std::vector<Interval>;

/// In time order, those that overlap or touch made one, empty ones left out.
Intervals joined(Intervals each);

Seconds length_of(const Intervals& joined);

/// How long both go on; both joined.
Seconds common(const Intervals& a, const Intervals& b);

}  // namespace parplan::traces
