#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/core/file_io.hpp"

namespace parplan {

/// A JSON text, its value, and the name it has in messages. The text is kept so that an error
/// found later, while reading the value, can name its line. Immutable; elements and readers point
/// into it, so that it neither moves nor copies. Safe to read from several threads.
///
/// Stricter than nlohmann::json: a key twice in one object, or more than kMaxJsonDepth (200)
/// levels, are errors too; a UTF-8 byte order mark is skipped.
class JsonDocument {
 public:
  /// Throws InputError "name:line:column: expected ..., found ...".
  JsonDocument(std::string name, std::string text);
  /// Reads and parses a file; its path is its name. Throws InputError as read_text_file does too.
  [[nodiscard]] static JsonDocument load(const std::filesystem::path& path,
                                         std::uintmax_t limit_bytes = kTextFileLimitBytes);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;
  ~JsonDocument();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const nlohmann::json& root() const { return *root_; }

 private:
  std::string name_;
  std::string text_;
  std::unique_ptr<const nlohmann::json> root_;
};

}  // namespace parplan
