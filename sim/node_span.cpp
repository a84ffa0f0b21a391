#include "sim/node_span.hpp"

#include <algorithm>

#include "sim/core/program.hpp"

namespace parplan::sim {
namespace {

int node_of(int rank, const Cluster& cluster) {
  return rank / std::max(1, cluster.devices_per_node);
}

Span span_of_ranks(int first, int last, const Cluster& cluster) {
  return node_of(first, cluster) == node_of(last, cluster) ? Span::kOneNode : Span::kSeveralNodes;
}

}  // namespace

Span span_of_tensor_group(const Layout& layout, const Cluster& cluster) {
  return span_of_ranks(0, layout.tp - 1, cluster);
}

Span span_of_data_group(const Layout& layout, const Cluster& cluster) {
  return span_of_ranks(0, rank_of({0, layout.dp - 1, 0}, layout), cluster);
}

Span span_of_positions(const Layout& layout, const Cluster& cluster, int a, int b) {
  return span_of_ranks(rank_of({a, 0, 0}, layout), rank_of({b, 0, 0}, layout), cluster);
}

}  // namespace parplan::sim
