#include "emulator/isa/opcode.h"
#include "emulator/isa/target.h"

namespace fp4lab::emu {

#define OP(name, spelling, operands, section, fidelity, target) Body bind_##name(Instr&, const Source&);
#include "emulator/isa/opcodes.def"
#undef OP

namespace {

constexpr Opcode kTable[] = {
#define OP(name, spelling, operands, section, fidelity, target) \
  {#name, spelling, operands, section, Fidelity::fidelity, target, bind_##name},
#include "emulator/isa/opcodes.def"
#undef OP
    {},  // so that the array is never empty
};

}  // namespace

std::span<const Opcode> opcodes() { return {kTable, std::size(kTable) - 1}; }

}  // namespace fp4lab::emu
