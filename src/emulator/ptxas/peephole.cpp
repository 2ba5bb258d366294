#include "emulator/ptxas/peephole.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/ptx/flow.h"
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu {

namespace {

bool is_same_register(const Operand& a, const Operand& b) {
  return is_value(a) && is_value(b) && !a.immediate && !b.immediate && a.offset == b.offset &&
         bits_of(a.type) == bits_of(b.type);
}

// A register that is moved into itself, also by an integer instruction of it and itself or of it and 0.
bool does_nothing(const Rewriter& w, const Known& known, uint32_t pc) {
  static const std::unordered_set<std::string_view> kOfItself = {"and", "or", "min", "max"};
  static const std::unordered_set<std::string_view> kChoice = {"selp", "slct"};
  static const std::unordered_set<std::string_view> kOfZero = {"add", "or", "xor", "sub", "shl", "shr"};
  const Instr& i = w.f.code[pc];
  const Source& s = w.f.source[pc];
  const std::string_view name = s.tokens[0];
  const bool first = is_same_register(i.op[0], i.op[1]), second = is_same_register(i.op[0], i.op[2]);
  if (name == "mov") return first;
  if (kChoice.contains(name)) return first && second;
  if (s.tokens.size() != 2 || is_float(s.type())) return false;
  if (first && second) return kOfItself.contains(name);
  const bool changes_places = name == "add" || name == "or" || name == "xor";
  return kOfZero.contains(name) && ((first && known.bits(pc, 2) == uint64_t(0)) ||
                                    (changes_places && second && known.bits(pc, 1) == uint64_t(0)));
}

// Whether instructions read the same value in an operand, through copies, or what equal instructions made of
// the same values.
class SameValues {
 public:
  SameValues(const Function& f, const Known& known) : f_(f), known_(known) {}

  // Whether a guarded instruction makes what its destination holds anyhow.
  bool is_repeated(uint32_t pc) const {
    const Instr& i = f_.code[pc];
    if (i.op[0].kind != Operand::Kind::value) return false;
    if (is_copy(i, f_.source[pc])) return are_same(find({pc, 0}), find({pc, 1}), 0);
    const Place held = find({pc, 0});
    return held.maker != Dataflow::kNone &&
           (is_repetition(pc, held.maker, 0) || is_magnitude_again(pc, held));
  }

 private:
  static constexpr unsigned kDeepest = 4;  // equal instructions of equal instructions
  static constexpr unsigned kMostCopies = 64;
  struct Read {
    uint32_t pc;
    unsigned slot;
  };
  // Where a value that is read comes from: who made it, and in which register.
  struct Place {
    uint32_t maker;
    uint64_t reg;
  };

  Place find(Read read) const {
    for (unsigned copies = 0; copies < kMostCopies; ++copies) {
      const Operand& op = f_.code[read.pc].op[read.slot];
      const uint32_t maker = known_.maker(read.pc, read.slot);
      if (!is_no_constant(op) || maker == Dataflow::kNone) return {Dataflow::kNone, 0};
      if (!is_copy(f_.code[maker], f_.source[maker]) || !is_no_constant(f_.code[maker].op[1]))
        return {maker, key_of(op)};
      read = {maker, 1};
    }
    return {Dataflow::kNone, 0};
  }

  bool are_same(Place a, Place b, unsigned depth) const {
    if (a.maker == Dataflow::kNone || b.maker == Dataflow::kNone) return false;
    if (a.maker == b.maker) return a.reg == b.reg;
    return is_repetition(a.maker, b.maker, depth);
  }

  // The magnitude of one, without .ftz.
  bool is_magnitude_again(uint32_t pc, Place held) const {
    const Source& s = f_.source[pc];
    const Place of = find({pc, 1});
    return s.tokens[0] == "abs" && is_float(s.type()) && !s.has("ftz") && of.maker == held.maker &&
           of.reg == held.reg && f_.source[held.maker].tokens == s.tokens;
  }

  // Of instructions that only compute, into one register each.
  bool is_repetition(uint32_t pc, uint32_t other, unsigned depth) const {
    const Instr &a = f_.code[pc], &b = f_.code[other];
    if (depth >= kDeepest || a.opcode != b.opcode || f_.source[pc].tokens != f_.source[other].tokens ||
        !(f_.source[pc].tokens[0] == "neg" || f_.source[pc].tokens[0] == "abs"))
      return false;
    return are_same(find({pc, 1}), find({other, 1}), depth + 1);
  }

  const Function& f_;
  const Known& known_;
};

// In the order in which they are tried.
const auto& rules_by_mnemonic() {
  static const auto kRules = [] {
    using namespace peephole;
    std::unordered_map<std::string_view, std::vector<Rule>> rules;
    for (const std::span<const Rule> all :
         {least_integer_rules(), rotation_rules(), arithmetic_rules(), logic_rules(), bit_rules(),
          carry_rules(), choice_rules(), conversion_rules(), extreme_rules(), flush_rules(),
          half_function_rules(), matrix_rules(), pack_rules(), identity_rules(), three_way_rules(),
          truth_rules()})
      for (const Rule& rule : all) rules[rule.mnemonic].push_back(rule);
    return rules;
  }();
  return kRules;
}

// By a constant index: a branch to that target. False for anything else.
bool choose_target(Rewriter& w, const Known& known, uint32_t pc) {
  if (w.f.source[pc].tokens[0] != "brx") return false;
  const Operand& targets = w.f.code[pc].op[1];
  const auto index = known.bits(pc, 0);
  if (!index || *index >= targets.count) return false;
  w.f.code[pc].op[0] = w.f.vectors[targets.index + *index];
  w.replace(pc, {"bra"}, {});
  return true;
}

}  // namespace

void remove_unreachable(Rewriter& w) {
  std::vector<char> is_reached(w.f.code.size(), 0);
  std::vector<uint32_t> work{0};
  const auto reach = [&](uint32_t pc) {
    if (pc < is_reached.size() && !is_reached[pc]) is_reached[pc] = 1, work.push_back(pc);
  };
  is_reached[0] = 1;
  while (!work.empty()) {
    const uint32_t pc = work.back();
    work.pop_back();
    const Flow flow = flow_of(w.image.out, w.f, pc);
    std::for_each(flow.targets.begin(), flow.targets.end(), reach);
    if (flow.falls_through) reach(pc + 1);
  }
  if (std::ranges::find(is_reached, 0) == is_reached.end()) return;
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc)
    if (!is_reached[pc]) w.remove(pc);
  w.rebuild();
}

bool has_late_branches(const Function& f, const Known& known) {
  for (uint32_t pc = 0; pc < f.code.size(); ++pc)
    if (f.code[pc].opcode->name == "bra" && known.is_decided_late(pc)) return true;
  return false;
}

bool fold_guards(Rewriter& w, const Known& known, bool late) {
  bool any = false, any_branch = false;
  const SameValues same(w.f, known);
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc) {
    if (choose_target(w, known, pc)) any = any_branch = true;
    const bool is_idle = w.f.code[pc].guard >= 0 && (does_nothing(w, known, pc) || same.is_repeated(pc));
    const auto holds = is_idle ? std::optional(false) : known.guard(pc);
    const bool is_branch = w.f.code[pc].opcode->name == "bra";
    if (!holds || (is_branch && !late && known.is_decided_late(pc))) continue;
    const Flow ways = flow_of(w.image.out, w.f, pc);
    any_branch |= !ways.targets.empty() || ways.leaves;
    any = true;
    if (*holds)
      w.f.code[pc].guard = -1;
    else
      w.remove(pc);
  }
  if (any) w.rebuild();
  if (any_branch) remove_unreachable(w);
  return any;
}

bool fold_absorbed(Rewriter& w, const Dataflow& flow, Known& known) {
  peephole::Pass pass(w, flow, known);
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc) {
    if (w.f.code[pc].guard >= 0 || flow.is_dead(pc) || known.is_result_constant(pc)) continue;
    for (const peephole::Rule& rule : peephole::absorbing_rules())
      if (rule.mnemonic == w.f.source[pc].tokens[0]) {
        rule.apply(pass, pc);
        break;
      }
  }
  if (pass.has_changed()) w.rebuild();
  return pass.has_changed();
}

bool fold_single(Rewriter& w, const Dataflow& flow, Known& known) {
  peephole::Pass pass(w, flow, known);
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc) {
    const auto rules = rules_by_mnemonic().find(w.f.source[pc].tokens[0]);
    if (rules == rules_by_mnemonic().end() || flow.is_dead(pc)) continue;
    for (const peephole::Rule& rule : rules->second)  // a rule may leave another mnemonic to those behind it
      if (!pass.has_replaced(pc) && rule.mnemonic == w.f.source[pc].tokens[0]) rule.apply(pass, pc);
  }
  if (pass.has_changed()) w.rebuild();
  return pass.has_changed();
}

}  // namespace fp4lab::emu
