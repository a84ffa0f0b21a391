#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace parplan::tools {

/// Runs `dot -Tsvg` on DOT text and gives the <svg> element, without XML prolog and namespaces,
/// ready to stand in an HTML page. Nothing when the program is missing, fails, gives no SVG or
/// takes longer than `limit` (it is killed then).
std::optional<std::string> run_dot(const std::filesystem::path& dot, const std::string& text,
                                   std::chrono::milliseconds limit = std::chrono::seconds(20));

}  // namespace parplan::tools
