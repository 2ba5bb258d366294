#include "emulator/ptx/flow.h"

#include <algorithm>
#include <utility>

#include "emulator/ptx/dominators.h"

namespace fp4lab::emu {

namespace {

constexpr uint32_t kNone = Dominators::kNone;

// Basic blocks, and an exit node as successor of the blocks that leave. Lanes that leave at once (a guarded
// exit, a guarded branch to a ret, a trap) are not waited for: the others reconverge as if these edges did
// not exist.
class Graph {
 public:
  Graph(const Module& module, const Function& f) {
    auto n = static_cast<uint32_t>(f.code.size());
    std::vector<Flow> flows(n);
    std::vector<char> leader(n + 1, 0);
    leader[0] = 1;
    for (uint32_t pc = 0; pc < n; ++pc) {
      flows[pc] = flow_of(module, f, pc);
      if (!flows[pc].targets.empty() || flows[pc].leaves) leader[pc + 1] = 1;
      for (uint32_t t : flows[pc].targets) leader[t] = 1;
    }
    block_of.resize(n);
    for (uint32_t pc = 0; pc < n; ++pc) {
      if (leader[pc]) begin.push_back(pc);
      block_of[pc] = static_cast<uint32_t>(begin.size() - 1);
    }
    exit = static_cast<uint32_t>(begin.size());
    begin.push_back(n);
    successors.resize(exit + 1);
    predecessors.resize(exit + 1);
    for (uint32_t b = 0; b < exit; ++b) {
      uint32_t last = (b + 1 < exit ? begin[b + 1] : n) - 1;
      for (uint32_t t : flows[last].targets)
        if (!flows[last].falls_through || !(flows[t].leaves && !flows[t].falls_through)) edge(b, block_of[t]);
      if (flows[last].falls_through) edge(b, last + 1 < n ? block_of[last + 1] : exit);
      if (!flows[last].leaves || flows[last].falls_through) continue;
      if (flows[last].abrupt)
        abrupt_ends_.push_back(b);
      else
        edge(b, exit);
    }
    tie_endless_loops();
  }

  uint32_t exit = 0;
  std::vector<uint32_t> begin;     // first pc of each block; of the exit: one past the last
  std::vector<uint32_t> block_of;  // by pc
  std::vector<std::vector<uint32_t>> successors, predecessors;

 private:
  void edge(uint32_t from, uint32_t to) {
    successors[from].push_back(to);
    predecessors[to].push_back(from);
  }

  std::vector<uint32_t> abrupt_ends_;  // blocks that end in a trap

  // Marks the blocks from which `work` is reachable along the edges of `to`.
  static void spread(std::vector<uint32_t> work, const std::vector<std::vector<uint32_t>>& to,
                     std::vector<char>& marked) {
    while (!work.empty()) {
      const uint32_t b = work.back();
      work.pop_back();
      if (std::exchange(marked[b], 1)) continue;
      work.insert(work.end(), to[b].begin(), to[b].end());
    }
  }

  // Post-dominance needs a path to the exit from every block. A loop without one (a persistent kernel that
  // leaves by a guarded branch to its ret, see above) gets it between two iterations: its back edges lead to
  // a block of their own, placed at the loop's begin, with an edge to the exit. So lanes that diverge in an
  // iteration reconverge in the same iteration.
  void tie_endless_loops() {
    std::vector<char> reaches(exit + 1, 0);
    spread({exit}, predecessors, reaches);
    spread(abrupt_ends_, predecessors, reaches);
    for (const uint32_t head : depth_first()) {
      if (reaches[head]) continue;
      std::vector<char> after(successors.size(), 0), before(successors.size(), 0);
      spread({head}, successors, after);
      spread({head}, predecessors, before);
      // A loop in which every block leads back to the head, not one that only leads to a loop.
      bool closed = true;
      for (uint32_t b = 0; b < exit; ++b) closed &= !after[b] || before[b];
      if (!closed) continue;
      turn_back_edges(head, after);
      reaches.resize(successors.size(), 0);
      spread({head}, predecessors, reaches);
    }
  }

  // Blocks in the order of a search from the entry: a loop's head is found before its other blocks.
  std::vector<uint32_t> depth_first() const {
    std::vector<uint32_t> order, work{0};
    std::vector<char> seen(exit + 1, 0);
    while (!work.empty()) {
      const uint32_t b = work.back();
      work.pop_back();
      if (std::exchange(seen[b], 1)) continue;
      if (b != exit) order.push_back(b);
      work.insert(work.end(), successors[b].begin(), successors[b].end());
    }
    return order;
  }

  void turn_back_edges(uint32_t head, const std::vector<char>& in_loop) {
    const auto between = static_cast<uint32_t>(successors.size());
    successors.emplace_back();
    predecessors.emplace_back();
    begin.push_back(begin[head]);
    const std::vector<uint32_t> from = std::exchange(predecessors[head], {});
    for (const uint32_t b : from) {
      std::erase(successors[b], head);
      edge(b, b < in_loop.size() && in_loop[b] ? between : head);
    }
    edge(between, head);
    edge(between, exit);
  }
};

}  // namespace

Flow flow_of(const Module& module, const Function& f, uint32_t pc) {
  const Instr& instr = f.code[pc];
  std::string_view name = f.source[pc].tokens[0];
  Flow flow;
  for (const Operand& op : instr.op) {
    if (op.kind == Operand::Kind::label) flow.targets.push_back(op.index);
    if (op.kind == Operand::Kind::vector)
      for (uint32_t i = op.index; i < op.index + op.count; ++i)
        if (f.vectors[i].kind == Operand::Kind::label) flow.targets.push_back(f.vectors[i].index);
    if (op.kind == Operand::Kind::function && name == "call" && module.functions[op.index].noreturn)
      flow.leaves = flow.abrupt = true;
  }
  if (name == "ret" || name == "exit" || name == "trap") flow.leaves = true;
  if (name == "trap") flow.abrupt = true;
  bool guarded = instr.guard >= 0;
  flow.falls_through = guarded || (flow.targets.empty() && !flow.leaves);
  return flow;
}

void find_reconvergence(const Module& module, Function& f) {
  if (f.code.empty()) return;
  Graph g(module, f);
  // Post-dominators are the dominators of the reversed graph.
  const std::vector<uint32_t> up = immediate_dominators(g.predecessors, g.successors, g.exit).up;
  for (Instr& instr : f.code) {
    if (flow_of(module, f, instr.pc).targets.empty()) continue;
    uint32_t meet = up[g.block_of[instr.pc]];
    instr.reconverge = meet == g.exit || meet == kNone ? kNoPc : g.begin[meet];
    // Lanes do not reconverge just to exit.
    if (instr.reconverge == kNoPc) continue;
    Flow there = flow_of(module, f, instr.reconverge);
    if (there.leaves && !there.falls_through) instr.reconverge = kNoPc;
  }
}

}  // namespace fp4lab::emu
