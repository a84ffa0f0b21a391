#pragma once

#include <cstdint>

#include "sim/core/model.hpp"
#include "sim/core/workload.hpp"

namespace parplan {

/// Rows that a value has per sample.
inline std::int64_t positions_of(const Value& value, const Workload& workload) {
  switch (value.positions) {
    case Positions::kOne:
      return 1;
    case Positions::kSequence:
      return workload.sequence;
    case Positions::kSource:
      return workload.source_sequence;
  }
  return 1;
}

}  // namespace parplan
