// Between which numbers ptxas 13.0 takes an f32 value to lie, whether or not it may be a NaN (observed).
#pragma once

#include <cstdint>
#include <optional>

namespace fp4lab::emu::peephole {

class Pass;

struct Range {
  double least, most;
};

// Of an operand of f32; nothing if it may be anything.
std::optional<Range> range_of(const Pass&, uint32_t pc, unsigned slot);
// Of what an instruction makes.
std::optional<Range> range_made_by(const Pass&, uint32_t pc);
// What reads it as f32, behind copies, reads this number; stores of b32, logic and packs still read its bits.
void become_number(Pass&, uint32_t pc, uint32_t number);

}  // namespace fp4lab::emu::peephole
