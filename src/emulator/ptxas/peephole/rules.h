// The rules by which single instructions, and pairs of them, are folded: a file for each kind.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace fp4lab::emu {
struct Source;
}

namespace fp4lab::emu::peephole {

class Pass;

struct Rule {
  std::string_view mnemonic;
  void (*apply)(Pass&, uint32_t pc);
};

std::span<const Rule> absorbing_rules();  // in a pass of their own
void decide_by_range(Pass&, uint32_t pc);
void decide_by_width(Pass&, uint32_t pc);  // one of them, for setp
// What `and` and `or` with a constant make of an operand that has bits only where the constant has none, or
// all, of 16 and 32 bits.
std::optional<uint64_t> logic_by_width(const Pass&, uint32_t pc);
// What and, or and xor of 64 bits make whatever their operands hold (known_halves.cpp).
std::optional<uint64_t> known_halves(const Pass&, uint32_t pc);
void know_upper_word(Pass&, uint32_t pc);  // and what mov takes 64 bits apart into
// A sum, product or extreme of f32 whose range (range.h) is one number is that, though an operand may be a
// NaN. Not with .ftz, nor where its bits are read.
void become_only_number(Pass&, uint32_t pc);
std::span<const Rule> arithmetic_rules();
std::span<const Rule> bit_rules();
std::span<const Rule> carry_rules();
// Whether the carry that is read at pc is 0 by sums or differences of constants of 32 bits in its block.
bool has_no_carry(const Pass&, uint32_t pc);
// The integer product, its lower 64 bits or a wide one and no constant, that a shift of 64 bits moves.
std::optional<uint32_t> shifted_product(const Pass&, uint32_t shift);
std::span<const Rule> choice_rules();
// Which operand selp or slct by a constant gives.
std::optional<unsigned> chosen_slot(const Pass&, uint32_t pc);
std::span<const Rule> conversion_rules();
// Did an instruction saturate all of the register that is read? Then it counts as saturated, whatever type
// reads it: what an integer instruction made also as a float, and f32 as f16. Not the lower half alone of a
// register of 64 bits, which is a register of its own.
bool is_saturated(const Pass&, uint32_t pc, unsigned slot, Type as);
// A byte or half of a register with its sign: what bfe takes out of one, and an element of a vector of bytes,
// which is loaded packed unless it lies in a constant bank.
bool is_signed_part(const Pass&, uint32_t maker);
std::span<const Rule> extreme_rules();
std::span<const Rule> flush_rules();
std::span<const Rule> half_function_rules();
std::span<const Rule> identity_rules();
std::span<const Rule> least_integer_rules();
std::span<const Rule> logic_rules();
std::span<const Rule> matrix_rules();
std::span<const Rule> pack_rules();
std::span<const Rule> rotation_rules();
std::span<const Rule> three_way_rules();
std::span<const Rule> truth_rules();
// The selection, of at most 32 bits, between `one` and 0 that made an operand, if ptxas takes it for a truth:
// not by a comparison of which it asks the opposite.
std::optional<uint32_t> selected_truth(const Pass&, uint32_t pc, unsigned slot, uint64_t one);
// Whether a set makes a mask, -1 or 0, of as many bits as the machine's comparison.
bool makes_mask(const Source& set);
// Operands of u16 that an instruction wants with zeros above them: the first, and how many.
struct Extended {
  unsigned first = 1, count = 0;
};
Extended extended_operands(const Pass&, uint32_t pc);

}  // namespace fp4lab::emu::peephole
