#include "tools/printable_text.hpp"

#include <array>
#include <cstdio>
#include <ostream>
#include <streambuf>

#include "tools/text_table.hpp"

namespace parplan::tools {
namespace {

std::string escaped(const char* form, unsigned value) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), form, value);
  return text.data();
}

/// DEL, C1 controls, the marks that change the direction of text, and the separators of lines.
bool steers(unsigned point) {
  const auto between = [point](unsigned low, unsigned high) {
    return point >= low && point <= high;
  };
  return between(0x7F, 0x9F) || point == 0x61C || between(0x200E, 0x200F) ||
         between(0x2028, 0x202E) || between(0x2066, 0x2069);
}

/// Bytes at the front of `text` that steer, or 0; `as` is what to show for them.
std::size_t control_at(std::string_view text, std::string& as) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 && first != '\n' && first != '\t') {
    as = escaped("\\x%02X", first);
    return 1;
  }
  // Lead bytes of what steers: C2 of U+0080.., D8 of U+0600.., E2 of U+2000..
  const std::size_t length = first == 0xE2 ? 3 : first == 0xC2 || first == 0xD8 ? 2 : 1;
  if (text.size() < length || (length == 1 && first != 0x7F)) return 0;
  unsigned point = length == 3 ? 0x2U : length == 2 ? first & 0x1FU : first;
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0U) != 0x80U) return 0;
    point = point << 6U | (next & 0x3FU);
  }
  if (!steers(point)) return 0;
  as = escaped("\\u%04X", point);
  return length;
}

std::string printable_but(std::string_view text, bool emphasis) {
  std::string result;
  result.reserve(text.size());
  std::string as;
  while (!text.empty()) {
    std::size_t length = 0;
    for (const std::string_view code : {kBold, kPlain}) {
      if (emphasis && text.starts_with(code)) length = code.size();
    }
    if (length > 0) {
      result += text.substr(0, length);
    } else if ((length = control_at(text, as)) > 0) {
      result += as;
    } else {
      length = 1;
      result += text.front();
    }
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) { return printable_but(text, false); }

/// Gathers text, so that no sequence is seen in two halves, and passes it on.
class PrintableOutput::Buffer : public std::streambuf {
 public:
  explicit Buffer(std::streambuf* target) : target_(target) {}
  std::streambuf* target() const { return target_; }

 protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char byte = traits_type::to_char_type(c);
    return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    held_.append(text, static_cast<std::size_t>(count));
    if (held_.size() < kMostHeld) return count;
    const std::size_t line = held_.rfind('\n');
    // Without a line's end, the last code point may not be whole.
    return pass_on(line == std::string::npos ? whole_code_points() : line + 1) ? count : 0;
  }
  int sync() override { return pass_on(held_.size()) && target_->pubsync() == 0 ? 0 : -1; }

 private:
  static constexpr std::size_t kMostHeld = 1 << 16;

  std::size_t whole_code_points() const {
    std::size_t end = held_.size();
    while (end > 0 && (static_cast<unsigned char>(held_[end - 1]) & 0xC0U) == 0x80U) --end;
    return end > 1 ? end - 1 : held_.size();
  }

  bool pass_on(std::size_t count) {
    const std::string text = printable_but(std::string_view(held_).substr(0, count), true);
    held_.erase(0, count);
    const auto size = static_cast<std::streamsize>(text.size());
    return target_->sputn(text.data(), size) == size;
  }

  std::streambuf* target_;
  std::string held_;
};

PrintableOutput::PrintableOutput(std::ostream& stream)
    : stream_(stream), buffer_(std::make_unique<Buffer>(stream.rdbuf())) {
  stream_.rdbuf(buffer_.get());
}

PrintableOutput::~PrintableOutput() {
  stream_.flush();
  stream_.rdbuf(buffer_->target());
}

}  // namespace parplan::tools
