#include "sim/core/workload.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/core/error.hpp"

namespace parplan {

void check_workload(const Workload& w) {
  const std::int64_t sequence = std::max({w.sequence, w.source_sequence, std::int64_t{1}});
  if (w.global_batch > kMostPositions / sequence) {
    throw InputError(
        "a step of " + std::to_string(w.global_batch) + " samples of " + std::to_string(sequence) +
        " positions is larger than the " + std::to_string(kMostPositions) +
        " positions that can be planned; make the global batch or the sequence smaller");
  }
  if (w.data.samples > kMostPositions) {
    throw InputError("a data set of " + std::to_string(w.data.samples) +
                     " samples is larger than the " + std::to_string(kMostPositions) +
                     " that can be planned");
  }
  for (const double number : {w.optimizer.learning_rate, w.optimizer.weight_decay}) {
    if (!std::isfinite(number)) {
      throw InputError("learning rate and weight decay must be finite numbers");
    }
  }
}

}  // namespace parplan
