#include "emulator/ptxas/idle_loop.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "emulator/isa/opcode.h"

// Read off machine code of some twenty kinds of loops: counted, with a data-dependent end, with none at all,
// with loads whose values do not decide, with the test at the begin, at the end, or jumped to. Kept are those
// that several branches leave, in which another branch stands, or that a loaded value ends.

namespace fp4lab::emu {

namespace {

class IdleLoops {
 public:
  IdleLoops(const Rewriter& w, const Dataflow& flow) : f_(w.f), flow_(flow) {
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
      if (is_branch(pc) && !flow.is_dead(pc))
        for (const uint32_t target : flow_of(w.image.out, f_, pc).targets) jumps_.push_back({pc, target});
  }

  std::vector<uint32_t> branches() const {
    std::vector<uint32_t> all;
    for (const Jump& jump : jumps_)
      if (jump.target <= jump.from && f_.code[jump.from].opcode->name == "bra" &&
          is_idle(jump.target, jump.from))
        all.push_back(jump.from);
    return all;
  }

 private:
  struct Jump {
    uint32_t from, target;
  };

  bool is_branch(uint32_t pc) const {
    const std::string_view name = f_.code[pc].opcode->name;
    return name == "bra" || name.starts_with("brx");
  }

  // The loop [begin, back], which branches back at its end.
  bool is_idle(uint32_t begin, uint32_t back) const {
    const uint32_t end = back + 1;
    const auto exit = exit_of(begin, back);
    if (!exit || depends_on_load(begin, *exit, end)) return false;
    // Others may come to its begin, and the instruction before it may jump into it.
    if (std::any_of(jumps_.begin(), jumps_.end(),
                    [&](const Jump& j) { return j.target > begin && j.target < end && j.from + 1 != begin; }))
      return false;
    std::vector<uint32_t> written;
    for (uint32_t pc = begin; pc < end; ++pc) {
      const auto& writes = flow_.access(pc).writes;
      written.insert(written.end(), writes.begin(), writes.end());
    }
    const auto& blocks = flow_.blocks();
    const auto behind = std::ranges::find(blocks, end, &Dataflow::Block::begin);
    return behind != blocks.end() &&
           !flow_.any_lives_before(static_cast<uint32_t>(behind - blocks.begin()), written);
  }

  // The only branch out, to what stands behind the loop; it may be the one that leads back. All else is pure.
  std::optional<uint32_t> exit_of(uint32_t begin, uint32_t back) const {
    std::optional<uint32_t> exit;
    if (f_.code[back].guard > 0) exit = back;
    for (uint32_t pc = begin; pc < back; ++pc) {
      if (is_branch(pc) && !flow_.is_dead(pc)) {
        const auto jump = std::ranges::find(jumps_, pc, &Jump::from);
        if (exit || jump == jumps_.end() || jump->target != back + 1) return std::nullopt;
        exit = pc;
      } else if (!flow_.is_pure(pc) || flow_.becomes_branch(pc)) {
        return std::nullopt;
      }
    }
    return exit;
  }

  // Whether what a load in [begin, end) brings has to do with the predicate of the branch at `exit`.
  bool depends_on_load(uint32_t begin, uint32_t exit, uint32_t end) const {
    const auto& guard = flow_.access(exit).reads;
    std::unordered_set<uint32_t> wanted(guard.begin(), guard.end());
    for (size_t before = 0; before != wanted.size();) {
      before = wanted.size();
      for (uint32_t pc = begin; pc < end; ++pc) {
        const Dataflow::Access& a = flow_.access(pc);
        if (std::none_of(a.writes.begin(), a.writes.end(), [&](uint32_t r) { return wanted.contains(r); }))
          continue;
        if (f_.source[pc].tokens[0].starts_with("ld")) return true;
        wanted.insert(a.reads.begin(), a.reads.end());
      }
    }
    return false;
  }

  const Function& f_;
  const Dataflow& flow_;
  std::vector<Jump> jumps_;  // in the text's order
};

}  // namespace

bool has_loops(const Rewriter& w) {
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc)
    if (w.f.code[pc].opcode->name == "bra")
      for (const uint32_t target : flow_of(w.image.out, w.f, pc).targets)
        if (target <= pc) return true;
  return false;
}

std::vector<uint32_t> idle_branches(const Rewriter& w, const Dataflow& flow) {
  return IdleLoops(w, flow).branches();
}

}  // namespace fp4lab::emu
