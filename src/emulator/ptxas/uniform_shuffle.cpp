#include "emulator/ptxas/uniform_shuffle.h"

#include <algorithm>
#include <unordered_map>

#include "emulator/ptxas/any_instruction.h"
#include "emulator/ptxas/halves.h"
#include "emulator/ptxas/read_behind.h"
#include "emulator/ptxas/stored_load.h"

namespace fp4lab::emu {

namespace {

// The values in which the lanes of a warp agree, as far as one instruction made each. What meets behind
// branches is not looked into.
class Agreement {
 public:
  Agreement(const Function& f, const Dataflow& flow, const Known& known)
      : f_(f), flow_(flow), known_(known), parting_(f, flow) {}

  bool holds(uint32_t pc, const Operand& read, uint32_t maker) {
    if (read.kind == Operand::Kind::address) return !read.has_base || holds_for_base(pc, read);
    if (read.kind == Operand::Kind::vector) {
      for (uint32_t e = read.index; e < read.index + read.count; ++e)
        if (!holds(pc, f_.vectors[e], known_.maker_of_element(pc, e))) return false;
      return true;
    }
    if (flow_.number_of(read) == Dataflow::kNone) return read.kind != Operand::Kind::special;
    return maker != Dataflow::kNone && is_made(maker);
  }

 private:
  bool holds_for_base(uint32_t pc, const Operand& address) const {
    const uint32_t base = flow_.number_of_base(address);
    return base == Dataflow::kNone ? !flow_.asks_lane(pc) : !parting_.may_differ(base);
  }

  bool is_made(uint32_t pc) {
    const auto [made, is_new] = made_.try_emplace(pc, false);  // of itself, in a loop: no
    if (!is_new) return made->second;
    const Instr& i = f_.code[pc];
    const Source& s = f_.source[pc];
    bool agrees = i.guard < 0 && !reads_carry(s) &&  // which may differ
                  !(PartingLanes::reads_generic(s) && parting_.may_differ_in_memory());
    if (agrees && asks_one_lane(i, s)) {
      agrees = holds(pc, i.op[3], known_.maker(pc, 3));
    } else if (agrees && !makes_lanes_agree(i, s)) {
      const bool moves = s.tokens[0] == "movmatrix" || s.tokens[0] == "match" || s.tokens[0] == "shfl";
      agrees = moves || !makes_lanes_differ(flow_, s, pc);
      for (unsigned slot = 1; slot < Known::kSlots && agrees; ++slot)
        agrees = !i.op[slot] || holds(pc, i.op[slot], known_.maker(pc, slot));
    }
    return made_[pc] = agrees;
  }

  const Function& f_;
  const Dataflow& flow_;
  const Known& known_;
  const PartingLanes parting_;
  std::unordered_map<uint32_t, bool> made_;
};

// That is wanted for its value alone.
bool is_shuffle(const Function& f, const Dataflow& flow, uint32_t pc) {
  const Instr& i = f.code[pc];
  if (f.source[pc].tokens[0] != "shfl" || !is_value(i.op[0]) || !i.op[5].immediate) return false;
  return i.op[1].kind != Operand::Kind::predicate || !is_read_behind(f, flow, pc, flow.number_of(i.op[1]));
}

bool asks_all(const Instr& i, const Source& s) {
  return s.tokens[0] == "match" && s.has("all") && i.guard < 0 && i.op[1].kind == Operand::Kind::predicate;
}

// Operands of a comparison that makes the predicate true.
std::vector<Operand> always(Rewriter& w, const Operand& predicate) {
  return {predicate, {}, w.constant(0), w.constant(0)};
}

void copy_shuffles(Rewriter& w, const Dataflow& flow, const Known& known, Agreement& agreement) {
  std::vector<uint32_t> copies;
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc) {
    const Instr& i = w.f.code[pc];
    if (is_shuffle(w.f, flow, pc) && is_no_constant(i.op[2]) &&
        agreement.holds(pc, i.op[2], known.maker(pc, 2)))
      copies.push_back(pc);
  }
  for (const uint32_t pc : copies) {
    const Instr& i = w.f.code[pc];
    // Instructions that nobody wants still read the predicate.
    if (i.op[1].kind == Operand::Kind::predicate)
      w.insert_guarded(pc, {"setp", "eq", "u32"}, always(w, i.op[1]));
    w.replace(pc, {"mov", "b32"}, {w.f.code[pc].op[2]});
  }
}

}  // namespace

bool may_shuffle_uniform(const Function& f) {
  return has_mnemonic(f, "movmatrix") && (has_mnemonic(f, "shfl") || has_mnemonic(f, "match"));
}

bool may_shuffle_extremes(const Function& f) {
  return has_mnemonic(f, "shfl") && !has_mnemonic(f, "movmatrix") &&
         (has_mnemonic(f, "min") || has_mnemonic(f, "max"));
}

void copy_uniform_shuffles(Rewriter& w, const Dataflow& flow, const Known& known) {
  Agreement agreement(w.f, flow, known);
  copy_shuffles(w, flow, known, agreement);
  w.rebuild();
}

void move_uniform_shuffles(Rewriter& w, const Dataflow& flow, const Known& known) {
  Agreement agreement(w.f, flow, known);
  copy_shuffles(w, flow, known, agreement);
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc) {
    const Instr& i = w.f.code[pc];
    if (asks_all(i, w.f.source[pc]) && agreement.holds(pc, i.op[2], known.maker(pc, 2)))
      w.insert_behind(pc, {"setp", "eq", "u32"}, always(w, i.op[1]));
  }
  w.rebuild();
}

}  // namespace fp4lab::emu
