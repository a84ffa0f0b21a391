#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace parplan {

/// The text that parses to exactly `value`: two spaces of indentation, arrays of scalars on one
/// line while they fit, members in the order they have, doubles with the fewest digits that give
/// the same bits (and a '.' or 'e', so that they stay doubles), a line break at the end. Equal
/// values give equal bytes.
/// Throws InternalError that names the path of a number that is not finite, a string that is not
/// UTF-8, or more than kMaxJsonDepth levels: JSON has no form for them, so the writer must not
/// make them.
[[nodiscard]] std::string dump(const nlohmann::ordered_json& value);

}  // namespace parplan
