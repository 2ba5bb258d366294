// Words that the deadlock report's parts share.
#pragma once

#include <string>

#include "emulator/engine/operand.h"

namespace fp4lab::emu {

// " (bars+0x18)" when a shared variable of the kernel covers the offset; else nothing.
std::string symbol_of(const Cta&, uint32_t offset);
// "warp 1, lane 0 of CTA rank 2"; the rank where it is not the CTA's own.
std::string who_of(const Cta&, const MbarrierParty&);
// The PTX line of an instruction of the CTA's module, with its number.
std::string line_of(const Cta&, uint32_t function, const Instr*);

}  // namespace fp4lab::emu
