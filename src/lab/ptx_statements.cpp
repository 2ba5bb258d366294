#include "lab/ptx_statements.h"

#include <algorithm>
#include <cctype>

namespace fp4lab {

// Only these families are altered; the test keeps std::regex away from the bulk of a large module.
bool synchronises(std::string_view statement) {
  static constexpr std::string_view kAlways[] = {"mbarrier.",
                                                 "tcgen05.",
                                                 "cp.async",
                                                 "wgmma.",
                                                 "fence",
                                                 "membar",
                                                 "bar",
                                                 "mapa",
                                                 "griddepcontrol.wait",
                                                 "tensormap.",
                                                 "clusterlaunchcontrol.try"};
  static constexpr std::string_view kWithOrder[] = {"ld.", "st.", "atom.", "red."};
  const auto begins = [&](std::string_view head) { return statement.starts_with(head); };
  if (std::ranges::any_of(kAlways, begins)) return true;
  return std::ranges::any_of(kWithOrder, begins) &&
         (statement.find("acq") != statement.npos || statement.find("release") != statement.npos);
}

namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

}  // namespace

// Inline assembly puts several instructions, labels and blocks on a line, and long instructions on several.
std::vector<Statement> statements_of(std::string_view text) {
  std::vector<Statement> all;
  size_t at = 0, counted = 0;
  int line = 1;
  const auto skip = [&] {  // blanks and comments
    for (;;) {
      while (at < text.size() && is_space(text[at])) ++at;
      if (text.substr(at, 2) == "//")
        at = std::min(text.find('\n', at), text.size());
      else if (text.substr(at, 2) == "/*")
        at = std::min(text.find("*/", at), text.size() - 2) + 2;
      else
        return;
    }
  };
  for (skip(); at < text.size(); skip()) {
    if (text[at] == '{' || text[at] == '}' || text[at] == ';') {  // a block, or what was left empty
      ++at;
      continue;
    }
    if (text[at] == '.') {  // a directive: to its semicolon, its line's end or the block that it opens
      const size_t end = text.find_first_of(";{\n", at);
      at = end == text.npos ? text.size() : text[end] == ';' ? end + 1 : end;
      continue;
    }
    size_t word = at;
    while (word < text.size() && is_word(text[word])) ++word;
    size_t colon = word;
    while (colon < text.size() && is_space(text[colon])) ++colon;
    if (word > at && colon < text.size() && text[colon] == ':' && text.substr(colon, 2) != "::") {
      at = colon + 1;  // a label
      continue;
    }
    Statement s{at, at, 0, 0, {}};
    if (text[at] == '@') {
      size_t k = at + 1;
      while (k < text.size() && (is_word(text[k]) || text[k] == '!')) ++k;
      while (k < text.size() && is_space(text[k])) ++k;
      s.begin = k;
    }
    const size_t end = text.find(';', s.begin);
    if (end == text.npos) break;
    s.end = at = end + 1;
    line += static_cast<int>(std::ranges::count(text.substr(counted, s.begin - counted), '\n'));
    counted = s.begin;
    s.line = line;
    s.text = text.substr(s.begin, s.end - s.begin);
    all.push_back(s);
  }
  return all;
}

}  // namespace fp4lab
