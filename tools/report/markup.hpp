#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/units.hpp"

namespace parplan::tools {

/// Text for element content and quoted attributes of HTML and SVG. Invalid UTF-8 becomes U+FFFD,
/// control characters other than tab and newline too.
std::string escaped(std::string_view text);

/// The same replacements without markup: well-formed UTF-8 for programs that insist on it.
std::string well_formed(std::string_view text);

/// A JSON string literal that may stand inside <script>: no "<", ">" or "&" survives in it.
std::string script_string(std::string_view text);

/// At most `decimals` digits after the point, no trailing zeros, never "-0" nor an exponent.
std::string number_text(double value, int decimals = 2);

/// "12.3 ms", "4.56 µs"; with `sign` "+0.30 ms".
std::string time_text(Seconds time, bool sign = false);

/// Class name for a relative error: "good" within 10 %, "fair" within 30 %, else "poor".
std::string_view error_class(double relative_error);

/// A cell of a sortable table: what is shown (already markup), and what it is sorted by.
struct Cell {
  std::string markup;
  std::string sort_key;
  std::string_view css{};

  static Cell text(std::string_view plain);
  static Cell count(std::int64_t value);
  static Cell time(Seconds value, bool sign = false);
  static Cell bytes(Bytes value);
  /// A relative error, coloured by its size.
  static Cell error(double relative);
  static Cell percent(double share);
  static Cell none();
};

struct Column {
  std::string title;
  bool numeric = true;
};

/// <table> whose headers sort it (report.js); a cell starting text column is left aligned.
std::string sortable_table(std::string_view css, const std::vector<Column>& columns,
                           const std::vector<std::vector<Cell>>& rows);

/// Multiples of 1, 2 or 5 times a power of ten within [low, high], about `count` of them.
std::vector<double> nice_ticks(double low, double high, int count);

}  // namespace parplan::tools
