#include "emulator/ptxas/several_loops.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/any_instruction.h"
#include "emulator/ptxas/counted_loop.h"
#include "emulator/ptxas/summed_product.h"
#include "emulator/ptxas/unroll.h"

// What is made of
//
//   loop: ROUND; @more bra loop;                   (more: whether the counter compares so behind ROUND)
//
// is, where `more(n)` is whether it would behind n other rounds:
//
//   any = true; @!(more(1) & more(2) & more(3)) bra two;
//   four: ROUND; ROUND; ROUND; ROUND; any = more; @(more & more(1) & more(2) & more(3)) bra four;
//   two: @!(any & more(1)) bra one; ROUND; ROUND; any = more;
//   one: @!any bra end; ROUND; end:
//
// A loop that counts down to the opposite of a register x has that register in the place of its limit (in
// both tests as they stand there in machine code):
//
//   four: ...; @(counter > x + 3) bra four;        (`ge`: x + 2; steps of -2: x + 6)
//   two: @!(counter - x > 1) bra one; ...
//
// A loop that leaves before its branch back, elsewhere than to what stands behind it, has a first round in
// front. The last round is a loop to ptxas where the counter must meet its limit (ne), though it never goes
// on.

namespace fp4lab::emu {

namespace {

bool is_inside_another(const Function& f, const CountedLoop& loop) {
  for (uint32_t pc = loop.back + 1; pc < f.code.size(); ++pc)
    for (const Operand& op : f.code[pc].op)
      if (op.kind == Operand::Kind::label && op.index <= loop.begin) return true;
  return false;
}

// Of integers, too, the order of f64 operands asks for what several ways bring. (In another loop the copies
// have voices that are not followed.)
bool is_asked_for(const Function& f, const CountedLoop& loop) {
  if (loop.loses_sign) return true;
  if (sums_f64(f) && !is_inside_another(f, loop)) return true;
  const bool takes_truths = may_take_truths(f);
  return std::any_of(f.source.begin() + loop.begin, f.source.begin() + loop.back, [&](const Source& s) {
    static const std::unordered_set<std::string_view> kNames = {"add", "sub", "mul", "fma",
                                                                "mad", "div", "neg", "rcp"};
    return makes_pairs(s) || (takes_truths && makes_truth(s)) ||
           (kNames.contains(s.tokens[0]) && is_float(s.type()));
  });
}

class Copier {
 public:
  Copier(Rewriter& w, const Dataflow& flow) : w_(w), f_(w.f), flow_(flow) {}

  void run(const std::vector<CountedLoop>& loops) {
    auto next = loops.begin();
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      now_.moved.push_back(now_.size());
      if (next == loops.end() || pc != next->begin) {
        now_.add(f_.code[pc], f_.source[pc], w_.rows[pc]);
        continue;
      }
      copy(*next);
      now_.moved.resize(next->back + 1, now_.moved.back());  // nobody outside has a label to them
      pc = next->back;
      ++next;
    }
    w_.become(std::move(now_));
  }

 private:
  void copy(const CountedLoop& loop) {
    const Operand more = guard_of(f_.code[loop.test]), any = predicate();
    to_end_.clear();
    if (loop.leaves_at_end) {  // ptxas takes a first round out of it
      rounds(loop, 1);
      leave(loop, more);
    } else {
      forget_before(loop);
    }
    made(loop, {"setp", loop.leaves_at_end ? "ne" : "eq", "u32"}, {any, {}, w_.constant(0), w_.constant(0)});
    const uint32_t to_two = branch(loop, more_rounds(loop, 3, {}), false), four = now_.size();
    rounds(loop, 4);
    made(loop, {"mov", "pred"}, {any, more});
    now_.land(branch(loop, loop.loses_sign ? more_than(loop, 3) : more_rounds(loop, 3, more), true), four);
    now_.land(to_two, now_.size());
    const uint32_t to_one =
        branch(loop, loop.loses_sign ? left_more_than(loop, 1) : more_rounds(loop, 1, any), false);
    rounds(loop, 2);
    made(loop, {"mov", "pred"}, {any, more});
    now_.land(to_one, now_.size());
    leave(loop, any);
    const uint32_t one = now_.size();
    rounds(loop, 1);
    if (f_.source[loop.compared_at].has(loop.leaves_at_end ? "eq" : "ne"))
      now_.land(branch(loop, more, true), one);
    if (loop.leaves_at_end) now_.code[branch(loop, more, false)].guard = -1;
    for (const uint32_t pc : to_end_) now_.land(pc, now_.size());
  }

  // What each round makes afresh does not come from before the loop, though a way now leads past all rounds.
  // In another loop it does (observed).
  void forget_before(const CountedLoop& loop) {
    if (is_inside_another(f_, loop)) return;
    const uint32_t first = flow_.block_of(loop.begin), last = flow_.block_of(loop.back);
    std::unordered_set<uint32_t> known;
    for (uint32_t pc = loop.begin; pc < loop.back; ++pc) {
      const Operand& op = f_.code[pc].op[0];
      const uint32_t reg = is_value(op) ? flow_.number_of(op) : Dataflow::kNone;
      const auto& writes = flow_.access(pc).writes;
      if (std::find(writes.begin(), writes.end(), reg) == writes.end() || !known.insert(reg).second) continue;
      if (!flow_.lives_behind(last, reg) || flow_.any_lives_before(first, {&reg, 1})) continue;
      const Type bits = bits_type(op.type);
      made(loop, {"mov", name_of(bits)}, {op, w_.constant(0, bits)});
    }
  }

  void rounds(const CountedLoop& loop, unsigned count) {
    for (; count > 0; --count) w_.add_round(loop.begin, loop.back, loop.test, loop.test, now_);
  }

  // Whether the loop goes on behind each of `count` rounds from here, and `also` holds; if it leaves at its
  // end, whether it does not, as the comparison has it.
  Operand more_rounds(const CountedLoop& loop, unsigned count, Operand also) {
    const Instr &step = f_.code[loop.step_at], &compared = f_.code[loop.compared_at];
    Operand counter = step.op[0];
    for (; count > 0; --count) {
      const Operand next = w_.fresh(counter.type), more = predicate();
      made(loop, f_.source[loop.step_at].tokens, {next, counter, step.op[2]});
      Operand a = compared.op[2], b = compared.op[3];
      (a.offset == step.op[0].offset ? a : b) = next;
      Rewriter::Tokens tokens = f_.source[loop.compared_at].tokens;
      if (also) tokens.insert(tokens.begin() + 2, loop.leaves_at_end ? "or" : "and");
      made(loop, std::move(tokens), {more, {}, a, b, also});
      counter = next, also = more;
    }
    return also;
  }

  // Whether the loop would go on behind `count` rounds from here if it counted to the opposite of its limit:
  // by a comparison with the last number from which it would, or of what is left.
  Operand more_than(const CountedLoop& loop, unsigned count) {
    const Instr& compared = f_.code[loop.compared_at];
    const Operand &counter = compared.op[2], &limit = compared.op[3];
    return is_greater(loop, counter, computed(loop, "sub", way(loop, count), limit));
  }
  Operand left_more_than(const CountedLoop& loop, unsigned count) {
    const Instr& compared = f_.code[loop.compared_at];
    return is_greater(loop, computed(loop, "add", compared.op[2], compared.op[3]), way(loop, count));
  }
  Operand computed(const CountedLoop& loop, std::string_view name, Operand a, Operand b) {
    const Operand result = w_.fresh(f_.code[loop.compared_at].op[2].type);
    made(loop, {name, type_name(loop)}, {result, a, b});
    return result;
  }
  Operand is_greater(const CountedLoop& loop, Operand a, Operand b) {
    const Operand more = predicate();
    made(loop, {"setp", "gt", type_name(loop)}, {more, {}, a, b});
    return more;
  }
  std::string_view type_name(const CountedLoop& loop) const {
    return name_of(f_.source[loop.compared_at].type());
  }
  // How far the counter must be from its limit.
  Operand way(const CountedLoop& loop, unsigned count) {
    const Source& s = f_.source[loop.compared_at];
    return w_.constant(static_cast<uint64_t>(-loop.step * count - s.has("ge")), bits_type(s.type()));
  }

  Operand predicate() {
    Operand op;
    op.kind = Operand::Kind::predicate, op.type = Type::pred, op.index = w_.image.new_predicate();
    return op;
  }

  void made(const CountedLoop& loop, Rewriter::Tokens tokens, std::vector<Operand> operands) {
    Instr i;
    Source s = f_.source[loop.back];
    s.tokens = std::move(tokens);
    std::copy(operands.begin(), operands.end(), i.op);
    const Entry* row = w_.bind(i, s);
    now_.add(i, std::move(s), row);
    now_.settled.insert(now_.size() - 1);
  }

  // Where the loop goes on, or where it does not; to the end of a loop that leaves there. Returns where it
  // is.
  uint32_t branch(const CountedLoop& loop, const Operand& predicate, bool goes_on) {
    now_.add(f_.code[loop.test], f_.source[loop.test], w_.rows[loop.test]);
    now_.code.back().guard = static_cast<int32_t>(predicate.index);
    now_.code.back().guard_negated = goes_on == loop.leaves_at_end;
    return now_.size() - 1;
  }
  void leave(const CountedLoop& loop, const Operand& predicate) {
    const uint32_t pc = branch(loop, predicate, false);
    if (!loop.leaves_at_end) to_end_.push_back(pc);
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  Rewriter::Code now_;
  std::vector<uint32_t> to_end_;  // branches to behind the loop at work
};

}  // namespace

bool may_lose_signs(const Function& f) {
  const auto has_type = [](const Source& s) { return s.type() == Type::s32 || s.type() == Type::s64; };
  return any_instruction(
             f, [&](const Instr&, const Source& s) { return s.tokens[0] == "setp" && has_type(s); }) &&
         any_instruction(f, [&](const Instr&, const Source& s) {
           const std::string_view name = s.tokens[0];
           return ((name == "neg" || name == "sub") && has_type(s)) ||
                  ((name == "mul" || name == "mad") && !is_float(s.type()));
         });
}

// As many loops as leave the function small enough for what comes next: else it would lose all other rules.
bool make_several_loops(Rewriter& w, const Dataflow& flow, const std::vector<const Token*>& nounroll) {
  constexpr unsigned kCopies = 7, kBetween = 24;      // instructions
  constexpr unsigned kBranches = 6, kRegisters = 16;  // blocks and registers between the copies
  size_t size = w.f.code.size(), blocks = flow.blocks().size(), registers = flow.registers();
  std::vector<CountedLoop> loops;
  for (const CountedLoop& loop : counted_loops(w.f, flow, nounroll)) {
    if (!loop.is_tested_at_end() || !becomes_several(w.f, loop) || !is_asked_for(w.f, loop)) continue;
    size += size_t(kCopies) * loop.length() + kBetween;
    blocks += kCopies * (flow.block_of(loop.back) - flow.block_of(loop.begin) + 1) + kBranches;
    registers += kRegisters;
    if (size > kMostUnrolled || Dataflow::is_too_big(blocks, registers)) break;
    loops.push_back(loop);
  }
  if (!loops.empty()) Copier(w, flow).run(loops);
  return !loops.empty();
}

}  // namespace fp4lab::emu
