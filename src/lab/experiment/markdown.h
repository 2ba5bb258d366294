// A table in Markdown.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace fp4lab {

class Markdown {
 public:
  // A heading that starts with '>' is right-aligned.
  explicit Markdown(const std::vector<std::string>& headings) {
    std::string line;
    for (const std::string& h : headings) {
      const bool right = h.starts_with('>');
      head_ += fmt::format("| {} ", right ? h.substr(1) : h), line += right ? "|---:" : "|---";
    }
    head_ += "|\n" + line + "|\n";
  }
  void add(const std::vector<std::string>& cells) {
    for (std::string cell : cells) {
      for (size_t at = 0; (at = cell.find('|', at)) != cell.npos; at += 2) cell.insert(at, "\\");
      rows_ += "| " + cell + " ";
    }
    rows_ += "|\n";
  }
  bool empty() const { return rows_.empty(); }
  std::string text() const { return head_ + rows_; }

 private:
  std::string head_, rows_;
};

}  // namespace fp4lab
