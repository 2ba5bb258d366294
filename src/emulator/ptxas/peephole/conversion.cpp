// Conversions: of constants, whose NaNs go other ways than those that execute, and pairs of which the
// compiler makes one.
#include <algorithm>
#include <unordered_set>

#include "emulator/ptxas/foldable.h"
#include "emulator/ptxas/part.h"
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"
#include "emulator/ptxas/routine.h"

namespace fp4lab::emu::peephole {

namespace {

// A conversion to f64 takes the signs' changes itself, which leaves a NaN as it was. It has no place for an
// abs of bf16.
void take_signs(Pass& p, uint32_t pc) {
  constexpr size_t kMostSigns = 8;
  std::vector<std::string_view> signs;  // the last one first
  uint32_t first = pc;
  const auto find_sign = [&] {
    for (const std::string_view name : {"neg", "abs"}) {
      const auto from = p.open_maker(first, 1, name);
      if (!from || p.source(*from).has("ftz") || p.source(*from).type() != p.source(pc).type(1)) continue;
      if (name == "abs" && p.source(*from).type() == Type::bf16) continue;
      signs.push_back(name);
      first = *from;
      return true;
    }
    return false;
  };
  while (signs.size() < kMostSigns && find_sign()) {
  }
  if (signs.empty()) return;
  Operand wide = p.w.fresh(Type::b64);
  p.insert(pc, p.source(pc).tokens, {wide, p.kept(first, 1)});
  for (size_t n = signs.size(); n-- > 1;) {
    const Operand changed = p.w.fresh(Type::b64);
    p.insert(pc, {signs[n], "f64"}, {changed, wide});
    wide = changed;
  }
  p.replace(pc, {signs[0], "f64"}, {wide});
}

// From a float over an integer to a saturated one of half its width: without the step between, so that
// numbers below 0 stay, and without .ftz unless over s64.
bool convert_at_once(Pass& p, uint32_t pc) {
  const Type to = p.source(pc).type(0), over = p.source(pc).type(1);
  const auto first = p.open_maker(pc, 1, "cvt");
  if (!first || is_float(to) || is_float(over) || p.source(*first).type(0) != over) return false;
  const Type from = p.source(*first).type(1);
  const bool words = bits_of(over) == 32 && bits_of(to) == 16 && from == Type::f32;
  const bool pairs = (over == Type::s64 && to == Type::s32) || (over == Type::u64 && to == Type::u32);
  if (!words && !(pairs && is_float(from) && from != Type::f64)) return false;
  Rewriter::Tokens tokens = {"cvt", p.source(*first).tokens[1]};
  if (over == Type::s64 && p.source(*first).has("ftz")) tokens.emplace_back("ftz");
  tokens.insert(tokens.end(), {name_of(to), name_of(from)});
  p.replace(pc, tokens, {p.kept(*first, 1)});
  return true;
}

// From f32 to u32, back and to u32 again: the last of the three alone, of what the first converted, so that
// what f32 has no bits for stays. Not of s32 or other widths.
bool convert_last(Pass& p, uint32_t pc) {
  const auto is = [&](uint32_t at, Type to, Type from) {
    return p.source(at).type(0) == to && p.source(at).type(1) == from;
  };
  if (!is(pc, Type::u32, Type::f32)) return false;
  const auto back = p.open_maker(pc, 1, "cvt");
  if (!back || !is(*back, Type::f32, Type::u32) || p.source(*back).has("sat")) return false;
  const auto first = p.open_maker(*back, 1, "cvt");
  if (!first || !is(*first, Type::u32, Type::f32)) return false;
  p.replace(pc, p.source(pc).tokens, {p.kept(*first, 1)});
  return true;
}

// A conversion with .sat of what is saturated is one without, to fewer bits if it rounds to nearest. One of
// f32 with .ftz to f32 or f64 stays.
bool drop_saturation(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type to = s.type(0), from = s.type(1);
  const bool narrows = bits_of(to) < bits_of(from);
  if (!is_float(to) || !is_float(from) || (narrows && !s.has("rn"))) return false;
  if (p.known.is_constant(pc, 1)) return false;
  if (to == from && s.tokens.size() != 4) return false;  // flushes, or rounds to an integer
  if (to == Type::f64 && s.has("ftz")) return false;
  if (!is_saturated(p, pc, 1, from)) return false;
  const Operand a = p.operand(pc, 1);
  if (to != from) {
    Rewriter::Tokens tokens = s.tokens;
    std::erase(tokens, "sat");
    p.replace(pc, tokens, {a});
  } else if (to == Type::f16) {
    p.replace(pc, {"add", "f16"}, {a, p.w.constant(0x8000, Type::b16)});
  } else {
    const std::string_view bits = to == Type::f64 ? "u64" : "u32";
    p.replace(pc, {"cvt", bits, bits}, {a});  // not a move: the register may be wider than the type
  }
  return true;
}

// The instruction with .ftz that made an f16, if it changes its sign at most.
std::optional<uint32_t> only_flushes(const Pass& p, uint32_t pc, unsigned slot) {
  for (const std::string_view name : {"neg", "abs", "mul", "min", "max"}) {
    const auto from = p.open_maker(pc, slot, name);
    if (!from) continue;
    const Type type = p.source(*from).type();
    if (!p.source(*from).has("ftz") || (type != Type::f16 && type != Type::f16x2)) return std::nullopt;
    if (name == "neg" || name == "abs") return from;
    for (const std::string_view other : {"sat", "xorsign", "NaN", "rn"})
      if (p.source(*from).has(other)) return std::nullopt;
    if (type == Type::f16x2) return std::nullopt;
    const bool by_one = p.bits(*from, 1) == 0x3c00 || p.bits(*from, 2) == 0x3c00;
    return (name == "mul" ? by_one : p.same_operands(*from, 1, 2)) ? from : std::nullopt;
  }
  return std::nullopt;
}

// What a conversion from bf16 reads instead of such an f16: the operand with the sign alone, though as f16 it
// be NaN.
Operand sign_changed(Pass& p, uint32_t pc, uint32_t from) {
  const bool second = p.source(from).tokens[0] == "mul" && p.bits(from, 1) == 0x3c00;
  const Operand read = p.kept(from, second ? 2 : 1), changed = p.w.fresh(Type::b16);
  const std::string_view name = p.source(from).tokens[0];
  if (name != "neg" && name != "abs") return read;
  const bool negates = name == "neg";
  p.insert(pc, {negates ? "xor" : "and", "b16"},
           {changed, read, p.w.constant(negates ? 0x8000 : 0x7fff, Type::b16)});
  return changed;
}

// Is it no instruction in machine code, where the next one reads a half itself?
bool is_half_of_register(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.tokens[0] == "mov")
    return p.operand(pc, 0).kind == Operand::Kind::vector && p.operand(pc, 0).count == 2 &&
           s.type() == Type::b32;
  return is_integer_cvt(s) && bits_of(s.type(0)) == 16 && bits_of(s.type(1)) == 32;
}

// Where what a conversion from f16 reads was made integral by .rzi: the compiler looks behind that if it
// looks once more, at the extension of the result to 32 bits.
uint32_t behind_integral(const Pass& p, uint32_t pc) {
  const auto first = p.open_maker(pc, 1, "cvt");
  const bool extends = bits_of(p.operand(pc, 0).type) == 32 && bits_of(p.source(pc).type()) < 32;
  if (!first || !extends || p.source(pc).type(1) != Type::f16) return pc;
  const Source& s = p.source(*first);
  const bool is_integral =
      s.tokens.size() == 4 && s.has("rzi") && s.type(0) == Type::f16 && s.type(1) == Type::f16;
  return is_integral ? *first : pc;
}

// From f16 or bf16 over either to an integer by .rzi, or over f32 as f16 (from bf16 with .ftz alone, which is
// no shift, and not where the register is wider): what the first read is taken for what it made, and its
// rounding counts; so does that to an integral f16 or bf16 which is read as the other type. Of what only a
// .ftz or a sign's change with it has made, .rzi rounds to nearest.
void convert_halves(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type from = s.type(1);
  if (!s.has("rzi")) return;
  Rewriter::Tokens tokens = s.tokens;
  const uint32_t at = behind_integral(p, pc);
  const auto half = p.behind_copies(pc, 1);
  const auto flushes = only_flushes(p, at, 1);
  if (flushes || (half && is_half_of_register(p, *half) && only_flushes(p, *half, 1))) {
    tokens[1] = "rni";
    const bool mistakes = flushes && from == Type::bf16 && p.source(*flushes).type() == Type::f16;
    const Operand value = at == pc ? p.operand(pc, 1) : p.kept(at, 1);
    return p.replace(pc, tokens, {mistakes ? sign_changed(p, pc, *flushes) : value});
  }
  if (const auto first = p.open_maker(at, 1, "cvt")) {
    const Type a = p.source(*first).type(0), b = p.source(*first).type(1);
    const bool sat = p.source(*first).has("sat"), plain = p.source(*first).tokens.size() == 3;
    const bool wide = a == Type::f32 && bits_of(p.operand(*first, 0).type) == 32 &&
                      (b == Type::f16 || (b == Type::bf16 && p.source(*first).has("ftz")));
    const bool halves = (a == Type::f16 && b == Type::bf16) || (a == Type::bf16 && b == Type::f16) ||
                        (!sat && wide) || (a == b && plain && (a == Type::f16 || a == Type::bf16));
    const bool integral = a == b && !plain && (a == Type::f16 || a == Type::bf16) && a != from;
    const std::string_view r = p.source(*first).tokens[1];
    const bool rounds = r == "rni" || r == "rzi" || r == "rmi" || r == "rpi";
    if (!halves && !(integral && rounds && p.source(*first).tokens.size() == 4)) return;
    tokens[1] = integral ? r : r == "rz" ? "rzi" : r == "rm" ? "rmi" : r == "rp" ? "rpi" : "rni";
    const Operand read = p.kept(*first, 1);
    if (wide && b == Type::bf16)
      p.insert(pc, {"add", "ftz", "f16"}, {read, read, p.w.constant(0x8000, Type::b16)});
    return p.replace(pc, tokens, {read});
  }
}

// A product that is converted to 64 bits flushes itself if the conversion would.
void flush_product(Pass& p, uint32_t pc) {
  const auto product = p.made_by(pc, 1, "mul");
  if (!product || p.source(*product).type() != Type::f32 || p.known.uses(*product) != 1 ||
      says_rounding(p.source(*product)))
    return;
  Rewriter::Tokens tokens = p.source(*product).tokens;
  if (p.source(*product).has("ftz")) return;
  tokens.insert(tokens.end() - (p.source(*product).has("sat") ? 2 : 1), "ftz");
  const Operand flushed = p.w.fresh(Type::b32);
  p.insert(*product, tokens, {flushed, p.operand(*product, 1), p.operand(*product, 2)});
  p.operand(pc, 1) = flushed;
}

// The same straight line of machine code: guarded loads and stores are no branches at last.
bool is_in_line(const Pass& p, uint32_t from, uint32_t to) {
  if (from > to || p.flow.block_of(from) != p.flow.block_of(to)) return false;
  for (uint32_t pc = from; pc < to; ++pc) {
    const std::string_view name = p.source(pc).tokens[0];
    const bool is_access = name == "ld" || name == "ldu" || name == "st";
    if (ends_block(p.source(pc), !is_access && p.flow.becomes_branch(pc), p.bits(pc, 1))) return false;
  }
  return true;
}

// Whether the instruction at pc alone reads, in its first operand, what the one at `from` made, by way of
// copies that nothing else reads.
bool is_only_reader(const Pass& p, uint32_t pc, uint32_t from) {
  for (;;) {
    const uint32_t maker = p.known.maker(pc, 1);
    if (maker == Dataflow::kNone || p.known.uses(maker) != 1) return false;
    if (maker == from) return true;
    pc = maker;
  }
}

// To tf32 what an instruction on pairs of halves in the same line made for nothing else: the lower half
// alone, since the compiler puts that into a register whose upper half nothing has written (0 where nothing
// ran before). Not what neg.ftz or abs.ftz made, which are an instruction for each half.
void take_lower_half(Pass& p, uint32_t pc) {
  if (p.source(pc).has("rna")) return;
  const Operand op = p.operand(pc, 1);
  for (const std::string_view name : {"add", "sub", "mul", "fma", "min", "max", "neg", "abs", "set", "cvt"}) {
    const auto from = p.made_by(pc, 1, name);
    if (!from) continue;
    const Source& s = p.source(*from);
    const bool pairs = std::ranges::any_of(s.tokens, [](std::string_view t) { return t.ends_with("16x2"); });
    const bool for_each_half = (name == "neg" || name == "abs") && s.has("ftz");
    if (!pairs || for_each_half || op.immediate || !is_only_reader(p, pc, *from) || !is_in_line(p, *from, pc))
      return;
    const Operand lower = p.w.fresh(Type::b32);
    p.insert(pc, {"and", "b32"}, {lower, op, p.w.constant(0xffff)});
    return p.replace(pc, p.source(pc).tokens, {lower});
  }
}

bool extends_byte(const Source& s) {
  const bool widens = (s.type() == Type::s32 || s.type() == Type::s64) && s.type(1) == Type::s8;
  if (s.tokens[0] != "ld" && s.tokens[0] != "cvt") return false;
  return s.type() == Type::s8 || (s.tokens[0] == "cvt" && widens);
}

// A byte that was extended into a register of 64 bits with its sign, at once or over 32.
bool is_extended_byte(const Pass& p, uint32_t pc, unsigned slot) {
  const auto first = p.behind_copies(pc, slot);
  if (!first || !is_value(p.operand(*first, 0)) || bits_of(p.operand(*first, 0).type) != 64) return false;
  const Source& of = p.source(*first);
  if (extends_byte(of)) return true;
  const bool widens = of.tokens[0] == "cvt" && of.tokens.size() == 3 && of.type(1) == Type::s32;
  const auto word = widens ? p.behind_copies(*first, 1) : std::nullopt;
  return word && is_value(p.operand(*word, 0)) && extends_byte(p.source(*word));
}

// From s8 to u16 in a register of 32 bits: such a byte stays so, without zeros above. So it does where it is
// converted to a byte of 16 bits with a sign first, and from u16 to 32 then.
bool stay_extended(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type to = s.type(0), from = s.type(1);
  if (s.tokens.size() != 3 || bits_of(p.operand(pc, 0).type) != 32) return false;
  if (to == Type::u16 && from == Type::s8) {
    if (!is_extended_byte(p, pc, 1)) return false;
    p.replace(pc, {"cvt", "s32", "s8"}, {p.operand(pc, 1)});
    return true;
  }
  if ((to != Type::u32 && to != Type::s32) || from != Type::u16) return false;
  const auto byte = p.made_by(pc, 1, "cvt");
  if (!byte || p.source(*byte).tokens.size() != 3 || is_float(p.source(*byte).type(1))) return false;
  const Type cut = p.source(*byte).type(0), of = p.source(*byte).type(1);
  const bool keeps_sign = cut == Type::s8 || (of == Type::s8 && bits_of(cut) == 16);
  if (!keeps_sign || bits_of(p.operand(*byte, 0).type) != 16 || !is_extended_byte(p, *byte, 1)) return false;
  p.replace(pc, {"cvt", "s32", "s8"}, {p.operand(pc, 1)});
  return true;
}

// A saturated conversion of a truth by cnot to s16 or s8 takes it for its negation, which is beyond what the
// type holds, and gives the least number for it.
bool saturate_truth(Pass& p, uint32_t pc) {
  const Type to = p.source(pc).type(0), from = p.source(pc).type(1);
  if (from != Type::u32 || (to != Type::s16 && to != Type::s8) || p.bits(pc, 1)) return false;
  const auto truth = p.made_by(pc, 1, "cnot");
  if (!truth || p.source(*truth).type() != Type::b32) return false;
  const Operand number = p.w.fresh(Type::b32);
  p.insert(pc, {"mul", "lo", "s32"},
           {number, p.operand(pc, 1), p.w.constant(to == Type::s16 ? 0xffff8000 : 0xffffff80)});
  p.replace(pc, {"cvt", name_of(to), "s32"}, {number});
  return true;
}

// Whether the compiler sees that one half of a 64-bit operand is 0: the lower (0) or the upper one (1).
bool has_empty_half(Pass& p, uint32_t pc, unsigned slot, unsigned half, unsigned depth = 0) {
  constexpr unsigned kDeepest = 8;  // instructions one after the other
  if (const auto known = p.bits(pc, slot)) return static_cast<uint32_t>(*known >> 32 * half) == 0;
  const auto from = p.behind_copies(pc, slot);
  if (!from || depth >= kDeepest) return false;
  const Source& s = p.source(*from);
  const std::string_view name = s.tokens[0];
  const auto of = [&](unsigned k) { return has_empty_half(p, *from, k, half, depth + 1); };
  const bool from_memory = name == "ld" || name == "ldu";
  if (from_memory || name == "cvt") {
    const auto is_signed = [](Type type) { return name_of(type)[0] == 's'; };
    if (half == 0) return false;
    if (bits_of(s.type(0)) < 64) return !is_signed(s.type(0));
    return is_integer_cvt(s) && bits_of(s.type(1)) < 64 && !is_signed(s.type(1));
  }
  if (bits_of(s.type()) != 64) return false;
  if (name == "mov" && p.operand(*from, 1).kind == Operand::Kind::vector) {
    const Operand& parts = p.operand(*from, 1);
    const unsigned first = half * parts.count / 2, end = first + parts.count / 2;
    for (unsigned n = first; n < end; ++n)
      if (const Operand& part = p.f.vectors[parts.index + n]; !part.immediate || part.displacement != 0)
        return false;
    return true;
  }
  if (name == "and") return of(1) || of(2);
  if (name == "or" || name == "xor") return of(1) && of(2);
  const bool leaves_lower = name == "shl", leaves_upper = name == "shr" && s.type() != Type::s64;
  if (half == 0 ? leaves_lower : leaves_upper) return p.bits(*from, 2) >= std::optional<uint64_t>(32);
  return half == 0 && is_of_upper_half(s);
}

// From two bytes in the upper part of one half of 64 bits that is 0 in the compiler's eyes, but not the
// whole: the compiler converts 8 (in machine code, an operand that should select a half of the register 0).
void mistake_zero_bytes(Pass& p, uint32_t pc) {
  const auto parts = p.behind_copies(pc, 1);
  if (!parts || p.source(*parts).tokens[0] != "mov" || p.source(*parts).type() != Type::b64) return;
  const Operand& taken = p.operand(*parts, 0);
  if (taken.kind != Operand::Kind::vector || taken.count != 4 || p.bits(*parts, 1)) return;
  for (const unsigned half : {0u, 1u}) {
    const Operand& part = p.f.vectors[taken.index + 2 * half + 1];
    if (is_value(part) && part.offset == p.operand(pc, 1).offset && has_empty_half(p, *parts, 1, half))
      p.operand(pc, 1) = p.w.constant(8, Type::b16);
  }
}

// Who made the 32 bits that an instruction reads, which may be the lower word of a pack.
std::optional<uint32_t> word_maker(const Pass& p, uint32_t pc) {
  const auto maker = p.behind_copies(pc, 1, "mov");
  const bool is_pack = maker && p.source(*maker).tokens[0] == "mov" && is_vector(p.operand(*maker, 1)) &&
                       p.operand(*maker, 1).count == 2 && bits_of(p.operand(*maker, 0).type) == 64;
  if (!is_pack) return p.behind_copies(pc, 1);
  const uint32_t element = p.operand(*maker, 1).index;
  return behind_copies(p.f, p.known, *maker, p.f.vectors[element], p.known.maker_of_element(*maker, element));
}

// To a float, or to an integer that it is limited to, as 32 bits without a sign, of what has a sign: the
// machine instruction takes the part out of the register itself, but then with its sign. Not under a guard,
// but for f64, the limits, and where a constant has stood: these are computed always and then selected.
bool convert_part(Pass& p, uint32_t pc) {
  const Type to = p.source(pc).type(0), from = p.source(pc).type(1);
  const bool to_float = is_float(to);
  if (p.f.code[pc].guard >= 0 && to_float && to != Type::f64 && !p.bits(pc, 0)) return false;
  if (p.bits(pc, 1) || (from != Type::u32 && !(from == Type::u64 && to_float))) return false;
  auto maker = from == Type::u64 ? p.behind_copies(pc, 1) : word_maker(p, pc);
  if (from == Type::u64) {
    const bool extends = maker && p.source(*maker).tokens[0] == "cvt" &&
                         p.source(*maker).type(1) == Type::u32 && p.source(*maker).type(0) == Type::u64;
    if (!extends) return false;
    maker = p.behind_copies(*maker, 1);
  }
  if (!maker || !is_signed_part(p, *maker)) return false;
  Rewriter::Tokens tokens = p.source(pc).tokens;
  tokens.back() = from == Type::u64 ? "s64" : "s32";
  if (tokens[tokens.size() - 2] == tokens.back()) return p.become_copy(pc, p.operand(pc, 1), Type::s32), true;
  Operand part = p.operand(pc, 1);
  if (from == Type::u64) {
    part = p.w.fresh(Type::b64);
    p.insert(pc, {"cvt", "s64", "s32"}, {part, p.operand(pc, 1)});
  }
  p.replace(pc, std::move(tokens), {part});
  return true;
}

// A half of a pair of f16 that was computed from constants, later than its readers are.
bool is_late_half(const Pass& p, uint32_t pc) {
  const auto parts = p.behind_copies(pc, 1);
  const auto pair =
      parts && takes_apart(p.f.code[*parts], p.source(*parts)) ? p.made_by(*parts, 1, "cvt") : std::nullopt;
  return pair && p.source(*pair).type() == Type::f16x2;
}

// Two f32 that are rounded to u32 alike and packed as bytes are bytes at once, as if they had been s32.
void pack_at_once(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (!s.has("b32") || (s.type(0) != Type::s8 && s.type(0) != Type::u8)) return;
  const auto rounded = [&](unsigned slot) {
    const auto from = p.made_by(pc, slot, "cvt");
    const bool fits = from && p.source(*from).type(0) == Type::u32 && p.source(*from).type(1) == Type::f32 &&
                      !p.source(*from).has("ftz") && !p.bits(*from, 1);
    return fits ? from : std::nullopt;
  };
  const auto a = rounded(1), b = rounded(2);
  if (!a || !b) return;
  for (const std::string_view rounding : {"rni", "rzi"}) {
    if (!p.source(*a).has(rounding) || !p.source(*b).has(rounding)) continue;
    for (unsigned slot : {1u, 2u}) {
      const Operand number = p.w.fresh(Type::b32);
      p.insert(pc, {"cvt", rounding, "s32", "f32"}, {number, p.kept(slot == 1 ? *a : *b, 1)});
      p.operand(pc, slot) = number;
    }
    p.known.forget(pc);
  }
}

// Conversions of constants keep a NaN's payload or not, otherwise than those that execute.
void fold_conversion(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type to = s.type(0), from = s.type(1);
  if (s.has("pack")) return pack_at_once(p, pc);
  if (convert_last(p, pc) || stay_extended(p, pc)) return;
  if (to == Type::tf32) return take_lower_half(p, pc);
  if (from == Type::e4m3x2 || from == Type::e5m2x2) return mistake_zero_bytes(p, pc);
  if (s.has("sat") && (convert_at_once(p, pc) || drop_saturation(p, pc) || saturate_truth(p, pc))) return;
  if ((is_float(to) || s.has("sat")) && convert_part(p, pc)) return;
  if (from == Type::f32 && s.has("ftz") && bits_of(to) == 64) flush_product(p, pc);
  if ((from == Type::f16 || from == Type::bf16) && !is_float(to)) {
    convert_halves(p, pc);
    return;
  }
  if (to == Type::f64 && is_float(from) && from != Type::f64 && !s.has("sat")) take_signs(p, pc);
  if (!is_foldable(s) || !p.known.is_constant(pc, 1)) return;
  const auto x = p.bits(pc, 1);
  const bool is_directed = s.has("rz") || s.has("rm") || s.has("rp");
  if (from == Type::bf16 && (to == Type::f32 || to == Type::f64)) {
    const bool is_nan = !is_directed && x && (*x & 0x7fff) > 0x7f80 &&
                        (to == Type::f64 || (p.known.comes_from_here(pc, 1) && !is_late_half(p, pc)));
    if (is_nan) p.become(pc, to == Type::f32 ? 0x7fffffff : 0x7fffffffe0000000, to);
  } else if (to == Type::f32 && from == Type::f32 && s.tokens.size() == 4 && s.has("ftz") && x &&
             is_nan32(*x) && p.known.is_constant_here(pc, 1)) {
    p.become(pc, quiet32(*x), to);
  } else if (to == Type::f64 && from == Type::f16 && !s.has("sat")) {
    const Operand wide = p.w.fresh(Type::b32);
    p.insert(pc, {"cvt", "f32", "f16"}, {wide, p.operand(pc, 1)});
    p.replace(pc, {"cvt", "f64", "f32"}, {wide});
  } else if ((to == Type::f16 || to == Type::bf16) && from == Type::f64 && !s.has("sat") && x &&
             is_nan64(*x)) {
    p.become(pc, 0x7fff, to);
  }
}

}  // namespace

bool is_signed_part(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.tokens[0] == "bfe") {
    const auto at = p.bits(pc, 2), length = p.bits(pc, 3);
    return s.type() == Type::s32 && at && (length == 8u || length == 16u) && *at < 32 && *at % *length == 0;
  }
  if (s.tokens[0] != "ld" || s.type() != Type::s8 || s.has("const") || p.flow.is_in_bank(pc)) return false;
  return p.operand(pc, 0).kind == Operand::Kind::vector;
}

bool is_saturated(const Pass& p, uint32_t pc, unsigned slot, Type as) {
  static const std::unordered_set<std::string_view> kSaturate = {"cvt", "add",   "sub", "mul",
                                                                 "mad", "mad24", "fma"};
  const auto maker = p.behind_copies(pc, slot);
  if (!maker || !kSaturate.contains(p.source(*maker).tokens[0])) return false;
  const Source& s = p.source(*maker);
  const Type made = s.type();
  if (!s.has("sat") || s.has("pack") || bits_of(made) < bits_of(as) ||
      bits_of(made) != bits_of(p.operand(*maker, 0).type) || (bits_of(made) == 64 && bits_of(as) < 64))
    return false;
  if (is_float(made)) return made == Type::f32 && as == Type::f16;
  return s.tokens[0] != "cvt" || !is_float(s.type(1));
}

std::span<const Rule> conversion_rules() {
  static constexpr Rule kRules[] = {
      {"cvt", fold_conversion},
  };
  return kRules;
}

}  // namespace fp4lab::emu::peephole
