// mov: registers, immediates, addresses, predicates, special registers, packing and unpacking (PTX ISA
// 9.7.9.3, 9.7.9.4).
#include <array>

#include "emulator/core/machine.h"
#include "emulator/core/poison.h"
#include "emulator/isa/opcode.h"
#include "emulator/op/map.h"

namespace fp4lab::emu {

namespace {

using Lanes = std::array<uint64_t, kLanes>;

// A vector element's value in every lane: the element may be a register of any width or a constant.
void read_element(Warp& w, const Operand& o, uint64_t* lanes) {
  if (o.immediate) {
    for_lanes(w.active, [&](unsigned l) { lanes[l] = uint64_t(o.displacement); });
  } else if (bits_of(o.type) == 64) {
    const auto* a = w.source<uint64_t>(o);
    for_lanes(w.active, [&](unsigned l) { lanes[l] = a[l]; });
  } else {
    const auto* a = w.source<uint32_t>(o);
    for_lanes(w.active, [&](unsigned l) { lanes[l] = a[l]; });
  }
}

uint64_t low_bits(unsigned n) { return n == 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1; }

// The partly written values that a mov copies, in all lanes. nvcc packs a word together with one that no path
// has written, and unpacks the first again: that is no use of the other.
struct Luggage {
  unsigned __int128 bits[kLanes] = {};
  uint32_t unwritten[kLanes] = {};  // bytes

  // An element of `width` bits at bit `at`.
  void take(Warp& w, const Operand& o, unsigned at, unsigned width) {
    const Warp::Bytes missing = o.immediate ? Warp::Bytes{} : w.unwritten_bytes(o);
    const bool wide = bits_of(o.type) == 64;
    for_lanes(w.active, [&](unsigned l) {
      uint64_t cell = o.immediate ? uint64_t(o.displacement)
                      : wide      ? w.unchecked_source<uint64_t>(o)[l]
                                  : w.unchecked_source<uint32_t>(o)[l];
      for (unsigned byte = 0; byte < 8; ++byte)
        if (missing[l] >> byte & 1)
          cell = (cell & ~(uint64_t(0xff) << byte * 8)) | uint64_t(kPoison) << byte * 8;
      bits[l] |= (unsigned __int128)(cell & low_bits(width)) << at;
      unwritten[l] |= (missing[l] & ((1u << width / 8) - 1)) << at / 8;
    });
  }
  void give(Warp& w, const Operand& o, unsigned at, unsigned width) const {
    if (o.kind == Operand::Kind::sink) return;
    const uint32_t all = (1u << width / 8) - 1;
    Warp::Bytes missing{};
    for_lanes(w.active, [&](unsigned l) {
      const uint32_t bytes = unwritten[l] >> at / 8 & all;
      missing[l] = uint8_t(bytes == all ? 0xff : bytes);
    });
    const auto put = [&](auto* d) {
      for_lanes(w.active, [&](unsigned l) { d[l] = uint64_t(bits[l] >> at) & low_bits(width); });
    };
    if (bits_of(o.type) == 64)
      put(w.target<uint64_t>(o));
    else
      put(w.target<uint32_t>(o));
    w.leave_unwritten(o, missing);
  }
};

bool written(const Warp& w, const Operand& o) {
  if (o.kind != Operand::Kind::vector) return o.immediate || w.written(o);
  for (unsigned n = 0; n < o.count; ++n)
    if (const Operand& e = w.element(o, n); !e.immediate && !w.written(e)) return false;
  return true;
}

// Any mov except of 128-bit registers; Instr::aux is an element's width. False if a lane would move nothing
// that was written: that is a use, and faults.
bool moved_partly(Warp& w, const Instr& i) {
  const auto elements = [&](const Operand& o, auto&& f) {
    const bool one = o.kind != Operand::Kind::vector;
    const unsigned width = one ? bits_of(o.type) : unsigned(i.aux), count = one ? 1 : o.count;
    for (unsigned n = 0; n < count; ++n) f(one ? o : w.element(o, n), n * width, width);
    return count * width / 8;
  };
  Luggage moved;
  const unsigned bytes =
      elements(i.op[1], [&](const Operand& o, unsigned at, unsigned width) { moved.take(w, o, at, width); });
  bool some = true;
  for_lanes(w.active, [&](unsigned l) { some &= moved.unwritten[l] != (1u << bytes) - 1; });
  if (some)
    elements(i.op[0], [&](const Operand& o, unsigned at, unsigned width) { moved.give(w, o, at, width); });
  return some;
}

// mov.b64 d, {a, b, ...}: the first element is the least significant. Instr::aux is an element's width.
template <class T>
void pack(Warp& w, const Instr& i) {
  if (!written(w, i.op[1]) && moved_partly(w, i)) [[unlikely]]
    return;
  const unsigned width = unsigned(i.aux);
  Lanes sum{}, part;
  for (unsigned n = 0; n < i.op[1].count; ++n) {
    read_element(w, w.element(i.op[1], n), part.data());
    for_lanes(w.active, [&](unsigned l) { sum[l] |= (part[l] & low_bits(width)) << (n * width); });
  }
  auto* d = w.target<T>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) { d[l] = LaneOf<T>(sum[l]); });
}

// The pair that compilers emit most.
void pack_two_words(Warp& w, const Instr& i) {
  if (!written(w, i.op[1]) && moved_partly(w, i)) [[unlikely]]
    return;
  const auto* a = w.source<uint32_t>(w.element(i.op[1], 0));
  const auto* b = w.source<uint32_t>(w.element(i.op[1], 1));
  auto* d = w.target<uint64_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) { d[l] = a[l] | uint64_t(b[l]) << 32; });
}

template <class T>
void unpack(Warp& w, const Instr& i) {
  if (!written(w, i.op[1]) && moved_partly(w, i)) [[unlikely]]
    return;
  const unsigned width = unsigned(i.aux);
  const auto* a = w.source<T>(i.op[1]);
  for (unsigned n = 0; n < i.op[0].count; ++n) {
    const Operand& o = w.element(i.op[0], n);
    if (o.kind == Operand::Kind::sink) continue;
    if (width == 64) {
      auto* d = w.target<uint64_t>(o);
      for_lanes(w.active, [&](unsigned l) { d[l] = a[l]; });
    } else {
      auto* d = w.target<uint32_t>(o);
      for_lanes(w.active, [&](unsigned l) { d[l] = uint32_t((a[l] >> (n * width)) & low_bits(width)); });
    }
  }
}

// .b128 from and to elements of 64 or 32 bits; its register is two rows of 64 bits.
void pack_b128(Warp& w, const Instr& i) {
  const unsigned width = unsigned(i.aux);
  Lanes halves[2] = {}, part;
  for (unsigned n = 0; n < i.op[1].count; ++n) {
    read_element(w, w.element(i.op[1], n), part.data());
    const unsigned at = n * width;
    for_lanes(w.active, [&](unsigned l) { halves[at / 64][l] |= (part[l] & low_bits(width)) << (at % 64); });
  }
  uint64_t* d = w.target<uint64_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) { d[l] = halves[0][l], d[kLanes + l] = halves[1][l]; });
}
void unpack_b128(Warp& w, const Instr& i) {
  const unsigned width = unsigned(i.aux);
  const uint64_t* a = w.source<uint64_t>(i.op[1]);
  for (unsigned n = 0; n < i.op[0].count; ++n) {
    const Operand& o = w.element(i.op[0], n);
    if (o.kind == Operand::Kind::sink) continue;
    const unsigned at = n * width;
    const uint64_t* half = a + (at / 64) * kLanes;
    if (width == 64) {
      auto* d = w.target<uint64_t>(o);
      for_lanes(w.active, [&](unsigned l) { d[l] = half[l]; });
    } else {
      auto* d = w.target<uint32_t>(o);
      for_lanes(w.active, [&](unsigned l) { d[l] = uint32_t((half[l] >> (at % 64)) & low_bits(width)); });
    }
  }
}

// mov.v4 {a, b, c, d}, {e, f, g, h}: all elements are read before any is written. Instr::aux is an element's
// width.
void move_vector(Warp& w, const Instr& i) {
  if (!written(w, i.op[1]) && moved_partly(w, i)) [[unlikely]]
    return;
  Lanes part[4];
  for (unsigned n = 0; n < i.op[0].count; ++n) read_element(w, w.element(i.op[1], n), part[n].data());
  for (unsigned n = 0; n < i.op[0].count; ++n) {
    const Operand& o = w.element(i.op[0], n);
    if (o.kind == Operand::Kind::sink) continue;
    if (i.aux == 64) {
      auto* d = w.target<uint64_t>(o);
      for_lanes(w.active, [&](unsigned l) { d[l] = part[n][l]; });
    } else {
      auto* d = w.target<uint32_t>(o);
      for_lanes(w.active, [&](unsigned l) { d[l] = uint32_t(part[n][l] & low_bits(unsigned(i.aux))); });
    }
  }
}

template <class T>
void move_bits(Warp& w, const Instr& i) {
  if (!w.written(i.op[1]) && moved_partly(w, i)) [[unlikely]]
    return;
  const auto* a = w.source<T>(i.op[1]);
  auto* d = w.target<T>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) { d[l] = to_row<T>(from_row<T>(a[l])); });
}

void move_b128(Warp& w, const Instr& i) {
  const uint64_t* a = w.source<uint64_t>(i.op[1]);
  uint64_t* d = w.target<uint64_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) { d[l] = a[l], d[kLanes + l] = a[kLanes + l]; });
}

// The clocks do not model time: they count the warp's instructions, so they always advance, and leap when
// nothing else can run.
template <SpecialRegister kRegister>
void move_special(Warp& w, const Instr& i) {
  using R = SpecialRegister;
  const uint64_t now = w.cta.cluster.read_clock(w);
  if constexpr (kRegister == R::clock64 || kRegister == R::globaltimer) {
    auto* d = w.target<uint64_t>(i.op[0]);
    for_lanes(w.active, [&](unsigned l) { d[l] = now; });
  } else {
    constexpr bool kHigh = kRegister == R::clock_hi || kRegister == R::globaltimer_hi;
    auto* d = w.target<uint32_t>(i.op[0]);
    for_lanes(w.active, [&](unsigned l) { d[l] = uint32_t(kHigh ? now >> 32 : now); });
  }
  w.yield();  // a reader of the clock may be waiting for it
}

Body bind_special(const Instr& i, const Source& s) {
  using R = SpecialRegister;
  const auto r = static_cast<R>(i.op[1].index);
  const unsigned want = r == R::clock64 || r == R::globaltimer ? 64 : 32;
  if (bits_of(s.type()) != want) fail("mov.{} of a special register of {} bits", name_of(s.type()), want);
  switch (r) {
    case R::clock:
      return move_special<R::clock>;
    case R::clock64:
      return move_special<R::clock64>;
    case R::clock_hi:
      return move_special<R::clock_hi>;
    case R::globaltimer:
      return move_special<R::globaltimer>;
    case R::globaltimer_lo:
      return move_special<R::globaltimer_lo>;
    case R::globaltimer_hi:
      return move_special<R::globaltimer_hi>;
  }
  return nullptr;
}

}  // namespace

Body bind_mov_pred(Instr& i, const Source&) {
  if (i.op[1].kind == Operand::Kind::value)  // a special register: 0 or 1
    return [](Warp& w, const Instr& i) {
      const auto* a = w.source<uint32_t>(i.op[1]);
      uint32_t mask = 0;
      for_lanes(w.active, [&](unsigned l) { mask |= uint32_t(a[l] != 0) << l; });
      w.set_mask(i.op[0], mask);
    };
  return [](Warp& w, const Instr& i) { w.set_mask(i.op[0], w.mask(i.op[1])); };
}

Body bind_mov(Instr& i, const Source& s) {
  using Kind = Operand::Kind;
  const unsigned bits = bits_of(s.type());
  const bool packs = i.op[1].kind == Kind::vector, unpacks = i.op[0].kind == Kind::vector;
  if (const unsigned count = s.has("v2") ? 2 : s.has("v4") ? 4 : 0) {
    if (!packs || !unpacks || i.op[0].count != count || i.op[1].count != count || bits * count > 128)
      fail("mov.v{} moves {} elements, of 128 bits at most, to as many", count, count);
    i.aux = bits;
    return move_vector;
  }
  if (packs && unpacks) fail("mov of one vector to another needs .v2 or .v4");
  if (packs || unpacks) {
    const Operand& vector = i.op[packs ? 1 : 0];
    const bool untyped =
        s.type() == Type::b16 || s.type() == Type::b32 || s.type() == Type::b64 || s.type() == Type::b128;
    if (!untyped) fail("mov.{} takes no vector: mov.b{} does", name_of(s.type()), bits);
    if (vector.count < 2 || bits % vector.count || bits / vector.count < 8 || bits / vector.count > 64)
      fail("mov.{} cannot have {} elements", name_of(s.type()), vector.count);
    const unsigned width = bits / vector.count;
    if (vector.type != Type::none && bits_of(vector.type) != width)
      fail("mov.{} of {} elements takes elements of {} bits, they have {}", name_of(s.type()), vector.count,
           width, bits_of(vector.type));
    i.aux = width;
    if (bits == 128) return packs ? pack_b128 : unpack_b128;
    if (packs && width == 32 && bits == 64 && vector.type != Type::none) return pack_two_words;
    return with_bits(s.type(), [&](auto zero) -> Body {
      using T = decltype(zero);
      return packs ? pack<T> : unpack<T>;
    });
  }
  if (i.op[1].kind == Kind::special) return bind_special(i, s);
  if (i.op[1].kind == Kind::function) fail("the address of a function is not implemented (calls are direct)");
  if (bits == 128) return move_b128;
  return with_bits(s.type(), [](auto zero) -> Body { return move_bits<decltype(zero)>; });
}

}  // namespace fp4lab::emu
