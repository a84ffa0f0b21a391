#pragma once

#include <cstdint>

#include "sim/core/cluster.hpp"
#include "sim/core/layout.hpp"

namespace parplan::sim {

/// Which nodes a group of ranks spans. Ranks lie on nodes by their number, `devices_per_node` on
/// each.
enum class Span : std::uint8_t { kOneNode, kSeveralNodes };

/// Of the ranks that differ from rank_of(position, 0, 0) in the tensor or the data axis alone.
Span span_of_tensor_group(const Layout& layout, const Cluster& cluster);
Span span_of_data_group(const Layout& layout, const Cluster& cluster);
/// Of two positions' ranks (a, 0, 0) and (b, 0, 0).
Span span_of_positions(const Layout& layout, const Cluster& cluster, int a, int b);

}  // namespace parplan::sim
