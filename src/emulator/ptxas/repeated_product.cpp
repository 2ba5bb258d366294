#include "emulator/ptxas/repeated_product.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/ptxas/memory_states.h"

namespace fp4lab::emu {

namespace {

bool is_async_product(const Source& s) { return s.tokens[0] == "wgmma" && s.tokens[1] == "mma_async"; }

// An operand as an expression has it.
struct Value {
  std::optional<uint64_t> bits;  // of a constant
  Operand operand;
  uint32_t reg = Dataflow::kNone;
};

struct Product {
  uint32_t pc;
  std::vector<uint32_t> accumulators;
  bool adds;  // its scale-d is not known to be false
  std::vector<Value> operands;
};

class Block {
 public:
  Block(Rewriter& w, const Dataflow& flow, const Known& known) : w_(w), f_(w.f), flow_(flow), known_(known) {}

  void run(const Dataflow::Block& b) {
    for (uint32_t pc = b.begin; pc < b.end; ++pc) {
      if (is_async_product(f_.source[pc]))
        visit(pc);
      else if (MemoryStates::may_change(flow_, f_.source[pc], pc))
        kept_.clear();
      for (const uint32_t reg : flow_.access(pc).writes) written_[reg] = pc;
    }
  }

 private:
  void visit(uint32_t pc) {
    Product now = product(pc);
    const auto other = std::ranges::find_if(kept_, [&](const Product& p) { return is_same(p, now); });
    if (other == kept_.end()) return kept_.push_back(std::move(now));
    w_.remove(pc);
    // What has been added since the other one is lost.
    for (auto later = other + 1; later != kept_.end();) {
      if (later->accumulators != now.accumulators) {
        ++later;
        continue;
      }
      w_.remove(later->pc);
      later = kept_.erase(later);
    }
  }

  // op 0 {d}, 1 A, 2 B, then metadata and selector of a sparse A, scale-d, signs and transpositions
  Product product(uint32_t pc) const {
    const Instr& i = f_.code[pc];
    const unsigned scale_d = f_.source[pc].has("sp") ? 5 : 3;
    Product p{pc, {}, true, {}};
    bool adds_to_zero = true;
    for (uint32_t n = 0; n < i.op[0].count; ++n) {
      p.accumulators.push_back(flow_.number_of(f_.vectors[i.op[0].index + n]));
      adds_to_zero &= known_.bits_of_element(pc, i.op[0].index + n) == 0;
    }
    for (unsigned slot = 1; slot < std::size(i.op) && i.op[slot]; ++slot) {
      const Operand& o = i.op[slot];
      if (slot == scale_d) {
        const auto adds = o.immediate ? std::optional<uint64_t>(o.displacement) : known_.bits(pc, slot);
        if (adds_to_zero || adds == 0)
          p.adds = false;
        else
          p.operands.push_back(adds ? Value{1, {}} : Value{{}, o, flow_.number_of(o)});
      } else if (o.kind == Operand::Kind::vector) {
        for (uint32_t n = 0; n < o.count; ++n)
          p.operands.push_back({known_.bits_of_element(pc, o.index + n), f_.vectors[o.index + n],
                                flow_.number_of(f_.vectors[o.index + n])});
      } else {
        p.operands.push_back({known_.bits(pc, slot), o, flow_.number_of(o)});
      }
    }
    return p;
  }

  bool is_same(const Product& before, const Product& now) const {
    return f_.source[before.pc].tokens == f_.source[now.pc].tokens &&
           before.accumulators == now.accumulators && before.adds == now.adds &&
           std::ranges::equal(before.operands, now.operands, [&](const Value& a, const Value& b) {
             if (a.bits || b.bits) return a.bits == b.bits;
             if (a.operand.negated != b.operand.negated) return false;
             if (a.reg == Dataflow::kNone || b.reg == Dataflow::kNone)
               return a.reg == b.reg && a.operand.offset == b.operand.offset &&
                      a.operand.displacement == b.operand.displacement;
             const auto write = written_.find(a.reg);
             return a.reg == b.reg && (write == written_.end() || write->second < before.pc);
           });
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const Known& known_;
  std::vector<Product> kept_;
  std::unordered_map<uint32_t, uint32_t> written_;  // where a register was last
};

}  // namespace

bool has_async_products(const Function& f) { return std::ranges::any_of(f.source, is_async_product); }

void drop_repeated_products(Rewriter& w, const Dataflow& flow, const Known& known) {
  for (const Dataflow::Block& b : flow.blocks()) Block(w, flow, known).run(b);
  w.rebuild();
}

}  // namespace fp4lab::emu
