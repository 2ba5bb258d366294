#include "emulator/ptx/halves.h"

#include <unordered_set>

#include "emulator/isa/opcode.h"
#include "emulator/ptx/routine.h"

namespace fp4lab::emu {

namespace {

// To 32 bits or fewer, from a 64-bit integer.
bool narrows(const Source& s) {
  const Type to = s.type(0), from = s.type(1);
  const bool to_float = to == Type::f16 || to == Type::bf16 || to == Type::f32;
  return s.tokens[0] == "cvt" && bits_of(to) < 64 && !to_float && bits_of(from) == 64 && from != Type::f64;
}

}  // namespace

bool makes_halves(const Source& s) {
  static const std::unordered_set<std::string_view> kWhatever = {"selp", "slct", "and",  "or",   "xor",
                                                                 "not",  "shl",  "shr",  "atom", "bfe",
                                                                 "bfi",  "addc", "subc", "madc", "sad"};
  static const std::unordered_set<std::string_view> kIntegers = {"add", "sub", "mul",  "mad", "min",
                                                                 "max", "set", "setp", "abs", "neg"};
  if (s.tokens[0] == "mul" && s.has("wide")) return false;
  return kWhatever.contains(s.tokens[0]) || (kIntegers.contains(s.tokens[0]) && s.type() != Type::f64);
}

bool makes_loose_halves(const Source& s) {
  const std::string_view name = s.tokens[0];
  if (name == "mul" || name == "mad") return s.type() == Type::u64 && s.has("hi");
  return (name == "abs" || name == "neg") && s.type() == Type::s64;
}

bool is_branch_under_guard(const Source& s) {
  const std::string_view name = s.tokens[0];
  return name == "ld" || name == "atom" || is_integer_routine(s);
}

Reads reads(const Instr& i, const Source& s) {
  static const std::unordered_set<std::string_view> kParts = {"popc", "clz", "bfind", "brev", "copysign"};
  const std::string_view name = s.tokens[0];
  const Type type = s.type();
  const bool root = (name == "div" || name == "sqrt") && type == Type::f64 && s.has("rn");
  if (kParts.contains(name) || narrows(s) || root || (name == "st" && bits_of(type) < 64) ||
      (name == "mov" && i.op[0].kind == Operand::Kind::vector))
    return Reads::parts;
  const bool halves = makes_halves(s) || is_integer_routine(s) || name == "testp" || name == "cnot" ||
                      (name == "mov" && i.guard >= 0);
  return halves ? Reads::halves : Reads::whole;
}

}  // namespace fp4lab::emu
