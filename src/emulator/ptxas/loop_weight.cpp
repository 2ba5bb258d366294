#include "emulator/ptxas/loop_weight.h"

#include <algorithm>
#include <unordered_map>

#include "emulator/ptx/operand_types.h"
#include "emulator/ptxas/rewrite.h"
#include "emulator/ptxas/routine.h"

namespace fp4lab::emu {

namespace {

constexpr uint32_t kTooHeavy = 1000;

bool is_16_bit_integer(Type t) { return !is_float(t) && bits_of(t) == 16; }
bool is_8_bit_integer(Type t) { return t == Type::u8 || t == Type::s8 || t == Type::b8; }
bool is_pack(const Source& s) { return s.tokens.back().ends_with("16x2"); }
bool is_constant_predicate(const Operand& op) {
  return op.immediate || (op.kind == Operand::Kind::predicate && op.index == 0);
}

uint32_t weight_of_conversion(const Source& s) {
  const Type to = s.type(0), from = s.type(1);
  const bool sat = s.has("sat");
  if (to == Type::tf32) return !s.has("rna") ? 1 : s.has("satfinite") ? 7 : 4;
  if (to == Type::f16x2 || to == Type::bf16x2) return 2;
  if (is_float(to)) return to == from && s.tokens.size() == 3 ? 0 : 1;
  if (is_float(from)) return is_8_bit_integer(to) ? 2 : 1;
  const unsigned bits = bits_of(to), before = bits_of(from);
  if (!sat && bits > 8 && (bits == before || (bits == 16 && before == 32))) return 0;
  return bits == 8 && (sat || before == 64) && to != from ? 2 : 1;
}

uint32_t weight_of_comparison(const Source& s) {
  const bool set = s.tokens[0] == "set";
  const Type from = s.type(set ? 1 : 0);
  if (is_16_bit_integer(from)) return set ? 4 : 3;
  if (!set) return 1;
  const Type to = s.type();
  const bool halves = bits_of(to) == 32 && (from == Type::f16 || from == Type::bf16);
  return is_float(to) || is_pack(s) || halves ? 2 : 1;
}

uint32_t weight_of_test(const Source& s) { return s.has("normal") ? 4 : s.has("subnormal") ? 3 : 2; }

uint32_t weight_of_product(const Source& s) {
  const bool adds = s.tokens[0].starts_with("mad"), high = s.has("hi");
  if (s.tokens[0].ends_with("24")) return high ? 6 + adds : 3;
  if (is_16_bit_integer(s.type())) return s.has("wide") ? 3 : 3 + adds + high;
  return adds && s.has("wide") ? 4 : 1;
}

// Integers of 16 bits are extended first; what the machine has for 32 bits alone is several instructions
// for 64.
uint32_t weight_of_integer(const Source& s) {
  struct Weights {
    uint32_t of16, of32, u64, s64;
  };
  static const std::unordered_map<std::string_view, Weights> kWeights = {
      {"sub", {2, 1, 1, 1}},  {"sad", {4, 1, 1, 1}},  {"shl", {3, 1, 2, 2}},    {"shr", {4, 1, 2, 2}},
      {"cnot", {2, 1, 2, 2}}, {"bfe", {0, 2, 6, 13}}, {"bfi", {0, 2, 11, 11}},  {"clz", {0, 2, 8, 8}},
      {"popc", {0, 1, 5, 5}}, {"brev", {0, 1, 5, 5}}, {"bfind", {0, 1, 8, 13}},
  };
  const auto found = kWeights.find(s.tokens[0]);
  if (found == kWeights.end()) return 1;
  const Weights& w = found->second;
  if (bits_of(s.type()) == 64) {
    const uint32_t amount = s.has("shiftamt") ? 2 : 0;
    return amount + (s.type() == Type::s64 ? w.s64 : w.u64);
  }
  return bits_of(s.type()) == 16 ? w.of16 : w.of32;
}

// What ptxas has folded before it weighs: of constants, or of a register and a constant that leaves nothing
// of it, or nothing to do. (64 bits of zeros are one instruction.)
bool is_folded(const Instr& i, const Source& s) {
  const std::string_view name = s.tokens[0];
  const bool is_plain = s.tokens.size() == 2 || (name == "mul" && !s.has("wide") && s.tokens.size() == 3);
  if (!is_plain || is_float(s.type()) || !is_value(i.op[1]) || !i.op[2].immediate) return false;
  if (i.op[1].immediate) return true;
  const uint64_t bits = bits_of(s.type());
  const uint64_t constant = static_cast<uint64_t>(i.op[2].displacement) & (~uint64_t(0) >> (64 - bits));
  if (name == "mul") return constant == 0 || (constant == 1 && s.has("lo"));
  if (name == "and") return constant == 0 && bits < 64;
  const bool shifts = name == "shl" || name == "shr";
  if (shifts && !is_signed(s.type()) && bits < 64 && constant >= bits) return true;
  return constant == 0 && (shifts || name == "add" || name == "sub" || name == "or" || name == "xor");
}

uint32_t weight_of_unguarded(const Instr& i, const Source& s) {
  const std::string_view name = s.tokens[0];
  if (is_folded(i, s)) return 0;
  if (is_float_routine(s) || is_integer_routine(s)) return kTooHeavy;
  if (name == "mov") return 0;
  if (name == "selp") return is_constant_predicate(i.op[3]) ? 0 : 1;
  if (name == "cvt") return weight_of_conversion(s);
  if (name == "set" || name == "setp") return weight_of_comparison(s);
  if (name == "testp") return weight_of_test(s);
  if (name == "slct") return s.type(0) == s.type(1) ? 1 : 2;
  if (name == "copysign") return s.type() == Type::f64 ? 5 : 1;
  if (name == "neg" || name == "abs") return s.type() == Type::bf16x2 ? 2 : 1;
  if (is_pack(s)) return 2;
  if (is_float(s.type())) return 1;
  const uint32_t takes_carry = name == "addc" || name == "subc" || name == "madc";
  if (name.starts_with("mul") || name.starts_with("mad")) return weight_of_product(s) + takes_carry;
  return weight_of_integer(s) + takes_carry;
}

// A guard makes a selection of the result, but for what takes no guard and for a sign, which the selection
// has itself; of a predicate it takes three instructions.
uint32_t weight_of_guard(const Source& s) {
  const std::string_view name = s.tokens[0];
  if (name == "testp") return 0;
  if (name == "neg" || name == "abs")
    return is_pack(s) || s.type() == Type::bf16 || is_16_bit_integer(s.type()) ? 1 : 0;
  return name == "setp" ? 3 : 1;
}

const Operand* address_of(const Instr& i, const Source& s) {
  const std::string_view name = s.tokens[0];
  return name == "ld" || name == "ldu" ? &i.op[1] : name == "st" ? &i.op[0] : nullptr;
}

// A sign that a register changes in itself from round to round is an instruction more if the loop reads it
// elsewhere too.
bool copies_sign(const Function& f, const Dataflow& flow, uint32_t pc, uint32_t begin, uint32_t end) {
  const Instr& i = f.code[pc];
  const Source& s = f.source[pc];
  if ((s.tokens[0] != "neg" && s.tokens[0] != "abs") || i.guard >= 0 || s.type() == Type::bf16 || is_pack(s))
    return false;
  const uint32_t reg = flow.number_of(i.op[0]);
  if (reg == Dataflow::kNone || flow.number_of(i.op[1]) != reg) return false;
  for (uint32_t other = begin; other < end; ++other)
    if (other != pc && !flow.is_dead(other) &&
        std::ranges::find(flow.access(other).reads, reg) != flow.access(other).reads.end())
      return true;
  return false;
}

}  // namespace

uint32_t machine_weight(const Instr& i, const Source& s) {
  const bool branch = i.opcode->name == "bra";
  if (const Operand* address = address_of(i, s))  // the sum of base and offset is one of its own
    return 1 + (address->has_base && address->displacement != 0) + (i.guard >= 0);
  return branch ? 1 : weight_of_unguarded(i, s) + (i.guard >= 0 ? weight_of_guard(s) : 0);
}

bool is_light_loop(const Function& f, const Dataflow& flow, uint32_t begin, uint32_t end) {
  // Loads that unrolled rounds could do at once are worth more.
  constexpr uint32_t kMost = 21, kMostWithLoads = 49, kSharedLoad = 5, kFixedSharedLoad = 1;
  uint32_t weight = 0, most = kMost;
  bool loads = false;
  for (uint32_t pc = begin; pc < end; ++pc) {
    if (flow.is_dead(pc)) continue;
    const Instr& i = f.code[pc];
    const Source& s = f.source[pc];
    weight += machine_weight(i, s) + copies_sign(f, flow, pc, begin, end);
    if (s.tokens[0] != "ld" || flow.is_in_bank(pc) || s.has("const")) continue;
    if (!s.has("shared") && !s.has("shared::cta"))
      loads = true;
    else
      most += i.op[1].has_base ? kSharedLoad : kFixedSharedLoad;
  }
  return weight <= (loads ? std::max(most, kMostWithLoads) : most);
}

}  // namespace fp4lab::emu
