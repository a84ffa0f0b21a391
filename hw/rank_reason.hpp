#pragma once

#include <string>
#include <string_view>

namespace parplan::hw {

/// "rank 2: reason"; a reason that begins with that rank's name stays as it is.
[[nodiscard]] std::string with_rank(int rank, std::string_view reason);

}  // namespace parplan::hw
