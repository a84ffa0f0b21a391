#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace parplan::tools {

/// Switch bold on and off on a terminal.
inline constexpr std::string_view kBold = "\033[1m";
inline constexpr std::string_view kPlain = "\033[0m";

/// Rows of cells, printed in aligned columns: the first `left` columns to the left, others to the
/// right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header, std::size_t left = 1);
  void add(std::vector<std::string> row);
  /// `emphasis`: print the header bold (a terminal).
  void print(std::ostream& out, bool emphasis) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
  std::size_t left_;
};

/// Whether standard output is a terminal that wants colour (NO_COLOR is not set).
bool colour_on_stdout();

}  // namespace parplan::tools
