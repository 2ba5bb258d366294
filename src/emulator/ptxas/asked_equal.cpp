#include "emulator/ptxas/asked_equal.h"

#include <optional>
#include <string_view>
#include <vector>

#include "emulator/ptxas/any_instruction.h"
#include "emulator/ptxas/behind_copies.h"
#include "emulator/ptxas/part.h"

// Behind the branch, in what reads the constant that was found by `ne`:
//
// * What reads it by halves (popc, clz, bfind, brev, a mov that takes it apart) gets the lower half for both.
// * subc of it, whose opposite the machine adds, adds the constant itself.
// * and, or and xor of what `not` makes of it are of the constant itself, too.
//
// Not known so: by `eq`, in a question that is combined with a predicate, behind `.uni`, and what was packed
// from registers or has met another value behind branches or in a loop.

namespace fp4lab::emu {

namespace {

bool is_question(const Instr& i, const Source& s) {
  return s.tokens[0] == "setp" && s.tokens.size() == 3 && s.tokens[1] == "ne" && bits_of(s.type()) >= 32 &&
         !is_float(s.type()) && i.guard < 0;
}

bool reads_halves(const Instr& i, const Source& s) {
  const std::string_view name = s.tokens[0];
  if (takes_apart(i, s)) return bits_of(i.op[1].type) >= 32;
  return (name == "popc" || name == "clz" || name == "bfind" || name == "brev") && bits_of(s.type()) == 64;
}

bool is_logic(const Source& s) {
  return (s.tokens[0] == "and" || s.tokens[0] == "or" || s.tokens[0] == "xor") &&
         (s.type() == Type::b32 || s.type() == Type::b64);
}

bool mistakes_constant(const Instr& i, const Source& s) {
  return reads_halves(i, s) || s.tokens[0] == "subc" || is_logic(s);
}

class AskedEqual {
 public:
  AskedEqual(Rewriter& w, const Dataflow& flow, const Known& known)
      : w_(w), f_(w.f), flow_(flow), known_(known), up_(dominators_of(flow).up) {}

  void run() {
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      if (flow_.is_dead(pc)) continue;
      const Source& s = f_.source[pc];
      if (reads_halves(f_.code[pc], s)) repeat_half(pc);
      if (s.tokens[0] == "subc") lose_complement(pc, 2);
      if (is_logic(s))
        for (const unsigned slot : {1u, 2u}) lose_not(pc, slot);
    }
  }

 private:
  std::optional<Origin> origin(uint32_t pc, unsigned slot) const {
    return origin_behind_copies(f_, known_, pc, f_.code[pc].op[slot], known_.maker(pc, slot));
  }

  void repeat_half(uint32_t pc) {
    const auto constant = known_at(pc, 1);
    if (!constant) return;
    const unsigned half = bits_of(f_.code[pc].op[1].type) / 2;
    const uint64_t low = *constant & ((uint64_t(1) << half) - 1);
    w_.replace(pc, f_.source[pc].tokens, {w_.constant(low << half | low, bits_type(f_.code[pc].op[1].type))});
  }

  void lose_complement(uint32_t pc, unsigned slot) {
    const Type type = bits_type(f_.code[pc].op[slot].type);
    if (const auto constant = known_at(pc, slot))
      f_.code[pc].op[slot] = w_.constant(complement(*constant, type), type);
  }

  void lose_not(uint32_t pc, unsigned slot) {
    const auto from = origin(pc, slot);
    if (!from || f_.source[from->maker].tokens[0] != "not" || known_.bits(pc, 3 - slot)) return;
    const Type type = bits_type(f_.code[pc].op[slot].type);
    if (const auto constant = known_at(from->maker, 1)) f_.code[pc].op[slot] = w_.constant(*constant, type);
  }

  static uint64_t complement(uint64_t bits, Type type) {
    return bits_of(type) == 64 ? ~bits : ~bits & 0xffffffff;
  }

  // What a branch on the way to every reading of the operand has found it to be.
  std::optional<uint64_t> known_at(uint32_t pc, unsigned slot) const {
    const auto read = origin(pc, slot);
    if (!read || f_.source[read->maker].tokens[0] == "mov") return std::nullopt;
    for (uint32_t b = flow_.block_of(pc); up_[b] != Dominators::kNone && up_[b] != b; b = up_[b])
      if (const auto constant = answer(b, *read)) return constant;
    return std::nullopt;
  }

  // By the branch that alone leads to a block.
  std::optional<uint64_t> answer(uint32_t block, const Origin& value) const {
    const auto& predecessors = flow_.blocks()[block].predecessors;
    if (predecessors.size() != 1) return std::nullopt;
    const Dataflow::Block& from = flow_.blocks()[predecessors[0]];
    const uint32_t branch = from.end - 1;
    const Instr& i = f_.code[branch];
    const std::string_view name = f_.source[branch].tokens[0];
    if (i.guard <= 0 || f_.source[branch].has("uni") || !(name == "bra" || name == "exit" || name == "ret"))
      return std::nullopt;
    const bool is_taken = flow_.blocks()[block].begin != from.end;
    bool is_equal = is_taken == i.guard_negated;
    uint32_t asked = known_.guard_maker(branch), target = i.guard;
    if (asked < branch && f_.source[asked].tokens[0] == "not" && f_.code[asked].guard < 0) {
      is_equal = !is_equal;
      target = f_.code[asked].op[1].index;
      asked = known_.maker(asked, 1);
    }
    if (!is_equal || asked >= branch || !is_question(f_.code[asked], f_.source[asked]) ||
        f_.code[asked].op[0].index != target)
      return std::nullopt;
    for (const unsigned slot : {2u, 3u}) {
      const auto constant = known_.bits(asked, 5 - slot);
      const auto compared = constant ? origin(asked, slot) : std::nullopt;
      if (compared && compared->maker == value.maker && compared->value->offset == value.value->offset)
        return constant;
    }
    return std::nullopt;
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const Known& known_;
  std::vector<uint32_t> up_;  // by block: the immediate dominator
};

}  // namespace

bool may_ask_equal(const Function& f) {
  return any_instruction(f, is_question) && any_instruction(f, mistakes_constant);
}

void mistake_asked_constants(Rewriter& w, const Dataflow& flow, const Known& known) {
  AskedEqual(w, flow, known).run();
}

}  // namespace fp4lab::emu
