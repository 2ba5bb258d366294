#include "cli/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cli/escape.h"

namespace fp4lab::cli {
namespace {

constexpr size_t kGap = 2, kNarrowest = 8;  // a folded column is no narrower

// Where a text may be folded: at a blank, behind a comma. Where the piece that begins at `at` ends.
size_t piece_end(const std::string& text, size_t at) {
  const size_t end = text.find_first_of(" ,", at);
  return end == text.npos ? text.size() : end + (text[end] == ',');
}

size_t longest_piece(const std::string& text) {
  size_t longest = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = piece_end(text, at);
    longest = std::max(longest, end - at);
    at = text.find_first_not_of(' ', end);
  }
  return longest;
}

// In lines of at most `width`; a piece that is longer stays whole, and blanks within a line as they are.
std::vector<std::string> folded(const std::string& text, size_t width) {
  std::vector<std::string> lines(1);
  for (size_t at = 0, gap = 0; at < text.size();) {
    const size_t end = piece_end(text, at), next = std::min(text.find_first_not_of(' ', end), text.size());
    std::string& line = lines.back();
    if (!line.empty() && line.size() + gap + end - at > width)
      lines.push_back(text.substr(at, end - at));
    else
      line += std::string(line.empty() ? 0 : gap, ' ') + text.substr(at, end - at);
    gap = next - end, at = next;
  }
  return lines;
}

}  // namespace

Table::Table(std::vector<std::string> headings) : right_(headings.size()), optional_(headings.size()) {
  for (size_t c = 0; c < headings.size(); ++c)
    for (; headings[c].starts_with('>') || headings[c].starts_with('?'); headings[c].erase(0, 1))
      (headings[c][0] == '>' ? right_ : optional_)[c] = true;
  rows_.push_back(std::move(headings));
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(right_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(size_t limit) const {
  std::vector<size_t> width(right_.size()), least(right_.size(), kNarrowest);
  std::vector<bool> shown(right_.size(), true);
  for (size_t r = 0; r < rows_.size(); ++r)
    for (size_t c = 0; c < width.size(); ++c)
      width[c] = std::max(width[c], limit && r == 0 ? longest_piece(rows_[r][c]) : rows_[r][c].size()),
      least[c] = std::max(least[c], longest_piece(rows_[r][c]));
  const auto total = [&] {
    size_t sum = 0;
    for (size_t c = 0; c < width.size(); ++c) sum += shown[c] ? width[c] + kGap : 0;
    return sum - std::min(sum, kGap);
  };
  std::vector<std::string> left_out;
  for (size_t c = width.size(); limit && c-- > 0 && total() > limit;)
    if (optional_[c]) shown[c] = false, left_out.insert(left_out.begin(), rows_[0][c]);
  while (limit && total() > limit) {
    size_t widest = width.size();
    for (size_t c = 0; c < width.size(); ++c)
      if (shown[c] && !right_[c] && width[c] > least[c] &&
          (widest == width.size() || width[c] > width[widest]))
        widest = c;
    if (widest == width.size()) break;
    width[widest] = std::max(least[widest], width[widest] - std::min(width[widest], total() - limit));
  }
  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::vector<std::vector<std::string>> cells;
    size_t height = 1;
    for (size_t c = 0; c < width.size(); ++c) {
      cells.push_back(folded(rows_[r][c], std::max<size_t>(1, width[c])));
      if (shown[c]) height = std::max(height, cells[c].size());
    }
    for (size_t l = 0; l < height; ++l) {
      std::string line;
      for (size_t c = 0; c < width.size(); ++c) {
        if (!shown[c]) continue;
        // A heading stands on the line above the numbers.
        const size_t skip = r == 0 ? height - cells[c].size() : 0;
        const std::string cell = l >= skip && l - skip < cells[c].size() ? cells[c][l - skip] : "";
        line += right_[c] ? fmt::format("{:>{}}  ", cell, width[c]) : fmt::format("{:<{}}  ", cell, width[c]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
  }
  if (!left_out.empty())
    for (const std::string& line :
         folded(fmt::format("(no room for: {}; --wide shows them)", fmt::join(left_out, ", ")), limit))
      out += line + "\n";
  return out;
}

std::string Table::text() const { return text(terminal_width(STDOUT_FILENO)); }

std::string Table::csv() const {
  std::string out;
  for (const auto& row : rows_)
    for (size_t c = 0; c < row.size(); ++c) {
      std::string cell = row[c];
      if (cell.find_first_of(",\"\n") != cell.npos) {
        for (size_t at = 0; (at = cell.find('"', at)) != cell.npos; at += 2) cell.insert(at, 1, '"');
        cell = '"' + cell + '"';
      }
      out += cell + (c + 1 == row.size() ? '\n' : ',');
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

std::string Table::html() const {
  std::string out = "<div class=wide><table>\n";
  for (size_t r = 0; r < rows_.size(); ++r) {
    out += r ? "<tr>" : "<thead><tr>";
    for (size_t c = 0; c < rows_[r].size(); ++c)
      out += fmt::format("<{0}{1}>{2}</{0}>", r ? "td" : "th", right_[c] ? " class=n" : "",
                         escaped(rows_[r][c]));
    out += r ? "</tr>\n" : "</tr></thead><tbody>\n";
  }
  return out + "</tbody></table></div>\n";
}

void TableFormat::declare(Arguments& app) {
  app.add_flag("--csv", csv, "print tables as comma-separated values");
  app.add_flag("--wide", wide, "print all columns, whatever the terminal's width");
}

std::string TableFormat::text(const Table& table) const {
  return csv ? table.csv() : table.text(wide ? 0 : terminal_width(STDOUT_FILENO));
}

std::string TableFormat::folded(const std::string& text) const { return wide ? text : fitted(text); }

std::string fitted(const std::string& text, size_t otherwise) {
  const size_t terminal = terminal_width(STDOUT_FILENO), width = terminal ? terminal : otherwise;
  if (width < 2 * kNarrowest) return text;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const size_t indent = std::min(line.find_first_not_of(' '), width / 2);
    if (line.size() <= width) {
      out += line + "\n";
      continue;
    }
    const auto lines = cli::folded(line.substr(indent), width - indent - 4);
    for (size_t l = 0; l < lines.size(); ++l) out += std::string(indent + (l ? 4 : 0), ' ') + lines[l] + "\n";
  }
  return out;
}

size_t terminal_width(int fd) {
  if (const char* columns = std::getenv("COLUMNS"))
    if (const unsigned long asked = std::strtoul(columns, nullptr, 10); asked > 0 && asked < 100000)
      return asked;
  winsize size{};
  return isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace fp4lab::cli
