#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace parplan {

/// The text that parses to exactly `value`: two spaces of indentation, arrays of scalars on one
/// line while they fit, members in the order they have, doubles with the fewest digits that give
/// the same bits (and a '.' or 'e', so that they stay doubles), a line break at the end. Equal
/// values give equal bytes.
/// Throws InternalError that names the path of a number that is not finite, a string that is not
/// UTF-8, or more than kMaxJsonDepth levels: JSON has no form for them, so the writer must not
/// make them.
[[nodiscard]] std::string dump(const nlohmann::ordered_json& value);

/// The numbers, with null for those that are not finite: JSON has no word for them. For results
/// that may get lost on the way, such as the losses of a run that diverged.
[[nodiscard]] nlohmann::ordered_json numbers_or_null(const std::vector<double>& numbers);

}  // namespace parplan
