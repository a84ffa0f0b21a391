#include "sim/core/json_scanner.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/core/error.hpp"
#include "sim/core/message_text.hpp"

namespace parplan {
namespace {

constexpr std::size_t kShownKeyBytes = 80;

bool is_identifier(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto is_part = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; };
  return !name.empty() && is_letter(name.front()) && std::all_of(name.begin(), name.end(), is_part);
}

bool continues_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

/// Walks over text that is known to be valid.
class Locator {
 public:
  explicit Locator(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) position_ = kByteOrderMark.size();
    skip_space();
  }

  JsonSpan locate(const JsonPath& path) {
    std::size_t key = position_;
    for (const auto& step : path) {
      if (const auto* name = std::get_if<std::string>(&step)) {
        key = enter_member(*name);
      } else {
        key = enter_item(std::get<std::size_t>(step));
      }
    }
    const std::size_t begin = position_;
    skip_value();
    return {key, begin, position_};
  }

 private:
  char peek() const {
    ensure(position_ < text_.size(), "a path is looked for in the document it was made of");
    return text_[position_];
  }
  void skip_space() {
    position_ = std::min(text_.find_first_not_of(kJsonSpace, position_), text_.size());
  }
  void skip_string() {
    for (++position_; peek() != '"'; ++position_) {
      if (peek() == '\\') ++position_;
    }
    ++position_;
  }
  /// Leaves the position behind the value.
  void skip_value() {
    std::size_t open = 0;
    do {
      const char c = peek();
      if (c == '"') {
        skip_string();
      } else if (c == '{' || c == '[') {
        ++open;
        ++position_;
      } else if (c == '}' || c == ']') {
        --open;
        ++position_;
      } else if (c == ',' || c == ':' || kJsonSpace.find(c) != std::string_view::npos) {
        ++position_;
      } else {
        position_ = std::min(text_.find_first_of(",:]} \t\n\r", position_), text_.size());
      }
    } while (open > 0);
  }
  /// From an object's '{' to the value of `name`; returns where the name stands.
  std::size_t enter_member(const std::string& name) {
    ensure(peek() == '{', "a member is looked for in an object");
    for (;;) {
      ++position_;  // '{' or ','
      skip_space();
      const std::size_t key = position_;
      skip_string();
      const std::string_view raw = text_.substr(key, position_ - key);
      skip_space();
      ++position_;  // ':'
      skip_space();
      if (nlohmann::json::parse(raw).get_ref<const std::string&>() == name) return key;
      skip_value();
      skip_space();
      ensure(peek() == ',', "a path is looked for in the document it was made of");
    }
  }
  /// From an array's '[' to its item `index`; returns where the item stands.
  std::size_t enter_item(std::size_t index) {
    ensure(peek() == '[', "an item is looked for in an array");
    ++position_;
    skip_space();
    for (std::size_t i = 0; i < index; ++i) {
      skip_value();
      skip_space();
      ensure(peek() == ',', "a path is looked for in the document it was made of");
      ++position_;
      skip_space();
    }
    return position_;
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace

std::string quoted_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string path_text(const JsonPath& path) {
  std::string text = "$";
  for (const auto& step : path) {
    if (const auto* name = std::get_if<std::string>(&step)) {
      text += is_identifier(*name) ? "." + shortened(*name, kShownKeyBytes)
                                   : "[" + shortened(quoted_text(*name), kShownKeyBytes) + "]";
    } else {
      text += "[" + std::to_string(std::get<std::size_t>(step)) + "]";
    }
  }
  return text;
}

JsonSpan locate(std::string_view text, const JsonPath& path) { return Locator(text).locate(path); }

TextPosition position_of(std::string_view text, std::size_t offset) {
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
    offset -= std::min(offset, kByteOrderMark.size());
  }
  TextPosition position;
  for (const char c : text.substr(0, offset)) {
    if (c == '\n') {
      ++position.line;
      position.column = 1;
    } else if (!continues_code_point(c)) {
      ++position.column;
    }
  }
  return position;
}

std::string located(std::string_view name, std::string_view text, const JsonFault& fault) {
  const TextPosition at = position_of(text, fault.offset);
  return std::string(name) + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) +
         ": " + fault.message;
}

}  // namespace parplan
