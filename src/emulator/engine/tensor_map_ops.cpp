// tensormap.replace and tensormap.cp_fenceproxy (PTX ISA 9.7.13.16): tensor maps edited on the device.
#include <algorithm>
#include <cstring>

#include "emulator/engine/operand.h"
#include "emulator/engine/tensor_map.h"

namespace fp4lab::emu {

namespace {

enum class Field : uint8_t {
  address,
  rank,
  box,
  dim,
  element_stride,
  stride,
  elemtype,
  interleave,
  swizzle_mode,
  swizzle_atomicity,
  fill
};

struct Mods {
  Space space;
  Field field;
  uint8_t ordinal;
  uint8_t value;  // of the fields that take a constant
};

// tensormap.replace numbers the types in another order than CUtensorMapDataType (note to the table of element
// types, PTX ISA 9.7.9.28).
TensorType element_type(unsigned code, unsigned lane) {
  constexpr uint8_t types[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12, 13, 14, 15};
  if (code > 15) fault(FaultKind::tensor_map, lane, "tensormap.replace.elemtype {}: must be 0 to 15", code);
  return static_cast<TensorType>(types[code]);
}

void set_swizzle(TensorMap& m, unsigned mode, unsigned atomicity, unsigned lane) {
  if (mode == 3) {
    constexpr TensorSwizzle s[] = {TensorSwizzle::b128, TensorSwizzle::b128_atom32,
                                   TensorSwizzle::b128_atom32_flip8, TensorSwizzle::b128_atom64};
    m.swizzle = s[atomicity];
    return;
  }
  if (atomicity)
    fault(FaultKind::tensor_map, lane,
          "tensormap.replace: swizzle mode {} has 16-byte atoms only, not atomicity {}", mode, atomicity);
  m.swizzle = static_cast<TensorSwizzle>(mode);
}

// What 128 zero bytes are to the hardware, which keeps extents less one.
TensorMap empty_tensor_map() {
  TensorMap m;
  m.rank = 1;
  m.dim.fill(1), m.box.fill(1), m.element_stride.fill(1);
  return m;
}

constexpr uint64_t kStrideBits = 0xff'ffff'fff0;

// A value that the manual does not allow, and hardware keeps as many bits of as the field has (seen on an
// H200: extents less one of 8 bits in boxes, of 32 in tensors, of 3 for element strides; bits 39:4 of
// strides).
void check(Warp& w, unsigned lane, const Mods& mods, uint64_t value) {
  const auto tolerate = [&](std::string why) {
    const Fault beyond(FaultKind::tensor_map, lane, std::move(why));
    w.cta.cluster.note_or_throw(beyond, w);
  };
  const auto require = [&](const char* name, uint64_t limit) {
    if (value < 1 || value > limit)
      tolerate(fmt::format("tensormap.replace.{} of dimension {} to {}: must be 1 to {}", name, mods.ordinal,
                           value, limit));
  };
  if (mods.field == Field::stride && value & ~kStrideBits)
    tolerate(fmt::format(
        "tensormap.replace.global_stride of dimension {} to {}: must be a multiple of 16 below 2^40",
        mods.ordinal + 1, value));
  if (mods.field == Field::box) require("box_dim", 256);
  if (mods.field == Field::dim) require("global_dim", uint64_t(1) << 32);
  if (mods.field == Field::element_stride) require("element_stride", 8);
}

void edit(TensorMap& m, const Mods& mods, uint64_t value, unsigned lane) {
  const unsigned d = mods.ordinal;
  const unsigned swizzle = static_cast<unsigned>(m.swizzle);
  const unsigned mode = swizzle < 3 ? swizzle : 3, atomicity = swizzle < 4 ? 0 : swizzle - 3;
  switch (mods.field) {
    case Field::address:
      m.address = value;
      break;
    case Field::rank:
      if (value > 4)
        fault(FaultKind::tensor_map, lane, "tensormap.replace.rank {}: it is the rank - 1, 0 to 4", value);
      m.rank = static_cast<uint8_t>(value + 1);
      break;
    case Field::box:
      m.box[d] = static_cast<uint32_t>(value);
      break;
    case Field::dim:
      m.dim[d] = value;
      break;
    case Field::element_stride:
      m.element_stride[d] = static_cast<uint32_t>(value);
      break;
    case Field::stride:
      m.stride[d + 1] = value & kStrideBits;
      break;
    case Field::elemtype:
      m.type = element_type(static_cast<unsigned>(value), lane);
      m.made_tf32 |= m.is_tf32();
      break;
    case Field::interleave:
      m.interleave = static_cast<uint8_t>(value);
      break;
    case Field::swizzle_mode:
      set_swizzle(m, static_cast<unsigned>(value), value == 3 ? atomicity : 0, lane);
      break;
    case Field::swizzle_atomicity:
      set_swizzle(m, mode, static_cast<unsigned>(value), lane);
      break;
    case Field::fill:
      m.fill = static_cast<uint8_t>(value);
      break;
  }
}

// op 0 [map], then the ordinal where the field has one, then the value
void replace(Warp& w, const Instr& in) {
  const Mods m = unpack_aux<Mods>(in);
  const bool wide = m.field == Field::address || m.field == Field::stride;
  const bool ordinal = m.field == Field::box || m.field == Field::dim || m.field == Field::element_stride ||
                       m.field == Field::stride;
  for_lanes(w.active, [&](unsigned lane) {
    uint64_t value = m.value;
    if (m.field < Field::elemtype) {
      const Operand& o = in.op[ordinal ? 2 : 1];
      value = wide ? w.source<uint64_t>(o)[lane] : w.source<uint32_t>(o)[lane];
    }
    const uint64_t address = w.address(in.op[0], lane);
    const std::byte* from = w.memory(in, m.space, AccessKind::read, address, kTensorMapBytes, lane);
    bool ok;
    TensorMap map = decode_tensor_map(from, ok);
    // A map may be made from nothing: Triton zeroes 128 bytes and replaces every field.
    if (!ok && std::all_of(from, from + kTensorMapBytes, [](std::byte b) { return b == std::byte{0}; }))
      map = empty_tensor_map(), ok = true;
    if (!ok)
      fault(FaultKind::tensor_map, lane, "tensormap.replace: the 128 bytes at {:#x} are not a tensor map",
            address);
    check(w, lane, m, value);
    edit(map, m, value, lane);
    std::byte* to = w.memory(in, m.space, AccessKind::write, address, kTensorMapBytes, lane);
    std::memcpy(to, map.encode().data(), kTensorMapBytes);
  });
}

// op 0 [global], op 1 [shared], op 2 the size
void cp_fenceproxy(Warp& w, const Instr& in) {
  w.require_full(in);
  const unsigned first = static_cast<unsigned>(std::countr_zero(w.active));
  const uint64_t to = w.address(in.op[0], first), from = w.address(in.op[1], first);
  for_lanes(w.active, [&](unsigned lane) {
    if (w.address(in.op[0], lane) != to || w.address(in.op[1], lane) != from)
      fault(FaultKind::collective, lane,
            "tensormap.cp_fenceproxy: the addresses differ between the lanes of a warp");
  });
  const std::byte* source = w.memory(in, Space::shared, AccessKind::read, from, kTensorMapBytes, first);
  std::byte* target = w.memory(in, Space::global, AccessKind::write, to, kTensorMapBytes, first);
  std::memcpy(target, source, kTensorMapBytes);
  if (Watcher* watch = w.cta.cluster.watcher) watch->fence(w, in);
}

Body with(Instr& in, const Source& s, Field f) {
  Mods m{shared_space(s), f, 0, 0};
  if (s.has("global")) m.space = Space::global;
  if (in.op[1].immediate && f >= Field::box && f <= Field::stride) {
    const int64_t limit = f == Field::stride ? 3 : 4;
    if (in.op[1].displacement < 0 || in.op[1].displacement > limit)
      fault(FaultKind::misuse, 0, "ordinal {}: must be 0 to {}", in.op[1].displacement, limit);
    m.ordinal = static_cast<uint8_t>(in.op[1].displacement);
  }
  in.aux = pack_aux(m);
  return replace;
}

}  // namespace

Body bind_tensormap_replace_address(Instr& in, const Source& s) { return with(in, s, Field::address); }
Body bind_tensormap_replace_rank(Instr& in, const Source& s) { return with(in, s, Field::rank); }
Body bind_tensormap_replace_stride(Instr& in, const Source& s) { return with(in, s, Field::stride); }
Body bind_tensormap_replace_dimension(Instr& in, const Source& s) {
  return with(in, s,
              s.has("box_dim")      ? Field::box
              : s.has("global_dim") ? Field::dim
                                    : Field::element_stride);
}
Body bind_tensormap_replace_mode(Instr& in, const Source& s) {
  constexpr struct {
    const char* name;
    Field field;
    int64_t limit;
  } fields[] = {{"elemtype", Field::elemtype, 15},
                {"interleave_layout", Field::interleave, 2},
                {"swizzle_mode", Field::swizzle_mode, 3},
                {"swizzle_atomicity", Field::swizzle_atomicity, 3},
                {"fill_mode", Field::fill, 1}};
  for (const auto& f : fields)
    if (s.has(f.name)) {
      const int64_t value = in.op[1].displacement;
      if (value < 0 || value > f.limit)
        fault(FaultKind::misuse, 0, ".{} {}: must be 0 to {}", f.name, value, f.limit);
      with(in, s, f.field);
      Mods m = unpack_aux<Mods>(in);
      m.value = static_cast<uint8_t>(value);
      in.aux = pack_aux(m);
    }
  return replace;
}
Body bind_tensormap_cp_fenceproxy(Instr& in, const Source&) {
  if (in.op[2].displacement != kTensorMapBytes)
    fault(FaultKind::tensor_map, 0, "a tensor map has 128 bytes, not {}", in.op[2].displacement);
  return cp_fenceproxy;
}

}  // namespace fp4lab::emu
