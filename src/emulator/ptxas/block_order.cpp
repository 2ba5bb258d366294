#include "emulator/ptxas/block_order.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/isa/opcode.h"
#include "emulator/ptx/dominators.h"

namespace fp4lab::emu {

namespace {

constexpr uint32_t kNone = Dataflow::kNone;
// Blocks times loops around them: beyond, they stay where they are.
constexpr size_t kMostWork = size_t(1) << 20;

bool is_jump(const Instr& i) {
  return i.opcode->name == "bra" && i.guard < 0 && i.op[0].kind == Operand::Kind::label;
}

class BlockOrder {
 public:
  BlockOrder(Rewriter& w, const Dataflow& flow)
      : w_(w), f_(w.f), blocks_(flow.blocks()), up_(dominators_of(flow).up), around_(blocks_.size()) {}

  // Whether some branch leads back to a block before it that other ways lead to.
  bool is_shuffled() const {
    for (uint32_t b = 0; b < blocks_.size(); ++b)
      for (const uint32_t to : blocks_[b].successors)
        if (to <= b && up_[b] != kNone && !dominates(to, b)) return true;
    return false;
  }

  void run() {
    const auto jump = std::ranges::find_if(f_.code, is_jump);
    if (jump == f_.code.end() || !find_loops()) return;
    jump_ = static_cast<uint32_t>(jump - f_.code.begin());
    number_blocks();
    place(sorted());
  }

 private:
  bool dominates(uint32_t a, uint32_t b) const {
    while (b != a && up_[b] != kNone && up_[b] != b) b = up_[b];
    return b == a;
  }

  // Each block's loops, by their heads, in no order. False if that is too much.
  bool find_loops() {
    size_t work = 0;
    for (uint32_t b = 0; b < blocks_.size(); ++b)
      for (const uint32_t head : blocks_[b].successors) {
        if (up_[b] == kNone || !dominates(head, b)) continue;
        for (std::vector<uint32_t> open{b}; !open.empty();) {
          const uint32_t inside = open.back();
          open.pop_back();
          if (++work > kMostWork) return false;
          if (up_[inside] == kNone || is_in(inside, head)) continue;
          around_[inside].push_back(head);
          if (inside != head)
            open.insert(open.end(), blocks_[inside].predecessors.begin(), blocks_[inside].predecessors.end());
        }
        if (!is_in(head, head)) around_[head].push_back(head);
      }
    return true;
  }

  uint32_t outermost_at(uint32_t block) const {
    const auto comes_first = [&](uint32_t x, uint32_t y) { return number_[x] < number_[y]; };
    const auto head = std::ranges::min_element(around_[block], comes_first);
    return head == around_[block].end() ? kNone : *head;
  }

  // The last block of the text that leads into an outermost loop; of one behind another loop into that.
  uint32_t entered_from(uint32_t head) {
    if (const auto known = entered_.find(head); known != entered_.end()) return known->second;
    uint32_t last = 0;
    for (const uint32_t from : blocks_[head].predecessors)
      if (up_[from] != kNone && !is_in(from, head)) last = std::max(last, from);
    const uint32_t before = outermost_at(last);
    const auto of_loop = before == kNone ? entered_.end() : entered_.find(before);
    return entered_[head] = of_loop == entered_.end() ? last : of_loop->second;
  }

  bool is_in(uint32_t block, uint32_t head) const {
    return std::ranges::find(around_[block], head) != around_[block].end();
  }

  // In reverse post-order, what follows in the text first.
  void number_blocks() {
    number_.assign(blocks_.size(), kNone);
    std::vector<char> is_seen(blocks_.size(), 0);
    std::vector<std::pair<uint32_t, size_t>> path{{0, 0}};
    auto next = static_cast<uint32_t>(blocks_.size());
    is_seen[0] = 1;
    while (!path.empty()) {
      auto& [block, visited] = path.back();
      const std::vector<uint32_t> to = successors(block);
      if (visited == to.size()) {
        number_[block] = --next;
        path.pop_back();
      } else if (const uint32_t successor = to[visited++]; !std::exchange(is_seen[successor], 1)) {
        path.emplace_back(successor, 0);
      }
    }
  }

  // Those that are to come last first: where a branch leads, then what stands behind it.
  std::vector<uint32_t> successors(uint32_t block) const {
    std::vector<uint32_t> to(blocks_[block].successors.rbegin(), blocks_[block].successors.rend());
    std::stable_partition(to.begin(), to.end(),
                          [&](uint32_t s) { return blocks_[s].begin != blocks_[block].end; });
    return to;
  }

  // The text's order, but for loops: these are whole, behind the block that leads into the outermost one,
  // each block behind those of a round that lead to it.
  std::vector<uint32_t> sorted() {
    std::vector<uint32_t> by_number(blocks_.size());
    std::iota(by_number.begin(), by_number.end(), 0);
    std::ranges::sort(by_number, {}, [&](uint32_t b) { return number_[b]; });
    std::vector<std::pair<std::vector<uint32_t>, uint32_t>> keys;
    for (const uint32_t b : by_number) {  // loops before those that they lead into
      const uint32_t outermost = outermost_at(b);
      const bool in_loop = outermost != kNone;
      std::vector<uint32_t> key{in_loop ? entered_from(outermost) : b, in_loop};
      for (const uint32_t head : around_[b]) key.push_back(number_[head]);
      std::ranges::sort(key.begin() + 2, key.end());
      key.push_back(number_[b]);
      keys.emplace_back(std::move(key), b);
    }
    std::ranges::sort(keys);
    std::vector<uint32_t> order;
    for (const auto& [key, block] : keys) order.push_back(block);
    return order;
  }

  void place(const std::vector<uint32_t>& order) {
    Rewriter::Code now;
    now.moved.assign(f_.code.size(), 0);
    for (size_t n = 0; n < order.size(); ++n) {
      const Dataflow::Block& b = blocks_[order[n]];
      const uint32_t next = n + 1 < order.size() ? blocks_[order[n + 1]].begin : kNone;
      const Instr& last = f_.code[b.end - 1];
      const bool leads_on = is_jump(last) && last.op[0].index == next;
      for (uint32_t pc = b.begin; pc < b.end; ++pc) {
        now.moved[pc] = now.size();
        if (pc + 1 < b.end || !leads_on) now.add(f_.code[pc], f_.source[pc], w_.rows[pc]);
      }
      const bool goes_on =
          std::ranges::any_of(b.successors, [&](uint32_t s) { return blocks_[s].begin == b.end; });
      if (is_jump(last) || !goes_on || b.end == next) continue;
      now.add(f_.code[jump_], f_.source[jump_], w_.rows[jump_]);
      now.code.back().op[0].index = b.end;
    }
    w_.become(std::move(now));
  }

  Rewriter& w_;
  Function& f_;
  const std::vector<Dataflow::Block>& blocks_;
  const std::vector<uint32_t> up_;                  // by block: the immediate dominator
  std::vector<std::vector<uint32_t>> around_;       // by block: the heads of the loops that it is in
  std::vector<uint32_t> number_;                    // by block
  std::unordered_map<uint32_t, uint32_t> entered_;  // by head
  uint32_t jump_ = 0;                               // an unguarded branch
};

}  // namespace

bool may_stand_in_any_order(const Function& f) {
  for (uint32_t pc = 0; pc < f.code.size(); ++pc)
    for (const Operand& op : f.code[pc].op)
      if (op.kind == Operand::Kind::label && op.index <= pc) return true;
  return std::ranges::any_of(f.source, [](const Source& s) { return s.tokens[0] == "brx"; });
}

void order_blocks(Rewriter& w, const Dataflow& flow) {
  BlockOrder order(w, flow);
  if (order.is_shuffled()) order.run();
}

}  // namespace fp4lab::emu
