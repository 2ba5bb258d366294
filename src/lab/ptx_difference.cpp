#include "lab/ptx_difference.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "lab/ptx_statements.h"

namespace fp4lab {
namespace {

struct Line {
  int number = 0;
  std::string text;     // as it stands, blanks made single
  std::string shape;    // registers by their class only: "add.s32 %r, %r, 1;"
  std::string renamed;  // registers and labels numbered in the order in which they first come
  std::string opcode;
};

bool in_word(char c) { return std::isalnum(uint8_t(c)) || c == '_' || c == '$'; }

// Registers and labels: "%rd12", "$L__BB0_7".
std::vector<Line> lines_of(std::string_view ptx, std::string_view entry) {
  std::map<std::string, size_t> numbers;
  std::vector<Line> lines;
  for (const Statement& s : statements_of(ptx)) {
    if (s.text.empty() || !std::isalpha(uint8_t(s.text[0]))) continue;  // of a declaration over several lines
    Line line;
    line.number = s.line;
    for (const char c : ptx.substr(s.guard, s.end - s.guard))
      if (!is_space(c))
        line.text += c;
      else if (!line.text.empty() && line.text.back() != ' ')
        line.text += ' ';
    for (size_t at = 0; at < line.text.size();) {
      const char c = line.text[at];
      const bool first = at == 0 || !in_word(line.text[at - 1]);
      size_t end = at + 1;
      if (first && (c == '%' || in_word(c)))
        while (end < line.text.size() && in_word(line.text[end])) ++end;
      const std::string word = line.text.substr(at, end - at);
      // "%tid", "%laneid" are no names that a compiler chose: those end in a number.
      const bool numbered = word.size() > 2 && std::isdigit(uint8_t(word.back()));
      if (numbered && (c == '%' || c == '$')) {
        const std::string kind = word.substr(0, word.find_last_not_of("0123456789") + 1);
        line.shape += c == '$' ? "$L" : kind;
        line.renamed +=
            (c == '$' ? "$L" : kind) + std::to_string(numbers.emplace(word, numbers.size()).first->second);
      } else if (!entry.empty() && word.starts_with(entry)) {  // its parameters: entry_param_0
        line.shape += "entry" + word.substr(entry.size());
        line.renamed += "entry" + word.substr(entry.size());
      } else {
        line.shape += word, line.renamed += word;
      }
      at = end;
    }
    line.opcode = std::string(s.text.substr(0, s.text.find_first_of(" \t\n;")));
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string_view entry_of(std::string_view ptx) {
  const size_t at = ptx.find(".entry");
  if (at == ptx.npos) return {};
  const size_t begin = ptx.find_first_not_of(" \t", at + 6);
  size_t end = begin;
  while (end < ptx.size() && in_word(ptx[end])) ++end;
  return ptx.substr(begin, end - begin);
}

// Pairs of lines of one shape, as many as there can be, in order.
std::vector<std::pair<size_t, size_t>> common(const std::vector<Line>& a, const std::vector<Line>& b) {
  size_t front = 0, back = 0;
  const size_t least = std::min(a.size(), b.size());
  while (front < least && a[front].shape == b[front].shape) ++front;
  while (back < least - front && a[a.size() - 1 - back].shape == b[b.size() - 1 - back].shape) ++back;
  const size_t rows = a.size() - front - back, columns = b.size() - front - back;
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t i = 0; i < front; ++i) pairs.emplace_back(i, i);
  if (rows * columns <= 200'000'000) {  // else all of the middle differs
    std::map<std::string_view, uint32_t> ids;
    std::vector<uint32_t> x(rows), y(columns);
    for (size_t i = 0; i < rows; ++i) x[i] = ids.emplace(a[front + i].shape, ids.size()).first->second;
    for (size_t j = 0; j < columns; ++j) y[j] = ids.emplace(b[front + j].shape, ids.size()).first->second;
    std::vector<uint16_t> longest((rows + 1) * (columns + 1));  // of the rests
    const auto at = [&](size_t i, size_t j) -> uint16_t& { return longest[i * (columns + 1) + j]; };
    for (size_t i = rows; i-- > 0;)
      for (size_t j = columns; j-- > 0;)
        at(i, j) = x[i] == y[j] ? uint16_t(at(i + 1, j + 1) + 1) : std::max(at(i + 1, j), at(i, j + 1));
    for (size_t i = 0, j = 0; i < rows && j < columns;)
      if (x[i] == y[j])
        pairs.emplace_back(front + i++, front + j++);
      else
        (at(i + 1, j) >= at(i, j + 1) ? i : j) += 1;
  }
  for (size_t i = back; i-- > 0;) pairs.emplace_back(a.size() - 1 - i, b.size() - 1 - i);
  return pairs;
}

}  // namespace

PtxDifference ptx_difference(std::string_view text_a, std::string_view text_b) {
  const std::vector<Line> a = lines_of(text_a, entry_of(text_a)), b = lines_of(text_b, entry_of(text_b));
  PtxDifference d;
  d.same = std::ranges::equal(a, b, {}, &Line::renamed, &Line::renamed);
  std::map<std::string, PtxDifference::Opcode> opcodes;
  for (const Line& line : a) ++opcodes[line.opcode].a;
  for (const Line& line : b) ++opcodes[line.opcode].b;
  for (auto& [name, count] : opcodes)
    if (count.a != count.b) d.opcodes.push_back({name, count.a, count.b});
  const auto by = [](const PtxDifference::Opcode& o) { return o.a > o.b ? o.a - o.b : o.b - o.a; };
  std::ranges::stable_sort(d.opcodes, [&](const auto& x, const auto& y) { return by(x) > by(y); });

  std::vector<std::pair<size_t, size_t>> pairs = common(a, b);
  pairs.emplace_back(a.size(), b.size());
  size_t i = 0, j = 0;
  for (const auto& [to_a, to_b] : pairs) {
    if (i < to_a || j < to_b) {
      PtxDifference::Hunk hunk{i < a.size() ? a[i].number : 0, j < b.size() ? b[j].number : 0, {}, {}};
      while (i < to_a) hunk.a.push_back(a[i++].text), ++d.only_a;
      while (j < to_b) hunk.b.push_back(b[j++].text), ++d.only_b;
      d.hunks.push_back(std::move(hunk));
    }
    if (to_a < a.size() && to_b < b.size() && !d.same && a[to_a].renamed != b[to_b].renamed) ++d.renamed;
    i = to_a + 1, j = to_b + 1;
  }
  return d;
}

}  // namespace fp4lab
