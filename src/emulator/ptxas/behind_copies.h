// Who made a value, where copies count as nothing: moves, what does no more than a move, and a register that
// was packed with others and taken out again.
#pragma once

#include <optional>
#include <string_view>

#include "emulator/ptxas/known.h"

namespace fp4lab::emu {

// An instruction that does no more than a move.
bool is_copy(const Instr&, const Source&);
// and.b64 or or.b64 of one register, which ptxas 13.0 leaves an instruction.
bool is_logic_of_itself(const Instr&, const Source&);
// An extreme of floats that gives back what both its operands hold, a NaN as it is.
bool is_plain_extreme(const Instr&, const Source&);
// The unguarded instruction that made what the one at pc reads in `read`, which the one at `maker` left
// there. Copies count as none but for what is wanted.
std::optional<uint32_t> behind_copies(const Function&, const Known&, uint32_t pc, const Operand& read,
                                      uint32_t maker, std::string_view wanted = {});
// The same with the operand that holds it, which tells it from what else that instruction made.
struct Origin {
  uint32_t maker;
  const Operand* value;
};
std::optional<Origin> origin_behind_copies(const Function&, const Known&, uint32_t pc, const Operand& read,
                                           uint32_t maker, std::string_view wanted = {});

// 16 bits of what an instruction made, from `bit` on.
struct Half {
  uint32_t maker;
  unsigned bit;
};
// Where 16 bits (part 0 or 1) of the first operand of the instruction at pc come from, through packs of any
// width, too.
std::optional<Half> half_behind_packs(const Function&, const Known&, uint32_t pc, unsigned part);

}  // namespace fp4lab::emu
