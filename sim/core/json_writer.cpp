#include "sim/core/json_writer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/core/json_scanner.hpp"

namespace parplan {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kIndent = 2;
constexpr std::size_t kLineWidth = 100;

class Writer {
 public:
  [[nodiscard]] std::string take() && { return std::move(text_); }

  void value(const ordered_json& value) {
    if (value.is_object()) {
      object(value);
    } else if (value.is_array()) {
      array(value);
    } else {
      text_ += scalar(value);
    }
  }

 private:
  void promise(bool condition, const char* what) const {
    if (!condition) ensure(false, std::string(what) + " at " + path_text(path_));
  }

  [[nodiscard]] std::string scalar(const ordered_json& value) const {
    if (value.is_number_float()) return number(value.get<double>());
    if (value.is_string()) return string(value.get_ref<const std::string&>());
    promise(value.is_primitive() && !value.is_binary(), "only JSON values are written");
    return value.dump();
  }
  [[nodiscard]] std::string string(const std::string& value) const {
    try {
      return ordered_json(value).dump();
    } catch (const ordered_json::type_error&) {
      promise(false, "strings that are written are UTF-8");
      return {};
    }
  }
  [[nodiscard]] std::string number(double value) const {
    promise(std::isfinite(value), "numbers that are written are finite");
    std::array<char, 32> buffer{};  // the longest double has 24 characters
    const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
    promise(error == std::errc(), "a double fits the buffer");
    std::string digits(buffer.data(), end);
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
    return digits;
  }

  void new_line() { text_.append("\n").append(kIndent * path_.size(), ' '); }
  [[nodiscard]] std::size_t column() const { return text_.size() - (text_.rfind('\n') + 1); }

  void object(const ordered_json& value) {
    if (value.empty()) {
      text_ += "{}";
      return;
    }
    promise(path_.size() < kMaxJsonDepth, "a document is not nested deeper than it can be read");
    text_ += "{";
    const char* separator = "";
    for (const auto& [name, member] : value.get_ref<const ordered_json::object_t&>()) {
      text_ += separator;
      separator = ",";
      path_.emplace_back(name);
      new_line();
      text_ += string(name) + ": ";
      this->value(member);
      path_.pop_back();
    }
    new_line();
    text_ += "}";
  }

  void array(const ordered_json& value) {
    promise(path_.size() < kMaxJsonDepth, "a document is not nested deeper than it can be read");
    if (one_line(value)) return;
    text_ += "[";
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i > 0) text_ += ",";
      path_.emplace_back(i);
      new_line();
      this->value(value[i]);
      path_.pop_back();
    }
    new_line();
    text_ += "]";
  }
  bool one_line(const ordered_json& value) {
    const std::size_t room = kLineWidth - std::min(kLineWidth, column());
    std::string line = "[";
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (value[i].is_structured() || line.size() > room) return false;
      if (i > 0) line += ", ";
      path_.emplace_back(i);
      line += scalar(value[i]);
      path_.pop_back();
    }
    line += "]";
    if (line.size() > room) return false;
    text_ += line;
    return true;
  }

  std::string text_;
  JsonPath path_;
};

}  // namespace

std::string dump(const ordered_json& value) {
  Writer writer;
  writer.value(value);
  return std::move(writer).take() + "\n";
}

}  // namespace parplan
