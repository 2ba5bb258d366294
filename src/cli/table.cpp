#include "cli/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace fp4lab::cli {

Table::Table(std::vector<std::string> headings) {
  for (auto& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
  rows_.push_back(std::move(headings));
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(right_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<size_t> width(right_.size());
  for (const auto& row : rows_)
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c)
      line += right_[c] ? fmt::format("{:>{}}", row[c], width[c]) + "  "
                        : fmt::format("{:<{}}  ", row[c], width[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string Table::markdown() const {
  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    out += fmt::format("| {} |\n", fmt::join(rows_[r], " | "));
    if (r) continue;
    for (const bool right : right_) out += right ? "|---:" : "|---";
    out += "|\n";
  }
  return out;
}

}  // namespace fp4lab::cli
