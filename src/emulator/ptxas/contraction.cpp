#include "emulator/ptxas/contraction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <unordered_set>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/approximate.h"
#include "emulator/ptxas/nan_product.h"
#include "emulator/ptxas/routine.h"

namespace fp4lab::emu {

Contraction::Contraction(Rewriter& w, const Dataflow& flow, const Known& known,
                         const std::vector<Sinking::Reading>& sunk)
    : w_(w),
      f_(w.f),
      flow_(flow),
      known_(known),
      part_{0},
      block_(w.f.code.size()),
      fusions_(w.f.code.size()) {
  for (uint32_t b = 0; b < flow.blocks().size(); ++b)
    for (uint32_t pc = flow.blocks()[b].begin; pc < flow.blocks()[b].end; ++pc) block_[pc] = b;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) part_.push_back(part_.back() + is_fence(pc));
  find_mentions();
  find_products();
  find_sunk_products(sunk);
  choose_products();
}

void Contraction::apply() {
  for (uint32_t pc = 0; pc < fusions_.size(); ++pc)
    if (takes_product(pc)) fuse(pc);
}

// A block of ptxas ends behind it, though none of the data flow does.
bool Contraction::is_fence(uint32_t pc) const {
  return ends_block(f_.source[pc], flow_.becomes_branch(pc), known_.bits(pc, 1));
}

void Contraction::find_products() {
  std::vector<char> is_found(f_.code.size(), 0);
  if (auto products = constant_products(w_, flow_, known_, part_))
    for (SummedProduct& p : *products) {
      is_found[p.pc] = 1;
      if (!p.uses.empty()) products_.push_back(std::move(p));
    }
  for (uint32_t block = 0; block < flow_.blocks().size(); ++block)
    for (uint32_t pc = flow_.blocks()[block].begin; pc < flow_.blocks()[block].end; ++pc) {
      if (is_found[pc] || flow_.is_dead(pc) || shape_of(pc) != Shape::product) continue;
      if (auto product = used_in_sums(block, pc); product && !product->uses.empty())
        products_.push_back(std::move(*product));
    }
}

void Contraction::find_mentions() {
  mentions_.resize(flow_.registers());
  writes_.resize(flow_.registers());
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    for (const uint32_t reg : flow_.access(pc).writes) writes_[reg].push_back(pc);
    if (flow_.is_dead(pc)) continue;
    for (const auto* registers : {&flow_.access(pc).reads, &flow_.access(pc).writes})
      for (const uint32_t reg : *registers)
        if (mentions_[reg].empty() || mentions_[reg].back() != pc) mentions_[reg].push_back(pc);
  }
}

uint32_t Contraction::next_mention(uint32_t reg, uint32_t pc) const {
  const auto next = std::upper_bound(mentions_[reg].begin(), mentions_[reg].end(), pc);
  return next == mentions_[reg].end() ? kNone : *next;
}

// A product with the sums that use it; nothing when it is used otherwise too, or behind the block.
std::optional<SummedProduct> Contraction::used_in_sums(uint32_t block, uint32_t product) const {
  const Dataflow::Block& b = flow_.blocks()[block];
  struct Holder {  // a register that holds it, or its negation
    uint32_t reg;
    bool negated, flushed;
  };
  std::vector<Holder> holders;
  const auto holder = [&](const Operand& op) {
    const uint32_t reg = flow_.number_of(op);
    return std::find_if(holders.begin(), holders.end(), [&](const Holder& h) { return h.reg == reg; });
  };
  holders.push_back({flow_.number_of(f_.code[product].op[0]), false, false});
  SummedProduct found{product, {}};
  const auto next = [&](uint32_t pc) {
    uint32_t nearest = kNone;
    for (const Holder& h : holders) nearest = std::min(nearest, next_mention(h.reg, pc));
    return nearest;
  };
  for (uint32_t pc = next(product); pc < b.end; pc = next(pc)) {
    const Instr& i = f_.code[pc];
    const bool behind = part_[pc] != part_[product + 1];  // behind what ends the compiler's block
    const Dataflow::Access& access = flow_.access(pc);
    const auto held = [&](uint32_t reg) {
      return std::any_of(holders.begin(), holders.end(), [&](const Holder& h) { return h.reg == reg; });
    };
    std::optional<Holder> another;
    if (std::any_of(access.reads.begin(), access.reads.end(), held)) {
      const Shape shape = shape_of(pc);
      const auto first = holder(i.op[1]), second = holder(i.op[2]);
      if (shape == Shape::copy) {
        another = {flow_.number_of(i.op[0]), first->negated, first->flushed};
      } else if (goes_on_through(shape, f_.source[pc], f_.source[product],
                                 first != holders.end() && first->flushed)) {
        another = {flow_.number_of(i.op[0]), !first->negated, shape == Shape::flushed_negation};
      } else if (shape == Shape::sum && same_kind(f_.source[pc], f_.source[product]) &&
                 (first == holders.end()) != (second == holders.end())) {
        const bool is_second = first == holders.end();
        found.uses.push_back({pc, is_second, (is_second ? second : first)->negated});
      } else {
        return std::nullopt;
      }
      if (behind && shape == Shape::sum) return std::nullopt;
    }
    for (const uint32_t reg : access.writes) {
      if (!held(reg)) continue;
      if (i.guard >= 0) return std::nullopt;  // the product stays in some lanes
      std::erase_if(holders, [&](const Holder& h) { return h.reg == reg; });
    }
    if (another) holders.push_back(*another);
  }
  for (const Holder& h : holders)
    if (flow_.lives_behind(block, h.reg)) return std::nullopt;
  return found;
}

// What is computed later than where it stands takes a product along, or a copy of it if others want it too:
// one for everything of that place, which is part of the sums there if nothing else of that place reads it.
void Contraction::find_sunk_products(const std::vector<Sinking::Reading>& sunk) {
  std::unordered_set<uint32_t> is_found;
  for (const SummedProduct& p : products_) is_found.insert(p.pc);
  for (auto begin = sunk.begin(); begin != sunk.end();) {
    const auto end = std::find_if(begin, sunk.end(), [&](const auto& r) { return r.place != begin->place; });
    const std::span<const Sinking::Reading> place(begin, end);
    for (auto r = begin; r != end; ++r) {
      if ((r != begin && r->made == (r - 1)->made) || shape_of(r->made) != Shape::product ||
          ends_in_product(f_.source[r->made]) || is_found.contains(r->made))
        continue;
      if (auto product = used_in_sunk_sums(place, r->made)) products_.push_back(std::move(*product));
    }
    begin = end;
  }
}

std::optional<SummedProduct> Contraction::used_in_sunk_sums(std::span<const Sinking::Reading> place,
                                                            uint32_t product) const {
  struct Holder {
    uint32_t pc;
    bool negated;
  };
  std::vector<Holder> holders{{product, false}};
  SummedProduct found{product, {}};
  for (size_t k = 0; k < holders.size(); ++k) {
    const Holder holder = holders[k];
    const auto first = std::ranges::lower_bound(place, holder.pc, {}, &Sinking::Reading::made);
    for (auto at = first; at != place.end() && at->made == holder.pc; ++at) {
      const Sinking::Reading& r = *at;
      const Instr& i = f_.code[r.reader];
      const Shape shape = shape_of(r.reader);
      const uint32_t reg = flow_.number_of(f_.code[holder.pc].op[0]);
      const bool is_first = flow_.number_of(i.op[1]) == reg, is_second = flow_.number_of(i.op[2]) == reg;
      const bool is_read_twice =
          std::ranges::find(found.uses, r.reader, &SummedProduct::Use::pc) != found.uses.end();
      if (shape == Shape::copy)
        holders.push_back({r.reader, holder.negated});
      else if (shape == Shape::negation &&
               goes_on_through(shape, f_.source[r.reader], f_.source[product], false))
        holders.push_back({r.reader, !holder.negated});
      else if (shape == Shape::sum && same_kind(f_.source[r.reader], f_.source[product]) &&
               is_first != is_second && r.moves && !is_read_twice)
        found.uses.push_back({r.reader, is_second, holder.negated});
      else
        return std::nullopt;
    }
  }
  return found;
}

// Sums take products that nothing else uses before others; of two others the one that fewer sums use, else
// the first operand. A product of several sums is taken as long as none of them has taken its other operand.
void Contraction::choose_products() {
  std::map<uint32_t, std::array<const SummedProduct*, 2>> sums;  // by pc: what their operands are
  for (const SummedProduct& p : products_)
    for (const SummedProduct::Use& use : p.uses) sums[use.pc][use.second] = &p;
  for (const bool single : {true, false})
    for (const auto& [pc, operands] : sums) {
      const SummedProduct* best = nullptr;
      for (const SummedProduct* p : operands)
        if (p && (p->uses.size() == 1) == single && is_free(*p) &&
            (!best || p->uses.size() < best->uses.size()))
          best = p;
      if (!best || fusions_[pc].product != kNone) continue;
      for (const SummedProduct::Use& use : best->uses)
        if (use.pc == pc) fusions_[pc] = {best->pc, use.second, use.negated};
    }
}

bool Contraction::is_taken(uint32_t product) const {
  return std::ranges::any_of(fusions_, [&](const Fusion& fusion) { return fusion.product == product; });
}

bool Contraction::is_free(const SummedProduct& p) const {
  return std::all_of(p.uses.begin(), p.uses.end(), [&](const SummedProduct::Use& use) {
    const uint32_t taken = fusions_[use.pc].product;
    return taken == kNone || taken == p.pc;
  });
}

// x * 2 - x is x, whatever that is (with .ftz: x + -0), and x - x * 2 is -x: whether it is the negation,
// where it is one of them. Not of pairs of halves.
std::optional<bool> Contraction::difference_from_twice(uint32_t pc, const Operand& other, bool negate_product,
                                                       bool negate_other) const {
  const Source& s = f_.source[pc];
  const uint32_t product = fusions_[pc].product;
  const uint64_t two = s.type() == Type::f32                             ? 0x40000000
                       : s.type() == Type::f64                           ? 0x4000000000000000
                       : s.type() == Type::f16 || s.type() == Type::bf16 ? 0x4000
                                                                         : 0;
  if (!two || s.has("sat") || ends_in_product(f_.source[product])) return std::nullopt;
  const uint64_t sign = uint64_t(1) << (bits_of(s.type()) - 1);
  for (const unsigned slot : {1u, 2u}) {
    const Operand& x = f_.code[product].op[3 - slot];
    const auto factor = known_.bits(product, slot);
    if (!factor || (*factor & ~sign) != two || x.immediate || x.offset != other.offset) continue;
    const bool is_negative = ((*factor & sign) != 0) != negate_product;
    if (is_negative != negate_other && !may_change(x, product, pc)) return is_negative;
  }
  return std::nullopt;
}

// sum = a * b + c for a sum and its product. Of a constant NaN and a number the second factor comes first.
void Contraction::fuse(uint32_t pc) {
  const Fusion& fusion = fusions_[pc];
  const Source& s = f_.source[pc];
  const bool subtracts = s.tokens[0] == "sub";
  const bool negate_product = fusion.negated != (subtracts && fusion.second);
  const bool negate_other = subtracts && !fusion.second;
  const bool quotient = ends_in_product(f_.source[fusion.product]);
  const auto [a, b] = quotient ? quotient_of(fusion.product) : factors(fusion.product, pc);
  Operand other = f_.code[pc].op[fusion.second ? 1 : 2];
  if (const auto sign = difference_from_twice(pc, other, negate_product, negate_other)) {
    const std::string_view type = name_of(s.type());
    if (s.has("ftz"))
      return *sign ? w_.replace(pc, {"neg", "ftz", type}, {other})
                   : w_.replace(
                         pc, {"add", "rn", "ftz", type},
                         {other, w_.constant(uint64_t(1) << (bits_of(s.type()) - 1), bits_type(s.type()))});
    return *sign ? w_.replace(pc, {"neg", type}, {other})
                 : w_.replace(pc, {"mov", name_of(bits_type(s.type()))}, {other});
  }
  std::vector<std::string_view> tokens{"fma", "rn"};
  if (s.has("ftz")) tokens.push_back("ftz");
  if (s.has("sat")) tokens.push_back("sat");
  tokens.push_back(name_of(s.type()));
  if (negate_other) other = w_.negated(other, pc);
  const uint32_t product = fusion.product;
  if (const auto of_nan = nan_product(known_, f_.code[product], f_.source[product], product)) {
    const uint64_t sign = negate_product ? uint64_t(1) << 63 : 0;
    return w_.replace(pc, tokens, {w_.constant(of_nan->second ^ sign, Type::f64), a, other});
  }
  w_.replace(pc, tokens, {negate_product ? w_.negated(a, pc) : a, b, other});
}

// Whether a factor may be another one where the sum stands. (Elsewhere than in the product's block it is the
// same if one instruction makes it, because that and the product come before the sum.)
bool Contraction::may_change(const Operand& op, uint32_t product, uint32_t sum) const {
  const uint32_t reg = flow_.number_of(op);
  if (reg == Dataflow::kNone) return false;
  const std::vector<uint32_t>& writes = writes_[reg];
  if (block_[product] != block_[sum] || product > sum) return writes.size() > 1;
  const auto next = std::lower_bound(writes.begin(), writes.end(), product);
  return next != writes.end() && *next < sum;
}

// The factors of a product, where a sum that takes it stands: copies if they may have changed by then.
std::pair<Operand, Operand> Contraction::factors(uint32_t product, uint32_t sum) {
  const Instr& i = f_.code[product];
  const auto at_sum = [&](const Operand& op) {
    if (!may_change(op, product, sum)) return op;
    const Operand copy = w_.fresh(op.type);
    w_.insert(product, {"mov", name_of(bits_type(op.type))}, {copy, op});
    return copy;
  };
  const Operand a = at_sum(i.op[1]);
  return {a, at_sum(i.op[2])};
}

const std::pair<Operand, Operand>& Contraction::quotient_of(uint32_t pc) {
  const auto known = quotients_.find(pc);
  return known != quotients_.end() ? known->second : quotients_[pc] = expand_quotient(w_, pc);
}

}  // namespace fp4lab::emu
