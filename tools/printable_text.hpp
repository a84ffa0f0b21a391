#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

namespace parplan::tools {

/// `text` with what could steer a terminal written out: control characters but line feed and tab
/// as \x1B; DEL, those of Unicode (U+0080 to U+009F), marks and overrides of the direction of text
/// and line separators as \u009B, which JSON reads as the same. Bytes that are not UTF-8 stay.
std::string printable(std::string_view text);

/// While it lives, everything written to the stream passes through `printable`: names come from
/// other people's files. The two codes of TextTable, bold on and off, pass as they are. A line may
/// be held back until the stream is flushed.
class PrintableOutput {
 public:
  explicit PrintableOutput(std::ostream& stream);
  ~PrintableOutput();
  PrintableOutput(const PrintableOutput&) = delete;
  PrintableOutput& operator=(const PrintableOutput&) = delete;

 private:
  class Buffer;
  std::ostream& stream_;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace parplan::tools
