#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/model.hpp"
#include "sim/core/pipeline_schedule.hpp"
#include "sim/core/workload.hpp"

namespace parplan {

/// More ranks than any training has had by an order of magnitude; also the most devices of a
/// cluster.
inline constexpr int kMostRanks = 1 << 20;
/// Microbatches of a step; keys hold 16 bits of their number.
inline constexpr int kMostMicrobatches = 65535;

/// How ranks divide the work. ranks = dp x tp x (pp or mp).
struct Layout {
  int dp = 1;  ///< replicas
  int tp = 1;  ///< tensor ranks
  int pp = 1;  ///< pipeline stages
  int mp = 1;  ///< model-parallel devices; excludes pp and microbatches
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  int microbatches = 1;  ///< per replica and step; with pp = 1 gradients are accumulated over them
  /// Layers per stage; empty: chosen by `place_layers`. Sums to the model's layers.
  std::vector<int> stage_layers;
  /// Device of every layer for mp; empty: chosen by `place_layers`.
  std::vector<int> layer_devices;

  /// Pipeline stages or model-parallel devices, whichever the layout has.
  int positions() const { return pp > 1 ? pp : mp; }
  /// Stops at the largest int; `check_layout` refuses more than kMostRanks.
  int ranks() const {
    const std::int64_t product = std::int64_t{dp} * tp;
    const std::int64_t most = std::numeric_limits<int>::max();
    return static_cast<int>(product > most / positions() ? most : product * positions());
  }
  bool operator==(const Layout&) const = default;
};

/// "dp=2,pp=2,schedule=1f1b,microbatches=8,stages=5+5" and "mp=2,devices=0+0+1"; spaces may stand
/// beside the commas. Throws InputError that names the item and what would work.
Layout parse_layout(std::string_view text);
/// The inverse of `parse_layout`, with axes of size one left out ("single" when all are).
std::string to_string(const Layout& layout);

/// A reason why a layout cannot be used, and values that could.
struct Refusal {
  std::string reason;
  std::string suggestion;
};
/// Every rule the layout breaks for this model and workload: empty when it is usable.
std::vector<Refusal> check_layout(const Model& model, const Workload& workload,
                                  const Layout& layout);

}  // namespace parplan
