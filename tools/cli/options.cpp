#include "tools/cli/options.hpp"

#include <CLI/Option.hpp>
#include <charconv>
#include <cmath>
#include <vector>

#include "sim/core/error.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/nearest.hpp"

namespace parplan::tools {
namespace {

/// "--output" of "-o,--output".
std::string long_name(const std::string& name) { return name.substr(name.rfind(',') + 1); }

[[noreturn]] void fail(const std::string& name, const std::string& text,
                       const std::string& expected) {
  throw InputError(long_name(name) + " " + quoted_name(text) + ": expected " + expected);
}

CLI::Option* add(CLI::App& app, const std::string& name, const std::string& type,
                 const std::function<void(const std::string&)>& set, const std::string& help) {
  return app.add_option_function<std::string>(name, set, help)->type_name(type);
}

std::string integer_text(IntegerRange range) {
  return "an integer between " + std::to_string(range.min) + " and " + std::to_string(range.max);
}

double parse_number(const std::string& name, const std::string& text, NumberRange range) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool low_enough = value <= range.max;
  const bool high_enough = range.above_min ? value > range.min : value >= range.min;
  const bool is_number = error == std::errc{} && stop == end && std::isfinite(value);
  if (!is_number || !low_enough || !high_enough) fail(name, text, to_string(range));
  return value;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text, IntegerRange range) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  if (value < range.min || value > range.max) return std::nullopt;
  return value;
}

CLI::Option* add_text(CLI::App& app, const std::string& name, std::string& value,
                      const std::string& help) {
  const auto set = [&value, name](const std::string& text) {
    if (text.empty()) fail(name, text, "text that is not empty");
    value = text;
  };
  return add(app, name, "TEXT", set, help)->default_str(value);
}

CLI::Option* add_integer(CLI::App& app, const std::string& name,
                         const std::function<void(std::int64_t)>& set,
                         std::optional<std::int64_t> shown, IntegerRange range,
                         const std::string& help) {
  const auto parse = [set, range, name](const std::string& text) {
    const auto value = parse_integer(text, range);
    if (!value) fail(name, text, integer_text(range));
    set(*value);
  };
  CLI::Option* option = add(app, name, "INT", parse, help);
  if (shown && *shown >= range.min && *shown <= range.max) {
    option->default_str(std::to_string(*shown));
  }
  return option;
}

CLI::Option* add_number(CLI::App& app, const std::string& name, double& value, NumberRange range,
                        const std::string& help) {
  const auto parse = [&value, range, name](const std::string& text) {
    value = parse_number(name, text, range);
  };
  return add(app, name, "NUMBER", parse, help)->default_str(shortest_text(value));
}

CLI::Option* add_number(CLI::App& app, const std::string& name, std::optional<double>& value,
                        NumberRange range, const std::string& help) {
  const auto parse = [&value, range, name](const std::string& text) {
    value = parse_number(name, text, range);
  };
  return add(app, name, "NUMBER", parse, help);
}

namespace {

/// `value`: a string or an optional one.
template <class Text>
CLI::Option* add_word(CLI::App& app, const std::string& name, Text& value,
                      std::initializer_list<std::string_view> words, const std::string& help) {
  const std::vector<std::string_view> known(words);
  std::string list;
  for (const std::string_view word : known) list += (list.empty() ? "" : ", ") + std::string(word);
  const auto parse = [&value, name, known, list](const std::string& text) {
    for (const std::string_view word : known) {
      if (word != text) continue;
      value = text;
      return;
    }
    fail(name, text, (known.size() > 1 ? "one of " : "") + list + did_you_mean(text, known));
  };
  return add(app, name, "{" + list + "}", parse, help);
}

}  // namespace

CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& value,
                        std::initializer_list<std::string_view> words, const std::string& help) {
  return add_word(app, name, value, words, help)->default_str(value);
}

CLI::Option* add_choice(CLI::App& app, const std::string& name, std::optional<std::string>& value,
                        std::initializer_list<std::string_view> words, const std::string& help) {
  return add_word(app, name, value, words, help);
}

}  // namespace parplan::tools
