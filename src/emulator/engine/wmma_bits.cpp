// wmma of 4-bit and 1-bit integers (PTX ISA 9.7.14.4): products of 8 x 8 x 32 and 8 x 8 x 128. The fragments
// are those of mma.sync.m8n8k32 and m8n8k128, whose products these are: so ptxas 13.0 loads them.
#include <cstring>

#include "emulator/engine/fragment.h"
#include "emulator/engine/operand.h"

namespace fp4lab::emu {

Body bind_mma_int4(Instr&, const Source&);  // mma_sync.cpp
Body bind_mma_bits(Instr&, const Source&);

namespace {

struct Mods {
  Space space;
  uint8_t bits;  // of an element
};

constexpr unsigned kRowBytes = 16;  // of A (along k), and of B's columns

// A's rows, or B's columns, lie one after the other; each lane takes a word.
void load(Warp& w, const Instr& in) {
  w.require_whole(in);
  const Mods m = unpack_aux<Mods>(in);
  const uint64_t base = w.address(in.op[1], 0);
  const uint64_t row_bytes = in.op[2] ? uint64_t(w.source<uint32_t>(in.op[2])[0]) * m.bits / 8 : kRowBytes;
  uint32_t value[kLanes];
  for (unsigned t = 0; t < kLanes; ++t) {
    const auto [row, byte] = operand_word(0, t, 8);
    const uint64_t at = base + row * row_bytes + byte;
    std::memcpy(&value[t], w.memory(in, m.space, AccessKind::read, at, sizeof(uint32_t), t),
                sizeof(uint32_t));
  }
  std::memcpy(w.target<uint32_t>(fragment_register(w, in.op[0], 0)), value, sizeof value);
}

}  // namespace

Body bind_wmma_load_bits(Instr& in, const Source& s) {
  if (fragment_registers(in.op[0]) != 1)
    fault(FaultKind::misuse, 0, "the fragment has {} registers, this shape takes 1",
          fragment_registers(in.op[0]));
  Mods m{Space::generic, uint8_t(s.has("b1") ? 1 : 4)};
  if (s.has("global")) m.space = Space::global;
  if (s.has("shared") || s.has("shared::cta")) m.space = Space::shared;
  in.aux = pack_aux(m);
  return load;
}
Body bind_wmma_mma_int4(Instr& in, const Source& s) { return bind_mma_int4(in, s); }
Body bind_wmma_mma_bits(Instr& in, const Source& s) { return bind_mma_bits(in, s); }

}  // namespace fp4lab::emu
