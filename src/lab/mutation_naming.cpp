// How well a report leads to the line that was altered.
#include <algorithm>
#include <cstdlib>
#include <regex>

#include "fp4lab/mutate.h"
#include "lab/ptx_statements.h"

namespace fp4lab {
namespace {

// Words of a report that say what kind of instruction is missing, by the altered one's first words.
struct Kind {
  const char* instruction;  // ECMAScript, against the instruction without its guard
  const char* said;
};
constexpr Kind kKinds[] = {
    {R"(mbarrier\.(try|test)_wait.*)", "wait"},
    {R"(mbarrier\.arrive.*)", "arrive"},
    {R"(mbarrier\.init.*)", "mbarrier\\.init"},
    {R"(tcgen05\.commit.*)", "tcgen05\\.commit"},
    {R"(tcgen05\.wait::ld.*)", "tcgen05\\.wait::ld"},
    {R"(tcgen05\.wait::st.*)", "tcgen05\\.wait::st"},
    {R"(wgmma\.(commit|wait)_group.*)", "wgmma\\.commit_group and wait_group"},
    {R"(cp\.async\.bulk\.(commit|wait)_group.*)", "cp\\.async\\.bulk\\.commit_group and wait_group"},
    {R"(cp\.async\.(commit_group|wait_group|wait_all).*)", "cp\\.async\\.commit_group and wait_group"},
    {R"(bar\.warp\.sync.*)", "bar\\.warp\\.sync|barrier"},
    {R"(bar.*)", "barrier"},
    {R"(fence\.proxy.*)", "fence\\.proxy"},
    {R"(fence\.mbarrier_init.*)", "fence\\.mbarrier_init"},
    {R"(tcgen05\.fence.*)", "tcgen05\\.fence"},
    {R"((fence|membar).*)", "fence|release"},
};

struct Lines {
  std::vector<int> all, concerned;  // of instructions; of those whose kinds are altered here
};

Lines lines_of(std::string_view ptx) {
  Lines lines;
  for (const Statement& s : statements_of(ptx)) {
    lines.all.push_back(s.line);
    if (synchronises(s.text)) lines.concerned.push_back(s.line);
  }
  return lines;
}

int index_in(const std::vector<int>& lines, int line) {
  return static_cast<int>(std::lower_bound(lines.begin(), lines.end(), line) - lines.begin());
}

}  // namespace

Naming naming(std::string_view ptx, const Mutant& m, std::string_view report) {
  static const std::regex named(R"((?:\.ptx:|\bmodule:|\bline |\blines (\d+) and |\blast: |; )(\d+)\b)");
  static const std::regex gap(R"(([^;\n]*) between lines (\d+) and (\d+))");
  const Lines lines = lines_of(ptx);
  const int all = index_in(lines.all, m.line), concerned = index_in(lines.concerned, m.line);
  const auto near = [&](int line) {
    if (std::abs(index_in(lines.all, line) - all) <= kNearInstructions) return true;
    const int other = index_in(lines.concerned, line);
    return std::abs(other - concerned) == 1 && other < static_cast<int>(lines.concerned.size()) &&
           lines.concerned[static_cast<size_t>(other)] == line;
  };
  using Matches = std::regex_iterator<std::string_view::const_iterator>;
  Naming best = Naming::none;
  const auto seen = [&](const std::string& number) {
    if (number.empty()) return;
    const int line = std::stoi(number);
    if (line == m.line)
      best = Naming::line;
    else if (best != Naming::line && near(line))
      best = Naming::near;
  };
  for (Matches it(report.begin(), report.end(), named), end; it != end; ++it)
    seen((*it)[1].str()), seen((*it)[2].str());
  if (best != Naming::none) return best;
  const std::string_view bare = std::string_view(m.before).substr(
      m.before.starts_with('@') ? std::min(m.before.find(' '), m.before.size() - 1) + 1 : 0);
  for (const Kind& kind : kKinds) {
    if (!std::regex_match(bare.begin(), bare.end(), std::regex(kind.instruction))) continue;
    const std::regex said(kind.said);
    for (Matches it(report.begin(), report.end(), gap), end; it != end; ++it) {
      const int from = std::stoi((*it)[2].str()), to = std::stoi((*it)[3].str());
      const std::string what = (*it)[1].str();
      if (std::min(from, to) <= m.line && m.line <= std::max(from, to) && std::regex_search(what, said))
        return Naming::gap;
    }
    break;
  }
  return Naming::none;
}

}  // namespace fp4lab
