#include "emulator/ptxas/summed_product.h"

#include <algorithm>
#include <unordered_set>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/approximate.h"
#include "emulator/ptxas/ssa.h"

namespace fp4lab::emu {

bool same_kind(const Source& a, const Source& b) {
  return a.type() == b.type() && a.has("ftz") == b.has("ftz");
}

bool is_negation(const Instr& i, const Source& s) {
  const std::string_view name = i.opcode->name;
  return (name == "neg_float" || name == "neg_half") && i.guard < 0 && !s.has("ftz") &&
         s.type() != Type::bf16x2;
}

bool goes_on_through(Shape negation, const Source& s, const Source& product, bool is_flushed) {
  return s.type() == product.type() && !is_flushed &&
         (negation == Shape::negation || (negation == Shape::flushed_negation && product.has("ftz")));
}

Shape shape_of(const Instr& i, const Source& s) {
  const std::string_view name = i.opcode->name;
  if (name == "mov" && i.guard < 0 && is_value(i.op[0]) && is_value(i.op[1]) && !i.op[1].immediate)
    return Shape::copy;
  if (is_negation(i, s)) return Shape::negation;
  if (name == "neg_float" && i.guard < 0) return Shape::flushed_negation;
  if (says_rounding(s) || !is_value(i.op[0])) return Shape::other;
  if (name == "mul_float" || name == "mul_half" || ends_in_product(s))
    return i.guard < 0 && !s.has("sat") ? Shape::product : Shape::other;
  if (name == "add_float" || name == "sub_float" || name == "add_half" || name == "sub_half")
    return Shape::sum;
  return Shape::other;
}

namespace {

constexpr uint32_t kNone = Dataflow::kNone;

class ConstantProducts {
 public:
  ConstantProducts(const Rewriter& w, const Dataflow& flow, const Known& known,
                   const std::vector<uint32_t>& part)
      : f_(w.f),
        flow_(flow),
        known_(known),
        part_(part),
        place_(w.f.code.size(), kNone),
        is_read_as_it_is_(w.f.code.size(), 0) {}

  std::optional<std::vector<SummedProduct>> run() {
    for (const Dataflow::Block& b : flow_.blocks()) find_negations(b);
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
      if (!flow_.is_dead(pc) && shape_of(pc) == Shape::product &&
          (has_constant(pc) || negations_.contains(pc))) {
        place_[pc] = static_cast<uint32_t>(found_.size());
        found_.push_back({pc, {}});
      }
    if (found_.empty()) return found_;
    const Ssa ssa(f_, flow_, registers());
    if (ssa.is_too_big()) return std::nullopt;
    std::vector<char> is_read_otherwise(found_.size(), 0);
    const auto otherwise = [&](const Held& held) {
      if (held.product == kNone || (held.flushed && negations_.contains(held.product))) return;
      is_read_otherwise[place_[held.product]] = is_read_as_it_is_[held.product] = 1;
    };
    for (const Ssa::Value& value : ssa.values())
      for (const uint32_t v : value.operands) otherwise(held_by(ssa, v));
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      if (flow_.is_dead(pc)) continue;
      const Shape shape = shape_of(pc);
      const Held first = held_in(ssa, pc, 1), second = held_in(ssa, pc, 2);
      if (shape == Shape::sum && first.product != second.product) {
        take(pc, first, false, otherwise);
        take(pc, second, true, otherwise);
      } else if (!hands_on(ssa, pc)) {
        for (const uint32_t reg : flow_.access(pc).reads) otherwise(held_by(ssa, ssa.read(pc, reg)));
      }
    }
    for (size_t k = 0; k < found_.size(); ++k)
      if (is_read_otherwise[k]) found_[k].uses.clear();
    // What is read without its negation too is a product like others.
    std::erase_if(found_,
                  [&](const SummedProduct& p) { return !has_constant(p.pc) && is_read_as_it_is_[p.pc]; });
    return std::move(found_);
  }

 private:
  struct Held {  // the product that a value is, or the negation of
    uint32_t product = kNone;
    bool negated = false, flushed = false;
  };

  static bool may_hand_on(Shape s) {
    return s == Shape::copy || s == Shape::negation || s == Shape::flushed_negation;
  }
  Shape shape_of(uint32_t pc) const { return emu::shape_of(f_.code[pc], f_.source[pc]); }

  // The products with .ftz of a block that a neg.ftz there reads, and nothing else.
  void find_negations(const Dataflow::Block& b) {
    for (uint32_t pc = b.begin; pc < b.end; ++pc) {
      if (flow_.is_dead(pc) || shape_of(pc) != Shape::flushed_negation) continue;
      const uint32_t product = known_.maker(pc, 1);
      if (product == kNone || product < b.begin || product >= pc || shape_of(product) != Shape::product ||
          ends_in_product(f_.source[product]) || !f_.source[product].has("ftz") ||
          f_.source[product].type() != f_.source[pc].type())
        continue;
      if (part_[product] == part_[pc] && !negations_.insert(product).second) is_read_as_it_is_[product] = 1;
    }
  }

  bool has_constant(uint32_t pc) const {
    if (ends_in_product(f_.source[pc])) return is_constant_quotient(pc);
    return is_constant(pc, 1) || is_constant(pc, 2);
  }

  // Of a number and a variable: the number times a reciprocal. With .ftz alone: without, it is scaled too.
  bool is_constant_quotient(uint32_t pc) const {
    constexpr uint64_t kOne = 0x3f800000, kSign = 0x80000000;
    const Source& s = f_.source[pc];
    const auto number = known_.bits(pc, 1);
    return s.tokens[0] == "div" && s.has("approx") && s.has("ftz") && number && (*number & ~kSign) != kOne;
  }

  bool is_constant(uint32_t pc, unsigned slot) const {
    for (;;) {
      if (known_.is_constant(pc, slot) || known_.bits(pc, slot)) return true;
      const uint32_t loaded = known_.only_maker(pc, slot);
      if (loaded != kNone && loaded < pc && flow_.is_in_bank(loaded)) return true;
      const uint32_t from = known_.maker(pc, slot);
      if (from == kNone || from >= pc) return false;
      const std::string_view name = f_.source[from].tokens[0];
      if (name != "mov" && !is_negation(f_.code[from], f_.source[from])) return false;
      pc = from, slot = 1;
    }
  }

  // The registers that products come into, as they are or through copies and negations.
  std::vector<uint32_t> registers() const {
    std::vector<uint32_t> list;
    std::vector<char> is_listed(flow_.registers(), 0);
    const auto add = [&](uint32_t pc) {
      const uint32_t reg = flow_.number_of(f_.code[pc].op[0]);
      if (is_listed[reg]) return false;
      is_listed[reg] = 1;
      list.push_back(reg);
      return true;
    };
    for (const SummedProduct& p : found_) add(p.pc);
    for (bool more = true; more;) {
      more = false;
      for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
        const Shape shape = shape_of(pc);
        if (flow_.is_dead(pc) || !may_hand_on(shape)) continue;
        const uint32_t from = flow_.number_of(f_.code[pc].op[1]);
        if (from != kNone && is_listed[from]) more |= add(pc);
      }
    }
    return list;
  }

  Held held_by(const Ssa& ssa, uint32_t v) const {
    Held held;
    bool is_negated_behind = false;
    while (v != kNone) {
      const Ssa::Value& value = ssa.values()[v];
      if (value.kind != Ssa::Value::Kind::made) return {};
      const Shape shape = shape_of(value.at);
      if (shape == Shape::product && place_[value.at] != kNone) {
        held.product = value.at;
        return held;
      }
      if (!may_hand_on(shape) || (shape == Shape::flushed_negation && is_negated_behind)) return {};
      held.negated ^= shape != Shape::copy;
      held.flushed |= shape == Shape::flushed_negation;
      is_negated_behind |= shape != Shape::copy;
      v = ssa.read(value.at, flow_.number_of(f_.code[value.at].op[1]));
    }
    return {};
  }

  Held held_in(const Ssa& ssa, uint32_t pc, unsigned slot) const {
    const Operand& op = f_.code[pc].op[slot];
    return is_value(op) ? held_by(ssa, ssa.read(pc, flow_.number_of(op))) : Held{};
  }

  // A copy, or a negation of the product's type.
  bool hands_on(const Ssa& ssa, uint32_t pc) const {
    const Shape shape = shape_of(pc);
    if (!may_hand_on(shape) || shape == Shape::copy) return shape == Shape::copy;
    const Held held = held_in(ssa, pc, 1);
    return held.product == kNone ||
           goes_on_through(shape, f_.source[pc], f_.source[held.product], held.flushed);
  }

  template <class F>
  void take(uint32_t sum, const Held& held, bool second, F&& otherwise) {
    if (held.product == kNone) return;
    const bool is_subtracted = second && held.flushed && f_.source[sum].tokens[0] == "sub";
    if (!same_kind(f_.source[sum], f_.source[held.product]) || is_subtracted) return otherwise(held);
    found_[place_[held.product]].uses.push_back({sum, second, held.negated});
    if (!held.flushed) is_read_as_it_is_[held.product] = 1;
  }

  const Function& f_;
  const Dataflow& flow_;
  const Known& known_;
  const std::vector<uint32_t>& part_;       // by pc, see constant_products
  std::unordered_set<uint32_t> negations_;  // products that stand for their neg.ftz
  std::vector<uint32_t> place_;             // in found_, by pc
  std::vector<char> is_read_as_it_is_;      // by pc
  std::vector<SummedProduct> found_;
};

}  // namespace

std::optional<std::vector<SummedProduct>> constant_products(const Rewriter& w, const Dataflow& flow,
                                                            const Known& known,
                                                            const std::vector<uint32_t>& part) {
  return ConstantProducts(w, flow, known, part).run();
}

}  // namespace fp4lab::emu
