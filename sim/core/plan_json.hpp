#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/core/json_reader.hpp"
#include "sim/core/plan.hpp"

namespace parplan {

/// A plan file: docs/formats/plan.md.
nlohmann::ordered_json to_json(const Plan& plan);
Plan read_plan(const JsonDocument& document);
Plan load_plan(const std::filesystem::path& path);

nlohmann::ordered_json to_json(const Workload& workload);
Workload read_workload(JsonReader& reader);

/// 16 hexadecimal digits that change when anything of the plan but its expectation and cluster
/// does.
std::string digest_of(const Plan& plan);

/// FNV-1a over bytes, as 16 hexadecimal digits.
std::string digest_of_text(std::string_view text);

}  // namespace parplan
