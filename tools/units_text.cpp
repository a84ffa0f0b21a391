#include "tools/units_text.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace parplan::tools {
namespace {

std::string three_digits(double value, const char* unit) {
  const double size = std::abs(value);
  const int decimals = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f%s%s", decimals, value, *unit != '\0' ? " " : "", unit);
  return text;
}

}  // namespace

std::string text_of(Seconds time) {
  const double t = std::abs(time.value);
  if (t < 5e-13) return "0 s";  // clocks count picoseconds
  if (t >= 1.0) return three_digits(time.value, "s");
  if (t >= 1e-3) return three_digits(time.value * 1e3, "ms");
  if (t >= 1e-6) return three_digits(time.value * 1e6, "us");
  return three_digits(time.value * 1e9, "ns");
}

std::string text_of(Bytes size) {
  static constexpr std::array<std::pair<double, const char*>, 4> kUnits{
      {{1099511627776.0, "TiB"}, {1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}}};
  const auto bytes = static_cast<double>(size.value);
  for (const auto& [unit, name] : kUnits) {
    if (std::abs(bytes) >= unit) return three_digits(bytes / unit, name);
  }
  return std::to_string(size.value) + " B";
}

std::string text_of_count(double count) {
  static constexpr std::array<std::pair<double, const char*>, 4> kUnits{
      {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}}};
  for (const auto& [unit, name] : kUnits) {
    if (std::abs(count) >= unit) return three_digits(count / unit, name);
  }
  return three_digits(count, "");
}

std::string text_of_rate(double per_second, const char* unit) {
  static constexpr std::array<std::pair<double, const char*>, 5> kPrefixes{
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [size, prefix] : kPrefixes) {
    if (per_second >= size) {
      return three_digits(per_second / size, (std::string(prefix) + unit + "/s").c_str());
    }
  }
  return three_digits(per_second, (std::string(unit) + "/s").c_str());
}

std::string text_of_factor(double factor) {
  char text[32];
  std::snprintf(text, sizeof text,
                factor >= 100.0 ? "%.0fx"
                : factor >= 0.1 ? "%.2fx"
                                : "%.3gx",
                factor);
  return text;
}

std::string text_of_percent(double share, bool sign) {
  char text[32];
  std::snprintf(text, sizeof text, sign ? "%+.1f %%" : "%.1f %%", share * 100.0);
  return text;
}

}  // namespace parplan::tools
