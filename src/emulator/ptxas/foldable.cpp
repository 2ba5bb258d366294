#include "emulator/ptxas/foldable.h"

#include <string_view>
#include <unordered_set>

namespace fp4lab::emu {

namespace {

// Of any type.
const std::unordered_set<std::string_view> kAlways = {
    "mov",   "and", "or",   "xor",  "not",   "cnot", "shl",  "shr",   "shf",  "bfe",   "bfi",
    "bfind", "clz", "brev", "popc", "szext", "selp", "slct", "testp", "cvta", "mul24", "mad24"};

bool is_integer(Type t) {
  const std::string_view name = name_of(t);
  return (name[0] == 'u' || name[0] == 's' || name[0] == 'b') && !name.starts_with("bf") &&
         !name.ends_with("x2");
}
bool is_half(Type t) { return t == Type::f16 || t == Type::f16x2 || t == Type::bf16 || t == Type::bf16x2; }
bool rounds_in_a_direction(const Source& s) { return s.has("rz") || s.has("rm") || s.has("rp"); }

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

bool is_foldable_conversion(const Source& s) {
  if (s.has("pack")) return false;
  const Type to = s.type(), from = s.type(1);
  if (is_integer(to) && is_integer(from)) return true;
  if (is_foldable_to_zero(s)) return true;
  if (is_integer(from)) return to == Type::f32 && bits_of(from) <= 32 && !rounds_in_a_direction(s);
  if (is_integer(to)) return (s.has("rni") || s.has("rzi")) && (bits_of(to) >= 32 || to == Type::u16);
  return is_foldable_between_floats(s, to, from);
}

}  // namespace

bool is_foldable_to_zero(const Source& s) {
  if (s.type() != Type::f16 || is_half(s.type(1))) return false;
  return s.tokens[0] == "set" || (s.tokens[0] == "cvt" && is_integer(s.type(1)) && bits_of(s.type(1)) <= 32);
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
