#include "emulator/ptxas/carried_product.h"

#include <algorithm>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/approximate.h"
#include "emulator/ptxas/counted_loop.h"
#include "emulator/ptxas/summed_product.h"

namespace fp4lab::emu {

namespace {

constexpr uint32_t kNone = Dataflow::kNone;

class Carrier {
 public:
  Carrier(Rewriter& w, const Dataflow& flow) : w_(w), f_(w.f), flow_(flow) {}

  void follow(const CountedLoop& loop) {
    if (loop.test != loop.back || loop.begin == 0) return;
    const Instr& step = f_.code[loop.step_at];
    if (step.op[1].offset != step.op[0].offset) return;  // of a copy
    for (uint32_t pc = loop.begin; pc < loop.back; ++pc)
      if (f_.code[pc].opcode->name == "bra" || flow_.becomes_branch(pc)) return;
    for (uint32_t pc = loop.begin; pc < loop.back; ++pc) {
      if (flow_.is_dead(pc) || f_.code[pc].guard >= 0 || shape_of(f_.code[pc], f_.source[pc]) != Shape::sum)
        continue;
      const uint32_t first = carried(loop, pc, 1), second = carried(loop, pc, 2);
      if ((first == kNone) != (second == kNone))
        fuse(loop, pc, first == kNone ? second : first, first == kNone);
    }
  }

 private:
  // The only instruction of the loop that writes a register, unguarded.
  uint32_t writer(const CountedLoop& loop, uint32_t reg) const {
    uint32_t found = kNone;
    for (uint32_t pc = loop.begin; pc < loop.back; ++pc) {
      const auto& writes = flow_.access(pc).writes;
      if (std::find(writes.begin(), writes.end(), reg) == writes.end()) continue;
      if (found != kNone || f_.code[pc].guard >= 0) return kNone;
      found = pc;
    }
    return found;
  }

  bool is_only_reader(const CountedLoop& loop, uint32_t reader, uint32_t reg) const {
    for (uint32_t pc = loop.begin; pc <= loop.back; ++pc) {
      const auto& reads = flow_.access(pc).reads;
      if (pc != reader && std::find(reads.begin(), reads.end(), reg) != reads.end()) return false;
    }
    return true;
  }

  // The product of the round before that an operand of a sum is, if nothing else in the loop reads it. The
  // other operand must be none, or the sum takes that.
  uint32_t carried(const CountedLoop& loop, uint32_t sum, unsigned slot) const {
    const uint32_t reg = flow_.number_of(f_.code[sum].op[slot]);
    const uint32_t other = flow_.number_of(f_.code[sum].op[3 - slot]);
    if (reg == kNone || reg == other || !is_only_reader(loop, sum, reg)) return kNone;
    const uint32_t product = writer(loop, reg);
    if (product == kNone || product < sum || !is_product(product, sum)) return kNone;
    for (uint32_t pc = loop.begin; pc < loop.back; ++pc) {
      const auto& writes = flow_.access(pc).writes;
      const bool makes_other = std::find(writes.begin(), writes.end(), other) != writes.end();
      if (makes_other && shape_of(f_.code[pc], f_.source[pc]) != Shape::other) return kNone;
    }
    return product;
  }

  bool is_product(uint32_t pc, uint32_t sum) const {
    return shape_of(f_.code[pc], f_.source[pc]) == Shape::product && !ends_in_product(f_.source[pc]) &&
           same_kind(f_.source[pc], f_.source[sum]);
  }

  Operand made(uint32_t before, Rewriter::Tokens tokens, std::vector<Operand> sources,
               Type type = Type::b32) {
    const Operand d = w_.fresh(type);
    sources.insert(sources.begin(), d);
    w_.insert(before, std::move(tokens), std::move(sources));
    return d;
  }

  // -1 where the sum stands in a group behind its first round, else 0: in the second and fourth round of
  // four, and in the third if another follows.
  Operand behind_first(const CountedLoop& loop, uint32_t sum) {
    const Operand round = w_.fresh(Type::b32), phase = w_.fresh(Type::b32);
    w_.insert(0, {"mov", "b32"}, {round, w_.constant(0)});
    w_.insert(loop.back + 1, {"mov", "b32"}, {round, w_.constant(0)});
    w_.insert(sum, {"and", "b32"}, {phase, round, w_.constant(3)});
    w_.insert(sum, {"add", "u32"}, {round, round, w_.constant(1)});
    const Instr& step = f_.code[loop.step_at];
    const Source& compared = f_.source[loop.compared_at];
    Operand a = f_.code[loop.compared_at].op[2], b = f_.code[loop.compared_at].op[3];
    if (loop.step_at > sum) {
      const Operand next =
          made(sum, f_.source[loop.step_at].tokens, {step.op[1], step.op[2]}, step.op[0].type);
      (flow_.number_of(a) == flow_.number_of(step.op[0]) ? a : b) = next;
    }
    const Operand more = made(sum, {"set", compared.tokens[1], "u32", compared.tokens[2]}, {a, b});
    const Operand third = made(sum, {"set", "eq", "u32", "u32"}, {phase, w_.constant(2)});
    const Operand pair = made(sum, {"and", "b32"}, {third, more}),
                  odd = made(sum, {"and", "b32"}, {phase, w_.constant(1)});
    return made(sum, {"set", "ne", "u32", "u32"}, {made(sum, {"or", "b32"}, {pair, odd}), w_.constant(0)});
  }

  void fuse(const CountedLoop& loop, uint32_t sum, uint32_t product, bool second) {
    const Source s = f_.source[sum];
    const Instr i = f_.code[sum];
    const bool subtracts = s.tokens[0] == "sub";
    const Type type = i.op[0].type;
    const std::string_view bits = name_of(bits_type(type));
    Operand factors[2];
    for (unsigned k = 0; k < 2; ++k) {
      factors[k] = w_.fresh(type);
      w_.insert(0, {"mov", bits}, {factors[k], w_.constant(0, type)});
      w_.insert(product, {"mov", bits}, {factors[k], f_.code[product].op[1 + k]});
    }
    const Operand choice = behind_first(loop, sum);
    const Operand apart = made(sum, s.tokens, {i.op[1], i.op[2]}, type);
    Operand other = i.op[second ? 1 : 2], a = factors[0];
    if (subtracts && second) a = w_.negated(a, sum);
    if (subtracts && !second) other = w_.negated(other, sum);
    Rewriter::Tokens tokens{"fma", "rn"};
    for (const std::string_view word : {"ftz", "sat"})
      if (s.has(word)) tokens.push_back(word);
    tokens.push_back(name_of(s.type()));
    const Operand fused = made(sum, tokens, {a, factors[1], other}, type);
    w_.replace(sum, {"slct", bits, "s32"}, {apart, fused, choice});
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
};

}  // namespace

void carry_products(Rewriter& w, const Dataflow& flow, const std::vector<const Token*>& nounroll) {
  Carrier carrier(w, flow);
  for (const CountedLoop& loop : counted_loops(w.f, flow, nounroll))
    if (becomes_several(w.f, loop)) carrier.follow(loop);
  w.rebuild();
}

}  // namespace fp4lab::emu
