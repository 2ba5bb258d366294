#include "fp4lab/mutate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <regex>

namespace fp4lab {
namespace {

struct Rule {
  const char* name;
  const char* pattern;      // ECMAScript, against one instruction without its guard
  const char* replacement;  // with $1, $2, ...; empty text leaves nothing
};

// A replacement that needs a register declares it, as m, in a block of its own, so that it fits anywhere.
constexpr Rule kRules[] = {
    {"mbarrier wait removed", R"(mbarrier\.(try|test)_wait\S* (%?\w+), \[.*\], .*;)",
     "setp.eq.u32 $2, 0, 0;"},
    {"mbarrier phase flipped", R"((mbarrier\.(?:try|test)_wait\.parity\S* %?\w+, \[.*?\], )(%?\w+)(.*);)",
     "{ .reg .b32 m; xor.b32 m, $2, 1; $1m$3; }"},
    {"expect_tx + 16 bytes", R"((mbarrier\.(?:arrive\.)?expect_tx\S* .*, )(%?\w+);)",
     "{ .reg .b32 m; add.u32 m, $2, 16; $1m; }"},
    {"expect_tx - 16 bytes", R"((mbarrier\.(?:arrive\.)?expect_tx\S* .*, )(%?\w+);)",
     "{ .reg .b32 m; sub.u32 m, $2, 16; $1m; }"},
    {"arrive.expect_tx removed", R"(mbarrier\.arrive\.expect_tx\S* .*;)", ""},
    {"arrive removed", R"(mbarrier\.arrive\.(?!expect_tx)\S* .*;)", ""},
    {"arrive doubled", R"((mbarrier\.arrive\.(?!expect_tx)\S* .*;))", "$1 $1"},
    {"init count + 1", R"((mbarrier\.init\S* \[.*\], )(%?\w+);)", "{ .reg .b32 m; add.u32 m, $2, 1; $1m; }"},
    {"init count - 1", R"((mbarrier\.init\S* \[.*\], )(%?\w+);)", "{ .reg .b32 m; sub.u32 m, $2, 1; $1m; }"},
    {"arrive of the next mbarrier", R"((mbarrier\.arrive\.(?!expect_tx)\S* _, \[)(%?\w+)(\].*;))",
     "{ .reg .b32 m; add.u32 m, $2, 8; $1m$3 }"},
    {"wait for the next mbarrier", R"((mbarrier\.(?:try|test)_wait\S* %?\w+, \[)(%?\w+)(\], .*;))",
     "{ .reg .b32 m; add.u32 m, $2, 8; $1m$3 }"},
    {"one try, no loop", R"((mbarrier\.(?:try|test)_wait\S* )(%?\w+)(, \[.*\], .*;))",
     "$1$2$3 setp.eq.u32 $2, 0, 0;"},
    {"scope .cluster to .cta", R"((mbarrier\.\S*\.(?:acquire|release)\.)cluster(\S* .*;))", "$1cta$2"},
    {"release or acquire to relaxed", R"((mbarrier\.\S*\.)(?:acquire|release)(\.cluster\S* .*;))",
     "$1relaxed$2"},
    {"scope .gpu to .cta", R"(((?:fence|atom|red|ld|st)\S*\.(?:acquire|release|acq_rel)\.)gpu(.*;))",
     "$1cta$2"},
    {"flag access relaxed", R"(((?:atom|red|ld|st)\S*\.)(?:acquire|release|acq_rel)(\.gpu.*;))",
     "$1relaxed$2"},
    {"cluster arrive relaxed", R"(barrier\.cluster\.arrive(?:\.release)?(\.aligned)?;)",
     "barrier.cluster.arrive.relaxed$1;"},
    {"init removed", R"(mbarrier\.init\S* .*;)", ""},
    {"commit removed", R"(tcgen05\.commit\S* .*;)", ""},
    {"commit to this CTA alone", R"((tcgen05\.commit\S*multicast\S* \[.*\], )(%?\w+);)",
     "{ .reg .b16 m; mov.u16 m, 1; $1m; }"},
    {"commit to the next mbarrier", R"((tcgen05\.commit\S* \[)(%?\w+)(\].*;))",
     "{ .reg .b32 m; add.u32 m, $2, 8; $1m$3 }"},
    {"tcgen05.wait removed", R"(tcgen05\.wait::\S*;)", ""},
    {"dealloc removed", R"(tcgen05\.dealloc\S* .*;)", ""},
    {"alloc of half the columns", R"((tcgen05\.alloc\S* \[.*\], )(%?\w+);)",
     "{ .reg .b32 m; shr.u32 m, $2, 1; $1m; }"},
    {"scale column off by one", R"((tcgen05\.cp\S* \[)(%?\w+)(\], .*);)",
     "{ .reg .b32 m; add.u32 m, $2, 1; $1m$3; }"},
    {"scale copy removed", R"(tcgen05\.cp\S* .*;)", ""},
    {"scale atom off by one", R"((tcgen05\.cp\S* \[.*\], )(%?\w+);)",
     "{ .reg .b64 m; add.u64 m, $2, 1; $1m; }"},
    {"mma removed", R"(tcgen05\.mma\S* .*;)", ""},
    {"A descriptor: 64-byte swizzle", R"((tcgen05\.mma\S* \[\S+\], )(%?\w+)(, .*);)",
     "{ .reg .b64 m; xor.b64 m, $2, 0xC000000000000000; $1m$3; }"},
    {"B descriptor: 32 bytes on", R"((tcgen05\.mma\S* \[\S+\], \S+, )(%?\w+)(, .*);)",
     "{ .reg .b64 m; add.u64 m, $2, 2; $1m$3; }"},
    {"A descriptor: other stride", R"((tcgen05\.mma\S* \[\S+\], )(%?\w+)(, .*);)",
     "{ .reg .b64 m; xor.b64 m, $2, 0x0000002000000000; $1m$3; }"},
    {"instruction descriptor: N + 8", R"((tcgen05\.mma\S* \[\S+\], \S+, \S+, )(%?\w+)(, .*);)",
     "{ .reg .b32 m; add.u32 m, $2, 0x20000; $1m$3; }"},
    {"accumulator column off by one", R"((tcgen05\.mma\S* \[)(%?\w+)(\], .*);)",
     "{ .reg .b32 m; add.u32 m, $2, 1; $1m$3; }"},
    {"accumulate always", R"((tcgen05\.mma\S* .*, )%?p\w*;)", "{ .reg .pred m; setp.eq.u32 m, 0, 0; $1m; }"},
    {"TMEM load one column on", R"((tcgen05\.ld\S* \{.*\}, \[)(%?\w+)\];)",
     "{ .reg .b32 m; add.u32 m, $2, 1; $1m]; }"},
    {"TMEM load of another warp's lanes", R"((tcgen05\.ld\S* \{.*\}, \[)(%?\w+)\];)",
     "{ .reg .b32 m; xor.b32 m, $2, 0x200000; $1m]; }"},
    {"multicast to one CTA", R"((cp\.async\.bulk\S*multicast\S* .*\], )(%rs\d+)(.*;))",
     "{ .reg .b16 m; mov.u16 m, 1; $1m$3 }"},
    {"copy removed", R"(cp\.async\.bulk\.(?!commit|wait|prefetch)\S* .*;)", ""},
    {"TMA coordinate 0 + 16", R"((cp\.async\.bulk\.tensor\S* .*\{)(%?\w+)(,.*);)",
     "{ .reg .b32 m; add.u32 m, $2, 16; $1m$3; }"},
    {"TMA coordinate 1 + 1", R"((cp\.async\.bulk\.tensor\S* .*\{[^,]*, )(%?\w+)(\}.*);)",
     "{ .reg .b32 m; add.u32 m, $2, 1; $1m$3; }"},
    {"bulk commit_group removed", R"(cp\.async\.bulk\.commit_group\S*;)", ""},
    {"bulk wait_group removed", R"(cp\.async\.bulk\.wait_group\S* .*;)", ""},
    {"tensor-map edit removed", R"(tensormap\.replace\S* .*;)", ""},
    {"wgmma removed", R"(wgmma\.mma_async\S* .*;)", ""},
    {"wgmma.fence removed", R"(wgmma\.fence\S*;)", ""},
    {"wgmma.commit_group removed", R"(wgmma\.commit_group\S*;)", ""},
    {"wgmma.wait_group removed", R"(wgmma\.wait_group\S* .*;)", ""},
    {"wgmma.wait_group + 1", R"((wgmma\.wait_group\S* )0;)", "$011;"},
    {"cp.async commit_group removed", R"(cp\.async\.commit_group\S*;)", ""},
    {"cp.async wait_group removed", R"(cp\.async\.wait_(?:group|all).*;)", ""},
    {"cp.async arrive removed", R"(cp\.async\.mbarrier\.arrive\S* .*;)", ""},
    {"launch-control request removed", R"(clusterlaunchcontrol\.try_cancel\S* .*;)", ""},
    {"flag's addition removed", R"(red\.\S*release\S* .*;)", ""},
    {"bar removed", R"(bar(?:rier)?(?:\.cta)?\.(sync|arrive)\S* .*;)", ""},
    {"cluster barrier arrive removed", R"(barrier\.cluster\.arrive\S*;)", ""},
    {"cluster barrier wait removed", R"(barrier\.cluster\.wait\S*;)", ""},
    {"fence removed", R"((?:(?:tcgen05\.)?fence|membar)\S*( .*)?;)", ""},
    {"warp sync removed", R"(bar\.warp\.sync .*;)", ""},
};

// Only these families are altered; the test keeps std::regex away from the bulk of a large module.
bool concerned(std::string_view statement) {
  static constexpr std::string_view kAlways[] = {"mbarrier.",
                                                 "tcgen05.",
                                                 "cp.async",
                                                 "wgmma.",
                                                 "fence",
                                                 "membar",
                                                 "bar",
                                                 "tensormap.replace",
                                                 "clusterlaunchcontrol.try"};
  static constexpr std::string_view kWithOrder[] = {"ld.", "st.", "atom.", "red."};
  const auto begins = [&](std::string_view head) { return statement.starts_with(head); };
  if (std::ranges::any_of(kAlways, begins)) return true;
  return std::ranges::any_of(kWithOrder, begins) &&
         (statement.find("acq") != statement.npos || statement.find("release") != statement.npos);
}

// One instruction: where it lies without its guard, and the guard ("@%p1 " or nothing) in front of it.
struct Statement {
  size_t guard, begin, end;  // [guard, begin) is the guard; end is behind the semicolon
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

// Inline assembly puts several instructions, labels and blocks on a line, and long instructions on several.
std::vector<Statement> statements_of(std::string_view text) {
  std::vector<Statement> all;
  size_t at = 0;
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
    Statement s{at, at, 0};
    if (text[at] == '@') {
      size_t k = at + 1;
      while (k < text.size() && (is_word(text[k]) || text[k] == '!')) ++k;
      while (k < text.size() && is_space(text[k])) ++k;
      s.begin = k;
    }
    const size_t end = text.find(';', s.begin);
    if (end == text.npos) break;
    s.end = at = end + 1;
    all.push_back(s);
  }
  return all;
}

// As the rules expect it: single blanks.
std::string squeezed(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (!is_space(c))
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  if (out.size() > 1 && out[out.size() - 2] == ' ') out.erase(out.size() - 2, 1);  // "p ;"
  return out;
}

// The guard belongs in front of every instruction of the replacement but those that prepare its own register
// m.
std::string guarded(const std::string& guard, const std::string& text) {
  static const std::regex own(R"(^(\.reg .*|\S+ m, .*))");
  if (guard.empty() || text.empty()) return text;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '{' || text[at] == '}' || text[at] == ' ') {
      // A brace within an instruction is not met here: instructions are taken whole.
      out += text[at++];
      continue;
    }
    const size_t end = std::min(text.find(';', at), text.size() - 1) + 1;
    const std::string one = text.substr(at, end - at);
    out += (std::regex_match(one, own) ? "" : guard) + one;
    at = end;
  }
  return out;
}

}  // namespace

std::string Mutant::applied(std::string_view ptx) const {
  std::string text(ptx.substr(0, begin));
  text += after;
  text.append(static_cast<size_t>(std::count(ptx.begin() + static_cast<ptrdiff_t>(begin),
                                             ptx.begin() + static_cast<ptrdiff_t>(end), '\n')),
              '\n');
  return text.append(ptx.substr(end));
}

std::vector<Mutant> mutants(std::string_view ptx) {
  static const auto rules = [] {
    std::vector<std::pair<const Rule*, std::regex>> all;
    for (const Rule& rule : kRules) all.emplace_back(&rule, std::regex(fmt::format("^{}$", rule.pattern)));
    return all;
  }();
  std::vector<Mutant> result;
  int line = 1;
  size_t counted = 0;
  for (const Statement& s : statements_of(ptx)) {
    const std::string_view instruction = ptx.substr(s.begin, s.end - s.begin);
    if (!concerned(instruction)) continue;
    const std::string text = squeezed(instruction), guard = squeezed(ptx.substr(s.guard, s.begin - s.guard));
    line += static_cast<int>(std::count(ptx.begin() + static_cast<ptrdiff_t>(counted),
                                        ptx.begin() + static_cast<ptrdiff_t>(s.begin), '\n'));
    counted = s.begin;
    for (const auto& [rule, regex] : rules) {
      std::smatch match;
      if (!std::regex_match(text, match, regex)) continue;
      result.push_back(
          {rule->name, line, guard + text, guarded(guard, match.format(rule->replacement)), s.guard, s.end});
    }
  }
  return result;
}

namespace {

// Words of a report that say what kind of instruction is missing, by the altered one's first words.
struct Kind {
  const char* instruction;  // ECMAScript, against the instruction without its guard
  const char* said;
};
constexpr Kind kKinds[] = {
    {R"(mbarrier\.(try|test)_wait.*)", "wait"},
    {R"(mbarrier\.arrive.*)", "arrive"},
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
  size_t counted = 0;
  int line = 1;
  for (const Statement& s : statements_of(ptx)) {
    line += static_cast<int>(std::count(ptx.begin() + static_cast<ptrdiff_t>(counted),
                                        ptx.begin() + static_cast<ptrdiff_t>(s.begin), '\n'));
    counted = s.begin;
    lines.all.push_back(line);
    if (concerned(ptx.substr(s.begin, s.end - s.begin))) lines.concerned.push_back(line);
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
