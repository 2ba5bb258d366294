#include "emulator/ptxas/moved_address.h"

#include <algorithm>
#include <unordered_set>

#include "emulator/ptxas/behind_copies.h"
#include "emulator/ptxas/reaching_writes.h"

namespace fp4lab::emu {

namespace {

constexpr unsigned kMostCopies = 16;  // one of the other; the compiler counts none

bool loads_const(const Source& s) { return s.tokens[0] == "ld" && s.has("const"); }

// The rows that hold variables' addresses.
std::unordered_set<uint32_t> address_rows(const Image& image) {
  std::unordered_set<uint32_t> rows;
  for (const Fixup& address : image.fixups)
    if (address.row < image.constants.size()) rows.insert(image.constants[address.row].offset);
  return rows;
}

}  // namespace

bool may_move_addresses(const Function& f) { return std::ranges::any_of(f.source, loads_const); }

void name_moved_addresses(Rewriter& w, const Dataflow& flow) {
  const ReachingWrites writes(w.f, flow);
  const std::unordered_set<uint32_t> variables = address_rows(w.image);
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc) {
    if (!loads_const(w.f.source[pc]) || flow.is_dead(pc)) continue;
    Operand& address = w.f.code[pc].op[1];
    uint32_t reg = address.has_base ? flow.number_of_base(address) : Dataflow::kNone;
    uint32_t at = pc;
    for (unsigned copies = 0; reg != Dataflow::kNone && copies < kMostCopies; ++copies) {
      at = writes.maker(at, reg);
      if (at == Dataflow::kNone) break;
      const Instr& i = w.f.code[at];
      const Source& s = w.f.source[at];
      if (i.guard >= 0 || !(is_copy(i, s) || is_logic_of_itself(i, s))) break;
      reg = flow.number_of(i.op[1]);
      if (reg == Dataflow::kNone && variables.contains(i.op[1].offset)) address.offset = i.op[1].offset;
    }
  }
}

}  // namespace fp4lab::emu
