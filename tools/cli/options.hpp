#pragma once

#include <CLI/App.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "sim/core/json_reader.hpp"

namespace parplan::tools {

/// Options of every kind but flags. What is given and cannot be is an InputError of one form:
///   --seed '-1': expected an integer between 0 and 9223372036854775807
/// The option library's own conversions differ by version: some clamp, some wrap. A value that the
/// target has at the time of the call is shown as the default.

/// Text that is not empty: a path, a preset, a name.
CLI::Option* add_text(CLI::App& app, const std::string& name, std::string& value,
                      const std::string& help);

struct IntegerRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
};
/// `shown`: the default, if it is of the range.
CLI::Option* add_integer(CLI::App& app, const std::string& name,
                         const std::function<void(std::int64_t)>& set,
                         std::optional<std::int64_t> shown, IntegerRange range,
                         const std::string& help);
template <std::integral T>
CLI::Option* add_integer(CLI::App& app, const std::string& name, T& value, IntegerRange range,
                         const std::string& help) {
  const auto set = [&value](std::int64_t given) { value = static_cast<T>(given); };
  return add_integer(app, name, set, static_cast<std::int64_t>(value), range, help);
}
template <std::integral T>
CLI::Option* add_integer(CLI::App& app, const std::string& name, std::optional<T>& value,
                         IntegerRange range, const std::string& help) {
  const auto set = [&value](std::int64_t given) { value = static_cast<T>(given); };
  return add_integer(app, name, set, std::nullopt, range, help);
}

/// Finite whatever the range.
CLI::Option* add_number(CLI::App& app, const std::string& name, double& value, NumberRange range,
                        const std::string& help);
CLI::Option* add_number(CLI::App& app, const std::string& name, std::optional<double>& value,
                        NumberRange range, const std::string& help);

/// One of a few words.
CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& value,
                        std::initializer_list<std::string_view> words, const std::string& help);
CLI::Option* add_choice(CLI::App& app, const std::string& name, std::optional<std::string>& value,
                        std::initializer_list<std::string_view> words, const std::string& help);

/// `text` as an integer of the range, all of it; nothing when it is none.
std::optional<std::int64_t> parse_integer(std::string_view text, IntegerRange range);

}  // namespace parplan::tools
