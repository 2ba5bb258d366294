#include "emulator/ptxas/split_branch.h"

#include "emulator/isa/opcode.h"
#include "emulator/ptx/flow.h"
#include "emulator/ptxas/any_instruction.h"
#include "emulator/ptxas/reaching_writes.h"

namespace fp4lab::emu {

namespace {

bool is_flushed_and(const Instr& i, const Source& s) {
  return s.tokens[0] == "setp" && s.has("and") && s.has("ftz") && s.type() == Type::f32 && i.guard < 0;
}

bool leaves(const Function& f, uint32_t pc) {
  return pc >= f.code.size() ||
         (f.code[pc].guard < 0 && (f.source[pc].tokens[0] == "ret" || f.source[pc].tokens[0] == "exit"));
}

// Whether the instruction at pc is a branch in the machine, taken if its guard holds.
bool stays_branch(const Rewriter& w, uint32_t pc) {
  const Function& f = w.f;
  if (f.code[pc].guard < 0 || f.code[pc].guard_negated) return false;
  const std::string_view name = f.source[pc].tokens[0];
  if (name == "exit" || name == "ret") return true;
  if (name != "bra" || f.source[pc].has("uni")) return false;
  const Flow flow = flow_of(w.image.out, f, pc);
  if (flow.targets.size() != 1) return false;
  const uint32_t target = flow.targets[0];
  return target <= pc || leaves(f, target) || is_long(f, pc + 1, target);
}

// Branches that the one at pc decides, because they stand behind it alone and ask what `from` has made, too.
uint32_t decided_behind(const Function& f, const Dataflow& flow, const ReachingWrites& writes, uint32_t pc,
                        uint32_t from) {
  uint32_t count = 0;
  for (const uint32_t next : flow.blocks()[flow.block_of(pc)].successors) {
    const Dataflow::Block& block = flow.blocks()[next];
    if (block.predecessors.size() != 1) continue;
    const uint32_t last = block.end - 1;  // a block ends at its branch
    count += f.source[last].tokens[0] == "bra" && f.code[last].guard == f.code[pc].guard &&
             writes.maker(last, flow.number_of(guard_of(f.code[last]))) == from;
  }
  return count;
}

}  // namespace

bool is_long(const Function& f, uint32_t begin, uint32_t end) {
  constexpr unsigned kMost = 7, kMostStores = 5;
  unsigned stores = 0;
  for (uint32_t pc = begin; pc < end; ++pc) {
    const std::string_view name = f.source[pc].tokens[0];
    if ((name == "ld" && !f.source[pc].has("volatile")) || name == "atom" || name == "red") return true;
    stores += name == "st";
  }
  return end - begin > kMost || stores > kMostStores;
}

bool may_split_branches(const Function& f) { return any_instruction(f, is_flushed_and); }

void split_branches(Rewriter& w, const Dataflow& flow) {
  Function& f = w.f;
  const ReachingWrites writes(f, flow);
  const std::vector<uint32_t> uses = writes.uses();
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    if (flow.is_dead(pc) || !stays_branch(w, pc)) continue;
    const uint32_t asked = flow.number_of(guard_of(f.code[pc])), from = writes.maker(pc, asked);
    if (from == Dataflow::kNone || !is_flushed_and(f.code[from], f.source[from]) ||
        uses[from] != 1 + decided_behind(f, flow, writes, pc, from) ||
        flow.number_of(f.code[from].op[0]) != asked || flow.block_of(from) != flow.block_of(pc))
      continue;
    w.drop_modifier(from, "ftz");
  }
  w.rebuild();
}

}  // namespace fp4lab::emu
