#include "emulator/ptxas/alternating_sign.h"

#include <algorithm>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/any_instruction.h"
#include "emulator/ptxas/counted_loop.h"
#include "emulator/ptxas/summed_product.h"

namespace fp4lab::emu {

namespace {

bool negates_itself(const Instr& i, const Source& s) {
  return is_negation(i, s) && is_value(i.op[1]) && i.op[0].offset == i.op[1].offset;
}

class Alternation {
 public:
  Alternation(Rewriter& w, const Dataflow& flow) : w_(w), f_(w.f), flow_(flow) {}

  void follow(const CountedLoop& loop) {
    if (loop.begin == 0 || has_branches(loop)) return;
    // What stands before a test at the begin is there once before the loop, too.
    for (uint32_t pc = loop.is_tested_at_end() ? loop.begin : loop.test; pc < loop.back; ++pc)
      if (!flow_.is_dead(pc) && negates_itself(f_.code[pc], f_.source[pc]) && is_only_writer(loop, pc))
        alternate(loop, pc);
  }

 private:
  // Of a loop that leaves before the branch back a first round is taken out.
  bool has_branches(const CountedLoop& loop) const {
    for (uint32_t pc = loop.begin; pc < loop.back; ++pc)
      if (f_.code[pc].opcode->name == "bra" && (pc != loop.test || loop.leaves_at_end)) return true;
    return false;
  }

  bool is_only_writer(const CountedLoop& loop, uint32_t writer) const {
    const uint32_t reg = flow_.number_of(f_.code[writer].op[0]);
    for (uint32_t pc = loop.begin; pc < loop.back; ++pc) {
      const auto& writes = flow_.access(pc).writes;
      if (pc != writer && std::find(writes.begin(), writes.end(), reg) != writes.end()) return false;
    }
    return true;
  }

  // In odd rounds it negates; in even ones it takes what the round before found.
  void alternate(const CountedLoop& loop, uint32_t pc) {
    const Operand value = f_.code[pc].op[1];
    const std::string_view bits = name_of(bits_type(f_.source[pc].type()));
    const Operand odd = w_.fresh(Type::b32), choice = w_.fresh(Type::b32);
    const Operand found = w_.fresh(value.type), before = w_.fresh(value.type), negated = w_.fresh(value.type);
    w_.insert(0, {"mov", "b32"}, {odd, w_.constant(0)});
    w_.insert(0, {"mov", bits}, {found, w_.constant(0, value.type)});
    w_.insert(pc, {"mov", bits}, {before, found});
    w_.insert(pc, {"mov", bits}, {found, value});
    w_.insert(pc, {"xor", "b32"}, {odd, odd, w_.constant(1)});
    w_.insert(pc, {"sub", "s32"}, {choice, odd, w_.constant(1)});
    w_.insert(pc, f_.source[pc].tokens, {negated, value});
    w_.replace(pc, {"slct", bits, "s32"}, {negated, before, choice});
    w_.insert(flow_.blocks()[loop.out].begin, {"mov", "b32"}, {odd, w_.constant(0)});
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
};

}  // namespace

bool may_alternate_signs(const Function& f) { return any_instruction(f, negates_itself); }

void alternate_signs(Rewriter& w, const Dataflow& flow, const std::vector<const Token*>& nounroll) {
  Alternation alternation(w, flow);
  for (const CountedLoop& loop : counted_loops(w.f, flow, nounroll))
    if (becomes_straight(loop) || becomes_several(w.f, loop)) alternation.follow(loop);
  w.rebuild();
}

}  // namespace fp4lab::emu
