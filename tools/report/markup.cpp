#include "tools/report/markup.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/units_text.hpp"

namespace parplan::tools {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Length of the well-formed UTF-8 sequence at the start of `text`, 0 when there is none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool surrogate = first == 0xED && byte(1) > 0x9F;
  const bool beyond = first == 0xF4 && byte(1) > 0x8F;
  return overlong || surrogate || beyond ? 0 : length;
}

/// Calls `emit` with each character of `text`, made well-formed.
template <class Emit>
void for_each_character(std::string_view text, Emit&& emit) {
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool control = (first < 0x20 && first != '\t' && first != '\n') || first == 0x7F;
    emit(length == 0 || control ? kReplacement : text.substr(0, length));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
}

std::string_view entity_of(std::string_view character) {
  if (character.size() != 1) return character;
  switch (character[0]) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
  }
  return character;
}

std::string key_of(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for_each_character(text, [&](std::string_view c) { out += entity_of(c); });
  return out;
}

std::string well_formed(std::string_view text) {
  std::string out;
  for_each_character(text, [&](std::string_view c) { out += c; });
  return out;
}

std::string script_string(std::string_view text) {
  std::string out = "\"";
  for_each_character(text, [&](std::string_view c) {
    const bool special =
        c.size() == 1 && std::string_view("\"\\<>&\n\t'").find(c) != std::string_view::npos;
    // U+2028 and U+2029 end a line in old JavaScript.
    const bool separator = c == "\xE2\x80\xA8" || c == "\xE2\x80\xA9";
    if (!special && !separator) {
      out += c;
      return;
    }
    const unsigned code = special          ? static_cast<unsigned char>(c[0])
                          : c[2] == '\xA8' ? 0x2028U
                                           : 0x2029U;
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04x", code);
    out += escape;
  });
  return out + "\"";
}

std::string number_text(double value, int decimals) {
  if (!std::isfinite(value)) return "0";
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  std::string out = text;
  if (out.find('.') != std::string::npos) {
    out.erase(out.find_last_not_of('0') + 1);
    if (out.back() == '.') out.pop_back();
  }
  return out == "-0" ? "0" : out;
}

std::string time_text(Seconds time, bool sign) {
  std::string text = text_of(time);
  if (text.ends_with(" us")) text.replace(text.size() - 2, 2, "\xC2\xB5s");
  if (sign && time.value > 0.0) text.insert(0, 1, '+');
  if (text.front() == '-') text.replace(0, 1, "\xE2\x88\x92");
  return text;
}

std::string_view error_class(double relative_error) {
  const double size = std::abs(relative_error);
  return size <= 0.10 ? "good" : size <= 0.30 ? "fair" : "poor";
}

Cell Cell::text(std::string_view plain) { return {escaped(plain), escaped(plain), "text"}; }
Cell Cell::count(std::int64_t value) { return {std::to_string(value), std::to_string(value)}; }
Cell Cell::time(Seconds value, bool sign) { return {time_text(value, sign), key_of(value.value)}; }
Cell Cell::bytes(Bytes value) { return {escaped(text_of(value)), std::to_string(value.value)}; }
Cell Cell::error(double relative) {
  std::string text = text_of_percent(relative, true);
  if (text.front() == '-') text.replace(0, 1, "\xE2\x88\x92");
  return {std::move(text), key_of(relative), error_class(relative)};
}
Cell Cell::percent(double share) { return {text_of_percent(share), key_of(share)}; }
Cell Cell::none() { return {"\xE2\x80\x93", "-1e300", "none"}; }

std::string sortable_table(std::string_view css, const std::vector<Column>& columns,
                           const std::vector<std::vector<Cell>>& rows) {
  std::string out = "<div class=\"scroll-x\"><table class=\"sortable ";
  out += css;
  out += "\"><thead><tr>";
  for (const Column& column : columns) {
    out += column.numeric ? "<th scope=\"col\">" : "<th scope=\"col\" class=\"text\">";
    out += "<button type=\"button\">" + escaped(column.title) + "</button></th>";
  }
  out += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    out += "<tr>";
    for (const Cell& cell : row) {
      out += "<td";
      if (!cell.css.empty()) out += " class=\"" + std::string(cell.css) + "\"";
      out += " data-k=\"" + cell.sort_key + "\">" + cell.markup + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::vector<double> nice_ticks(double low, double high, int count) {
  if (!(high > low) || count < 1) return {low};
  const double raw = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double ratio = raw / power;
  const double step = power * (ratio <= 1.0 ? 1.0 : ratio <= 2.0 ? 2.0 : ratio <= 5.0 ? 5.0 : 10.0);
  std::vector<double> ticks;
  // The tolerance keeps a bound that is a multiple up to rounding.
  const double last = std::floor(high / step + 1e-9);
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; first + i <= last; ++i) ticks.push_back((first + i) * step + 0.0);
  return ticks;
}

}  // namespace parplan::tools
