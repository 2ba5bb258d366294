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

}  // namespace fp4lab::emu::peephole
