// Structured sparsity of A (PTX ISA 9.7.14.6.1, 9.7.15.6.1, 9.7.16.10.8). Of every four neighbouring units of
// a row two are stored, and four bits of metadata say where they stand: bits 1:0 the place of the first, bits
// 3:2 that of the second. A unit is an element of 8 or 16 bits; two neighbouring 4-bit elements (so 4 of 8,
// in pairs); half an element of tf32 (so one of two, and only 0b0100 and 0b1110 mean something).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/core/async.h"
#include "emulator/core/warp.h"
#include "emulator/engine/mma_float.h"

namespace fp4lab::emu {

struct SparseRows {
  uint32_t rows = 0, chunks = 0;  // chunks: groups of four units in a dense row
  uint8_t unit_bytes = 1;
  bool tf32 = false;
  bool ordered = true;            // the first unit must stand before the second
  bool tcgen05 = false;           // or they are those of 0b0110 (PTX ISA 9.7.16.10.8.2 lists it)
  std::vector<uint8_t> metadata;  // [rows][chunks], four bits each

  uint32_t packed_bytes() const { return chunks * 2 * unit_bytes; }  // of a row
  uint32_t dense_bytes() const { return chunks * 4 * unit_bytes; }

  // Faults, naming the lane and the row, unless the metadata means something.
  void check(const char* instruction, unsigned lane, uint32_t first_row = 0) const;
  // The same where the schedule tolerates that zeros stand nowhere, as CUTLASS leaves them behind the end of
  // K: they get a place, with a note. `packed`: the rows as they are stored. With `nowhere` others get one as
  // well, and it says of which rows.
  void check_tolerantly(Cluster&, const AsyncOp&, const std::byte* packed, uint32_t first_row = 0,
                        std::vector<bool>* nowhere = nullptr);
  // Rows as they would stand without sparsity: zeros where nothing is stored. `kept` is 0xff where something
  // is.
  void expand(const std::byte* packed, std::byte* dense, std::byte* kept) const;
  // The other way: what row `row` takes of `count` dense rows of B, packed.
  void select(uint32_t row, const uint8_t* b, uint32_t count, uint8_t* out) const;
  SparseRows part(uint32_t first, uint32_t count) const;

 private:
  bool means_something(unsigned chunk_metadata) const {
    const unsigned m = chunk_metadata, first = m & 3, second = m >> 2;
    return tf32 ? m == 0x4 || m == 0xe : ordered ? first < second || (tcgen05 && m == 0x6) : first != second;
  }
};

// The metadata of the 16 rows that a warp multiplies, out of its registers (figures of PTX ISA 9.7.14.6.2):
// the lanes of a group of four hold the rows g and g + 8. `s.chunks`, unit_bytes and tf32 say which layout;
// the selector names the lanes when not all four are needed.
void gather_metadata(Warp&, const Operand&, unsigned selector, SparseRows& s);
// How many selectors there are for these rows: 4, 2 or 1.
unsigned metadata_selectors(const SparseRows&);

// A decoded with what is not there marked as such; `element_bytes` of an element of the format.
void decode_sparse(MmaElements&, ElementFormat, const SparseRows&, const std::byte* packed,
                   unsigned element_bytes, bool negate);

}  // namespace fp4lab::emu
