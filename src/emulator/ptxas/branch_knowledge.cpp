#include "emulator/ptxas/branch_knowledge.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/counted_loop.h"
#include "emulator/ptxas/ssa.h"

// The rule:
//
// * A conditional branch says what its predicate, or the one that this is the opposite of, is in the blocks
//   that only one of its two ways leads to, back from a loop aside, if the predicate was not made in the
//   branch's own block.
// * Where values meet at the head of a loop within these blocks, those that come back from the loop do not
//   count. Where values meet behind other branches, they do.
// * A predicate that a guarded instruction leaves as it was is one that is read: it then becomes the known
//   value, not what a round before has made. Not where the guard becomes a branch, behind which values meet.
// * In a loop that is unrolled only the first round's copy is taken to know it, which is right.

namespace fp4lab::emu {

namespace {

constexpr uint32_t kNone = Dataflow::kNone;
// Ways of a branch times values that it may tell something about: beyond, a function stays as it is written.
constexpr size_t kMostWork = size_t(1) << 26;

bool is_conditional_branch(const Instr& i) { return i.guard > 0 && i.opcode->name == "bra"; }

// Unguarded, of one predicate.
bool is_negation(const Instr& i, const Source& s) {
  return s.tokens[0] == "not" && s.tokens.back() == "pred" && i.guard < 0 && i.op[1].index != 0;
}

// Registers of the predicates that branches depend on, and that are negated.
std::vector<uint32_t> branch_predicates(const Function& f, const Dataflow& flow) {
  std::vector<uint32_t> registers;
  for (const Instr& i : f.code) {
    if (is_conditional_branch(i)) registers.push_back(flow.number_of(guard_of(i)));
    if (is_negation(i, f.source[&i - f.code.data()])) registers.push_back(flow.number_of(i.op[1]));
  }
  std::sort(registers.begin(), registers.end());
  registers.erase(std::unique(registers.begin(), registers.end()), registers.end());
  std::erase(registers, kNone);
  return registers;
}

class BranchKnowledge {
 public:
  BranchKnowledge(Rewriter& w, const Dataflow& flow, const std::vector<const Token*>& nounroll)
      : w_(w), f_(w.f), flow_(flow), ssa_(w.f, flow, branch_predicates(w.f, flow)), nounroll_(nounroll) {}

  void run() {
    if (ssa_.is_too_big() || !find_dominators()) return;
    for (const CountedLoop& loop : counted_loops(f_, flow_, nounroll_))
      if (becomes_straight(loop) || becomes_several(f_, loop)) unrolled_.insert(loop.begin);
    find_meetings();
    for (uint32_t b = 0; b < flow_.blocks().size() && work_ <= kMostWork; ++b) learn_from(b);
    if (known_.empty() || work_ > kMostWork) return;
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
      if (!flow_.is_dead(pc)) use_at(pc);
    for (const Ssa::Value& v : ssa_.values())
      if (v.kind == Ssa::Value::Kind::kept) keep_known(v);
    w_.rebuild();
  }

 private:
  // Whether there is a loop.
  bool find_dominators() {
    const auto blocks = static_cast<uint32_t>(flow_.blocks().size());
    Dominators dominators = dominators_of(flow_);
    up_ = std::move(dominators.up);
    number_tree(dominators.order);
    for (uint32_t b = 0; b < blocks; ++b)
      for (const uint32_t to : flow_.blocks()[b].successors)
        if (up_[b] != kNone && dominates(to, b)) return true;
    return false;
  }

  // In pre-order of the dominator tree, so that those below a block have the numbers behind its own. `order`
  // has a block before those below it.
  void number_tree(const std::vector<uint32_t>& order) {
    number_.assign(up_.size(), 0);
    below_.assign(up_.size(), 0);
    for (const uint32_t b : order) below_[b] = 1;
    for (auto b = order.rbegin(); b != order.rend(); ++b)
      if (up_[*b] != *b) below_[up_[*b]] += below_[*b];
    std::vector<uint32_t> next(up_.size(), 0);
    for (const uint32_t b : order) {
      if (up_[b] != b) {
        number_[b] = next[up_[b]];
        next[up_[b]] += below_[b];
      }
      next[b] = number_[b] + 1;
    }
  }

  bool dominates(uint32_t a, uint32_t b) const {
    return number_[b] >= number_[a] && number_[b] - number_[a] < below_[a];
  }

  // The values that meet at heads of loops, behind those that come into the loop from outside.
  void find_meetings() {
    const std::vector<Ssa::Value>& values = ssa_.values();
    behind_.resize(values.size());
    entering_.assign(values.size(), 0);
    for (uint32_t v = 0; v < values.size(); ++v) {
      const Ssa::Value& met = values[v];
      if (met.kind != Ssa::Value::Kind::merged || is_unrolled(met.block)) continue;
      std::vector<uint32_t> entering;
      size_t operand = 0;
      for (const uint32_t p : flow_.blocks()[met.block].predecessors) {
        if (up_[p] == kNone) continue;
        const uint32_t value = met.operands[operand++];
        if (!dominates(met.block, p)) entering.push_back(value);
      }
      if (entering.size() == operand) continue;  // no loop
      entering_[v] = static_cast<uint32_t>(entering.size());
      for (const uint32_t value : entering) behind_[value].push_back(v);
    }
  }

  void learn_from(uint32_t block) {
    const Dataflow::Block& b = flow_.blocks()[block];
    const uint32_t branch = b.end - 1;
    const Instr& i = f_.code[branch];
    if (up_[block] == kNone || flow_.is_dead(branch) || !is_conditional_branch(i) ||
        b.successors.size() != 2 || b.successors[0] == b.successors[1])
      return;
    uint32_t value = ssa_.read(branch, flow_.number_of(guard_of(i)));
    bool negated = i.guard_negated;
    if (const auto negation = negation_of(value)) {  // which is no instruction
      negated ^= !f_.code[*negation].op[1].negated;
      value = ssa_.read(*negation, flow_.number_of(f_.code[*negation].op[1]));
    }
    if (value == Ssa::kNone || is_made_beside(value, branch)) return;
    for (const uint32_t to : b.successors) {
      const Dataflow::Block& s = flow_.blocks()[to];
      const auto comes_back = [&](uint32_t from) { return up_[from] != kNone && dominates(to, from); };
      const auto back = static_cast<size_t>(std::ranges::count_if(s.predecessors, comes_back));
      if (comes_back(block) || s.predecessors.size() - back != 1) continue;
      const bool is_taken = s.begin != b.end;
      spread(value, to, is_taken != negated);
    }
  }

  // The instruction that makes a value as the opposite of another.
  std::optional<uint32_t> negation_of(uint32_t value) const {
    if (value == Ssa::kNone) return std::nullopt;
    const Ssa::Value& v = ssa_.values()[value];
    const bool is = v.kind == Ssa::Value::Kind::made && is_negation(f_.code[v.at], f_.source[v.at]);
    return is ? std::optional(v.at) : std::nullopt;
  }

  // In the compiler's block of the branch.
  bool is_made_beside(uint32_t value, uint32_t branch) const {
    const Ssa::Value& v = ssa_.values()[value];
    if (v.kind != Ssa::Value::Kind::made && v.kind != Ssa::Value::Kind::kept) return false;
    const Dataflow::Block& b = flow_.blocks()[v.block];
    if (branch < b.begin || branch >= b.end) return false;
    for (uint32_t pc = v.at; pc < branch; ++pc)
      if (flow_.becomes_branch(pc)) return false;
    return true;
  }

  // From a branch's predicate to what it meets at heads of loops behind block `from`, where all that come
  // into the loop from outside are known.
  void spread(uint32_t value, uint32_t from, bool holds) {
    std::unordered_map<uint32_t, uint32_t> found;  // how many of those that enter are known
    for (std::vector<uint32_t> work{value}; !work.empty();) {
      const uint32_t known = work.back();
      work.pop_back();
      work_ += behind_[known].size();
      if (work_ > kMostWork) return;
      for (const uint32_t v : behind_[known]) {
        if (v == value || !dominates(from, ssa_.values()[v].block) || ++found[v] != entering_[v]) continue;
        known_[v] = holds;
        work.push_back(v);
      }
    }
  }

  bool is_unrolled(uint32_t block) const { return unrolled_.contains(flow_.blocks()[block].begin); }

  std::optional<bool> known(uint32_t pc, const Operand& op) const {
    if (op.kind != Operand::Kind::predicate || op.index == 0) return std::nullopt;
    const auto found = known_.find(ssa_.read(pc, flow_.number_of(op)));
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }

  void use_at(uint32_t pc) {
    Instr& i = f_.code[pc];
    for (const OperandSpec& spec : w_.rows[pc]->operands) {
      Operand& op = i.op[spec.slot];
      if (spec.is_target()) continue;
      const auto holds = known(pc, op);
      if (!holds) continue;
      op.index = 0;
      op.negated ^= !*holds;
    }
    if (i.guard <= 0) return;
    const auto holds = known(pc, guard_of(i));
    if (!holds) return;
    if (*holds == i.guard_negated)
      w_.remove(pc);
    else
      i.guard = -1, i.guard_negated = false;
  }

  // What a guarded instruction finds in its target, and may leave as it is.
  void keep_known(const Ssa::Value& kept) {
    const auto found = known_.find(kept.operands[0]);
    if (found == known_.end() || flow_.becomes_branch(kept.at)) return;
    const auto& operands = w_.rows[kept.at]->operands;
    const auto target = std::ranges::find_if(operands, [&](const OperandSpec& spec) {
      return spec.is_target() && flow_.number_of(f_.code[kept.at].op[spec.slot]) == kept.reg;
    });
    if (target == operands.end()) return;
    w_.insert(kept.at, {"setp", found->second ? "eq" : "ne", "u32"},
              {f_.code[kept.at].op[target->slot], {}, w_.constant(0), w_.constant(0)});
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  Ssa ssa_;
  const std::vector<const Token*>& nounroll_;
  std::vector<uint32_t> up_;                   // by block: the immediate dominator,
  std::vector<uint32_t> number_, below_;       // the number in the tree, how many it dominates
  std::vector<std::vector<uint32_t>> behind_;  // by value: those that it enters a loop for
  std::vector<uint32_t> entering_;             // by value that meets: how many enter
  size_t work_ = 0;
  std::unordered_set<uint32_t> unrolled_;     // loops, by their first instructions
  std::unordered_map<uint32_t, bool> known_;  // values that meet at heads of loops
};

}  // namespace

bool may_mistake_branches(const Function& f) {
  std::unordered_map<uint32_t, unsigned> named;  // in the places of targets
  for (const Instr& i : f.code)
    for (const unsigned slot : {0u, 1u})
      if (i.op[slot].kind == Operand::Kind::predicate) ++named[i.op[slot].index];
  return std::any_of(f.code.begin(), f.code.end(), [&](const Instr& i) {
    const bool negates = is_negation(i, f.source[&i - f.code.data()]);
    if (!is_conditional_branch(i) && !negates) return false;
    const auto found = named.find(negates ? i.op[1].index : static_cast<uint32_t>(i.guard));
    return found != named.end() && found->second > 1;
  });
}

void fold_known_branches(Rewriter& w, const Dataflow& flow, const std::vector<const Token*>& nounroll) {
  BranchKnowledge(w, flow, nounroll).run();
}

}  // namespace fp4lab::emu
