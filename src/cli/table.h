// A text table: columns as wide as their widest cell, numbers to the right. Long tables stay plain text that
// other tools can cut at runs of two spaces.
#pragma once

#include <string>
#include <vector>

namespace fp4lab::cli {

class Table {
 public:
  // A heading that starts with '>' is right-aligned (numbers); the mark itself is not printed.
  explicit Table(std::vector<std::string> headings);
  void add(std::vector<std::string> cells);
  std::string text() const;
  std::string markdown() const;
  bool empty() const { return rows_.size() < 2; }  // headings only

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // the headings first
};

}  // namespace fp4lab::cli
