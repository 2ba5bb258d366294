// Shifts, bit fields, and saturated sums of integers.
#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"
#include "emulator/ptxas/routine.h"

namespace fp4lab::emu::peephole {

namespace {

bool is_word(Type t) { return t == Type::u32 || t == Type::s32; }

// The amount of a 16-bit shift is cut to 16 bits if the instruction itself names it.
void fold_shift(Pass& p, uint32_t pc) {
  if (bits_of(p.source(pc).type()) != 16) return;
  if (const auto amount = p.bits(pc, 2); amount && p.operand(pc, 2).immediate && *amount & 0xffff0000)
    p.set_operand(pc, 2, *amount & 0xffff);
}

// The amount of an unsigned 16-bit shift is none below 0, if it is a part of a register with its sign.
void fold_signed_amount(Pass& p, uint32_t pc) {
  const Type type = p.source(pc).type();
  const auto from = p.behind_copies(pc, 2);
  if (bits_of(type) != 16 || type == Type::s16 || !from || !is_signed_part(p, *from) || p.bits(pc, 2)) return;
  const Operand amount = p.w.fresh(Type::b32);
  p.insert(pc, {"max", "s32"}, {amount, p.operand(pc, 2), p.w.constant(0)});
  p.operand(pc, 2) = amount;
}

// The amount of a signed 16-bit shift, where it was converted to u32 from f32, is converted to s16 instead:
// numbers below 0 shift all bits away, as large ones do.
void fold_converted_amount(Pass& p, uint32_t pc) {
  if (p.source(pc).type() != Type::s16) return;
  const auto from = p.open_maker(pc, 2, "cvt");
  if (!from || p.source(*from).type(0) != Type::u32 || p.source(*from).type(1) != Type::f32) return;
  const Operand amount = p.w.fresh(Type::b32);
  p.insert(*from, {"cvt", p.source(*from).tokens[1], "s32", "f32"}, {amount, p.operand(*from, 1)});
  p.operand(pc, 2) = amount;
}

// The same where it is a truth by cnot, which counts as its negation then: all bits are shifted away. Where
// the shift is unsigned a register that nothing has written is the amount, in which there is something large.
void fold_truth_as_amount(Pass& p, uint32_t pc) {
  const Type type = p.source(pc).type();
  const auto truth = bits_of(type) == 16 ? p.made_by(pc, 2, "cnot") : std::nullopt;
  if (!truth || p.source(*truth).type() != Type::b32 || p.bits(pc, 2)) return;
  if (type != Type::s16) return p.become(pc, 0, type);
  const Operand negative = p.w.fresh(Type::b32);
  p.insert(pc, {"neg", "s32"}, {negative, p.operand(pc, 2)});
  p.operand(pc, 2) = negative;
}

// A product of 64 bits with a constant that is shifted out of these stays where it is.
void fold_wide_shift(Pass& p, uint32_t pc) {
  const auto product = shifted_product(p, pc);
  const auto amount = p.bits(pc, 2);
  if (!product || !amount || (*amount & 0xffffffff) < 64) return;
  if (p.bits(*product, 1) || p.bits(*product, 2)) p.become_copy(pc, p.operand(pc, 1), Type::b64);
}

// How many bytes of a word an `and` with a constant, or a conversion of the lower bytes, lets through.
unsigned lower_bytes(const Pass& p, uint32_t pc, unsigned slot) {
  const Source& s = p.source(pc);
  if (s.tokens[0] == "cvt") {
    const Type to = s.type(0), from = s.type(1);
    if (s.tokens.size() != 3 || is_float(to) || slot != 1) return 0;
    if (bits_of(to) < 32) return from == Type::u8 || (to == Type::u8 && bits_of(from) == 32) ? 1 : 0;
    return from == Type::u8 ? 1 : from == Type::u16 ? 2 : 0;
  }
  if (s.type() == Type::b16) return uint16_t(p.bits(pc, 3 - slot).value_or(0)) == 0xff ? 1 : 0;
  const auto mask = s.type() == Type::b32 ? p.bits(pc, 3 - slot) : std::nullopt;
  return !mask ? 0 : *mask == 0xff ? 1 : *mask == 0xffff ? 2 : *mask == 0xffffff ? 3 : 0;
}

// The lower bytes of a prmt by a constant are a prmt that takes zeros from the first operand, if they come
// from the second, which is no constant: a sign of the first is then 0 too. What they are for pc, where that
// is something else.
std::optional<Operand> mistaken_lower_bytes(Pass& p, uint32_t pc, uint32_t prmt, unsigned bytes) {
  const auto selector = p.bits(prmt, 3);
  if (p.source(prmt).tokens.size() != 2 || !selector || p.bits(prmt, 2)) return std::nullopt;
  bool takes_sign = false;
  for (unsigned byte = 0; byte < bytes; ++byte) {
    const unsigned which = *selector >> 4 * byte & 15;
    if (which < 4) return std::nullopt;
    takes_sign |= which >= 8 && which < 12;
  }
  if (!takes_sign) return std::nullopt;
  const Operand second = p.kept(prmt, 2), low = p.w.fresh(Type::b32);
  p.insert(pc, {"prmt", "b32"},
           {low, p.w.constant(0), second, p.w.constant(*selector & ((1u << 4 * bytes) - 1))});
  return low;
}

// The conversion that takes the lower half of a word, if one made an operand.
std::optional<uint32_t> lower_half_taken(const Pass& p, uint32_t pc, unsigned slot) {
  const auto half = p.made_by(pc, slot, "cvt");
  if (!half || p.source(*half).tokens.size() != 3) return std::nullopt;
  const Type to = p.source(*half).type(0), of = p.source(*half).type(1);
  const bool is_it = !is_float(to) && bits_of(to) == 16 && !is_float(of) && bits_of(of) == 32;
  return is_it ? half : std::nullopt;
}

void fold_lower_bytes(Pass& p, uint32_t pc) {
  for (const unsigned slot : {1u, 2u}) {
    const unsigned bytes = lower_bytes(p, pc, slot);
    const bool is_of_half = bytes && bits_of(p.operand(pc, slot).type) == 16;
    const auto half = is_of_half ? lower_half_taken(p, pc, slot) : std::nullopt;
    const auto from = half                   ? p.open_maker(*half, 1, "prmt")
                      : bytes && !is_of_half ? p.open_maker(pc, slot, "prmt")
                                             : std::nullopt;
    const auto low = from ? mistaken_lower_bytes(p, pc, *from, bytes) : std::nullopt;
    if (!low) continue;
    if (bits_of(p.operand(pc, 0).type) == 16) return p.replace(pc, {"cvt", "u16", "u32"}, {*low});
    const bool wide = p.source(pc).tokens[0] == "cvt" && bits_of(p.source(pc).type()) == 64;
    return wide ? p.replace(pc, {"cvt", "u64", "u32"}, {*low}) : p.replace(pc, {"mov", "b32"}, {*low});
  }
}

// So are the lower 16 bits in a u16 that something wants with zeros above it.
void fold_lower_half(Pass& p, uint32_t pc) {
  const auto [first, count] = extended_operands(p, pc);
  for (unsigned slot = first; slot < first + count; ++slot) {
    const auto half = lower_half_taken(p, pc, slot);
    const auto from = half ? p.open_maker(*half, 1, "prmt") : std::nullopt;
    const auto low = from ? mistaken_lower_bytes(p, pc, *from, 2) : std::nullopt;
    if (!low) continue;
    const Operand result = p.w.fresh(Type::b16);
    p.insert(pc, {"cvt", "u16", "u32"}, {result, *low});
    p.operand(pc, slot) = result;
    p.known.forget(pc);
  }
}

// A word without a sign that was converted to s64 is shifted to the left by a constant as if it had one.
void extend_sign_of_shifted(Pass& p, uint32_t pc) {
  const auto amount = p.bits(pc, 2);
  if (bits_of(p.source(pc).type()) != 64 || !amount || *amount == 0 || *amount > 31) return;
  const auto from = p.open_maker(pc, 1, "cvt");
  if (!from || p.source(*from).tokens.size() != 3 || p.source(*from).type(0) != Type::s64 ||
      p.source(*from).type(1) != Type::u32 || p.bits(pc, 1))
    return;
  const Operand word = p.kept(*from, 1), wide = p.w.fresh(Type::b64);
  p.insert(pc, {"cvt", "s64", "s32"}, {wide, word});
  p.operand(pc, 1) = wide;
  p.known.forget(pc);
}

// What the compiler computes of constants only behind the bit fields.
bool is_computed_late(const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {"div", "rem", "dp2a", "dp4a", "prmt"};
  return kNames.contains(s.tokens[0]) || (s.tokens[0] == "cvt" && (s.has("rmi") || s.has("rpi")));
}

// An approximate function of constants of f32: one by then (fold.h), though it becomes one later here.
bool is_function_of_constants(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  return s.has("approx") && s.type() == Type::f32 && s.tokens[0] != "tanh" && p.bits(pc, 1) &&
         (s.tokens[0] != "div" || p.bits(pc, 2));
}

// A constant that the compiler knows before it looks at bit fields.
bool is_plain_constant(const Pass& p, uint32_t pc, unsigned slot) {
  const auto from = p.behind_copies(pc, slot);
  if (from && is_function_of_constants(p, *from)) return true;
  return p.known.is_constant(pc, slot) && !(from && is_computed_late(p.source(*from)));
}

// bfi.b32 of a constant place and length: the mask is of length modulo 32, but right at a byte's boundary
// and where the constant field goes into a constant.
void fold_insertion(Pass& p, uint32_t pc) {
  if (p.source(pc).type() != Type::b32 || is_plain_constant(p, pc, 2)) return;
  const auto at = p.bits(pc, 3), length = p.bits(pc, 4);
  if (at && length && (*at & 0xff) < 32 && *at % 8 != 0 && *length > 31) p.set_operand(pc, 4, *length % 32);
}

// A register's field at constant places.
bool is_field(const Pass& p, uint32_t pc, uint64_t at, uint64_t length) {
  return bits_of(p.source(pc).type()) == 32 && p.bits(pc, 2) == at && p.bits(pc, 3) == length;
}

// A field that goes back above what bfe.s32 took out below it: both are one field from bit 0, without a sign.
void join_fields(Pass& p, uint32_t pc) {
  const auto at = p.bits(pc, 3), length = p.bits(pc, 4);
  if (p.source(pc).type() != Type::b32 || !at || !length || *at == 0 || *length == 0 || *at + *length > 32)
    return;
  const auto upper = p.made_by(pc, 1, "bfe"), lower = p.made_by(pc, 2, "bfe");
  if (!upper || !lower || !is_field(p, *upper, *at, *length) || !is_field(p, *lower, 0, *at)) return;
  if (p.bits(*lower, 1) || !p.same_copies(*upper, 1, *lower, 1)) return;
  p.replace(pc, {"bfe", "u32"}, {p.kept(*lower, 1), p.w.constant(0), p.w.constant(*at + *length)});
}

// For bfe that is more: sums and products of 24 bits, and what makes or takes a carry.
bool is_computed_behind_extraction(const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {"addc", "subc", "madc", "mul24", "mad24"};
  return is_computed_late(s) || kNames.contains(s.tokens[0]) || s.has("cc");
}

// Whether a constant is known before bfe, with all that it is computed from; `here`: in the straight-line
// code alone.
bool is_early_constant(const Pass& p, uint32_t pc, unsigned slot, bool here) {
  if (!p.known.is_constant(pc, slot)) return false;
  constexpr size_t kMostMakers = 256;  // the compiler looks at all
  std::unordered_set<uint32_t> seen;
  std::vector<std::pair<uint32_t, unsigned>> work{{pc, slot}};  // operands
  while (!work.empty() && seen.size() < kMostMakers) {
    const auto [at, of] = work.back();
    work.pop_back();
    const uint32_t from = p.known.maker(at, of);
    if (from == Dataflow::kNone || !p.known.is_constant(at, of))
      continue;  // or whatever it is: absorbing.cpp
    if (here && !p.known.is_constant_here(at, of)) return false;
    if (is_computed_behind_extraction(p.source(from))) return false;
    if (!seen.insert(from).second) continue;
    for (unsigned s = 1; s < Known::kSlots && p.operand(from, s).kind != Operand::Kind::none; ++s)
      work.emplace_back(from, s);
  }
  return true;
}

// bfe.s32 of a constant field that begins behind the register: ones, whatever the sign is. Not of a constant
// that is one early, unless it was made elsewhere and the field is known within the straight-line code.
void fold_extraction(Pass& p, uint32_t pc) {
  if (p.source(pc).type() != Type::s32) return;
  const auto at = p.bits(pc, 2), length = p.bits(pc, 3);
  if (!at || !length || (*at & 0xff) <= 31 || (*length & 0xff) == 0) return;
  const auto is_here = [&](unsigned slot) { return p.known.is_constant_here(pc, slot); };
  const bool is_field_here = is_here(2) && is_here(3);
  if (is_early_constant(p, pc, 1, /*here=*/is_field_here)) return;
  p.become(pc, 0xffffffff, Type::b32);
}

// A saturated sum of an operand and a constant takes another constant that was added to it before.
bool take_constant_before(Pass& p, uint32_t pc, unsigned slot, uint32_t last) {
  for (const bool difference : {false, true}) {
    const auto from = p.open_maker(pc, slot, difference ? "sub" : "add");
    if (!from || p.known.uses(*from) != 1 || p.source(*from).tokens.size() != 2 ||
        !is_word(p.source(*from).type()))
      continue;
    const auto first = p.bits(*from, 1), second = p.bits(*from, 2);
    if (bool(first) == bool(second)) continue;
    const Operand x = p.kept(*from, first ? 2 : 1);
    const auto known = static_cast<uint32_t>(first ? *first : *second);
    if (difference && first)
      p.replace(pc, {"sub", "sat", "s32"}, {p.w.constant(known + last), x});
    else
      p.replace(pc, {"add", "sat", "s32"}, {x, p.w.constant((difference ? -known : known) + last)});
    return true;
  }
  return false;
}

void fold_saturated(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (!s.has("sat") || s.type() != Type::s32) return;
  const bool minus = s.tokens[0] == "sub";
  for (const unsigned slot : {2u, 1u}) {
    const auto c = p.bits(pc, slot);
    if (!c || (minus && slot == 1)) continue;
    if (take_constant_before(p, pc, 3 - slot, static_cast<uint32_t>(minus ? -*c : *c))) return;
  }
}

// The same of the constant that mad24.hi adds, which is a sum of its own.
void fold_saturated_product(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (!s.has("sat") || s.type() != Type::s32) return;
  for (const unsigned slot : {2u, 1u}) {
    const auto c = p.bits(pc, slot);
    const auto from = c ? p.open_maker(pc, 3 - slot, "mad24") : std::nullopt;
    if (!from || p.known.uses(*from) != 1 || p.source(*from).has("sat") || !p.source(*from).has("hi"))
      continue;
    const auto addend = p.bits(*from, 3);
    if (!addend) continue;
    const Operand product = p.w.fresh(Type::b32);
    p.insert(*from, {"mul24", "hi", name_of(p.source(*from).type())},
             {product, p.operand(*from, 1), p.operand(*from, 2)});
    return p.replace(pc, {"add", "sat", "s32"}, {product, p.w.constant(static_cast<uint32_t>(*addend + *c))});
  }
}

// A product of two constants is one more, and what is added to it a sum: not the upper half of one of 32
// bits.
void fold_known_product(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const auto a = p.bits(pc, 1), b = p.bits(pc, 2);
  if (!a || !b || p.bits(pc, 3) || !is_word(s.type()) || s.has("cc")) return;
  const bool is_short = s.tokens[0] == "mad24", is_signed = s.type() == Type::s32;
  if (!s.has("lo") && !(is_short && s.has("hi"))) return;
  const auto factor = [&](uint64_t bits) -> int64_t {  // of 24 bits
    return is_signed ? static_cast<int32_t>(bits << 8) >> 8 : static_cast<int64_t>(bits & 0xffffff);
  };
  const uint64_t product = is_short ? static_cast<uint64_t>(factor(*a) * factor(*b)) : *a * *b;
  const auto addend = static_cast<uint32_t>(s.has("hi") ? product >> 16 : product);
  if (!s.has("sat"))
    return p.replace(pc, {"add", name_of(s.type())}, {p.operand(pc, 3), p.w.constant(addend)});
  if (!take_constant_before(p, pc, 3, addend))
    p.replace(pc, {"add", "sat", "s32"}, {p.operand(pc, 3), p.w.constant(addend)});
}

// A sum that undoes a sum before it is a copy of what that read.
void become_undone(Pass& p, uint32_t pc, uint32_t from, unsigned slot) {
  const uint32_t maker = p.known.only_maker(from, slot);
  p.become_copy(pc, p.kept(from, slot), Type::s32);
  p.known.learn(pc, maker);
}

// What mad24.hi added, a sum of its own, is subtracted, or that sum from it: the product is left, or its
// opposite.
void fold_undone_product(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (!s.has("sat") || s.type() != Type::s32) return;
  for (const unsigned slot : {1u, 2u}) {
    const auto from = p.open_maker(pc, slot, "mad24");
    if (!from || p.source(*from).has("sat") || !p.source(*from).has("hi")) continue;
    if (!p.same_value(*from, 3, pc, 3 - slot)) continue;
    const Operand product = p.w.fresh(Type::b32);
    p.insert(*from, {"mul24", "hi", name_of(p.source(*from).type())},
             {product, p.operand(*from, 1), p.operand(*from, 2)});
    if (slot == 1) return p.become_copy(pc, product, Type::s32);
    return p.replace(pc, {"sub", "sat", "s32"}, {p.w.constant(0), product});
  }
}

// Of a video instruction on parts of registers: one part of its result alone is added to the third operand.
bool adds_one_part(const Pass& p, uint32_t pc) {
  const std::string_view name = p.source(pc).tokens[0];
  const auto mask = static_cast<uint64_t>(p.operand(pc, 0).displacement);  // as text: "h0"
  const bool is_simd = name[0] == 'v' && (name.ends_with('2') || name.ends_with('4'));
  return is_simd && p.source(pc).has("add") && p.f.code[pc].guard < 0 && mask && mask >> 16 == 0;
}

// What such an instruction added is subtracted: the part is left, which needs no saturation.
void fold_undone_part(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (!s.has("sat") || s.type() != Type::s32) return;
  const auto from = p.behind_copies(pc, 1);
  if (!from || !adds_one_part(p, *from) || !p.known.may_read_for(pc, *from)) return;
  if (p.same_value(*from, 3, pc, 2)) p.replace(pc, {"sub", "s32"}, {p.operand(pc, 1), p.operand(pc, 2)});
}

// What made an operand as a sum, also with a carry that is none, or as a difference.
std::optional<uint32_t> summing(const Pass& p, uint32_t pc, unsigned slot, bool difference) {
  if (const auto from = p.open_maker(pc, slot, difference ? "sub" : "add")) return from;
  const auto from = difference ? std::nullopt : p.open_maker(pc, slot, "addc");
  return from && has_no_carry(p, *from) ? from : std::nullopt;
}

// A sum, also a saturated one, that undoes a sum before it is what is left.
void fold_undone(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const bool saturates = s.has("sat");
  if (!is_word(s.type()) || s.tokens.size() != (saturates ? 3 : 2)) return;
  const bool minus = s.tokens[0] == "sub";
  for (const unsigned slot : {1u, 2u})
    for (const bool difference : {false, true}) {
      const auto from = summing(p, pc, slot, difference);
      if (!from || !is_word(p.source(*from).type())) continue;
      if (p.source(*from).tokens.size() != 2 && !(saturates && p.source(*from).has("cc"))) continue;
      const auto first = p.bits(*from, 1);
      const bool is_negation = difference && first && !static_cast<uint32_t>(*first);  // which is no sum
      if (is_negation) continue;
      const auto shares = [&](unsigned with) {
        const auto constant = p.bits(pc, 3 - slot);
        if (with == 1 && minus && difference && slot == 2 && constant && first)
          return static_cast<uint32_t>(*constant) == static_cast<uint32_t>(*first);
        return p.same_value(*from, with, pc, 3 - slot);
      };
      // (a - b) + b; a - (a - b); (a + b) - a or b
      if (!minus && difference && shares(2)) return become_undone(p, pc, *from, 1);
      if (minus && difference && slot == 2 && shares(1)) return become_undone(p, pc, *from, 2);
      if (minus && !difference && slot == 1 && shares(1)) return become_undone(p, pc, *from, 2);
      if (minus && !difference && slot == 1 && shares(2)) return become_undone(p, pc, *from, 1);
      if (!saturates) continue;
      if (minus && difference && slot == 1 && shares(1))  // (a - b) - a
        return p.replace(pc, {"sub", "sat", "s32"}, {p.w.constant(0), p.kept(*from, 2)});
      for (const unsigned shared : {1u, 2u})  // a - (a + b), a - (b + a)
        if (minus && !difference && slot == 2 && shares(shared))
          return p.replace(pc, {"sub", "sat", "s32"}, {p.w.constant(0), p.kept(*from, 3 - shared)});
    }
}

// What is subtracted from the upper half of a product, with a borrow, is added with its sign changed: 0 then
// borrows.
void fold_borrow(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const auto product = p.made_by(pc, 1, "mul");
  if (!s.has("cc") || !is_word(s.type()) || !product || !p.source(*product).has("hi")) return;
  if (!is_word(p.source(*product).type()) || p.known.uses(*product) != 1) return;
  if (!p.known.is_in_block(*product, pc)) return;
  const Operand negative = p.w.fresh(Type::b32);
  p.insert(pc, {"neg", "s32"}, {negative, p.operand(pc, 2)});
  p.replace(pc, {"add", "cc", "u32"}, {p.operand(pc, 1), negative});
}

// Whether a block ends between, or an integer division stands there, which becomes several instructions
// later.
bool are_apart(const Pass& p, uint32_t first, uint32_t second) {
  if (!p.known.is_in_block(first, second)) return true;
  for (uint32_t pc = first; pc < second; ++pc)
    if (is_integer_routine(p.source(pc)) && !p.flow.is_dead(pc)) return true;
  return false;
}

// The upper half of a product that is needed as a whole takes its sum with it, which then does not saturate.
void fold_whole_product(Pass& p, uint32_t pc) {
  if (!p.source(pc).has("hi") || !p.source(pc).has("sat")) return;
  const Dataflow::Block& b = p.flow.blocks()[p.flow.block_of(pc)];
  for (uint32_t low = b.begin; low < b.end; ++low) {
    const Source& s = p.source(low);
    if (p.flow.is_dead(low) || s.tokens[0] != "mul" || !s.has("lo") || !is_word(s.type())) continue;
    if (are_apart(p, std::min(low, pc), std::max(low, pc))) continue;
    const bool straight = p.same_value(low, 1, pc, 1) && p.same_value(low, 2, pc, 2);
    const bool crossed = p.same_value(low, 1, pc, 2) && p.same_value(low, 2, pc, 1);
    if (straight || crossed)
      return p.replace(pc, {"mad", "hi", "s32"}, {p.operand(pc, 1), p.operand(pc, 2), p.operand(pc, 3)});
  }
}

// Not of a power of two, which becomes a shift.
bool is_high_sum(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  for (const unsigned slot : {1u, 2u})
    if (const auto bits = p.bits(pc, slot); bits && !(*bits & (*bits - 1))) return false;
  return s.tokens[0] == "mad" && s.tokens.size() == 3 && s.has("hi") && is_word(s.type()) &&
         p.f.code[pc].guard < 0 && !(p.bits(pc, 1) && p.bits(pc, 2));
}

bool have_same_factors(const Pass& p, uint32_t a, uint32_t b) {
  const auto is_same = [&](unsigned slot) {
    const auto bits = p.bits(a, slot);
    return bits ? bits == p.bits(b, slot) : p.same_value(a, slot, b, slot);
  };
  return p.source(a).tokens == p.source(b).tokens && is_same(1) && is_same(2);
}

// The sum of the upper half of the same product that the addend of one is.
std::optional<uint32_t> sum_before(const Pass& p, uint32_t pc) {
  const auto inner = p.made_by(pc, 3, "mad");
  const bool is_one = inner && is_high_sum(p, *inner) && have_same_factors(p, *inner, pc);
  return is_one && p.known.is_in_block(*inner, pc) ? inner : std::nullopt;
}

// Whether it is the addend of another one of these alone.
bool has_sum_behind(Pass& p, uint32_t pc) {
  const auto& readers = p.readers(pc);
  return p.known.uses(pc) == 1 && readers.size() == 1 && is_high_sum(p, readers[0].pc) &&
         sum_before(p, readers[0].pc) == pc;
}

// How many instructions behind one read it, each the one before alone, until a store or an exchange, or until
// it meets another value; copies do not count.
size_t links_behind(Pass& p, uint32_t pc, size_t most) {
  constexpr unsigned kMostCopies = 64;
  size_t links = 0;
  for (unsigned copies = 0; links < most && copies < kMostCopies;) {
    if (p.known.becomes_variable(pc)) return links + 1;
    const auto& readers = p.readers(pc);
    if (readers.empty() || !p.known.is_in_block(readers[0].pc, pc)) return links;
    const uint32_t reader = readers[0].pc;
    const std::string_view name = p.source(reader).tokens[0];
    if (name == "st" || name == "shfl" || name == "red" || name == "atom") return links;
    const bool is_copy = name == "mov";
    copies += is_copy, links += !is_copy;
    pc = reader;
  }
  return links;
}

// What an operand holds, also in another register.
bool is_read_elsewhere(const Pass& p, uint32_t pc, unsigned slot) {
  constexpr unsigned kMostCopies = 64;
  for (unsigned copies = 0; copies < kMostCopies; ++copies) {
    const uint32_t maker = p.known.only_maker(pc, slot);
    if (maker == Dataflow::kNone) return false;
    if (p.known.uses(maker) > 1) return true;
    if (!p.is_copy(maker)) return false;
    pc = maker, slot = 1;
  }
  return false;
}

// Of sums of the upper half of one product, each the addend of the next alone, ptxas loses the last ones. How
// many are left goes by how many instructions make what is stored, these among them; one whose addend is a
// constant, or read elsewhere, too, does not count.
void drop_high_sums(Pass& p, uint32_t pc) {
  constexpr size_t kKept[] = {0, 1, 2, 2, 2, 3, 4, 4, 4};
  if (!is_high_sum(p, pc) || has_sum_behind(p, pc)) return;
  std::vector<uint32_t> sums{pc};
  for (auto inner = sum_before(p, pc); inner; inner = sum_before(p, *inner)) {
    if (!has_sum_behind(p, *inner)) return;
    sums.push_back(*inner);
  }
  std::ranges::reverse(sums);
  const bool in_loop = p.known.is_variable(sums[0], 3);
  const bool is_kept = p.bits(sums[0], 3) || (!in_loop && is_read_elsewhere(p, sums[0], 3));
  const size_t all = sums.size() + (in_loop ? 0 : links_behind(p, pc, std::size(kKept)));
  const size_t left = is_kept + (all < std::size(kKept) ? kKept[all - is_kept] : 2);
  for (size_t n = left; n < sums.size(); ++n) p.set_operand(sums[n], 1, 0);
}

// Under one guard a sum of the upper half of a product in its own register is lost where the one that wrote
// the register before it is the same.
void drop_guarded_sum(Pass& p, uint32_t pc) {
  const Instr& i = p.f.code[pc];
  const Source& s = p.source(pc);
  const uint32_t reg = p.flow.number_of(i.op[0]);
  if (i.guard <= 0 || s.tokens.size() != 3 || !s.has("hi") || bits_of(s.type()) > 32) return;
  if (reg == Dataflow::kNone || p.flow.number_of(i.op[3]) != reg) return;
  const auto is_equal = [&](uint32_t other, unsigned slot) {
    const auto bits = p.bits(pc, slot);
    return bits ? bits == p.bits(other, slot)
                : p.holds_same(other, slot, pc, slot) || p.same_copies(other, slot, pc, slot);
  };
  constexpr uint32_t kFar = 4096;  // instructions, beyond which nobody looks
  const uint32_t begin = std::max(p.flow.blocks()[p.flow.block_of(pc)].begin, pc - std::min(pc, kFar));
  for (uint32_t before = pc; before-- > begin;) {
    const auto& writes = p.flow.access(before).writes;
    if (std::ranges::find(writes, reg) == writes.end()) continue;
    const Instr& other = p.f.code[before];
    if (p.source(before).tokens != s.tokens || other.guard != i.guard ||
        other.guard_negated != i.guard_negated || p.flow.number_of(other.op[3]) != reg ||
        p.known.guard_maker(before) != p.known.guard_maker(pc) || !is_equal(before, 2))
      return;
    if (p.bits(before, 1) == 0u && p.bits(pc, 1) != 0u) continue;  // lost itself
    if (is_equal(before, 1)) p.set_operand(pc, 1, 0);
    return;
  }
}

}  // namespace

std::optional<uint32_t> shifted_product(const Pass& p, uint32_t pc) {
  if (bits_of(p.source(pc).type()) != 64 || p.bits(pc, 1)) return std::nullopt;
  const auto product = p.made_by(pc, 1, "mul");
  if (!product || p.source(*product).has("hi") || is_float(p.source(*product).type())) return std::nullopt;
  return product;
}

std::span<const Rule> bit_rules() {
  static constexpr Rule kRules[] = {
      {"shl", fold_shift},
      {"shr", fold_shift},
      {"shl", fold_wide_shift},
      {"shl", extend_sign_of_shifted},
      {"shl", fold_signed_amount},
      {"shr", fold_signed_amount},
      {"shr", fold_converted_amount},
      {"shr", fold_truth_as_amount},
      {"shl", fold_truth_as_amount},
      {"bfi", fold_insertion},
      {"bfi", join_fields},
      {"bfe", fold_extraction},
      {"mad", fold_known_product},
      {"mad24", fold_known_product},
      {"add", fold_saturated_product},
      {"add", fold_saturated},
      {"sub", fold_saturated},
      {"sub", fold_undone_product},
      {"add", fold_undone},
      {"sub", fold_undone},
      {"sub", fold_undone_part},
      {"sub", fold_borrow},
      {"mad", drop_high_sums},
      {"mad", drop_guarded_sum},
      {"mad", fold_whole_product},
      {"and", fold_lower_bytes},
      {"cvt", fold_lower_bytes},
      {"cvt", fold_lower_half},
      {"mad", fold_lower_half},
      {"mul", fold_lower_half},
      {"sad", fold_lower_half},
      {"set", fold_lower_half},
      {"setp", fold_lower_half},
      {"shr", fold_lower_half},
  };
  return kRules;
}

}  // namespace fp4lab::emu::peephole
