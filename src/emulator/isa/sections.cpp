// The manual's section by the first word of an instruction (chapters of PTX ISA 9.0), for messages about
// instructions without a row; rows have their own section.
#include <iterator>

#include "emulator/isa/table.h"

namespace fp4lab::emu {

namespace {

struct Section {
  std::string_view section, words;  // words separated by single spaces
};

constexpr Section kSections[] = {
    {"9.7.1",
     "add sub mul mad mul24 mad24 sad div rem abs neg min max popc clz bfind fns brev bfe bfi szext bmsk "
     "dp4a dp2a"},
    {"9.7.2", "addc subc madc"},
    {"9.7.3", "testp copysign fma rcp sqrt rsqrt sin cos lg2 ex2 tanh"},
    {"9.7.6", "set setp selp slct"},
    {"9.7.8", "and or xor not cnot lop3 shf shl shr"},
    {"9.7.9",
     "mov shfl prmt ld ldu st multimem prefetch prefetchu applypriority discard createpolicy isspacep cvta "
     "cvt cp mapa getctarank"},
    {"9.7.10", "tex tld4 txq istypep"},
    {"9.7.11", "suld sust sured suq"},
    {"9.7.12", "bra brx call ret exit"},
    {"9.7.13",
     "bar barrier membar fence atom red vote match activemask redux griddepcontrol elect mbarrier tensormap "
     "clusterlaunchcontrol"},
    {"9.7.14", "wmma mma ldmatrix stmatrix movmatrix"},
    {"9.7.15", "wgmma"},
    {"9.7.16", "tcgen05"},
    {"9.7.17", "stacksave stackrestore alloca"},
    {"9.7.18",
     "vadd vsub vabsdiff vmin vmax vshl vshr vmad vset vabsdiff4 vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 "
     "vset2 vadd4 vsub4 vavrg4 vmin4 vmax4 vset4"},
    {"9.7.19", "brkpt nanosleep pmevent trap setmaxnreg"},
};

}  // namespace

std::string_view section_of(std::string_view mnemonic) {
  for (const Section& row : kSections) {
    std::string_view rest = row.words;
    while (!rest.empty()) {
      size_t space = rest.find(' ');
      if (rest.substr(0, space) == mnemonic) return row.section;
      rest = space == rest.npos ? std::string_view() : rest.substr(space + 1);
    }
  }
  return {};
}

std::vector<std::string_view> manual_mnemonics() {
  std::vector<std::string_view> all;
  for (const Section& row : kSections)
    for (std::string_view rest = row.words; !rest.empty();) {
      const size_t space = rest.find(' ');
      all.push_back(rest.substr(0, space));
      rest = space == rest.npos ? std::string_view() : rest.substr(space + 1);
    }
  return all;
}

}  // namespace fp4lab::emu
