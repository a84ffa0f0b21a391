#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace parplan {

/// Arrays and objects inside one another; more is refused, so that no file exhausts the stack.
inline constexpr std::size_t kMaxJsonDepth = 200;

/// What some editors put in front of UTF-8 text, and the white space of JSON.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
inline constexpr std::string_view kJsonSpace = " \t\n\r";

/// A way from the root of a document: member names and array indices.
using JsonPath = std::vector<std::variant<std::string, std::size_t>>;

/// `text` as a JSON string with its quotes; bytes that are not UTF-8 show as U+FFFD. For messages.
[[nodiscard]] std::string quoted_text(std::string_view text);

/// Whether all of `text` is well-formed UTF-8, as strings in files must be.
[[nodiscard]] bool is_utf8(std::string_view text);

/// "$.layers[3].heads"; names that are no identifiers are shown as $["my name"].
[[nodiscard]] std::string path_text(const JsonPath& path);

/// Where a value stands, in bytes from the beginning of the text.
struct JsonSpan {
  std::size_t key = 0;    ///< its member name's opening quote; equals `begin` without a name
  std::size_t begin = 0;  ///< its first byte
  std::size_t end = 0;    ///< one past its last byte
};

/// Finds the value at `path` in a text that is valid JSON and has that path. Scans from the
/// beginning: for error messages only.
[[nodiscard]] JsonSpan locate(std::string_view text, const JsonPath& path);

/// The first thing that keeps a text from being strict JSON.
struct JsonFault {
  std::size_t offset = 0;  ///< bytes from the beginning of the text
  std::string message;     ///< "expected ',' or '}' after the value of 'tp', found '12'"
};

/// The first violation of RFC 8259 or of our own rules (no name twice in one object, at most
/// kMaxJsonDepth levels, numbers within the range of a double); nothing if there is none.
[[nodiscard]] std::optional<JsonFault> find_fault(std::string_view text);

/// Both from 1; a column is a code point, not a byte. An offset past the end is the end.
struct TextPosition {
  std::size_t line = 1;
  std::size_t column = 1;
};
[[nodiscard]] TextPosition position_of(std::string_view text, std::size_t offset);

/// "plan.json:3:17: expected ..." for a fault of the text with this name.
[[nodiscard]] std::string located(std::string_view name, std::string_view text,
                                  const JsonFault& fault);

}  // namespace parplan
