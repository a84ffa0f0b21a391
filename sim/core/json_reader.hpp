#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/core/enum_name.hpp"

namespace parplan {

/// The numbers a field may have; every one is finite whatever the bounds.
struct NumberRange {
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
  bool above_min = false;  ///< `min` itself is refused

  static constexpr NumberRange at_least(double bound) { return {.min = bound}; }
  static constexpr NumberRange above(double bound) { return {.min = bound, .above_min = true}; }
  static constexpr NumberRange between(double low, double high) { return {low, high}; }
};

/// "a number between 0 and 1".
[[nodiscard]] std::string to_string(const NumberRange& range);

/// Integer types a field can be read as. A std::uint64_t field ends at 2^63 - 1, as all integers
/// in our files do.
template <class T>
concept JsonInteger = std::integral<T> && !std::same_as<T, bool>;

/// A unit type that is made of a double or of an std::int64_t without narrowing.
template <class Q>
concept RealQuantity = requires(double value) {
  Q{value};
};
template <class Q>
concept IntegerQuantity = !RealQuantity<Q> && requires(std::int64_t value) {
  Q{value};
};

enum class JsonKind { kNull, kBoolean, kInteger, kNumber, kString, kArray, kObject };

class JsonDocument;
class JsonReader;

/// One value of a document. Two pointers, copied freely; the document must outlive it.
///
/// All functions that read throw InputError of the form
///   plan.json:17: $.layout.tp: expected an integer >= 1, found "two"
/// Line and path are looked up only then, in time linear in the document.
class JsonElement {
 public:
  /// The document's root.
  explicit JsonElement(const JsonDocument& document);
  explicit JsonElement(const JsonDocument&& document) = delete;

  [[nodiscard]] JsonKind kind() const;  ///< integers beyond 64 bits count as kNumber
  [[nodiscard]] bool is_null() const { return kind() == JsonKind::kNull; }

  [[nodiscard]] const std::string& string() const;
  [[nodiscard]] bool boolean() const;
  /// A number or an integer, as the nearest double.
  [[nodiscard]] double number(NumberRange range = {}) const;
  /// Written as an integer: 2.0 and 2e0 are refused, and so is what does not fit 64 bits.
  template <JsonInteger T = std::int64_t>
  [[nodiscard]] T integer(T min = std::numeric_limits<T>::min(),
                          T max = std::numeric_limits<T>::max()) const {
    return static_cast<T>(checked_integer(integer_range(min, max)));
  }
  /// A unit type, not negative unless `range` says otherwise.
  template <RealQuantity Q>
  [[nodiscard]] Q quantity(NumberRange range = NumberRange::at_least(0)) const {
    return Q{number(range)};
  }
  template <IntegerQuantity Q>
  [[nodiscard]] Q quantity(std::int64_t min = 0,
                           std::int64_t max = std::numeric_limits<std::int64_t>::max()) const {
    return Q{integer<std::int64_t>(min, max)};
  }
  /// The value whose name in `table` the string is.
  template <class E>
  [[nodiscard]] E enumeration(std::type_identity_t<std::span<const EnumName<E>>> table) const {
    if (const auto value = value_of(string(), table)) return *value;
    std::vector<std::string_view> names;
    for (const EnumName<E>& row : table) names.push_back(row.name);
    fail_name(names);
  }

  /// The items of an array, in order.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] JsonElement at(std::size_t index) const;  ///< `index` < size()
  /// Calls `read` for each item: with a JsonReader& if it takes one, then what it left unread is
  /// an error; otherwise with the JsonElement.
  template <class Read>
  void array(Read&& read) const;

  /// Throws "file:line: path: `message`".
  [[noreturn]] void fail(std::string_view message) const;
  /// Throws "file:line: path: expected `expectation`, found ...".
  [[noreturn]] void fail_expected(std::string_view expectation) const;
  [[nodiscard]] std::string path() const;  ///< "$.layers[3]"; linear in the document

 private:
  friend class JsonReader;
  JsonElement(const JsonDocument& document, const nlohmann::json& value)
      : document_(&document), value_(&value) {}

  struct IntegerRange {
    std::int64_t min, max;
    bool min_is_a_rule, max_is_a_rule;  ///< and not just where the type ends
  };
  template <JsonInteger T>
  static constexpr IntegerRange integer_range(T min, T max) {
    using Limits = std::numeric_limits<T>;
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const auto clamped = [](T bound) {
      return std::cmp_greater(bound, kMost) ? static_cast<std::int64_t>(kMost)
                                            : static_cast<std::int64_t>(bound);
    };
    return {clamped(min), clamped(max), !Limits::is_signed || min != Limits::min(),
            max != Limits::max()};
  }
  [[nodiscard]] std::int64_t checked_integer(IntegerRange range) const;
  [[nodiscard]] std::string found() const;
  [[noreturn]] void fail_name(std::span<const std::string_view> names) const;

  const JsonDocument* document_;
  const nlohmann::json* value_;
};

/// A cursor over the members of one object that remembers which keys were asked for. Read every
/// key the format has, then call finish(): a key that was not asked for is an error, with the
/// nearest one that was. The functions that take a callback call finish() by themselves.
///
/// In `optional_` functions a key that is absent and one that is null both mean "none".
class JsonReader {
 public:
  /// Throws InputError if the value (the document's root) is no object.
  explicit JsonReader(JsonElement element);
  explicit JsonReader(const JsonDocument& document) : JsonReader(JsonElement(document)) {}
  explicit JsonReader(const JsonDocument&& document) = delete;
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;
  JsonReader(JsonReader&&) = default;
  JsonReader& operator=(JsonReader&&) = default;

  /// The member's value. Throws InputError that names the key, and a similar one if there is one.
  [[nodiscard]] JsonElement require(std::string_view key);
  /// The member's value; nothing if it is absent or null.
  [[nodiscard]] std::optional<JsonElement> find(std::string_view key);
  [[nodiscard]] bool has(std::string_view key) { return find(key).has_value(); }

  [[nodiscard]] const std::string& string(std::string_view key) { return require(key).string(); }
  [[nodiscard]] bool boolean(std::string_view key) { return require(key).boolean(); }
  [[nodiscard]] double number(std::string_view key, NumberRange range = {}) {
    return require(key).number(range);
  }
  template <JsonInteger T = std::int64_t>
  [[nodiscard]] T integer(std::string_view key,
                          std::type_identity_t<T> min = std::numeric_limits<T>::min(),
                          std::type_identity_t<T> max = std::numeric_limits<T>::max()) {
    return require(key).template integer<T>(min, max);
  }
  /// `range`: a NumberRange for units of double; min, max for units of std::int64_t.
  template <class Q, class... Range>
  [[nodiscard]] Q quantity(std::string_view key, Range... range) {
    return require(key).template quantity<Q>(range...);
  }
  template <class E>
  [[nodiscard]] E enumeration(std::string_view key,
                              std::type_identity_t<std::span<const EnumName<E>>> table) {
    return require(key).template enumeration<E>(table);
  }

  [[nodiscard]] std::optional<std::string> optional_string(std::string_view key);
  [[nodiscard]] std::optional<bool> optional_boolean(std::string_view key);
  [[nodiscard]] std::optional<double> optional_number(std::string_view key, NumberRange range = {});
  template <JsonInteger T = std::int64_t>
  [[nodiscard]] std::optional<T> optional_integer(
      std::string_view key, std::type_identity_t<T> min = std::numeric_limits<T>::min(),
      std::type_identity_t<T> max = std::numeric_limits<T>::max()) {
    const auto element = find(key);
    return element ? std::optional<T>(element->template integer<T>(min, max)) : std::nullopt;
  }
  template <class Q, class... Range>
  [[nodiscard]] std::optional<Q> optional_quantity(std::string_view key, Range... range) {
    const auto element = find(key);
    return element ? std::optional<Q>(element->template quantity<Q>(range...)) : std::nullopt;
  }
  template <class E>
  [[nodiscard]] std::optional<E> optional_enumeration(
      std::string_view key, std::type_identity_t<std::span<const EnumName<E>>> table) {
    const auto element = find(key);
    return element ? std::optional<E>(element->template enumeration<E>(table)) : std::nullopt;
  }

  /// A nested object; its reader wants its own finish().
  [[nodiscard]] JsonReader object(std::string_view key) { return JsonReader(require(key)); }
  [[nodiscard]] std::optional<JsonReader> optional_object(std::string_view key);
  /// Calls `read(JsonReader&)`, then finish().
  template <std::invocable<JsonReader&> Read>
  void object(std::string_view key, Read&& read) {
    JsonReader reader = object(key);
    read(reader);
    reader.finish();
  }
  /// The same if the key is there; returns whether it is.
  template <std::invocable<JsonReader&> Read>
  bool optional_object(std::string_view key, Read&& read) {
    const bool present = has(key);
    if (present) object(key, read);
    return present;
  }
  /// Calls `read` with each item of an array, see JsonElement::array.
  template <class Read>
  void array(std::string_view key, Read&& read) {
    require(key).array(read);
  }
  template <class Read>
  bool optional_array(std::string_view key, Read&& read) {
    const auto element = find(key);
    if (element) element->array(read);
    return element.has_value();
  }
  /// Calls `read(const std::string& key, JsonElement)` for each member not asked for so far, by
  /// ascending key: for objects whose keys are data.
  template <std::invocable<const std::string&, JsonElement> Read>
  void each_member(Read&& read) {
    for (const auto& [key, member] : unread()) read(*key, member);
    ignore_rest();
  }

  /// Whether there is a member that was not asked for so far.
  [[nodiscard]] bool has_members() const { return !unread().empty(); }
  /// Accepts a key without reading it.
  void ignore(std::string_view key) { static_cast<void>(find(key)); }
  /// Accepts every key: for formats of others, which grow without us.
  void ignore_rest();

  /// Throws "plan.json:17: unknown key 'head' at $.layers[3]; did you mean 'heads'?" for the first
  /// key that was not asked for.
  void finish() const;

  /// The object itself, for its fail() and path().
  [[nodiscard]] JsonElement element() const { return element_; }

 private:
  [[nodiscard]] std::vector<std::pair<const std::string*, JsonElement>> unread() const;

  JsonElement element_;
  std::vector<std::string> asked_;
};

template <class Read>
void JsonElement::array(Read&& read) const {
  const std::size_t count = size();
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::invocable<Read&, JsonElement>) {
      read(at(i));
    } else {
      JsonReader reader(at(i));
      read(reader);
      reader.finish();
    }
  }
}

/// Reads the "format" and "version" keys that each of our files begins with. Returns the version,
/// which is from `oldest` to `newest`; otherwise throws InputError that says which kind of file
/// this is (also of formats of others that come near us) and what can be read.
[[nodiscard]] int expect_format(JsonReader& reader, std::string_view format, int oldest,
                                int newest);

}  // namespace parplan
