#include "emulator/ptxas/joined_predicate.h"

#include <algorithm>
#include <vector>

#include "emulator/ptxas/any_instruction.h"
#include "emulator/ptxas/routine.h"
#include "emulator/ptxas/split_branch.h"
#include "emulator/ptxas/ssa.h"

namespace fp4lab::emu {

namespace {

using Kind = Ssa::Value::Kind;

// One that combines nothing.
bool is_flushed_comparison(const Instr& i, const Source& s) {
  return s.tokens[0] == "setp" && s.tokens.size() == 4 && s.has("ftz") && s.type() == Type::f32 &&
         i.guard < 0;
}

class JoinedPredicates {
 public:
  JoinedPredicates(Rewriter& w, const Dataflow& flow, const Known& known)
      : w_(w), f_(w.f), flow_(flow), known_(known), ssa_(w.f, flow, predicates()) {
    count_readers();
  }

  void join() {
    for (uint32_t v = 0; v < ssa_.values().size(); ++v) {
      const Ssa::Value& merged = ssa_.values()[v];
      if (merged.kind != Kind::merged) continue;
      if (const auto from = joined(merged); from && readers_[*from] == 1 && is_short_if(*from))
        w_.drop_modifier(*from, "ftz");
    }
    w_.rebuild();
  }

 private:
  // What the comparisons in question write, both predicates.
  std::vector<uint32_t> predicates() const {
    std::vector<uint32_t> registers;
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
      if (is_flushed_comparison(f_.code[pc], f_.source[pc]) && !flow_.is_dead(pc))
        registers.insert(registers.end(), flow_.access(pc).writes.begin(), flow_.access(pc).writes.end());
    std::ranges::sort(registers);
    registers.erase(std::unique(registers.begin(), registers.end()), registers.end());
    return registers;
  }

  // Instructions, and values that it becomes part of.
  void count_readers() {
    readers_.resize(f_.code.size());
    const auto count = [&](uint32_t v) {
      const bool is_made = v != Ssa::kNone && ssa_.values()[v].kind == Kind::made;
      if (is_made) ++readers_[ssa_.values()[v].at];
    };
    for (const Ssa::Value& value : ssa_.values()) std::ranges::for_each(value.operands, count);
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
      for (const uint32_t reg : flow_.access(pc).reads)
        if (ssa_.knows(reg)) count(ssa_.read(pc, reg));
  }

  // The comparison that one way brings, if all others bring constants that stand before it.
  std::optional<uint32_t> joined(const Ssa::Value& merged) const {
    std::optional<uint32_t> compared;
    uint32_t last_constant = 0;
    for (const uint32_t way : merged.operands) {
      const Ssa::Value& value = ssa_.values()[way];
      if (value.kind != Kind::made) return std::nullopt;
      if (known_.result(value.at)) {
        last_constant = std::max(last_constant, value.at);
        continue;
      }
      if (compared || !is_flushed_comparison(f_.code[value.at], f_.source[value.at])) return std::nullopt;
      compared = value.at;
    }
    if (!compared) return std::nullopt;
    const bool is_behind = last_constant < *compared && blocks_[flow_.block_of(*compared)].end <= merged.at;
    return is_behind ? compared : std::nullopt;
  }

  // Its block becomes guarded instructions.
  bool is_short_if(uint32_t pc) const {
    const Dataflow::Block& b = blocks_[flow_.block_of(pc)];
    if (b.predecessors.size() != 1) return false;
    const uint32_t branch = blocks_[b.predecessors[0]].end - 1;
    if (f_.source[branch].tokens[0] != "bra" || f_.code[branch].guard < 0) return false;
    for (uint32_t at = b.begin; at < b.end; ++at)
      if (ends_block(f_.source[at], flow_.becomes_branch(at), known_.bits(at, 1))) return false;
    return !is_long(f_, b.begin, b.end);
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const Known& known_;
  const std::vector<Dataflow::Block>& blocks_ = flow_.blocks();
  const Ssa ssa_;
  std::vector<uint32_t> readers_;  // by pc: how many, of all that it makes
};

}  // namespace

bool may_join_predicates(const Function& f) { return any_instruction(f, is_flushed_comparison); }

void join_predicates(Rewriter& w, const Dataflow& flow, const Known& known) {
  JoinedPredicates(w, flow, known).join();
}

}  // namespace fp4lab::emu
