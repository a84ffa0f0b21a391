#pragma once

#include <string>

#include "sim/core/plan.hpp"

namespace parplan::tools {

/// The plan in Graphviz' DOT language: a cluster per stage or device with its ranks, parameters and
/// collectives, a node per layer (three or more equal neighbours are one node), an edge per use of
/// a value; between clusters it says what is sent, how many bytes and how often per step and
/// replica. Nodes, edges and clusters carry classes (layer, group, transfer, tied, position) for
/// style sheets. Throws InputError when the layout is broken (see `lower`).
std::string plan_dot(const Plan& plan);

}  // namespace parplan::tools
