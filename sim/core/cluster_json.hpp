#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/core/cluster.hpp"
#include "sim/core/json_document.hpp"

namespace parplan {

/// A machine file: docs/formats/machine.md.
nlohmann::ordered_json to_json(const Cluster& cluster);
Cluster read_cluster(const JsonDocument& document);
Cluster load_cluster(const std::filesystem::path& path);

/// Changes when anything of the machine file does.
std::string digest_of(const Cluster& cluster);

}  // namespace parplan
