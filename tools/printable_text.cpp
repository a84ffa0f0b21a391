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

/// Bytes at the front of `text` that steer, or 0; `as` is what to show for them.
std::size_t control_at(std::string_view text, std::string& as) {
  const auto first = static_cast<unsigned char>(text[0]);
  if ((first < 0x20 && first != '\n' && first != '\t') || first == 0x7F) {
    as = escaped("\\x%02X", first);
    return 1;
  }
  const auto second = text.size() > 1 ? static_cast<unsigned char>(text[1]) : 0U;
  if (first == 0xC2 && second >= 0x80 && second <= 0x9F) {
    as = escaped("\\u%04X", second);
    return 2;
  }
  return 0;
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
    return pass_on(line == std::string::npos ? held_.size() : line + 1) ? count : 0;
  }
  int sync() override { return pass_on(held_.size()) && target_->pubsync() == 0 ? 0 : -1; }

 private:
  static constexpr std::size_t kMostHeld = 1 << 16;

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
