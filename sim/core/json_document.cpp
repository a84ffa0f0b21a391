#include "sim/core/json_document.hpp"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "sim/core/error.hpp"
#include "sim/core/json_scanner.hpp"

namespace parplan {
namespace {

using nlohmann::json;

/// Builds the value; stops at what nlohmann::json would accept and we do not. The reason is found
/// by find_fault afterwards, so that only the failing parse pays for it.
class ValueBuilder final : public nlohmann::json_sax<json> {
 public:
  explicit ValueBuilder(json& root) : root_(root) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*digits*/) override {
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override { return open(json::value_t::object); }
  bool start_array(std::size_t /*size*/) override { return open(json::value_t::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    const auto [member, is_new] = open_.back()->get_ref<json::object_t&>().try_emplace(name);
    member_ = &member->second;
    return is_new;
  }
  bool parse_error(std::size_t byte, const std::string& /*token*/,
                   const json::exception& /*error*/) override {
    error_byte_ = byte;
    return false;
  }

  /// Where nlohmann::json stopped, in bytes from the beginning.
  [[nodiscard]] std::size_t error_byte() const { return error_byte_; }

 private:
  /// Puts a value where the document is at: the root, an array's end, or the last key's value.
  json& place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      auto& items = parent.get_ref<json::array_t&>();
      items.push_back(std::move(value));
      return items.back();
    }
    *member_ = std::move(value);
    return *member_;
  }
  bool add(json value) {
    place(std::move(value));
    return true;
  }
  bool open(json::value_t kind) {
    if (open_.size() == kMaxJsonDepth) return false;
    // An open container is its parent's last value, so that later growth cannot move it.
    open_.push_back(&place(json(kind)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  json& root_;
  std::vector<json*> open_;
  json* member_ = nullptr;
  std::size_t error_byte_ = 0;
};

[[noreturn]] void fail_parse(const std::string& name, const std::string& text,
                             std::size_t error_byte) {
  const JsonFault fault =
      find_fault(text).value_or(JsonFault{error_byte, "this is not valid JSON"});
  throw InputError(located(name, text, fault));
}

}  // namespace

JsonDocument::JsonDocument(std::string name, std::string text)
    : name_(std::move(name)), text_(std::move(text)) {
  auto root = std::make_unique<json>();
  ValueBuilder builder(*root);
  // nlohmann::json takes a zero byte for the end of the text and ignores what follows.
  const bool cut_short = text_.find('\0') != std::string::npos;
  if (cut_short || !json::sax_parse(text_, &builder)) {
    fail_parse(name_, text_, builder.error_byte());
  }
  root_ = std::move(root);
}

JsonDocument JsonDocument::load(const std::filesystem::path& path, std::uintmax_t limit_bytes) {
  return {path.string(), read_text_file(path, limit_bytes)};
}

JsonDocument::~JsonDocument() = default;

}  // namespace parplan
