#include "emulator/ptxas/foldable.h"

#include <bit>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "emulator/op/half_value.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

namespace {

// Of any type.
const std::unordered_set<std::string_view> kAlways = {
    "mov", "and",  "or",   "xor",   "not",  "cnot", "shl",   "shr",  "shf",   "bfe",   "bfi", "bfind",
    "clz", "brev", "popc", "szext", "selp", "slct", "testp", "cvta", "mul24", "mad24", "fns"};

bool is_half(Type t) { return t == Type::f16 || t == Type::f16x2 || t == Type::bf16 || t == Type::bf16x2; }

bool is_foldable_arithmetic(const Source& s, Type t) {
  const std::string_view name = s.tokens[0];
  if (is_integer(t)) return !(name == "mul" && s.has("hi") && bits_of(t) == 64);
  if (t == Type::f32) return !rounds_in_a_direction(s) && !(s.has("rn") && s.has("sat"));
  return t == Type::f64 && !rounds_in_a_direction(s) && !s.has("rn");
}

bool is_foldable_extreme(const Source& s, Type t) {
  if (is_integer(t)) return !s.has("relu");
  return (t == Type::f32 || t == Type::f64) && !s.has("NaN") && !s.has("xorsign");
}

// Wider and narrower floats.
bool is_foldable_between_floats(const Source& s, Type to, Type from) {
  if (to == Type::tf32) return s.has("rna");
  if (to == Type::f32 && from == Type::bf16 && !s.has("ftz")) return true;  // with .rm too: it is a shift
  if (rounds_in_a_direction(s) || s.has("relu") || s.has("satfinite")) return false;
  if (to == Type::f32 || to == Type::f64)
    return from == Type::f32 || from == Type::f64 || from == Type::f16 || from == Type::bf16;
  const bool narrows = to == Type::f16 || to == Type::bf16 || to == Type::f16x2;
  return narrows && (from == Type::f32 || (from == Type::f64 && to != Type::f16x2));
}

bool is_folded_integer(Type to) { return bits_of(to) >= 32 || to == Type::u16; }

double value_of(Type type, uint64_t bits) {
  if (type == Type::f64) return std::bit_cast<double>(bits);
  if (type == Type::f32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  const auto half = static_cast<uint16_t>(bits);
  return type == Type::f16 ? HalfValue::value(half) : BfloatValue::value(half);
}

bool is_foldable_conversion(const Source& s) {
  if (s.has("pack")) return false;
  const Type to = s.type(), from = s.type(1);
  if (is_integer(to) && is_integer(from)) return true;
  if (is_foldable_to_zero(s)) return true;
  if (is_integer(from)) return to == Type::f32 && bits_of(from) <= 32 && !rounds_in_a_direction(s);
  if (is_foldable_at_ends(s)) return true;
  if (is_integer(to)) return (s.has("rni") || s.has("rzi")) && is_folded_integer(to);
  return is_foldable_between_floats(s, to, from);
}

}  // namespace

bool is_foldable_to_zero(const Source& s) {
  if (s.type() != Type::f16 || is_half(s.type(1))) return false;
  return s.tokens[0] == "set" || (s.tokens[0] == "cvt" && is_integer(s.type(1)) && bits_of(s.type(1)) <= 32);
}

bool is_foldable_at_ends(const Source& s) {
  if (s.tokens[0] != "cvt" || s.has("pack") || !is_integer(s.type()) || is_integer(s.type(1))) return false;
  return (s.has("rmi") || s.has("rpi")) && is_folded_integer(s.type());
}

bool is_at_ends(const Source& s, uint64_t bits) {
  const Type to = s.type();
  const bool is_signed = name_of(to)[0] == 's';
  const double least = is_signed ? -std::ldexp(1., int(bits_of(to)) - 1) : 0;
  const double beyond = std::ldexp(1., int(bits_of(to)) - (is_signed ? 1 : 0));
  double value = value_of(s.type(1), bits);
  if (s.has("ftz") && std::abs(value) < std::numeric_limits<float>::min()) value = 0;
  return value <= least || value >= (bits_of(to) == 64 ? beyond : beyond - 1);
}

bool is_foldable(const Source& s) {
  const std::string_view name = s.tokens[0];
  const Type t = s.type();
  if (kAlways.contains(name)) return true;
  if (name == "add" || name == "sub" || name == "mul") return is_foldable_arithmetic(s, t);
  if (name == "addc") return true;
  if (name == "mad") return is_integer(t) && !(s.has("hi") && bits_of(t) > 16);
  if (name == "min" || name == "max") return is_foldable_extreme(s, t);
  if (name == "neg" || name == "abs")
    return !(is_half(t) && s.has("ftz")) && t != Type::bf16x2 && !(name == "abs" && t == Type::bf16);
  if (name == "set") return is_foldable_to_zero(s) || (!is_half(t) && !is_half(s.type(1)));
  if (name == "setp") return !is_half(t);
  return name == "cvt" && is_foldable_conversion(s);
}

}  // namespace fp4lab::emu
