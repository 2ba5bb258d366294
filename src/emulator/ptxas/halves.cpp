#include "emulator/ptxas/halves.h"

#include <unordered_set>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/rewrite.h"
#include "emulator/ptxas/routine.h"

namespace fp4lab::emu {

namespace {

using Mnemonics = std::unordered_set<std::string_view>;

bool is_64_bit_integer(Type t) { return bits_of(t) == 64 && t != Type::f64; }

// Those of floats keep the routine's way: a subroutine takes and gives registers of 32 bits. A quotient's or
// root's common way to the nearest stands in the code itself.
bool is_subroutine(const Source& s) {
  return is_integer_routine(s) || (is_float_routine(s) && s.type() == Type::f64 && !s.has("rn"));
}

// An argument or result of a function, which is two registers of 32 bits. (What a kernel loads of its own
// parameters lies in a bank: nobody asks for it here.)
bool is_of_call(const Source& s) { return s.has("param") || s.has("param::func"); }

// Sums, products, extremes and comparisons of 64-bit integers.
bool is_integer_arithmetic(const Source& s) {
  static const Mnemonics kNames = {"add", "sub", "mul", "mad", "min", "max", "abs", "neg", "setp"};
  return kNames.contains(s.tokens[0]) && s.type() != Type::f64;
}

bool is_bitwise(const Source& s) {
  static const Mnemonics kNames = {"selp", "slct", "and", "or",   "xor",  "not",  "shl",
                                   "shr",  "bfe",  "bfi", "addc", "subc", "madc", "sad"};
  return kNames.contains(s.tokens[0]);
}

bool is_atomic_integer_sum(const Source& s) {
  return (s.tokens[0] == "atom" || s.tokens[0] == "red") && s.has("add") && s.type() != Type::f64;
}

// From a register, or part of one, of 32 bits at most; or one whose halves are looked at.
bool packs_conversion(const Source& s) {
  const Type to = s.type(0), from = s.type(1);
  if (bits_of(to) < 64) return true;
  if (to == Type::f64 || is_float(from)) return false;
  return bits_of(from) < 64 || s.has("sat");
}

// A guarded instruction that would be a copy: a selection of halves.
bool is_guarded_copy(const Instr& i, const Source& s) {
  const std::string_view name = s.tokens[0];
  if (i.guard < 0) return false;
  if (name == "mov") return true;
  if (name == "cvt")
    return s.tokens.size() == 3 && bits_of(s.type(0)) == 64 && bits_of(s.type(1)) == 64 &&
           (s.type(0) == Type::f64) == (s.type(1) == Type::f64);
  return (name == "neg" || name == "abs") && s.type() == Type::f64;
}

// x < 0 or x >= 0: the upper half decides.
bool is_sign_test(const Instr& i, const Source& s) {
  const bool of_sign = s.tokens[0] == "setp" && s.type() == Type::s64 && (s.has("lt") || s.has("ge"));
  return of_sign && i.op[3].immediate && i.op[3].displacement == 0;
}

int reads_whole_conversion(const Source& s) {
  const Type to = s.type(0), from = s.type(1);
  if (bits_of(from) < 64) return 0;
  if (from == Type::f64 || is_float(to)) return 1;
  if (s.has("sat")) return -2;
  return bits_of(to) < 64 ? 0 : 1;
}

}  // namespace

Makes makes(const Instr& i, const Source& s) {
  static const Mnemonics kPacked = {"copysign", "brev", "cnot"};
  const std::string_view name = s.tokens[0];
  const Type type = s.type();
  if ((name == "mul" || name == "mad") && type == Type::u64 && s.has("hi")) return Makes::loose;
  if ((name == "abs" || name == "neg") && type == Type::s64) return Makes::loose;
  if (name == "mul" && s.has("wide")) return Makes::whole;
  if (is_bitwise(s) || is_integer_arithmetic(s) || is_atomic_integer_sum(s) || name == "set")
    return Makes::halves;
  if (name == "rsqrt" && is_of_upper_half(s)) return Makes::halves;
  const bool packs = kPacked.contains(name) || is_subroutine(s) || (name == "rcp" && is_of_upper_half(s)) ||
                     (name == "cvt" && packs_conversion(s)) ||
                     (name == "ld" && (bits_of(type) < 64 || is_of_call(s))) ||
                     (name == "mov" && i.op[1].kind == Operand::Kind::vector);
  return packs ? Makes::packed : Makes::whole;
}

bool makes_f64(const Source& s) { return s.type() == Type::f64 && s.tokens[0] != "copysign"; }

bool is_branch_under_guard(const Source& s) {
  const std::string_view name = s.tokens[0];
  return name == "ld" || name == "atom" || name == "mma" || name == "wmma" || is_subroutine(s);
}

bool reads_carry(const Source& s) {
  return s.tokens[0] == "addc" || s.tokens[0] == "subc" || s.tokens[0] == "madc";
}

int reads_whole(const Instr& i, const Source& s, unsigned slot) {
  static const Mnemonics kParts = {"popc", "clz", "bfind", "brev", "copysign"};
  const std::string_view name = s.tokens[0];
  if (i.op[slot].kind == Operand::Kind::address) return 1;
  if (is_subroutine(s)) return -2;
  if (name == "st" && is_of_call(s) && bits_of(s.type()) == 64) return -2;
  if (name == "div" && s.type() == Type::f64) return slot == 1 ? 0 : 2;
  const bool root = name == "sqrt" && s.type() == Type::f64;
  if (kParts.contains(name) || root || is_sign_test(i, s) || (name == "st" && bits_of(s.type()) < 64) ||
      (name == "mov" && i.op[0].kind == Operand::Kind::vector))
    return 0;
  if (name == "cvt") return is_guarded_copy(i, s) ? -1 : reads_whole_conversion(s);
  if (name == "rsqrt") return is_of_upper_half(s) ? -1 : -2;
  if (name == "set") return is_64_bit_integer(s.type(1)) ? -1 : 1;
  const bool halves = is_bitwise(s) || is_integer_arithmetic(s) || is_atomic_integer_sum(s) ||
                      is_guarded_copy(i, s) || name == "testp" || name == "cnot";
  return halves ? -1 : 1;
}

// The way of most numbers through a root or a quotient stands in the code itself. A product of the lower
// halves and the addend of 64 bits are one instruction, if not the carry alone is read.
bool joins_halves(const Instr& i, const Source& s, unsigned slot, bool for_carry) {
  const std::string_view name = s.tokens[0];
  const bool is_root = name == "rsqrt" && !is_of_upper_half(s);
  const bool is_expanded =
      s.type() == Type::f64 && (is_root || ((name == "sqrt" || name == "div") && !is_subroutine(s)));
  const bool is_addend = name == "mad" && s.has("lo") && is_64_bit_integer(s.type()) && slot == 3;
  return is_expanded || (is_addend && !for_carry) || reads_whole(i, s, slot) > 0;
}

}  // namespace fp4lab::emu
