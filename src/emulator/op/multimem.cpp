// multimem (PTX ISA 9.7.9.14): accesses to all replicas that a multicast object binds. The single device
// creates no such object (CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED is 0), so every address is illegal.
#include <bit>

#include "emulator/core/machine.h"
#include "emulator/isa/opcode.h"

namespace fp4lab::emu {

namespace {

Body no_such_address() {
  return [](Warp& w, const Instr&) {
    fault(FaultKind::misuse, static_cast<unsigned>(std::countr_zero(w.active)),
          "the address is not one of a multicast object, and this device can have none");
  };
}

}  // namespace

Body bind_multimem_ld_reduce(Instr&, const Source&) { return no_such_address(); }
Body bind_multimem_st(Instr&, const Source&) { return no_such_address(); }
Body bind_multimem_red(Instr&, const Source&) { return no_such_address(); }

}  // namespace fp4lab::emu
