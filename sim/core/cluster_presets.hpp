#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "sim/core/cluster.hpp"

namespace parplan {

/// A cluster described by data-sheet peaks, for planning before a machine file was measured.
struct ClusterPreset {
  std::string_view name;
  std::string_view summary;
};
std::span<const ClusterPreset> cluster_presets();
/// None when no preset has that name. `nodes` replaces the preset's single node.
std::optional<Cluster> make_cluster_preset(std::string_view name, int nodes = 1);

}  // namespace parplan
