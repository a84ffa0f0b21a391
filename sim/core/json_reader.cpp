#include "sim/core/json_reader.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/core/error.hpp"
#include "sim/core/json_document.hpp"
#include "sim/core/json_scanner.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/nearest.hpp"

namespace parplan {
namespace {

using nlohmann::json;

constexpr std::size_t kShownValueBytes = 40;

/// Extends `path`, which leads to `from`, to `target` if it lies inside; a value is known by its
/// address.
bool extend_path(const json& from, const json* target, JsonPath& path) {
  if (&from == target) return true;
  if (from.is_object()) {
    for (const auto& [name, member] : from.get_ref<const json::object_t&>()) {
      path.emplace_back(name);
      if (extend_path(member, target, path)) return true;
      path.pop_back();
    }
  } else if (from.is_array()) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      path.emplace_back(i);
      if (extend_path(from[i], target, path)) return true;
      path.pop_back();
    }
  }
  return false;
}

JsonPath path_to(const JsonDocument& document, const json* value) {
  JsonPath path;
  ensure(extend_path(document.root(), value, path), "an element lies in its document");
  return path;
}

/// "plan.json:17: ", the line being that of the key if the path ends in one.
std::string place(const JsonDocument& document, const JsonPath& path) {
  const JsonSpan span = locate(document.text(), path);
  const TextPosition at = position_of(document.text(), span.key);
  return document.name() + ":" + std::to_string(at.line) + ": ";
}

/// Escaped as in JSON, so that no key can play tricks with the terminal.
std::string quoted_key(std::string_view key) {
  const std::string escaped = quoted_text(key);
  return "'" +
         shortened(std::string_view(escaped).substr(1, escaped.size() - 2), kShownValueBytes) + "'";
}

}  // namespace

std::string to_string(const NumberRange& range) {
  const bool has_min = range.above_min || range.min > NumberRange{}.min;
  const bool has_max = range.max < NumberRange{}.max;
  if (has_min && has_max && !range.above_min) {
    return "a number between " + shortest_text(range.min) + " and " + shortest_text(range.max);
  }
  std::string text = "a number";
  if (has_min) text += (range.above_min ? " > " : " >= ") + shortest_text(range.min);
  if (has_max) text += (has_min ? " and <= " : " <= ") + shortest_text(range.max);
  return text;
}

JsonElement::JsonElement(const JsonDocument& document) : JsonElement(document, document.root()) {}

JsonKind JsonElement::kind() const {
  if (value_->is_null()) return JsonKind::kNull;
  if (value_->is_boolean()) return JsonKind::kBoolean;
  if (value_->is_number_integer()) return JsonKind::kInteger;
  if (value_->is_number()) return JsonKind::kNumber;
  if (value_->is_string()) return JsonKind::kString;
  return value_->is_array() ? JsonKind::kArray : JsonKind::kObject;
}

std::string JsonElement::path() const { return path_text(path_to(*document_, value_)); }

void JsonElement::fail(std::string_view message) const {
  const JsonPath path = path_to(*document_, value_);
  throw InputError(place(*document_, path) + path_text(path) + ": " + std::string(message));
}

void JsonElement::fail_expected(std::string_view expectation) const {
  fail("expected " + std::string(expectation) + ", found " + found());
}

std::string JsonElement::found() const {
  if (value_->is_object()) return value_->empty() ? "an empty object" : "an object";
  if (value_->is_array()) return value_->empty() ? "an empty array" : "an array";
  // As it is written, since the value may have lost digits.
  const JsonSpan span = locate(document_->text(), path_to(*document_, value_));
  const auto raw = std::string_view(document_->text()).substr(span.begin, span.end - span.begin);
  return shortened(raw, kShownValueBytes);
}

const std::string& JsonElement::string() const {
  if (!value_->is_string()) fail_expected("a string");
  return value_->get_ref<const std::string&>();
}

bool JsonElement::boolean() const {
  if (!value_->is_boolean()) fail_expected("true or false");
  return value_->get<bool>();
}

double JsonElement::number(NumberRange range) const {
  if (!value_->is_number()) fail_expected(to_string(range));
  const auto number = value_->get<double>();
  const bool low_enough = number <= range.max;
  const bool high_enough = range.above_min ? number > range.min : number >= range.min;
  if (!low_enough || !high_enough) fail_expected(to_string(range));
  return number;
}

std::int64_t JsonElement::checked_integer(IntegerRange range) const {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool fits = value_->is_number_integer() &&
                    !(value_->is_number_unsigned() && value_->get<std::uint64_t>() > kMost);
  if (fits) {
    const auto integer = value_->get<std::int64_t>();
    if (integer >= range.min && integer <= range.max) return integer;
  }
  // A bound that is only where the type ends is named to those who went past it, no others.
  const std::string raw = found();
  const bool is_integer = raw.find_first_not_of("-0123456789") == std::string::npos;
  const bool negative = raw.front() == '-';
  const bool below = is_integer && (fits ? value_->get<std::int64_t>() < range.min : negative);
  const bool above = is_integer && (fits ? value_->get<std::int64_t>() > range.max : !negative);
  const bool show_min = range.min_is_a_rule || below;
  const bool show_max = range.max_is_a_rule || above;
  const std::string min = std::to_string(range.min);
  const std::string max = std::to_string(range.max);
  std::string expectation = "an integer";
  if (show_min && show_max) {
    expectation += " between " + min + " and " + max;
  } else if (show_min) {
    expectation += " >= " + min;
  } else if (show_max) {
    expectation += " <= " + max;
  }
  fail_expected(expectation);
}

void JsonElement::fail_name(std::span<const std::string_view> names) const {
  const std::string one_of = names.size() == 1 ? "" : "one of ";
  fail("expected " + one_of + quoted_list(names) + ", found " + found() +
       did_you_mean(string(), names));
}

std::size_t JsonElement::size() const {
  if (!value_->is_array()) fail_expected("an array");
  return value_->size();
}

JsonElement JsonElement::at(std::size_t index) const {
  ensure(index < size(), "an item is taken from inside the array");
  return {*document_, (*value_)[index]};
}

JsonReader::JsonReader(JsonElement element) : element_(element) {
  if (!element.value_->is_object()) element.fail_expected("an object");
}

std::optional<JsonElement> JsonReader::find(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  const auto member = element_.value_->find(key);
  if (member == element_.value_->end() || member->is_null()) return std::nullopt;
  return JsonElement(*element_.document_, *member);
}

JsonElement JsonReader::require(std::string_view key) {
  static_cast<void>(find(key));
  const auto member = element_.value_->find(key);
  if (member != element_.value_->end()) return {*element_.document_, *member};
  std::vector<std::string_view> others;
  for (const auto& [name, unused] : unread()) others.push_back(*name);
  const auto similar = nearest(key, others);
  const JsonPath path = path_to(*element_.document_, element_.value_);
  throw InputError(place(*element_.document_, path) + "missing key " + quoted_key(key) + " at " +
                   path_text(path) +
                   (similar ? "; it has the similar key " + quoted_key(*similar) : ""));
}

std::optional<std::string> JsonReader::optional_string(std::string_view key) {
  const auto element = find(key);
  return element ? std::optional(element->string()) : std::nullopt;
}

std::optional<bool> JsonReader::optional_boolean(std::string_view key) {
  const auto element = find(key);
  return element ? std::optional(element->boolean()) : std::nullopt;
}

std::optional<double> JsonReader::optional_number(std::string_view key, NumberRange range) {
  const auto element = find(key);
  return element ? std::optional(element->number(range)) : std::nullopt;
}

std::optional<JsonReader> JsonReader::optional_object(std::string_view key) {
  const auto element = find(key);
  if (!element) return std::nullopt;
  return JsonReader(*element);
}

std::vector<std::pair<const std::string*, JsonElement>> JsonReader::unread() const {
  std::vector<std::pair<const std::string*, JsonElement>> members;
  for (const auto& [name, member] : element_.value_->get_ref<const json::object_t&>()) {
    if (std::find(asked_.begin(), asked_.end(), name) == asked_.end()) {
      members.emplace_back(&name, JsonElement(*element_.document_, member));
    }
  }
  return members;
}

void JsonReader::ignore_rest() {
  for (const auto& [name, unused] : unread()) asked_.push_back(*name);
}

void JsonReader::finish() const {
  const auto unknown = unread();
  if (unknown.empty()) return;
  const std::string& key = *unknown.front().first;
  JsonPath path = path_to(*element_.document_, element_.value_);
  const std::string owner = path_text(path);
  path.emplace_back(key);
  const std::vector<std::string_view> known(asked_.begin(), asked_.end());
  std::string hint = did_you_mean(key, known);
  if (hint.empty()) {
    hint = known.empty() ? "; it has no keys" : "; the known keys are " + quoted_list(known);
  }
  throw InputError(place(*element_.document_, path) + "unknown key " + quoted_key(key) + " at " +
                   owner + hint);
}

int expect_format(JsonReader& reader, std::string_view format, int oldest, int newest) {
  constexpr std::string_view kOurs = "parplan/";
  const std::string wanted(format);
  const auto found = reader.find("format");
  if (!found) {
    const auto fail_as = [&](const char* what) {
      reader.element().fail(std::string("this is ") + what + ", a " + wanted +
                            " file is needed here");
    };
    if (reader.has("traceEvents")) fail_as("a trace");
    if (reader.has("model_type")) fail_as("a Hugging Face config.json");
    reader.element().fail("missing key 'format'; a " + wanted + " file begins with \"format\": \"" +
                          wanted + "\"");
  }
  const std::string& name = found->string();
  if (name != format) {
    const bool is_ours =
        name.starts_with(kOurs) &&
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", kOurs.size()) == std::string::npos;
    if (!is_ours) found->fail_expected("\"" + wanted + "\"");
    found->fail("this is a " + shortened(name, kShownValueBytes) + " file, a " + wanted +
                " file is needed here");
  }
  const JsonElement version_field = reader.require("version");
  const int version = version_field.integer<int>(1);
  const std::string has = "this " + wanted + " file has version " + std::to_string(version);
  if (version > newest) {
    version_field.fail(has + ", newer than the newest this program reads (" +
                       std::to_string(newest) + ")");
  }
  if (version < oldest) {
    version_field.fail(has + ", older than the oldest this program reads (" +
                       std::to_string(oldest) + ")");
  }
  return version;
}

}  // namespace parplan
