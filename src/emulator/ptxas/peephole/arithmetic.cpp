// Sums, products, signs and extremes of floats: of constants, of 1 as a factor, of a value and itself.
#include <algorithm>
#include <bit>
#include <cmath>

#include "emulator/ptxas/nan_product.h"
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/range.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

// The square of an f32 without a rounding has no sign to lose: abs is a copy, through which the product goes
// on.
bool is_of_square(Pass& p, uint32_t pc) {
  const auto square = p.made_by(pc, 1, "mul");
  if (!square) return false;
  const Source& s = p.source(*square);
  return s.type() == Type::f32 && !says_rounding(s) && p.same_register(*square, 1, 2) &&
         (s.has("ftz") || !p.source(pc).has("ftz"));
}

// Of what is no less than 0, and -0 is not, abs is gone.
bool drop_abs(Pass& p, uint32_t pc) {
  const auto range = p.f.code[pc].guard < 0 && !p.bits(pc, 1) ? range_of(p, pc, 1) : std::nullopt;
  if (!range || range->least < 0) return false;
  if (p.source(pc).has("ftz"))
    p.replace(pc, {"add", "ftz", "f32"}, {p.operand(pc, 1), p.w.constant(0x80000000, Type::f32)});
  else
    p.become_copy(pc, p.operand(pc, 1), Type::f32);
  return true;
}

// Of a constant abs and neg change the sign, also of a NaN, which f32 makes quiet; with .ftz only of one made
// within the straight-line code. Of f16 and bf16 they make a NaN canonical, and two negations are not none.
void fold_sign(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type type = s.type();
  if (s.tokens[0] == "abs" && type == Type::f32) {
    if (is_of_square(p, pc)) return p.become_copy(pc, p.operand(pc, 1), type);
    if (drop_abs(p, pc)) return;
  }
  if ((type == Type::f16 || (type == Type::bf16 && s.tokens[0] == "neg")) && !s.has("ftz")) {
    if (const auto x = p.bits(pc, 1); x && is_nan(*x & 0xffff, type)) p.become(pc, 0x7fff, type);
    return;
  }
  if (type != Type::f32 && type != Type::f64 && type != Type::f16x2) return;
  if (!p.known.is_constant(pc, 1)) return;
  const uint64_t sign = type == Type::f64 ? uint64_t(1) << 63 : type == Type::f32 ? 0x80000000 : 0x80008000;
  const bool abs = s.tokens[0] == "abs";
  if (const auto x = p.bits(pc, 1); x && type == Type::f32) {
    if (p.known.leaves_sign(pc)) return;
    const uint64_t value = quiet32(s.has("ftz") ? flushed32(*x) : *x);
    p.become(pc, abs ? value & ~sign : value ^ sign, type);
  } else if (x && !s.has("ftz")) {
    p.become(pc, abs ? *x & ~sign : *x ^ sign, type);
  } else if (type != Type::f16x2 && !s.has("ftz")) {
    const Type as = bits_type(type);
    const uint64_t mask = abs ? (type == Type::f64 ? ~sign : ~sign & 0xffffffff) : sign;
    p.replace(pc, {abs ? "and" : "xor", name_of(as)}, {p.operand(pc, 1), p.w.constant(mask, as)});
  }
}

// The product without a rounding that an operand holds, if nothing else reads it.
std::optional<uint32_t> sole_product(Pass& p, uint32_t pc, unsigned slot) {
  const uint32_t reader = pc;
  for (;;) {
    const uint32_t from = p.known.maker(pc, slot);
    if (from == Dataflow::kNone || from >= pc || p.known.uses(from) != 1 || p.f.code[from].guard >= 0)
      return std::nullopt;
    const Source& s = p.source(from);
    if (s.tokens[0] == "mul" && s.type() == Type::f32 && !says_rounding(s) && !s.has("sat"))
      return p.known.may_read_for(reader, from) ? std::optional(from) : std::nullopt;
    if (!p.is_copy(from)) return std::nullopt;
    pc = from, slot = 1;
  }
}

// Once more by 1, rounded to nearest, it is the same product with the .ftz and .sat of the second, and
// without its rounding: sums may take it.
void fold_rounded_product(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.type() != Type::f32 || !s.has("rn")) return;
  for (const unsigned slot : {1u, 2u}) {
    if (p.bits(pc, slot) != 0x3f800000) continue;
    const auto product = sole_product(p, pc, 3 - slot);
    if (!product) continue;
    Rewriter::Tokens tokens = s.tokens;
    std::erase(tokens, "rn");
    return p.replace(pc, std::move(tokens), {p.kept(*product, 1), p.kept(*product, 2)});
  }
}

// An instruction that is more than a move reads a constant.
bool is_read_elsewhere(const Pass& p, uint64_t constant, uint32_t but_at, unsigned but_slot) {
  for (uint32_t pc = 0; pc < p.f.code.size(); ++pc) {
    if (p.flow.is_dead(pc) || p.source(pc).tokens[0] == "mov") continue;
    for (unsigned slot = 1; slot < Known::kSlots; ++slot) {
      const Operand& op = p.operand(pc, slot);
      if ((pc != but_at || slot != but_slot) && is_value(op) && bits_of(op.type) == 32 &&
          p.bits(pc, slot) == constant)
        return true;
    }
  }
  return false;
}

// Of 1 or -1 in a slot and a constant NaN, of f32: computed if the number becomes the machine's operand that
// may be a constant, which is the first one unless something else reads one of the two, or if one comes from
// elsewhere.
bool computes_nan(const Pass& p, uint32_t pc, unsigned slot) {
  if (!p.known.comes_from_here(pc, 1) || !p.known.comes_from_here(pc, 2)) return true;
  const auto is_shared = [&](unsigned of) {
    return p.computed_factors.contains(*p.bits(pc, of)) || is_read_elsewhere(p, *p.bits(pc, of), pc, of);
  };
  return is_shared(3 - slot) || (slot == 1 && !is_shared(slot));
}

// x * 1 is x, whatever NaN it is, x * -1 its negation. (Of a constant NaN of f64: nan_product.h.)
void fold_product(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type type = s.type();
  const uint64_t one = type == Type::f32    ? 0x3f800000
                       : type == Type::f64  ? 0x3ff0000000000000
                       : type == Type::f16  ? 0x3c00
                       : type == Type::bf16 ? 0x3f80
                                            : 0;
  if (says_rounding(s)) return fold_rounded_product(p, pc);
  if (s.has("sat")) {  // of what is saturated it is that (see is_saturated)
    for (const unsigned slot : {1u, 2u})
      if (one && !s.has("ftz") && p.bits(pc, slot) == one && is_saturated(p, pc, 3 - slot, type))
        return p.become_copy(pc, p.operand(pc, 3 - slot), type);
    return;
  }
  if (!one) return;
  const uint64_t minus_one = one | uint64_t(1) << (bits_of(type) - 1);
  if (s.has("ftz")) {
    for (const unsigned slot : {1u, 2u})
      if (p.bits(pc, slot) == minus_one)
        return p.replace(pc, {"neg", "ftz", name_of(type)}, {p.operand(pc, 3 - slot)});
    return;
  }
  const auto a = p.bits(pc, 1), b = p.bits(pc, 2);
  if (a && b && type == Type::f32 && !is_nan32(*a) && !is_nan32(*b)) {
    const float product = float_of(*a) * float_of(*b);  // on its own: no sum takes it
    if (!std::isnan(product)) return p.become(pc, std::bit_cast<uint32_t>(product), type);
  }
  if (a && b && type == Type::f64 && !is_nan64(*a) && !is_nan64(*b)) {
    const double product = std::bit_cast<double>(*a) * std::bit_cast<double>(*b);
    if (!std::isnan(product)) return p.become(pc, std::bit_cast<uint64_t>(product), type);
  }
  if (a && b && (type == Type::f16 || nan_product(p.known, p.f.code[pc], s, pc))) return;
  for (const unsigned slot : {1u, 2u}) {
    const auto factor = p.bits(pc, slot), other = p.bits(pc, 3 - slot);
    if (type == Type::f32 && (factor == one || factor == minus_one) && other && is_nan32(*other)) {
      if (!computes_nan(p, pc, slot)) return;
      p.computed_factors.insert({*factor, *other});
      return p.become(pc, factor == one ? *other : quiet32(*other ^ 0x80000000), type);
    }
    if (factor == one) return p.become_copy_of(pc, 3 - slot, type);
    if (const auto x = p.bits(pc, 3 - slot);
        p.bits(pc, slot) == minus_one && type == Type::f64 && x && is_nan64(*x))
      return p.become(pc, *x ^ uint64_t(1) << 63, type);
    if (p.bits(pc, slot) == minus_one && (type == Type::f32 || !a || !b))
      return p.replace(pc, {"neg", name_of(type)}, {p.operand(pc, 3 - slot)});
  }
}

// The approximate reciprocal of an approximate reciprocal is the value itself, with .ftz alone: not flushed.
void fold_reciprocals(Pass& p, uint32_t pc) {
  const auto is_it = [&](uint32_t at) {
    return p.source(at).has("approx") && p.source(at).has("ftz") && p.source(at).type() == Type::f32;
  };
  const auto first = is_it(pc) ? p.open_maker(pc, 1, "rcp") : std::nullopt;
  if (first && is_it(*first)) p.become_copy(pc, p.kept(*first, 1), Type::f32);
}

// A difference of constants that lies halfway between two numbers becomes the one nearer to 0, also where it
// is to be the nearest one, unless it has lost places at its top (by the driver's compiler; ptxas itself
// takes the even one).
void fold_tie(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const auto a = p.bits(pc, 1), b = p.bits(pc, 2);
  if (!a || !b || !p.known.is_constant(pc, 1) || !p.known.is_constant(pc, 2) || s.type() != Type::f32 ||
      rounds_in_a_direction(s) || s.has("sat"))
    return;
  const double exact = double(float_of(*a)) + (s.tokens[0] == "sub" ? -1.0 : 1.0) * double(float_of(*b));
  const auto sum = static_cast<float>(exact);
  const float lesser = std::nextafter(sum, 0.0F);
  const bool differ = (*a ^ *b ^ (s.tokens[0] == "sub" ? 0x80000000 : 0)) & 0x80000000;
  if (!differ || !std::isnormal(sum) || double(sum) - exact != exact - double(lesser)) return;
  if (std::ilogb(lesser) != std::max(std::ilogb(float_of(*a)), std::ilogb(float_of(*b)))) return;
  p.become(pc, std::bit_cast<uint32_t>(lesser), Type::f32);
}

// A copy or a sign of what is no constant, which the instruction then reads itself: the compiler looks at it
// once more.
bool reads_through(const Pass& p, uint32_t pc, unsigned slot) {
  const uint32_t from = p.known.maker(pc, slot);
  if (from >= pc || p.bits(pc, slot)) return false;
  const Source& s = p.source(from);
  const bool is_sign = (s.tokens[0] == "neg" || s.tokens[0] == "abs") && s.type() == Type::f64;
  return is_sign || p.is_copy(from);
}

// Of two constants that are added or multiplied to the nearest f64, whether they change places: if the first
// one comes from this straight-line code, and the second one or the addend does not, or this is a copy. But 1
// and -1 as factors are then the first ones, whichever of the two comes from elsewhere.
bool exchanges_constants(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const auto a = p.bits(pc, 1), b = p.bits(pc, 2);
  if (!a || !b || s.type() != Type::f64 || rounds_in_a_direction(s)) return false;
  const bool is_a_here = p.known.comes_from_here(pc, 1), is_b_here = p.known.comes_from_here(pc, 2);
  const auto is_one = [](uint64_t bits) { return bits << 1 == 0x3ff0000000000000 << 1; };
  if (s.tokens[0] == "mul" && !says_rounding(s) && (is_one(*a) || is_one(*b)))
    return !is_one(*a) && is_a_here != is_b_here;
  const bool is_addend_elsewhere =
      p.operand(pc, 3) && (!p.known.comes_from_here(pc, 3) || reads_through(p, pc, 3));
  return is_a_here && (!is_b_here || is_addend_elsewhere);
}

void order_constants(Pass& p, uint32_t pc) {
  if (!exchanges_constants(p, pc)) return;
  std::vector<Operand> sources{p.w.constant(*p.bits(pc, 2), Type::f64),
                               p.w.constant(*p.bits(pc, 1), Type::f64)};
  if (p.operand(pc, 3)) sources.push_back(p.operand(pc, 3));
  p.replace(pc, p.source(pc).tokens, std::move(sources));
}

// A constant NaN that is subtracted is added with its sign changed.
void fold_difference(Pass& p, uint32_t pc) {
  if (p.source(pc).type() != Type::f64) return;
  const auto x = p.bits(pc, 2);
  if (!x || !is_nan64(*x)) return;
  Rewriter::Tokens tokens = p.source(pc).tokens;
  tokens[0] = "add";
  const Operand negative = p.w.constant(*x ^ uint64_t(1) << 63, Type::f64);
  const auto from = p.bits(pc, 1);
  const Operand a = from ? p.w.constant(*from, Type::f64) : p.operand(pc, 1);
  p.replace(pc, tokens, exchanges_constants(p, pc) ? std::vector{negative, a} : std::vector{a, negative});
}

// Of one value each: the elements of a vector differ.
bool same_load(Pass& p, uint32_t a, uint32_t b) {
  if (a == Dataflow::kNone || b == Dataflow::kNone || p.source(a).tokens[0] != "ld") return false;
  if (!is_value(p.f.code[a].op[0])) return false;
  const auto [first, last] = std::minmax(a, b);
  const Operand &x = p.f.code[first].op[1], &y = p.f.code[last].op[1];
  if (p.source(a).tokens != p.source(b).tokens || x.kind != Operand::Kind::address || y.kind != x.kind)
    return false;
  if (x.has_base != y.has_base || (x.has_base && x.offset != y.offset) || x.displacement != y.displacement)
    return false;
  for (uint32_t pc = first; pc < last; ++pc) {
    const auto& writes = p.flow.access(pc).writes;
    if (!p.flow.is_pure(pc)) return false;
    if (x.has_base && std::find(writes.begin(), writes.end(), p.flow.number_of_base(x)) != writes.end())
      return false;
  }
  return true;
}

// The extreme of a value and itself is the value, of f32 also where it was loaded twice. (Of f64 that is
// found out when operands have been ordered.)
void fold_extreme(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type type = s.type();
  const bool plain = s.tokens.size() == 2;
  const auto constant = p.bits(pc, 1);
  if (p.same_operands(pc, 1, 2) || (constant && constant == p.bits(pc, 2))) {
    if (plain && (type == Type::f32 || type == Type::f64 || type == Type::f16))
      return p.become_copy_of(pc, 1, type);
    if (constant && type == Type::f32 && s.tokens.size() == 3 && s.has("ftz") &&
        p.known.is_constant_here(pc, 1))
      p.become(pc, quiet32(flushed32(*constant)), type);
    return;
  }
  if (!plain || type != Type::f32) return;
  if (!same_load(p, p.known.maker(pc, 1), p.known.maker(pc, 2))) return;
  p.become_copy_of(pc, 1, type);
}

}  // namespace

std::span<const Rule> arithmetic_rules() {
  static constexpr Rule kRules[] = {
      {"rcp", fold_reciprocals},   {"neg", fold_sign},          {"abs", fold_sign},
      {"add", order_constants},    {"mul", order_constants},    {"fma", order_constants},
      {"mad", order_constants},    {"mul", fold_product},       {"add", fold_tie},
      {"sub", fold_tie},           {"sub", fold_difference},    {"min", fold_extreme},
      {"max", fold_extreme},       {"add", become_only_number}, {"sub", become_only_number},
      {"mul", become_only_number}, {"max", become_only_number}, {"min", become_only_number},
  };
  return kRules;
}

}  // namespace fp4lab::emu::peephole
