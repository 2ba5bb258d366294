// Markdown: tables, and prose of at most 116 columns.
#pragma once

#include <fmt/format.h>

#include <sstream>
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

// Paragraphs and list items with a longer line are filled anew; tables, code and comments stay.
inline std::string filled(const std::string& page, size_t columns = 116) {
  std::string text, paragraph;
  bool code = false, wide = false;
  const auto flush = [&] {
    if (wide) {
      const std::string indent = paragraph.starts_with("* ") ? "  " : "";
      std::istringstream words(paragraph);
      std::string line, word;
      paragraph.clear();
      while (words >> word) {
        if (!line.empty() && line != indent && line.size() + 1 + word.size() > columns)
          paragraph += line + "\n", line = indent + word;
        else
          line += (line.empty() || line == indent ? "" : " ") + word;
      }
      paragraph += line + "\n";
    }
    text += paragraph, paragraph.clear(), wide = false;
  };
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const bool fence = line.starts_with("```");
    if (fence || code || line.empty() || line.starts_with("|") || line.starts_with("#") ||
        line.starts_with("<!--")) {
      flush(), text += line + "\n", code ^= fence;
      continue;
    }
    if (line.starts_with("* ")) flush();
    paragraph += line + "\n", wide |= line.size() > columns;
  }
  flush();
  return text;
}

}  // namespace fp4lab
