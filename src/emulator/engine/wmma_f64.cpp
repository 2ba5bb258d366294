// wmma of fp64 (PTX ISA 9.7.14.4): products of 8 x 8 x 4. The fragments are those of mma.sync.m8n8k4, whose
// product it is; load and store know where each element lies in memory.
#include <cstring>

#include "emulator/engine/fragment.h"
#include "emulator/engine/operand.h"

namespace fp4lab::emu {

Body bind_mma_f64(Instr&, const Source&);  // mma_sync.cpp

namespace {

enum class Role : uint8_t { a, b, accumulator };

struct Mods {
  Role role;
  Space space;
  bool column_major;
};

constexpr unsigned kM = 8, kN = 8, kK = 4;

unsigned rows_of(Role r) { return r == Role::b ? kK : kM; }
unsigned columns_of(Role r) { return r == Role::a ? kK : kN; }
unsigned registers_of(Role r) { return rows_of(r) * columns_of(r) / kLanes; }

// Each (register, lane) with its address.
template <class Visit>
void for_elements(Warp& w, const Mods& m, const Operand& pointer, const Operand& stride, Visit visit) {
  const uint64_t base = w.address(pointer, 0);
  const uint64_t step = stride           ? w.source<uint32_t>(stride)[0]
                        : m.column_major ? rows_of(m.role)
                                         : columns_of(m.role);
  for (unsigned r = 0; r < registers_of(m.role); ++r)
    for (unsigned t = 0; t < kLanes; ++t) {
      unsigned row = t / 4, column = t % 4;
      if (m.role == Role::b) std::swap(row, column);
      if (m.role == Role::accumulator) column = 2 * column + r;
      const uint64_t index = m.column_major ? column * step + row : row * step + column;
      visit(r, t, base + index * sizeof(double));
    }
}

void load(Warp& w, const Instr& in) {
  w.require_whole(in);
  const Mods m = unpack_aux<Mods>(in);
  uint64_t value[2][kLanes];
  for_elements(w, m, in.op[1], in.op[2], [&](unsigned r, unsigned t, uint64_t at) {
    std::memcpy(&value[r][t], w.memory(in, m.space, AccessKind::read, at, sizeof(double), t), sizeof(double));
  });
  for (unsigned r = 0; r < registers_of(m.role); ++r)
    std::memcpy(w.target<uint64_t>(fragment_register(w, in.op[0], r)), value[r], sizeof value[r]);
}

void store(Warp& w, const Instr& in) {
  w.require_whole(in);
  const Mods m = unpack_aux<Mods>(in);
  for_elements(w, m, in.op[0], in.op[2], [&](unsigned r, unsigned t, uint64_t at) {
    const uint64_t* v = w.source<uint64_t>(fragment_register(w, in.op[1], r));
    std::memcpy(w.memory(in, m.space, AccessKind::write, at, sizeof(double), t), &v[t], sizeof(double));
  });
}

Mods decode(const Source& s, const Operand& fragment) {
  Mods m{Role::accumulator, Space::generic, s.has("col")};
  if (s.has("global")) m.space = Space::global;
  if (s.has("shared") || s.has("shared::cta")) m.space = Space::shared;
  if (s.has("a")) m.role = Role::a;
  if (s.has("b")) m.role = Role::b;
  if (fragment_registers(fragment) != registers_of(m.role))
    fault(FaultKind::misuse, 0, "the fragment has {} registers, this shape takes {}",
          fragment_registers(fragment), registers_of(m.role));
  return m;
}

}  // namespace

Body bind_wmma_load_f64(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(s, in.op[0]));
  return load;
}
Body bind_wmma_store_f64(Instr& in, const Source& s) {
  in.aux = pack_aux(decode(s, in.op[1]));
  return store;
}
Body bind_wmma_mma_f64(Instr& in, const Source& s) { return bind_mma_f64(in, s); }

}  // namespace fp4lab::emu
