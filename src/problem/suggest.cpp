#include "fp4lab/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace fp4lab {
namespace {

// Insertions, removals, replacements and swaps of neighbours (optimal string alignment).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = above, above = row;
  }
  return above[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& names) {
  size_t least = std::max<size_t>(1, typed.size() / 3) + 1;
  std::vector<std::string> near;
  for (const std::string& name : names) {
    const bool begins = typed.size() >= 2 && std::string_view(name).starts_with(typed);
    const size_t edits = begins ? 1 : distance(typed, name);
    if (edits > least || edits >= std::max<size_t>(1, typed.size() / 3) + 1) continue;
    if (edits < least) near.clear();
    least = edits;
    if (near.size() < 3 && std::ranges::find(near, name) == near.end()) near.push_back(name);
  }
  if (near.empty()) return {};
  std::string text = near[0];
  for (size_t i = 1; i < near.size(); ++i) text += (i + 1 == near.size() ? " or " : ", ") + near[i];
  return fmt::format("; did you mean {}?", text);
}

}  // namespace fp4lab
