#include "emulator/ptxas/nan_product.h"

#include <utility>

#include "emulator/isa/opcode.h"

namespace fp4lab::emu {

namespace {

constexpr uint64_t kSign = uint64_t(1) << 63, kOne = 0x3ff0000000000000, kQuiet = uint64_t(1) << 51;

bool is_nan(uint64_t bits) { return emu::is_nan(bits, Type::f64); }

bool is_zero(uint64_t bits) { return (bits & ~kSign) == 0; }  // a register of its own

}  // namespace

std::optional<NanProduct> nan_product(const Known& known, const Instr& i, const Source& s, uint32_t pc) {
  if (i.opcode->name != "mul_float" || s.tokens[0] != "mul" || s.type() != Type::f64) return std::nullopt;
  const auto a = known.bits(pc, 1), b = known.bits(pc, 2);
  if (!a || !b || is_nan(*a) == is_nan(*b) || !known.is_constant(pc, 1) || !known.is_constant(pc, 2))
    return std::nullopt;
  const uint64_t nan = is_nan(*a) ? *a : *b, number = is_nan(*a) ? *b : *a;
  return NanProduct{*a,
                    *b,
                    s.has("rn"),
                    rounds_in_a_direction(s),
                    known.shares_register(nan, pc),
                    known.stored_constants().contains(number) || known.has_other_reader(number, pc)};
}

// The factors change places if the product rounds to nearest. If it does not say so, 1 * x is x, and -1 * x
// its negation, which makes no NaN quiet.
uint64_t NanProduct::alone() const {
  uint64_t a = first, b = second;
  if (!is_directed && !says_nearest && (a & ~kSign) == kOne) return b ^ (a & kSign);
  if (!is_directed) std::swap(a, b);
  const uint64_t nan = is_nan(a) ? a : b, number = is_nan(a) ? b : a;
  const bool keeps_sign = shares_nan || (is_nan(a) && !is_zero(b) && !shares_number);
  return (nan ^ (keeps_sign ? 0 : number & kSign)) | kQuiet;
}

std::optional<std::pair<unsigned, uint64_t>> negated_nan_factor(const Known& known, const Source& s,
                                                                uint32_t pc, const Function& f) {
  if (s.tokens[0] != "mul" || s.type() != Type::f64) return std::nullopt;
  for (const unsigned slot : {1u, 2u}) {
    const auto bits = known.bits(pc, slot);
    if (!bits || !is_nan(*bits, Type::f64)) continue;
    bool is_negated = false;
    for (uint32_t at = known.maker(pc, 3 - slot), behind = pc; at < behind;
         behind = std::exchange(at, known.maker(at, 1))) {
      const std::string_view name = f.source[at].tokens[0];
      const bool is_negation = name == "neg" && f.source[at].type() == Type::f64;
      if (!is_negation && (name != "mov" || !is_value(f.code[at].op[0]))) break;
      is_negated ^= is_negation;
    }
    if (is_negated) return std::pair(slot, *bits ^ uint64_t(1) << 63);
  }
  return std::nullopt;
}

}  // namespace fp4lab::emu
