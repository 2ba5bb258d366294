// An operand of a matrix product as it lies in shared memory, element by element: for those who look into a
// run (watch/inspect.h).
#pragma once

#include <optional>

#include "emulator/core/async.h"
#include "emulator/engine/descriptors.h"
#include "emulator/engine/mma_float.h"

namespace fp4lab::emu {

// `rows` (along M or N) x `columns` (along K) elements of `bits` bits, `per_chunk` of them in 16 bytes: of
// consecutive columns when it is K-major, else of consecutive rows.
struct StoredOperand {
  SharedMatrix at;
  ElementFormat format{};
  uint32_t rows = 0, columns = 0, bits = 0, per_chunk = 0;

  struct Place {
    uint32_t chunk, shift;  // address of the 16 bytes; bits in them in front of the element
    uint32_t address() const { return chunk + shift / 8; }
  };
  Place place(uint32_t row, uint32_t column) const {
    const uint32_t inside = (at.k_major ? column : row) % per_chunk;
    return {at.k_major ? at.k_major_address(row, column / per_chunk * 16)
                       : at.mn_major_address(row - inside, column, 16 / per_chunk),
            inside * bits};
  }
};

// What an operation that multiplies matrices says of itself.
struct MatrixProduct : AsyncOp {
  bool is_product() const override { return true; }
  // Of the share that this operation's CTA reads. Nothing when the operand does not come from shared memory.
  virtual std::optional<StoredOperand> stored(char operand) const = 0;
};

}  // namespace fp4lab::emu
