#include "emulator/ptx/contract.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "emulator/isa/opcode.h"
#include "emulator/ptx/flow.h"
#include "emulator/ptx/insert.h"

namespace fp4lab::emu {

namespace {

bool says_rounding(const Source& s) { return s.has("rn") || s.has("rz") || s.has("rm") || s.has("rp"); }

bool is_product(const Instr& i, const Source& s) {
  const std::string_view name = i.opcode->name;
  return (name == "mul_float" || name == "mul_half") && i.guard < 0 && !says_rounding(s) && !s.has("sat");
}

bool is_sum(const Instr& i, const Source& s) {
  const std::string_view name = i.opcode->name;
  return (name == "add_float" || name == "sub_float" || name == "add_half" || name == "sub_half") &&
         !says_rounding(s);
}

bool same_kind(const Source& a, const Source& b) {
  return a.type() == b.type() && a.has("ftz") == b.has("ftz");
}

bool is_register(const Operand& op) { return op.kind == Operand::Kind::value && !op.immediate; }

class Contraction {
 public:
  Contraction(Image& image, Function& f, std::vector<const Entry*>& rows)
      : image_(image), f_(f), rows_(rows) {}

  void run() {
    bool any = false;
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) any |= is_product(f_.code[pc], f_.source[pc]);
    if (!any) return;
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
      for_each_read(pc, [&](uint32_t reg) { ++reads_in_all_[reg]; });
    find_blocks();
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      if (begins_block_[pc]) end_block();
      step(pc);
    }
    end_block();
    std::ranges::sort(pairs_, {}, [](const Pair& p) { return std::pair(p.sum, p.is_second); });
    for (const Pair& p : pairs_) fuse(p);
    insert(image_.table, f_, rows_, negations_);
  }

 private:
  struct Product {  // while its register still holds it
    uint32_t pc;
    std::vector<uint32_t> readers;
    bool factors_changed = false;  // before its first read
  };
  struct Pair {
    uint32_t product, sum;
    bool is_second;  // operand of the sum
  };

  // --- registers that an instruction reads and writes, by the offset of their row

  template <class What>
  void for_each_register(const Operand& op, What what) const {
    if (op.kind == Operand::Kind::vector)
      for (uint32_t i = op.index; i < op.index + op.count; ++i) for_each_register(f_.vectors[i], what);
    else if (is_register(op) || (op.kind == Operand::Kind::address && op.has_base))
      what(op.offset);
  }

  bool is_target(uint32_t pc, unsigned slot) const {
    return std::ranges::any_of(rows_[pc]->operands, [&](const OperandSpec& spec) {
      const bool pair =
          spec.form == OperandSpec::Form::destination_pair || spec.form == OperandSpec::Form::predicate_pair;
      return spec.is_target() && slot >= spec.slot && slot <= spec.slot + unsigned(pair);
    });
  }

  // Instructions whose targets may be sources as well: wgmma accumulates into the first one.
  template <class What>
  void for_each_read(uint32_t pc, What what) const {
    const std::string_view name = f_.source[pc].tokens[0];
    const bool in_place = name == "wgmma" || name == "tcgen05" || name == "call";
    for (unsigned slot = 0; slot < kMaxOperands; ++slot)
      if (in_place || !is_target(pc, slot)) for_each_register(f_.code[pc].op[slot], what);
  }

  template <class What>
  void for_each_write(uint32_t pc, What what) const {
    for (unsigned slot = 0; slot < kMaxOperands; ++slot)
      if (is_target(pc, slot)) for_each_register(f_.code[pc].op[slot], what);
  }

  // --- the walk

  void find_blocks() {
    begins_block_.assign(f_.code.size() + 1, false);
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      const Flow flow = flow_of(image_.out, f_, pc);
      if (!flow.targets.empty() || flow.leaves) begins_block_[pc + 1] = true;
      for (const uint32_t target : flow.targets) begins_block_[target] = true;
    }
  }

  void step(uint32_t pc) {
    for_each_read(pc, [&](uint32_t reg) {
      if (const auto p = held_.find(reg); p != held_.end()) p->second.readers.push_back(pc);
    });
    for_each_write(pc, [&](uint32_t reg) {
      for (const uint32_t of : factor_of_[reg])
        if (const auto p = held_.find(of); p != held_.end() && p->second.readers.empty())
          p->second.factors_changed = true;
      factor_of_[reg].clear();
      const auto p = held_.find(reg);
      if (p == held_.end()) return;
      if (f_.code[pc].guard < 0) add_pair(p->second);
      held_.erase(p);  // a guarded write changes some lanes only
    });
    const Instr& i = f_.code[pc];
    if (!is_product(i, f_.source[pc]) || !is_register(i.op[0])) return;
    const uint32_t to = i.op[0].offset;
    Product& p = held_[to] = {pc, {}};
    for (const unsigned slot : {1u, 2u})
      for_each_register(i.op[slot], [&](uint32_t reg) {
        factor_of_[reg].push_back(to);
        p.factors_changed |= reg == to;
      });
  }

  // At the block's end: products whose only reader in the function was in this block are dead.
  void end_block() {
    for (const auto& [reg, p] : held_)
      if (reads_in_all_[reg] == 1) add_pair(p);
    held_.clear();
    factor_of_.clear();
  }

  void add_pair(const Product& p) {
    if (p.readers.size() != 1 || p.factors_changed) return;
    const uint32_t sum = p.readers[0];
    if (!is_sum(f_.code[sum], f_.source[sum]) || !same_kind(f_.source[sum], f_.source[p.pc])) return;
    const Operand& first = f_.code[sum].op[1];
    pairs_.push_back({p.pc, sum, !is_register(first) || first.offset != f_.code[p.pc].op[0].offset});
  }

  // sum = a * b + c
  void fuse(const Pair& pair) {
    const uint32_t pc = pair.sum;
    Instr& i = f_.code[pc];
    Source& s = f_.source[pc];
    if (!is_sum(i, s)) return;  // contracted with its first operand
    const bool subtracts = s.tokens[0] == "sub";
    const Operand* factor = f_.code[pair.product].op + 1;
    const Operand other = i.op[pair.is_second ? 1 : 2];
    const Operand a = subtracts && pair.is_second ? negated(factor[0], pc) : factor[0];
    const Operand c = subtracts && !pair.is_second ? negated(other, pc) : other;
    std::vector<std::string_view> tokens{"fma", "rn"};
    for (const std::string_view modifier : {"ftz", "sat"})
      if (s.has(modifier)) tokens.push_back(modifier);
    tokens.push_back(name_of(s.type()));
    s.tokens = std::move(tokens);
    i.op[1] = a, i.op[2] = factor[1], i.op[3] = c;
    i.aux = 0;
    rows_[pc] = bind(image_.table, i, s);
  }

  Operand negated(const Operand& op, uint32_t pc) {
    const Operand negative = image_.fresh_register(op.type);
    negations_.push_back({pc, {"neg", name_of(f_.source[pc].type())}, {negative, op}});
    return negative;
  }

  Image& image_;
  Function& f_;
  std::vector<const Entry*>& rows_;
  std::vector<bool> begins_block_;                                 // by pc
  std::unordered_map<uint32_t, uint32_t> reads_in_all_;            // by register
  std::unordered_map<uint32_t, Product> held_;                     // by register
  std::unordered_map<uint32_t, std::vector<uint32_t>> factor_of_;  // by register: products' registers
  std::vector<Pair> pairs_;
  std::vector<Insertion> negations_;
};

}  // namespace

void contract(Image& image, Function& f, std::vector<const Entry*>& rows) {
  Contraction(image, f, rows).run();
}

}  // namespace fp4lab::emu
