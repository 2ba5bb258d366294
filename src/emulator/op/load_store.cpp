// ld, ldu, ld.global.nc and st (PTX ISA 9.7.9.8 to 9.7.9.11). Cache operators, eviction priorities, prefetch
// sizes and cache policies are hints: they change nothing here.
#include <algorithm>
#include <cstring>

#include "emulator/isa/opcode.h"
#include "emulator/op/addresses.h"

namespace fp4lab::emu {

namespace {

// Decoded modifiers, in Instr::aux.
struct Transfer {
  Space space = Space::generic;
  uint8_t element = 4;  // bytes of one element
  uint8_t count = 1;    // elements
  bool sign = false;    // sign-extend into a wider register
  bool strong = false;  // volatile, relaxed or stronger
  bool serial = false;  // strong, and its scope reaches beyond the cluster
};
static_assert(sizeof(Transfer) <= 8);

Transfer unpack(uint64_t bits) {
  Transfer a;
  std::memcpy(static_cast<void*>(&a), &bits, sizeof a);
  return a;
}

bool has_any(const Source& s, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view w) { return s.has(w); });
}

// Modifiers that exclude each other (according to ptxas 13.0; the manual has prose only).
void check_modifiers(const Source& s) {
  const Space space = space_of(s);
  const bool global = space == Space::global || space == Space::generic;
  const bool shared = space == Space::shared || space == Space::shared_cluster;
  const bool cached = has_any(s, {"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  bool level1 = false, prefetch = false;
  for (const std::string_view t : s.tokens) {
    level1 |= t.starts_with("L1::");
    prefetch |= t == "L2::64B" || t == "L2::128B" || t == "L2::256B";
  }
  const bool strong = is_strong(s), mmio = s.has("mmio"), hint = s.has("L2::cache_hint");
  if (strong && !global && (!shared || mmio)) fail("this memory is private or constant: .weak only");
  if (strong && cached) fail("a cache operator is for .weak accesses only");
  if (mmio && has_any(s, {"v2", "v4", "v8"})) fail(".mmio has no vectors");
  if (s.has("nc") && (space != Space::global || strong || has_any(s, {"weak", "lu", "cv"})))
    fail(".nc is for .global, with nothing but .ca, .cg or .cs before it");
  if ((level1 || hint || prefetch) && !global)
    fail("eviction priorities, hints and prefetches are for .global");
  if (level1 && cached) fail("a cache operator and an eviction priority exclude each other");
  if ((level1 || hint || (prefetch && mmio)) && (mmio || s.has("volatile")))
    fail("eviction priorities and hints are not for .volatile and .mmio");
}

Transfer decode(Instr& i, const Source& s, const Operand& value) {
  check_modifiers(s);
  Transfer a;
  const Type t = s.type();
  a.space = space_of(s);
  a.element = uint8_t(bits_of(t) / 8);
  a.count = s.has("v2") ? 2 : s.has("v4") ? 4 : s.has("v8") ? 8 : 1;
  a.sign = t == Type::s8 || t == Type::s16 || t == Type::s32;
  a.strong = is_strong(s);
  a.serial = a.strong && beyond_cluster(s);
  const unsigned given = value.kind == Operand::Kind::vector ? value.count : 1;
  if (given != a.count) fail("{} elements are given, but the modifiers say {}", given, a.count);
  const bool wide = i.opcode && i.opcode->target == 100;  // ld_wide, st_wide
  if (a.element * a.count > (wide ? 32 : 16))
    fail("{} elements of .{} are too many bytes", a.count, name_of(t));
  if (wide && a.space != Space::global && a.space != Space::generic) fail("32 bytes are for .global");
  std::memcpy(&i.aux, &a, sizeof a);
  return a;
}

// The operands of the elements: those of the vector, or the operand itself.
const Operand& element(Warp& w, const Operand& o, unsigned n) {
  return o.kind == Operand::Kind::vector ? w.element(o, n) : o;
}

// A register row as the destination of values of T: wider registers are sign- or zero-extended.
template <class T, bool kSign>
void put(std::byte* row, bool wide, bool half, unsigned lane, T v) {
  using S = std::make_signed_t<T>;
  const uint64_t full = kSign ? uint64_t(int64_t(S(v))) : uint64_t(v);
  if (wide) {
    reinterpret_cast<uint64_t*>(row)[lane] = full;
  } else {
    // In a 16-bit register a loaded byte is extended to 16 bits, which are zero-extended in the row.
    reinterpret_cast<uint32_t*>(row)[lane] = half ? uint16_t(full) : uint32_t(full);
  }
}

template <class T, unsigned kCount, bool kSign>
void load(Warp& w, const Instr& i) {
  const Transfer a = unpack(i.aux);
  const Addresses at(w, i.op[1]);
  if (a.serial && !may_proceed(w, a.space, at)) {
    w.group->wanted = look_of(w, i, a.space, at, sizeof(T) * kCount);
    return;
  }
  std::byte* rows[kCount];
  bool wide[kCount], half[kCount];
  for (unsigned n = 0; n < kCount; ++n) {
    const Operand& o = element(w, i.op[0], n);
    wide[n] = bits_of(o.type) == 64;
    half[n] = sizeof(T) == 1 && bits_of(o.type) == 16;
    rows[n] = reinterpret_cast<std::byte*>(w.target<uint32_t>(o));
    if (o.kind == Operand::Kind::sink) wide[n] = sizeof(T) == 8;
  }
  uint64_t address[kLanes];
  at.all(w.active, address);
  const Warp::Places places = w.memory(i, a.space, AccessKind::read, address, sizeof(T) * kCount, a.strong);
  // `place(lane)` gives the address of a lane's elements: a callable that the compiler inlines.
  auto fetch = [&](auto place) {
    for (unsigned n = 0; n < kCount; ++n)
      for_lanes(w.active, [&, row = rows[n], is_wide = wide[n], is_half = half[n]](unsigned l) {
        T v;
        std::memcpy(&v, place(l) + n * sizeof(T), sizeof v);
        put<T, kSign>(row, is_wide, is_half, l, v);
      });
  };
  switch (places.shape) {
    case Warp::Places::Shape::row:
      fetch([first = places.first](unsigned l) { return first + l * sizeof(T) * kCount; });
      break;
    case Warp::Places::Shape::same:
      fetch([first = places.first](unsigned) { return first; });
      break;
    case Warp::Places::Shape::scattered:
      fetch([&](unsigned l) { return places.host[l]; });
  }
  // A strong load is often a poll: let others run.
  if (a.strong) {
    w.saw(look_of(w, i, a.space, at, sizeof(T) * kCount));
    w.yield();
  }
}

template <class T, unsigned kCount>
void store(Warp& w, const Instr& i) {
  const Transfer a = unpack(i.aux);
  const Addresses at(w, i.op[0]);
  if (a.serial && !may_proceed(w, a.space, at)) return;
  const std::byte* rows[kCount];
  unsigned stride[kCount];
  for (unsigned n = 0; n < kCount; ++n) {
    const Operand& o = element(w, i.op[1], n);
    stride[n] = bits_of(o.type) == 64 ? 8 : 4;
    // The register may be wider than the stored value (st.u32 of a .b64: nvcc leaves its upper word
    // unwritten).
    constexpr uint8_t kStored = sizeof(T) < 8 ? (1u << sizeof(T)) - 1 : 0xff;
    rows[n] = reinterpret_cast<const std::byte*>(w.source_bytes<uint32_t>(o, kStored));
  }
  uint64_t address[kLanes];
  at.all(w.active, address);
  const Warp::Places places = w.memory(i, a.space, AccessKind::write, address, sizeof(T) * kCount, a.strong);
  // In lane order, so that the highest of the lanes that write the same bytes wins.
  auto put_all = [&](auto place) {
    for_lanes(w.active, [&](unsigned l) {
      for (unsigned n = 0; n < kCount; ++n)
        std::memcpy(place(l) + n * sizeof(T), rows[n] + l * stride[n], sizeof(T));
    });
  };
  switch (places.shape) {
    case Warp::Places::Shape::row:
      if (kCount == 1 && stride[0] == sizeof(T))
        std::memcpy(places.first, rows[0], kLanes * sizeof(T));
      else
        put_all([first = places.first](unsigned l) { return first + l * sizeof(T) * kCount; });
      break;
    case Warp::Places::Shape::same:
      for (unsigned n = 0; n < kCount; ++n)
        std::memcpy(places.first + n * sizeof(T), rows[n] + (kLanes - 1) * stride[n], sizeof(T));
      break;
    case Warp::Places::Shape::scattered:
      put_all([&](unsigned l) { return places.host[l]; });
  }
}

// .b128: one register of two 64-bit rows, the low half first.
void load_b128(Warp& w, const Instr& i) {
  const Transfer a = unpack(i.aux);
  const Addresses at(w, i.op[1]);
  if (a.serial && !may_proceed(w, a.space, at)) return;
  uint64_t* d = w.target<uint64_t>(i.op[0]);
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    const unsigned l = unsigned(std::countr_zero(lanes));
    const std::byte* p = w.memory(i, a.space, AccessKind::read, at[l], 16, l, a.strong);
    std::memcpy(&d[l], p, 8);
    std::memcpy(&d[kLanes + l], p + 8, 8);
  }
}
void store_b128(Warp& w, const Instr& i) {
  const Transfer a = unpack(i.aux);
  const Addresses at(w, i.op[0]);
  if (a.serial && !may_proceed(w, a.space, at)) return;
  const uint64_t* v = w.source<uint64_t>(i.op[1]);
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    const unsigned l = unsigned(std::countr_zero(lanes));
    std::byte* p = w.memory(i, a.space, AccessKind::write, at[l], 16, l, a.strong);
    std::memcpy(p, &v[l], 8);
    std::memcpy(p + 8, &v[kLanes + l], 8);
  }
}

template <class F>
Body with_count(unsigned count, F make) {
  switch (count) {
    case 2:
      return make(std::integral_constant<unsigned, 2>{});
    case 4:
      return make(std::integral_constant<unsigned, 4>{});
    case 8:
      return make(std::integral_constant<unsigned, 8>{});
    default:
      return make(std::integral_constant<unsigned, 1>{});
  }
}

Body bind_load(Instr& i, const Source& s) {
  const Transfer a = decode(i, s, i.op[0]);
  if (a.element == 16) return load_b128;
  return with_bits(s.type(), [&](auto zero) {
    using T = decltype(zero);
    return with_count(a.count, [&](auto count) -> Body {
      constexpr unsigned kCount = decltype(count)::value;
      return a.sign ? load<T, kCount, true> : load<T, kCount, false>;
    });
  });
}

}  // namespace

Body bind_ld(Instr& i, const Source& s) { return bind_load(i, s); }
Body bind_ld_wide(Instr& i, const Source& s) { return bind_load(i, s); }
Body bind_ldu(Instr& i, const Source& s) { return bind_load(i, s); }

Body bind_st(Instr& i, const Source& s) {
  const Transfer a = decode(i, s, i.op[1]);
  if (a.element == 16) return store_b128;
  return with_bits(s.type(), [&](auto zero) {
    using T = decltype(zero);
    return with_count(a.count, [](auto count) -> Body { return store<T, decltype(count)::value>; });
  });
}

Body bind_st_wide(Instr& i, const Source& s) { return bind_st(i, s); }
// Its completion is only observable through release ordering, so it completes at once.
Body bind_st_async_release(Instr& i, const Source& s) { return bind_st(i, s); }

// st.bulk: zeros over a region of shared memory.
Body bind_st_bulk(Instr& i, const Source& s) {
  if (i.op[2].displacement != 0) fail("st.bulk writes zeros only, not {}", i.op[2].displacement);
  if (const int64_t size = i.op[1].displacement;
      i.op[1].immediate && (size % 8 || size < 0 || size > 1 << 24))
    fail("the size {} is not a multiple of 8 up to {}", size, 1 << 24);
  i.aux = uint64_t(s.has("shared::cta") ? Space::shared : Space::generic);
  return [](Warp& w, const Instr& i) {
    const Addresses at(w, i.op[0]);
    const bool wide = bits_of(i.op[1].type) == 64;
    const auto* narrow_size = wide ? nullptr : w.source<uint32_t>(i.op[1]);
    const auto* wide_size = wide ? w.source<uint64_t>(i.op[1]) : nullptr;
    for_lanes(w.active, [&](unsigned l) {
      const uint64_t size = wide ? wide_size[l] : narrow_size[l];
      if (size % 8 || size > 16777216)
        fault(FaultKind::misuse, l, "st.bulk of {} bytes: must be a multiple of 8 up to 16777216", size);
      for (uint64_t n = 0; n < size; n += 8)
        std::memset(w.memory(i, Space(i.aux), AccessKind::write, at[l] + n, 8, l), 0, 8);
    });
  };
}

}  // namespace fp4lab::emu
