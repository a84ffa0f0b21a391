#include "sim/core/json_writer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

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
      scalar(value);
    }
  }

 private:
  /// A member's name or an item's index, borrowed from the value that is written.
  struct Step {
    const std::string* name = nullptr;
    std::size_t index = 0;
  };

  [[noreturn]] void fail(const char* promise) const {
    JsonPath path;
    for (const Step& step : path_) {
      if (step.name != nullptr) {
        path.emplace_back(*step.name);
      } else {
        path.emplace_back(step.index);
      }
    }
    throw InternalError("internal error: broken promise: " + std::string(promise) + " at " +
                        path_text(path));
  }

  void scalar(const ordered_json& value) {
    if (value.is_number_float()) {
      number(value.get<double>());
    } else if (value.is_string()) {
      string(value.get_ref<const std::string&>());
    } else if (value.is_primitive() && !value.is_binary() && !value.is_discarded()) {
      text_ += value.dump();
    } else {
      fail("only JSON values are written");
    }
  }
  void string(const std::string& value) {
    const auto plain = [](char c) { return c >= ' ' && c < 0x7F && c != '"' && c != '\\'; };
    if (std::all_of(value.begin(), value.end(), plain)) {
      text_.append("\"").append(value).append("\"");
      return;
    }
    try {
      text_ += ordered_json(value).dump();
    } catch (const ordered_json::type_error&) {
      fail("strings that are written are UTF-8");
    }
  }
  void number(double value) {
    if (!std::isfinite(value)) fail("numbers that are written are finite");
    std::array<char, 32> buffer;  // the longest double has 24 characters
    const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
    if (error != std::errc()) fail("a double fits the buffer");
    const std::string_view digits(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
    text_ += digits;
    if (digits.find_first_of(".e") == std::string_view::npos) text_ += ".0";
  }

  void new_line() { text_.append("\n").append(kIndent * path_.size(), ' '); }
  [[nodiscard]] std::size_t column() const { return text_.size() - (text_.rfind('\n') + 1); }

  void object(const ordered_json& value) {
    if (value.empty()) {
      text_ += "{}";
      return;
    }
    if (path_.size() == kMaxJsonDepth) fail("a document is not nested deeper than it can be read");
    text_ += "{";
    const char* separator = "";
    for (const auto& [name, member] : value.get_ref<const ordered_json::object_t&>()) {
      text_ += separator;
      separator = ",";
      path_.push_back({.name = &name});
      new_line();
      string(name);
      text_ += ": ";
      this->value(member);
      path_.pop_back();
    }
    new_line();
    text_ += "}";
  }

  void array(const ordered_json& value) {
    if (path_.size() == kMaxJsonDepth) fail("a document is not nested deeper than it can be read");
    if (one_line(value)) return;
    text_ += "[";
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i > 0) text_ += ",";
      path_.push_back({.index = i});
      new_line();
      this->value(value[i]);
      path_.pop_back();
    }
    new_line();
    text_ += "]";
  }
  /// Writes the array if it has only scalars and fits the line; else leaves the text as it was.
  bool one_line(const ordered_json& value) {
    if (std::any_of(value.begin(), value.end(), [](const auto& v) { return v.is_structured(); })) {
      return false;
    }
    const std::size_t begin = text_.size();
    const std::size_t room = kLineWidth - std::min(kLineWidth, column());
    text_ += "[";
    for (std::size_t i = 0; i < value.size() && text_.size() - begin <= room; ++i) {
      if (i > 0) text_ += ", ";
      path_.push_back({.index = i});
      scalar(value[i]);
      path_.pop_back();
    }
    text_ += "]";
    if (text_.size() - begin <= room) return true;
    text_.resize(begin);
    return false;
  }

  std::string text_;
  std::vector<Step> path_;
};

}  // namespace

std::string dump(const ordered_json& value) {
  Writer writer;
  writer.value(value);
  return std::move(writer).take() + "\n";
}

nlohmann::ordered_json numbers_or_null(const std::vector<double>& numbers) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const double number : numbers) {
    list.push_back(std::isfinite(number) ? nlohmann::ordered_json(number) : nullptr);
  }
  return list;
}

}  // namespace parplan
