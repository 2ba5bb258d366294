// Operands two of whose places are the same bytes of shared memory. Hardware reads them so; most often a
// stride of the descriptor is wrong (in another unit, of another swizzle, LBO and SBO exchanged), and so is
// the product. A stride of 0, which has one row read many times, is told too.
#pragma once

#include "emulator/engine/descriptors.h"
#include "emulator/engine/operand.h"

namespace fp4lab::emu {

// Notes it, once for each instruction. `rows` along M or N; `k` along K, in bytes of a K-major operand and
// in elements of `element_bytes` of an MN-major one.
void note_overlap(Cluster&, const SharedMatrix&, bool k_major, uint32_t rows, uint32_t k,
                  uint32_t element_bytes, const AsyncOp&, const char* operand);

}  // namespace fp4lab::emu
