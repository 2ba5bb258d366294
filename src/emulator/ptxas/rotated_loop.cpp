#include "emulator/ptxas/rotated_loop.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/counted_loop.h"
#include "emulator/ptxas/unroll.h"

// What is made of
//
//   loop: HEAD; @done bra out; ROUND; bra loop;
//
// is
//
//   HEAD; @done bra out; round: ROUND; next: HEAD; @!done bra round; bra out;
//
// where branches from within the round to `loop` go to `next`. Of a loop that counts the last branch has a
// comparison of its own, the opposite one, as loops are not counted by negated guards.

namespace fp4lab::emu {

namespace {

struct Loop {
  uint32_t begin, test, back;              // the first instruction, the branch that leaves, the branch back
  uint32_t out;                            // where that leads
  uint32_t compared_at = Dataflow::kNone;  // if it counts
};

bool is_branch(const Instr& i) { return i.opcode->name == "bra" && i.op[0].kind == Operand::Kind::label; }

class Rotation {
 public:
  Rotation(Rewriter& w, const Dataflow& flow) : w_(w), f_(w.f), flow_(flow), up_(dominators_of(flow).up) {}

  bool find(const std::vector<const Token*>& nounroll) {
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      const Instr& i = f_.code[pc];
      if (!is_branch(i) || i.guard >= 0 || i.op[0].index > pc) continue;
      if (const auto loop = loop_of(i.op[0].index, pc)) loops_.insert_or_assign(loop->begin, *loop);
    }
    for (const CountedLoop& counted : counted_loops(f_, flow_, nounroll))
      if (becomes_several(f_, counted) || becomes_straight(counted)) loops_.erase(counted.begin);
    return !loops_.empty();
  }

  bool find_counted(const std::vector<const Token*>& nounroll) {
    for (const CountedLoop& counted : counted_loops(f_, flow_, nounroll)) {
      if (counted.is_tested_at_end() || !counted.loses_sign || !becomes_several(f_, counted)) continue;
      auto loop = loop_of(counted.begin, counted.back);
      if (!loop) continue;
      loop->compared_at = counted.compared_at;
      loops_.insert_or_assign(loop->begin, *loop);
    }
    return !loops_.empty();
  }

  void run() {
    std::map<uint32_t, const Loop*> by_back;
    for (const auto& [begin, loop] : loops_) by_back.emplace(loop.back, &loop);
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      now_.moved.push_back(now_.size());
      const auto ends = by_back.find(pc);
      if (ends == by_back.end())
        copy(pc);
      else
        end_round(*ends->second);
    }
    w_.become(std::move(now_));
  }

 private:
  // The instructions before the test are straight-line code. A branch to the text before it is none back if
  // there are other ways to it.
  std::optional<Loop> loop_of(uint32_t begin, uint32_t back) const {
    const uint32_t block = flow_.block_of(begin);
    const Dataflow::Block& head = flow_.blocks()[block];
    if (head.begin != begin || head.end - 1 >= back || !dominates(block, flow_.block_of(back)))
      return std::nullopt;
    const uint32_t test = head.end - 1;
    const Instr& leave = f_.code[test];
    if (!is_branch(leave) || leave.guard < 0) return std::nullopt;
    const uint32_t out = leave.op[0].index;
    if (out >= begin && out <= back) return std::nullopt;
    return Loop{begin, test, back, out};
  }

  bool dominates(uint32_t block, uint32_t other) const {
    while (other != block && up_[other] != Dominators::kNone && up_[other] != other) other = up_[other];
    return other == block;
  }

  void copy(uint32_t pc) {
    now_.add(f_.code[pc], f_.source[pc], w_.rows[pc]);
    const Operand& label = f_.code[pc].op[0];
    if (label.kind != Operand::Kind::label) return;
    const auto loop = loops_.find(label.index);
    if (loop != loops_.end() && pc > loop->second.test && pc < loop->second.back)
      to_next_[loop->first].push_back(now_.size() - 1);
  }

  void end_round(const Loop& loop) {
    for (const uint32_t pc : to_next_[loop.begin]) now_.land(pc, now_.size());
    w_.add_round(loop.begin, loop.test + 1, loop.test, loop.test, now_);
    const auto more = opposite(loop.compared_at);
    now_.add(f_.code[loop.test], f_.source[loop.test], w_.rows[loop.test]);
    if (more)
      now_.code.back().guard = *more;
    else
      now_.code.back().guard_negated = !now_.code.back().guard_negated;
    now_.land(now_.size() - 1, now_.moved[loop.test + 1]);
    if (loop.out == loop.back + 1) return;
    now_.add(f_.code[loop.back], f_.source[loop.back], w_.rows[loop.back]);
    now_.code.back().op[0].index = loop.out;
  }

  // The predicate of a comparison that holds where the given one does not.
  std::optional<int32_t> opposite(uint32_t compared_at) {
    if (compared_at == Dataflow::kNone) return std::nullopt;
    Instr i = f_.code[compared_at];
    Source s = f_.source[compared_at];
    s.tokens[1] = negated_comparison(s.tokens[1]);
    i.op[0].index = w_.image.new_predicate();
    const Entry* row = w_.bind(i, s);
    now_.add(i, std::move(s), row);
    return static_cast<int32_t>(i.op[0].index);
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const std::vector<uint32_t> up_;  // blocks: immediate dominators
  std::map<uint32_t, Loop> loops_;  // by where they begin; of several branches back the last one
  std::map<uint32_t, std::vector<uint32_t>> to_next_;  // by the loop: branches that go on with it
  Rewriter::Code now_;
};

}  // namespace

bool rotate_loops(Rewriter& w, const Dataflow& flow, const std::vector<const Token*>& nounroll) {
  Rotation rotation(w, flow);
  if (!rotation.find(nounroll)) return false;
  rotation.run();
  return true;
}

void rotate_counted_loops(Rewriter& w, const Dataflow& flow, const std::vector<const Token*>& nounroll) {
  Rotation rotation(w, flow);
  if (rotation.find_counted(nounroll)) rotation.run();
}

}  // namespace fp4lab::emu
