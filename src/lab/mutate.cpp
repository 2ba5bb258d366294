#include "fp4lab/mutate.h"

#include <fmt/format.h>

#include <regex>

namespace fp4lab {
namespace {

struct Rule {
  const char* name;
  const char* pattern;      // ECMAScript, against one line
  const char* replacement;  // with $1, $2, ...; empty text leaves the line blank
};

// A replacement that needs a register declares it in a block of its own, so that it fits anywhere.
constexpr Rule kRules[] = {
    {"mbarrier wait removed", R"(mbarrier\.(try|test)_wait\S* (%?\w+), \[.*\], .*;)",
     "setp.eq.u32 $2, 0, 0;"},
    {"mbarrier phase flipped", R"((mbarrier\.(?:try|test)_wait\.parity\S* %?\w+, \[.*\], )(%?\w+);)",
     "{ .reg .b32 m; xor.b32 m, $2, 1; $1m; }"},
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
    {"accumulate always", R"((tcgen05\.mma\S* .*, )p;)", "{ .reg .pred m; setp.eq.u32 m, 0, 0; $1m; }"},
    {"TMEM load one column on", R"((tcgen05\.ld\S* \{.*\}, \[)(%?\w+)\];)",
     "{ .reg .b32 m; add.u32 m, $2, 1; $1m]; }"},
    {"TMEM load of another warp's lanes", R"((tcgen05\.ld\S* \{.*\}, \[)(%?\w+)\];)",
     "{ .reg .b32 m; xor.b32 m, $2, 0x200000; $1m]; }"},
    {"multicast to one CTA", R"((cp\.async\.bulk\S*multicast\S* .*\], )(%rs\d+)(.*;))",
     "{ .reg .b16 m; mov.u16 m, 1; $1m$3 }"},
    {"copy removed", R"(cp\.async\.bulk\.(?!commit|wait)\S* .*;)", ""},
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
    {"flag's addition removed", R"(red\.\S*release\S* .*;)", ""},
    {"bar removed", R"(bar\.(sync|arrive) .*;)", ""},
    {"cluster barrier arrive removed", R"(barrier\.cluster\.arrive\S*;)", ""},
    {"cluster barrier wait removed", R"(barrier\.cluster\.wait\S*;)", ""},
    {"fence removed", R"((?:tcgen05\.)?fence\S*( .*)?;)", ""},
    {"warp sync removed", R"(bar\.warp\.sync .*;)", ""},
};

struct Line {
  size_t begin, end;  // without the newline
};

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back({at, end});
    at = end + 1;
  }
  return lines;
}

}  // namespace

std::vector<Mutant> mutants(std::string_view ptx) {
  std::vector<std::pair<const Rule*, std::regex>> rules;
  for (const Rule& rule : kRules) rules.emplace_back(&rule, std::regex(fmt::format("^{}$", rule.pattern)));
  std::vector<Mutant> result;
  int number = 0;
  for (const Line& line : lines_of(ptx)) {
    ++number;
    std::string text(ptx.substr(line.begin, line.end - line.begin));
    const size_t first = text.find_first_not_of(" \t");
    if (first == std::string::npos || text.compare(first, 2, "//") == 0) continue;
    text.erase(0, first);
    text.erase(text.find_last_not_of(" \t") + 1);
    // A guard (@%p1) stays in front of what replaces the instruction only if that is one instruction.
    for (const auto& [rule, regex] : rules) {
      std::smatch match;
      if (!std::regex_match(text, match, regex)) continue;
      Mutant m{rule->name, number, text, match.format(rule->replacement), {}};
      m.ptx = fmt::format("{}{}{}", ptx.substr(0, line.begin), m.after, ptx.substr(line.end));
      result.push_back(std::move(m));
    }
  }
  return result;
}

}  // namespace fp4lab
