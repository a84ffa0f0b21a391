#include "sim/core/message_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "sim/core/error.hpp"

namespace parplan {
namespace {

constexpr std::size_t kShownNameBytes = 80;

bool continues_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

std::string shortened(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  std::size_t end = most_bytes;
  while (end > 0 && continues_code_point(text[end])) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string quoted_name(std::string_view name) {
  return "'" + shortened(name, kShownNameBytes) + "'";
}

std::string first_of(std::span<const std::string> items, std::size_t most,
                     std::string_view separator) {
  std::string text;
  for (const std::string& item : items.first(std::min(most, items.size()))) {
    if (!text.empty()) text += separator;
    text += item;
  }
  if (items.size() > most) {
    if (!text.empty()) text += separator;
    text += "and " + std::to_string(items.size() - most) + " more";
  }
  return text;
}

std::string shortest_text(double number) {
  if (std::isnan(number)) return "nan";  // without the sign that some of them have
  std::array<char, 32> buffer{};         // the longest double has 24 characters
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  ensure(error == std::errc(), "a double fits the buffer");
  return {buffer.data(), end};
}

}  // namespace parplan
