// The strict reading of JSON that names what it expected. It runs when a parse has failed, so that
// it is written for the message and not for speed.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/core/json_scanner.hpp"
#include "sim/core/message_text.hpp"

namespace parplan {
namespace {

constexpr std::string_view kDelimiters = " \t\n\r,:{}[]\"";
constexpr std::size_t kShownBytes = 24;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// Length of the well-formed UTF-8 sequence at the front of `text`, 0 if it is ill-formed
/// (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto between = [&](std::size_t i, unsigned low, unsigned high) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (between(0, 0xC2, 0xDF)) return between(1, 0x80, 0xBF) ? 2 : 0;
  if (between(0, 0xE0, 0xEF)) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return between(1, low, high) && between(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (between(0, 0xF0, 0xF4)) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    const bool tail = between(2, 0x80, 0xBF) && between(3, 0x80, 0xBF);
    return between(1, low, high) && tail ? 4 : 0;
  }
  return 0;
}

std::string hex(unsigned value, std::size_t digits) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text(digits, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, value /= 16) {
    *digit = kDigits[value % 16];
  }
  return text;
}

std::string control_character(unsigned value) { return "the control character U+" + hex(value, 4); }
std::string bare_byte(unsigned value) { return "the byte 0x" + hex(value, 2); }

class FaultFinder {
 public:
  explicit FaultFinder(std::string_view text) : text_(text) {}

  void run() {
    if (text_.starts_with(kByteOrderMark)) position_ = kByteOrderMark.size();
    skip_space();
    if (at_end()) fail(position_, "the file is empty, a JSON value is expected");
    value(0, "expected a value");
    skip_space();
    if (!at_end()) fail_here("expected the end of the file after the document");
  }

 private:
  [[nodiscard]] bool at_end() const { return position_ >= text_.size(); }
  [[nodiscard]] bool next_is(char c) const { return !at_end() && text_[position_] == c; }
  [[nodiscard]] bool next_is_digit() const { return !at_end() && is_digit(text_[position_]); }
  bool accept(char c) {
    if (!next_is(c)) return false;
    ++position_;
    return true;
  }
  void skip_space() {
    position_ = std::min(text_.find_first_not_of(kJsonSpace, position_), text_.size());
  }

  [[noreturn]] static void fail(std::size_t offset, std::string message) {
    throw JsonFault{offset, std::move(message)};
  }
  [[noreturn]] void fail_here(const std::string& expected) const {
    std::string message = expected + ", found " + found();
    if (next_is('/') || next_is('#')) message += "; JSON has no comments";
    if (next_is('\'')) message += "; JSON strings stand in double quotes";
    fail(position_, std::move(message));
  }

  /// What stands here, for people: a word or number, a mark, or a byte that cannot be shown.
  [[nodiscard]] std::string found() const {
    if (at_end()) return "the end of the file";
    const std::string_view rest = text_.substr(position_);
    const auto byte = static_cast<unsigned char>(rest.front());
    if (byte == '\n' || byte == '\r') return "the end of the line";
    if (byte == ' ' || byte == '\t') return "a space";
    if (byte < 0x20 || byte == 0x7F) return control_character(byte);
    if (utf8_length(rest) == 0) return bare_byte(byte);
    if (byte == '"') return "a string";
    if (kDelimiters.find(rest.front()) != std::string_view::npos) {
      return "'" + std::string(1, rest.front()) + "'";
    }
    std::size_t length = utf8_length(rest);
    while (length < rest.size() && length <= kShownBytes && shown(rest, length)) {
      length += utf8_length(rest.substr(length));
    }
    return "'" + shortened(rest.substr(0, length), kShownBytes) + "'";
  }
  static bool shown(std::string_view rest, std::size_t at) {
    const auto byte = static_cast<unsigned char>(rest[at]);
    return byte > 0x20 && byte != 0x7F && kDelimiters.find(rest[at]) == std::string_view::npos &&
           utf8_length(rest.substr(at)) > 0;
  }

  void value(std::size_t depth, const std::string& expected) {
    if (next_is('{') || next_is('[')) {
      if (depth == kMaxJsonDepth) {
        fail(position_, "arrays and objects are nested more than " + std::to_string(kMaxJsonDepth) +
                            " levels deep");
      }
      next_is('{') ? object(depth + 1) : array(depth + 1);
    } else if (next_is('"')) {
      static_cast<void>(string());
    } else if (next_is('-') || next_is_digit()) {
      number();
    } else {
      literal(expected);
    }
  }

  void literal(const std::string& expected) {
    const std::size_t end = std::min(text_.find_first_of(kDelimiters, position_), text_.size());
    const std::string_view word = text_.substr(position_, end - position_);
    for (const std::string_view known : {"true", "false", "null"}) {
      if (word == known) {
        position_ = end;
        return;
      }
    }
    if (word == "NaN" || word == "nan" || word == "Infinity" || word == "inf") fail_not_a_number();
    if (word == "True" || word == "False" || word == "None") {
      fail_here(expected + " (JSON writes true, false and null)");
    }
    fail_here(expected);
  }
  [[noreturn]] void fail_not_a_number() const {
    fail(position_, "expected a finite number, found " + found() + " which JSON does not have");
  }

  void number() {
    const std::size_t begin = position_;
    const bool negative = accept('-');
    if (negative && (next_is('I') || next_is('i') || next_is('N') || next_is('n'))) {
      position_ = begin;
      fail_not_a_number();
    }
    if (accept('0')) {
      if (next_is_digit()) {
        position_ = begin;
        fail_here("expected a number without leading zeros");
      }
    } else {
      skip_digits("expected a digit after '-'");
    }
    if (accept('.')) skip_digits("expected a digit after the decimal point");
    if (accept('e') || accept('E')) {
      if (!accept('+')) accept('-');
      skip_digits("expected a digit in the exponent");
    }
    // A number too small for a double reads as 0 and is no fault.
    const std::string digits(text_.substr(begin, position_ - begin));
    if (!std::isfinite(std::strtod(digits.c_str(), nullptr))) {
      fail(begin,
           "the number " + shortened(digits, kShownBytes) + " is too large for a 64-bit float");
    }
  }
  void skip_digits(const char* expected) {
    if (!next_is_digit()) fail_here(expected);
    while (next_is_digit()) ++position_;
  }

  /// Returns the text that the string stands for.
  std::string string() {
    const std::size_t begin = position_++;
    while (!next_is('"')) {
      if (at_end())
        fail(begin, "expected '\"' at the end of this string, found the end of the file");
      const auto byte = static_cast<unsigned char>(text_[position_]);
      const std::size_t length = utf8_length(text_.substr(position_));
      if (byte == '\n' || byte == '\r') {
        fail(begin, "expected '\"' at the end of this string, found the end of the line");
      }
      if (byte < 0x20) {
        fail(position_, control_character(byte) + " must be escaped in a string");
      }
      if (length == 0) fail(position_, bare_byte(byte) + " is not valid UTF-8");
      position_ += length;
      if (byte == '\\') escape(position_ - 1);
    }
    ++position_;
    return nlohmann::json::parse(text_.substr(begin, position_ - begin)).get<std::string>();
  }
  void escape(std::size_t begin) {
    if (at_end()) return;
    const char c = text_[position_];
    if (c == 'u') {
      ++position_;
      const unsigned unit = hex_unit(begin);
      if (unit >= 0xDC00 && unit <= 0xDFFF) fail_surrogate(begin);
      if (unit >= 0xD800 && unit <= 0xDBFF) {
        if (!accept('\\') || !accept('u')) fail_surrogate(begin);
        const unsigned low = hex_unit(begin + 6);
        if (low < 0xDC00 || low > 0xDFFF) fail_surrogate(begin);
      }
    } else if (std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos) {
      ++position_;
    } else {
      fail(begin,
           "expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u after a backslash, found " +
               found());
    }
  }
  [[noreturn]] static void fail_surrogate(std::size_t begin) {
    fail(begin, "expected a pair of \\u escapes (a high, then a low surrogate), found half of one");
  }
  unsigned hex_unit(std::size_t begin) {
    const std::string_view four = text_.substr(position_, 4);
    for (const char c : four) {
      if (!is_hex_digit(c)) fail(begin, "expected four hexadecimal digits after \\u");
    }
    if (four.size() < 4) fail(begin, "expected four hexadecimal digits after \\u");
    unsigned unit = 0;
    std::from_chars(four.data(), four.data() + four.size(), unit, 16);
    position_ += 4;
    return unit;
  }

  void array(std::size_t depth) {
    const std::size_t begin = position_++;
    skip_space();
    if (accept(']')) return;
    value(depth, "expected a value or ']'");
    for (;;) {
      skip_space();
      if (accept(']')) return;
      if (!accept(',')) fail_here("expected ',' or ']' in the array" + opened(begin));
      skip_space();
      value(depth, "expected a value after ','");
    }
  }

  void object(std::size_t depth) {
    const std::size_t begin = position_++;
    std::map<std::string, std::size_t> names;
    skip_space();
    if (accept('}')) return;
    if (!next_is('"')) fail_here("expected a key in double quotes or '}'");
    member(depth, names);
    for (;;) {
      skip_space();
      if (accept('}')) return;
      if (!accept(',')) fail_here("expected ',' or '}' in the object" + opened(begin));
      skip_space();
      if (!next_is('"')) fail_here("expected a key in double quotes after ','");
      member(depth, names);
    }
  }
  void member(std::size_t depth, std::map<std::string, std::size_t>& names) {
    const std::size_t begin = position_;
    const std::string name = string();
    const std::string shown_name = shortened(quoted_text(name), kShownBytes);
    const auto [earlier, is_new] = names.emplace(name, begin);
    if (!is_new) {
      fail(begin, "the key " + shown_name + " is in this object twice, first at line " +
                      std::to_string(position_of(text_, earlier->second).line));
    }
    skip_space();
    if (!accept(':')) fail_here("expected ':' after the key " + shown_name);
    skip_space();
    value(depth, "expected the value of " + shown_name);
  }
  [[nodiscard]] std::string opened(std::size_t begin) const {
    return " opened at line " + std::to_string(position_of(text_, begin).line);
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::optional<JsonFault> find_fault(std::string_view text) {
  try {
    FaultFinder(text).run();
  } catch (const JsonFault& fault) {
    return fault;
  }
  return std::nullopt;
}

}  // namespace parplan
