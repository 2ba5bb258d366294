// What the engines keep per CTA: mbarriers, named barriers, tensor-memory allocations, bulk groups.
#pragma once

#include "emulator/core/machine.h"

namespace fp4lab::emu {

struct TensorMemory {};

struct CtaState {
  explicit CtaState(Cta&) {}
};

}  // namespace fp4lab::emu
