#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace parplan {

/// Pieces of messages for people, of bounded length whatever the input was. What could steer a
/// terminal is written out where messages are printed (tools/printable_text.hpp).

/// `text`, at most `most_bytes` of it, cut between code points and then ended by "...".
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most_bytes);

/// A name from a file or a command line: in single quotes, at most 80 bytes of it.
[[nodiscard]] std::string quoted_name(std::string_view name);

/// "a; b; and 3 more": the first `most` of the items, and how many others there are.
[[nodiscard]] std::string first_of(std::span<const std::string> items, std::size_t most,
                                   std::string_view separator = "; ");

/// The shortest decimal that reads back as the same number: "0.1", "1e+300"; "nan", "inf", "-inf".
[[nodiscard]] std::string shortest_text(double number);

}  // namespace parplan
