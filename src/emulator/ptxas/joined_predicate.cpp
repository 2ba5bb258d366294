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
      : w_(w), f_(w.f), flow_(flow), known_(known), ssa_(w.f, flow, predicates()) {}

  void join() {
    for (uint32_t v = 0; v < ssa_.values().size(); ++v) {
      const Ssa::Value& merged = ssa_.values()[v];
      if (merged.kind != Kind::merged) continue;
      if (const auto from = joined(merged); from && is_short_if(*from) && !is_read(*from))
        forget_flush(*from);
    }
    w_.rebuild();
  }

 private:
  // What the comparisons in question write.
  std::vector<uint32_t> predicates() const {
    std::vector<uint32_t> registers;
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
      if (is_flushed_comparison(f_.code[pc], f_.source[pc]) && !flow_.is_dead(pc))
        registers.push_back(flow_.number_of(f_.code[pc].op[0]));
    std::ranges::sort(registers);
    registers.erase(std::ranges::unique(registers).begin(), registers.end());
    return registers;
  }

  // The comparison that the value is, if all other ways bring constants that stand before it.
  std::optional<uint32_t> joined(const Ssa::Value& merged) const {
    std::optional<uint32_t> from;
    for (const uint32_t way : merged.operands) {
      const Ssa::Value& value = ssa_.values()[way];
      if (value.kind != Kind::made) return std::nullopt;
      if (known_.result(value.at)) continue;
      if (from || !is_flushed_comparison(f_.code[value.at], f_.source[value.at])) return std::nullopt;
      from = value.at;
    }
    const auto stands_before = [&](uint32_t way) { return ssa_.values()[way].at <= *from; };
    if (!from || !std::ranges::all_of(merged.operands, stands_before)) return std::nullopt;
    return blocks_[flow_.block_of(*from)].end <= merged.at ? from : std::nullopt;
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

  // By an instruction, or as part of another value.
  bool is_read(uint32_t from) const {
    const auto is_it = [&](uint32_t v) {
      return v != Ssa::kNone && ssa_.values()[v].kind == Kind::made && ssa_.values()[v].at == from;
    };
    std::ptrdiff_t parts = 0;
    for (const Ssa::Value& value : ssa_.values()) parts += std::ranges::count_if(value.operands, is_it);
    const uint32_t reg = flow_.number_of(f_.code[from].op[0]);
    for (uint32_t pc = from + 1; pc < f_.code.size(); ++pc)
      if (std::ranges::count(flow_.access(pc).reads, reg) > 0 && is_it(ssa_.read(pc, reg))) return true;
    return parts > 1;
  }

  void forget_flush(uint32_t pc) {
    Rewriter::Tokens tokens = f_.source[pc].tokens;
    std::erase(tokens, "ftz");
    w_.replace(pc, std::move(tokens), {f_.code[pc].op + 1, f_.code[pc].op + kMaxOperands});
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const Known& known_;
  const std::vector<Dataflow::Block>& blocks_ = flow_.blocks();
  const Ssa ssa_;
};

}  // namespace

bool may_join_predicates(const Function& f) { return any_instruction(f, is_flushed_comparison); }

void join_predicates(Rewriter& w, const Dataflow& flow, const Known& known) {
  JoinedPredicates(w, flow, known).join();
}

}  // namespace fp4lab::emu
