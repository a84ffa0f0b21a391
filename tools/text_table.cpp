#include "tools/text_table.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "tools/printable_text.hpp"

namespace parplan::tools {

TextTable::TextTable(std::vector<std::string> header, std::size_t left)
    : header_(std::move(header)), left_(left) {}

void TextTable::add(std::vector<std::string> row) {
  row.resize(header_.size());
  rows_.push_back(std::move(row));
}

void TextTable::print(std::ostream& out, bool emphasis) const {
  std::vector<std::size_t> widths;
  for (const std::string& cell : header_) widths.push_back(cell.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  const auto line = [&](const std::vector<std::string>& row) {
    std::string text;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - row[i].size(), ' ');
      text += (i == 0 ? "" : "  ") + (i < left_ ? row[i] + pad : pad + row[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  out << (emphasis ? kBold : "") << line(header_) << (emphasis ? kPlain : "") << '\n';
  for (const auto& row : rows_) out << line(row) << '\n';
}

bool colour_on_stdout() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }

}  // namespace parplan::tools
