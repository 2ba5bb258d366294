// A text table: columns as wide as their widest cell, numbers to the right. It fits the terminal; where the
// output is no terminal it has all its columns, and stays plain text that other tools can cut at runs of two
// spaces.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.h"

namespace fp4lab::cli {

class Table {
 public:
  // A heading that starts with '>' is right-aligned (numbers); one that starts with '?' is left out where
  // there is no room, the rightmost first. The marks themselves are not printed.
  explicit Table(std::vector<std::string> headings);
  void add(std::vector<std::string> cells);
  // At most `width` wide (0: as wide as it is): headings are stacked, then columns left out and named below,
  // then the widest text folded.
  std::string text(size_t width) const;
  std::string text() const;  // for stdout
  std::string csv() const;   // RFC 4180, all columns
  std::string markdown() const;
  std::string html() const;                        // all columns; what cells hold is text
  bool empty() const { return rows_.size() < 2; }  // headings only

 private:
  std::vector<bool> right_, optional_;
  std::vector<std::vector<std::string>> rows_;  // the headings first
};

// --csv and --wide.
struct TableFormat {
  bool csv = false, wide = false;
  void declare(Arguments&);
  std::string text(const Table&) const;
  std::string folded(const std::string& lines) const;  // text beside a table
};

// Text for stdout: where it is a terminal, lines are folded to its width, and what follows is indented.
// `otherwise`: to this width where it is no terminal; 0: as it is.
std::string fitted(const std::string& text, size_t otherwise = 0);
// Whole lines, fitted and printed.
template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  fmt::print("{}", fitted(fmt::format(text, std::forward<Args>(args)...)));
}

// Columns of the terminal: COLUMNS, or what the system says of the file descriptor; 0: no terminal.
size_t terminal_width(int fd);

}  // namespace fp4lab::cli
