// What `set` makes, in what reads it next: ptxas goes on with the comparison's truth, or forgets how wide it
// is.
#include <algorithm>

#include "emulator/ptx/operand_types.h"
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

bool is_half(Type t) { return t == Type::f16 || t == Type::bf16; }

bool compares_nan(const Pass& p, uint32_t set) {
  const auto is_it = [&](unsigned slot) {
    const auto bits = p.bits(set, slot);
    return bits && is_nan(*bits, p.source(set).type(1));
  };
  return is_it(1) || is_it(2);
}

// A `set` of one number that made an operand, and whose outcome is not known before: of two constants that of
// f16 and bf16 stays open.
std::optional<uint32_t> open_set(const Pass& p, uint32_t pc, unsigned slot) {
  const auto set = p.made_by(pc, slot, "set");
  if (!set || p.source(*set).tokens.back().ends_with("16x2")) return std::nullopt;
  const bool of_constants =
      !is_half(p.source(*set).type(1)) && p.known.is_constant(*set, 1) && p.known.is_constant(*set, 2);
  const bool known = p.known.outcome(*set) || compares_nan(p, *set) || of_constants;
  return known ? std::nullopt : set;
}

// The same where it is the outcome of its comparison alone.
std::optional<uint32_t> plain_set(const Pass& p, uint32_t pc, unsigned slot) {
  const auto set = open_set(p, pc, slot);
  if (!set) return std::nullopt;
  for (const std::string_view combination : {"and", "or", "xor"})
    if (p.source(*set).has(combination)) return std::nullopt;
  return set;
}

// Whether a conversion from an integer to a float reads what `set` made as an integer, 0 or -1. Of one of 16
// bits that makes 32, which the machine has no `set` for, and behind an extension with its own sign, only to
// f32.
bool converts_mask(const Pass& p, uint32_t pc) {
  const Type read = p.source(pc).type(1);
  auto set = plain_set(p, pc, 1);
  bool extends = false, extends_sign = true;
  if (const auto extension = set ? std::nullopt : p.made_by(pc, 1, "cvt")) {
    const Source& s = p.source(*extension);
    const Type to = s.type(0), from = s.type(1);
    extends_sign = to == Type::s64 && from == Type::s32;
    extends = s.tokens.size() == 3 && to == read && (extends_sign || (to == Type::u64 && from == Type::u32));
    if (extends) set = plain_set(p, *extension, 1);
  }
  if (!set || is_float(p.source(*set).type())) return false;
  const unsigned width = bits_of(p.source(*set).type());
  constexpr Type kIntegers[] = {Type::u8, Type::s8, Type::u16, Type::s16, Type::u32, Type::s32};
  if (!extends && (width < bits_of(read) || std::ranges::find(kIntegers, read) == std::end(kIntegers)))
    return false;
  const bool widens = width == 32 && bits_of(p.source(*set).type(1)) == 16;
  if (!widens && !extends) return true;
  if (p.source(pc).type(0) != Type::f32) return false;
  return extends ? extends_sign || !widens : read == Type::s16 || read == Type::s32;
}

// The negation of such a truth as a number is that of the integer: converted to an unsigned one -1, where
// the float would become 0.
bool take_negated_truth(Pass& p, uint32_t pc) {
  const Type to = p.source(pc).type(0), from = p.source(pc).type(1);
  if (name_of(to)[0] != 'u' || bits_of(to) > 32) return false;
  const auto neg = p.made_by(pc, 1, "neg");
  const auto set = neg && p.source(*neg).type() == from ? plain_set(p, *neg, 1) : std::nullopt;
  if (!set || p.source(*set).type() != from) return false;
  const Type bits = is_half(from) ? Type::b16 : Type::b32;
  const std::string_view word = is_half(from) ? "u16" : "u32";
  const Operand truth = p.w.fresh(bits), negated = p.w.fresh(bits);
  p.insert(pc, {"min", word}, {truth, p.kept(*neg, 1), p.w.constant(1, bits)});
  p.insert(pc, {"sub", word}, {negated, p.w.constant(0, bits), truth});
  p.replace(pc, {"cvt", name_of(to), is_half(from) ? "s16" : "s32"}, {negated});
  return true;
}

// What `set` made as f16, bf16 or f32 is the conversion of an integer, 0 or 1, which a conversion to an
// integer takes instead, whatever type it reads. So is what it made as an integer, 0 or -1, and what was then
// converted to a float, a half also if zeros were put above it to read it as f32.
void take_truth(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type to = s.type(0), from = s.type(1);
  if (s.has("pack") || !is_integer(to) || !is_float(from)) return;
  if (take_negated_truth(p, pc)) return;
  if (const auto set = plain_set(p, pc, 1); set && is_float(p.source(*set).type())) {
    if (!is_half(from)) return;  // 0 or 1 in any case
    const bool half = is_half(p.source(*set).type());
    const Type bits = half ? Type::b16 : Type::b32;
    const Operand truth = p.w.fresh(bits);
    p.insert(pc, {"min", half ? "u16" : "u32"}, {truth, p.operand(pc, 1), p.w.constant(1, bits)});
    return p.replace(pc, {"cvt", name_of(to), half ? "u16" : "u32"}, {truth});
  }
  auto first = p.made_by(pc, 1, "cvt");
  const bool extends = first && from == Type::f32 && p.source(*first).tokens.size() == 3 &&
                       p.source(*first).type(1) == Type::u16 && bits_of(p.source(*first).type(0)) == 32 &&
                       !is_float(p.source(*first).type(0));
  if (extends) first = p.made_by(*first, 1, "cvt");
  if (!first || p.source(*first).has("sat") || is_float(p.source(*first).type(1)) ||
      !is_float(p.source(*first).type(0)) ||
      bits_of(p.source(*first).type(0)) < (extends ? 16 : bits_of(from)) ||
      (p.source(*first).type(0) == Type::f64 && bits_of(from) == 16))
    return;
  if (!converts_mask(p, *first)) return;
  p.replace(pc, {"cvt", name_of(to), name_of(p.source(*first).type(1))}, {p.kept(*first, 1)});
}

// The machine's comparison of halves writes f16 or bf16 into both halves of a register, which is then taken
// for a u16 with zeros above it. Where others read it too, it may first be moved into a register whose upper
// half is anything: then nothing is assumed. But a conversion to 32 bits only gives the register a name, and
// comparisons read the register itself.
bool is_doubled(const Pass& p, uint32_t pc, unsigned slot) {
  const auto set = open_set(p, pc, slot);
  if (!set || p.is_folded_again()) return false;
  const std::string_view name = p.source(pc).tokens[0];
  const bool is_own_square = slot < 3 && p.same_register(pc, 1, 2) && p.known.uses(*set) == 2;
  if (p.known.uses(*set) != 1 && !is_own_square && name != "cvt" && name != "set" && name != "setp")
    return false;
  if (p.known.is_constant(*set, 1) && p.known.is_constant(*set, 2)) return false;
  const Source& s = p.source(*set);
  return is_half(s.type()) && s.type(0) == s.type(1) && !s.has("ftz");
}

// A u16 operand as the u32 that is taken for it.
Operand zero_extended(Pass& p, uint32_t pc, unsigned slot) {
  const Operand wide = p.w.fresh(Type::b64), result = p.w.fresh(Type::b32);
  p.insert(pc, {"cvt", "u64", "u16"}, {wide, p.operand(pc, slot)});
  if (is_doubled(p, pc, slot))
    p.insert(pc, {"mul", "lo", "u64"}, {wide, wide, p.w.constant(0x10001, Type::b64)});
  p.insert(pc, {"cvt", "u32", "u64"}, {result, wide});
  return result;
}

}  // namespace

Extended extended_operands(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const std::string_view name = s.tokens[0];
  if (name == "cvt") {
    const Type to = s.type(0), from = s.type(1);
    const bool unsigned_16 = bits_of(from) == 16 && !is_float(from) && (from == Type::u16 || to == Type::u16);
    const bool word = bits_of(p.operand(pc, 0).type) == 32 && to != Type::s16 && bits_of(to) >= 16;
    return {1, unsigned_16 && word && !is_float(to) && !s.has("sat") && !s.has("pack")};
  }
  const Type of = s.type(name == "set" ? 1 : 0);
  const bool bits = of == Type::b16 && (name == "set" || name == "setp" || name == "shr");
  if (of != Type::u16 && !bits) return {};
  if (name == "setp") return {2, 2};
  if ((name == "mul" || name == "mad") && !s.has("wide") && !s.has("hi")) return {};
  return {1, name == "shr" ? 1u : 2u};
}

namespace {

void double_halves(Pass& p, uint32_t pc) {
  const auto [first, count] = extended_operands(p, pc);
  bool any = false;
  for (unsigned slot = first; slot < first + count; ++slot) any |= is_doubled(p, pc, slot);
  if (!any) return;
  const Source s = p.source(pc);
  const std::string_view name = s.tokens[0];
  std::vector<Operand> sources;
  for (unsigned slot = first; slot < first + count; ++slot) sources.push_back(zero_extended(p, pc, slot));
  if (name == "cvt") return p.replace(pc, {"mov", "b32"}, sources);
  if (name == "set" || name == "setp") {
    Rewriter::Tokens tokens = s.tokens;
    tokens.back() = tokens.back() == "b16" ? "b32" : "u32";
    if (name == "setp") sources.insert(sources.begin(), p.operand(pc, 1));
    const unsigned combined = first + count;
    if (p.operand(pc, combined)) sources.push_back(p.operand(pc, combined));
    return p.replace(pc, tokens, sources);
  }
  const Operand result = p.w.fresh(Type::b32);
  if (name == "sad") {
    p.insert(pc, {"sad", "u32"}, {result, sources[0], sources[1], p.w.constant(0)});
    p.insert(pc, {"cvt", "u16", "u32"}, {result, result});
    return p.replace(pc, {"add", "u16"}, {result, p.operand(pc, 3)});
  }
  if (name == "shr") {
    p.insert(pc, {"shr", "u32"}, {result, sources[0], p.operand(pc, 2)});
    return p.replace(pc, {"cvt", "u16", "u32"}, {result});
  }
  p.insert(pc, {"mul", "lo", "u32"}, {result, sources[0], sources[1]});
  const bool high = s.has("hi");
  if (high) p.insert(pc, {"shr", "u32"}, {result, result, p.w.constant(16)});
  if (name == "mul" && high) return p.replace(pc, {"cvt", "u16", "u32"}, {result});
  if (name == "mul") return p.replace(pc, {"mov", "b32"}, {result});
  p.replace(pc, {"add", high ? "u16" : "u32"}, {result, p.operand(pc, 3)});
}

// What cnot, a selection or `set` made for one reader alone, and which number it counts as where that is
// true.
struct Truth {
  uint32_t from;
  Type type;  // of the number
};

// With .ftz, and of halves as f32, the machine makes no truth first.
bool is_expanded_set(const Source& s) { return !s.has("ftz") && (is_half(s.type()) || !is_half(s.type(1))); }

// A conversion of such a truth, or of a selection, to a float: a selection of 1.0 itself when pairs are
// looked at once more.
bool converts_truth(const Pass& p, uint32_t cvt) {
  const Source& s = p.source(cvt);
  const Type to = s.type(0), from = s.type(1);
  if (s.has("sat") || is_float(from) || bits_of(from) > 32 || !(to == Type::f32 || is_half(to))) return false;
  if (const auto cnot = p.made_by(cvt, 1, "cnot")) return !p.bits(*cnot, 1);
  return selected_truth(p, cvt, 1, 1).has_value();
}

// What made an operand, if each copy on the way has one reader.
bool is_read_alone(const Pass& p, uint32_t pc, unsigned slot, uint32_t from) {
  uint32_t at = p.known.maker(pc, slot);
  for (; at != from && at != Dataflow::kNone && at < pc; pc = at, at = p.known.maker(at, 1))
    if (p.known.uses(at) != 1) return false;
  return at == from && p.known.uses(from) == 1;
}

bool is_folded_for_all(Pass&, const Truth&);

// What `set` or cnot made may have several readers, if each of them takes it so: it is made for each.
std::optional<Truth> lone_truth(Pass& p, uint32_t pc, unsigned slot = 1) {
  if (const auto cvt = p.made_by(pc, slot, "cvt");
      cvt && converts_truth(p, *cvt) && is_read_alone(p, pc, slot, *cvt))
    return Truth{*cvt, p.source(*cvt).type(0)};
  std::optional<Truth> truth;
  if (const auto cnot = p.made_by(pc, slot, "cnot"); cnot && !p.bits(*cnot, 1)) {
    const unsigned bits = bits_of(p.source(*cnot).type());
    truth = {*cnot, bits == 16 ? Type::s16 : bits == 32 ? Type::s32 : Type::s64};
  } else if (const auto selp = selected_truth(p, pc, slot, 1); selp && p.known.uses(*selp) == 1) {
    return Truth{*selp, bits_of(p.source(*selp).type()) == 16 ? Type::s16 : Type::s32};
  } else if (const auto set = open_set(p, pc, slot);
             set && is_float(p.source(*set).type()) && is_expanded_set(p.source(*set))) {
    truth = {*set, p.source(*set).type()};
  }
  return truth && is_folded_for_all(p, *truth) ? truth : std::nullopt;
}

// 1 or 0.
Operand word_of(Pass& p, uint32_t pc) {
  const Operand truth = p.operand(pc, 1), word = p.w.fresh(Type::b32);
  const unsigned bits = bits_of(truth.type);
  const Operand small = p.w.fresh(truth.type);
  const std::string_view type = bits == 16 ? "u16" : bits == 32 ? "u32" : "u64";
  p.insert(pc, {"min", type}, {small, truth, p.w.constant(1, bits_type(truth.type))});
  p.insert(pc, {"cvt", "u32", type}, {word, small});
  return word;
}

// What fills a register with all its bits is none. Of a half's truth zeros above it are no conversion.
bool is_conversion(const Source& s, const Operand& result, const Truth& truth) {
  const Type to = s.type(0), from = s.type(1);
  if (is_float(to) || is_float(from)) return !(from == Type::bf16 && to == Type::f32);  // which is a shift
  const unsigned taken = std::min(bits_of(to), bits_of(from));
  const bool puts_zeros_above =
      taken == 16 && bits_of(result.type) == 32 && !is_signed(to) && !is_signed(from);
  return bits_of(result.type) > taken && !(puts_zeros_above && is_half(truth.type));
}

bool may_convert_truth(const Pass& p, uint32_t pc, const Truth& truth) {
  const Source& s = p.source(pc);
  const Type to = s.type(0), from = s.type(1);
  for (const std::string_view other : {"pack", "relu", "satfinite"})
    if (s.has(other)) return false;
  if (s.has("sat") && !(is_float(from) && !is_float(to))) return false;
  if (!(is_float(to) || is_integer(to)) || bits_of(from) > 64 || name_of(to).ends_with("x2")) return false;
  if (bits_of(truth.type) < bits_of(from) || !is_conversion(s, p.operand(pc, 0), truth)) return false;
  if (s.has("ftz") && from == Type::f32 && !is_float(truth.type)) return false;
  return !is_float(to) || is_float(from) || is_float(truth.type);  // else it is as it is
}

// When pairs are looked at once more, a conversion of such a truth: 1 as the type that is converted to,
// whatever type it is read as.
void convert_lone_truth(Pass& p, uint32_t pc) {
  if (!p.is_folded_again()) return;
  const auto truth = lone_truth(p, pc);
  if (!truth || !may_convert_truth(p, pc, *truth)) return;
  const Type to = p.source(pc).type(0);
  const Operand word = word_of(p, pc);
  if (is_integer(to)) return p.replace(pc, {"cvt", name_of(to), "u32"}, {word});
  p.replace(pc, {"cvt", "rn", name_of(to), "u32"}, {word});
}

uint32_t one_of(Type type) {
  return type == Type::f32 ? 0x3f800000 : type == Type::f16 ? 0x3c00 : type == Type::bf16 ? 0x3f80 : 1;
}

uint32_t minus_one_of(Type type) {
  return type == Type::f32 ? 0xbf800000 : type == Type::f16 ? 0xbc00 : type == Type::bf16 ? 0xbf80 : ~0u;
}

// Whether it is a truth of -1 that `set` or a selection made for one reader alone.
bool reads_minus_one(const Pass& p, uint32_t pc) {
  if (const auto selp = selected_truth(p, pc, 1, ~uint64_t(0))) return p.known.uses(*selp) == 1;
  const auto set = open_set(p, pc, 1);
  return set && p.known.uses(*set) == 1 && makes_mask(p.source(*set));
}

// Whether all that read a result take it for bits.
bool is_read_as_bits(const Pass& p, uint32_t pc) {
  uint32_t readers = 0;
  for (uint32_t reader = pc + 1; reader < p.f.code.size(); ++reader) {
    if (p.flow.is_dead(reader)) continue;
    for (unsigned slot = 1; slot < Known::kSlots; ++slot) {
      if (p.known.maker(reader, slot) != pc) continue;
      if (is_float(p.source(reader).type()) || is_float(p.source(reader).type(1))) return false;
      ++readers;
    }
  }
  return readers == p.known.uses(pc);
}

// Whether an instruction of f32 reads a result, also a store or a guarded move: such a one takes a sign into
// itself, or has it made. But testp asks for bits.
bool is_read_as_f32(Pass& p, uint32_t pc, int copies = 0) {
  constexpr int kMostCopies = 8;
  return copies <= kMostCopies && std::ranges::any_of(p.readers(pc), [&](const Pass::Reader& reader) {
           const Source& s = p.source(reader.pc);
           if (p.is_copy(reader.pc) && p.f.code[reader.pc].guard < 0)
             return is_read_as_f32(p, reader.pc, copies + 1);
           return s.tokens[0] != "testp" && (s.type() == Type::f32 || s.type(1) == Type::f32);
         });
}

bool may_sign_truth(Pass& p, uint32_t pc, const Truth& truth) {
  const Source& s = p.source(pc);
  if (s.has("ftz") || name_of(s.type()).ends_with("x2")) return false;
  if (s.type() == Type::f32 && is_read_as_f32(p, pc)) return false;
  if (bits_of(truth.type) < bits_of(s.type())) return false;
  return p.source(truth.from).tokens[0] != "cvt" || (s.type() == truth.type && is_read_as_bits(p, pc));
}

// Its sign, too, whatever type that is the sign of: a negation makes -1 of it, and +0 of 0; of -1 it and the
// absolute value make 1.
void sign_lone_truth(Pass& p, uint32_t pc) {
  if (!p.is_folded_again()) return;
  const Source& s = p.source(pc);
  const auto truth = lone_truth(p, pc);
  if (!truth && !reads_minus_one(p, pc)) return;
  if (!may_sign_truth(p, pc, truth.value_or(Truth{pc, s.type()}))) return;
  const bool negative = truth && s.tokens[0] == "neg";
  const Type type = truth ? truth->type : Type::s32;
  const Operand word = word_of(p, pc), number = p.w.fresh(Type::b32);
  p.insert(pc, {"mul", "lo", "s32"},
           {number, word, p.w.constant(negative ? minus_one_of(type) : one_of(type))});
  const unsigned bits = bits_of(s.type());
  p.replace(pc, {"cvt", bits == 16 ? "s16" : bits == 32 ? "s32" : "s64", "s32"}, {number});
}

// The operands of s16 whose sign the machine extends from 16 bits to 32: the first so many.
unsigned extended_halves(const Source& s) {
  const std::string_view name = s.tokens[0];
  if (s.type() != Type::s16) return 0;
  if (name == "shr") return 1;
  if (name == "mad") return s.has("lo") ? 3 : 2;
  return name == "mul" || name == "div" || name == "rem" ? 2 : 0;
}

// What the second operation of a scalar video instruction meets, or vmad adds, in the machine's 64 bits.
bool is_video_addend(const Pass& p, uint32_t pc, unsigned slot) {
  const Source& s = p.source(pc);
  const std::string_view name = s.tokens[0];
  if (slot != 3 || name[0] != 'v' || name.back() == '2' || name.back() == '4' || p.operand(pc, slot).negated)
    return false;
  return name == "vmad" || s.tokens.back() == "add" || s.tokens.back() == "min" || s.tokens.back() == "max";
}

// What extends a sign from 16 bits to 32 in the machine is such a conversion: products and quotients of s16
// and what is added to a product, shifts of s16. Sums and extremes work on the halves as they are.
bool may_extend_truth(const Pass& p, uint32_t pc, unsigned slot, const Truth& truth) {
  return slot <= extended_halves(p.source(pc)) ? is_half(truth.type)
                                               : is_video_addend(p, pc, slot) && truth.type == Type::f32;
}

void extend_lone_truth(Pass& p, uint32_t pc) {
  if (!p.is_folded_again()) return;
  std::vector<Operand> sources;
  for (unsigned slot = 1; p.operand(pc, slot); ++slot) sources.push_back(p.operand(pc, slot));
  bool any = false;
  for (unsigned slot = 1; slot <= sources.size(); ++slot) {
    const auto truth = lone_truth(p, pc, slot);
    if (!truth || !may_extend_truth(p, pc, slot, *truth)) continue;
    const bool half = is_half(truth->type);
    const Type bits = half ? Type::b16 : Type::b32;
    const Operand one = p.w.fresh(bits);
    p.insert(pc, {"min", half ? "u16" : "u32"}, {one, sources[slot - 1], p.w.constant(1, bits)});
    sources[slot - 1] = one;
    any = true;
  }
  if (any) p.replace(pc, p.source(pc).tokens, sources);
}

// Whether a loop lies between two instructions, or has one of them in it and not the other.
bool a_loop_parts(Pass& p, uint32_t first, uint32_t second) {
  return std::ranges::any_of(p.branches_back(), [&](uint32_t back) {
    const uint32_t begin = p.operand(back, 0).index;
    return back >= first && begin <= second && (begin > first || back < second);
  });
}

// Whether all that read what the instruction at pc, `set` or a copy of what it made, holds take it so.
bool take_all(Pass& p, uint32_t pc, const Truth& truth, int copies = 0) {
  constexpr int kMostCopies = 8;
  const auto& readers = p.readers(pc);
  const auto takes_it = [&](const Pass::Reader& reader) {
    const std::string_view name = p.source(reader.pc).tokens[0];
    if (reader.element != Dataflow::kNone || a_loop_parts(p, truth.from, reader.pc)) return false;
    if (p.is_copy(reader.pc) && p.f.code[reader.pc].guard < 0)
      return copies < kMostCopies && take_all(p, reader.pc, truth, copies + 1);
    if (name == "cvt") return may_convert_truth(p, reader.pc, truth);
    if (name == "neg" || name == "abs") return may_sign_truth(p, reader.pc, truth);
    return may_extend_truth(p, reader.pc, reader.slot, truth);
  };
  return readers.size() == p.known.uses(pc) && std::ranges::all_of(readers, takes_it);
}

bool is_folded_for_all(Pass& p, const Truth& truth) {
  if (p.known.uses(truth.from) == 1) return true;
  const auto [known, is_new] = p.truths_of_all.emplace(truth.from, false);
  if (is_new) known->second = take_all(p, truth.from, truth);
  return known->second;
}

// xor with a mask inverts where that is -1. A truth by cnot, which is the negation of another mask, is
// inverted before it is negated: 1 and 0 change places.
void invert_truth(Pass& p, uint32_t pc) {
  if (p.source(pc).type() != Type::b32) return;
  for (const unsigned slot : {1u, 2u}) {
    const auto cnot = p.made_by(pc, 3 - slot, "cnot"), set = p.made_by(pc, slot, "set");
    const auto mask = set && makes_mask(p.source(*set)) ? set : selected_truth(p, pc, slot, ~uint64_t(0));
    if (!cnot || !mask || bits_of(p.source(*cnot).type()) != 32 || bits_of(p.source(*mask).type()) != 32 ||
        p.known.uses(*mask) != 1)
      continue;
    const Operand one = p.w.fresh(Type::b32);
    p.insert(pc, {"and", "b32"}, {one, p.operand(pc, slot), p.w.constant(1)});
    return p.replace(pc, p.source(pc).tokens, {one, p.operand(pc, 3 - slot)});
  }
}

}  // namespace

bool makes_mask(const Source& set) {
  const Type of = set.type(1), to = set.type(0);
  if (is_float(to) || set.has("ftz") || name_of(of).ends_with("x2")) return false;
  if (is_half(of)) return bits_of(to) == 16;
  return bits_of(to) == 32 && bits_of(of) >= 32;
}

std::span<const Rule> truth_rules() {
  static constexpr Rule kRules[] = {
      {"cvt", convert_lone_truth}, {"neg", sign_lone_truth},        {"abs", sign_lone_truth},
      {"cvt", take_truth},         {"cvt", double_halves},          {"mad", double_halves},
      {"mul", double_halves},      {"sad", double_halves},          {"set", double_halves},
      {"setp", double_halves},     {"shr", double_halves},          {"mul", extend_lone_truth},
      {"mad", extend_lone_truth},  {"div", extend_lone_truth},      {"rem", extend_lone_truth},
      {"shr", extend_lone_truth},  {"xor", invert_truth},           {"vadd", extend_lone_truth},
      {"vsub", extend_lone_truth}, {"vabsdiff", extend_lone_truth}, {"vmin", extend_lone_truth},
      {"vmax", extend_lone_truth}, {"vshl", extend_lone_truth},     {"vshr", extend_lone_truth},
      {"vset", extend_lone_truth}, {"vmad", extend_lone_truth},
  };
  return kRules;
}

}  // namespace fp4lab::emu::peephole
