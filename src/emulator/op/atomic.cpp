// atom and red (PTX ISA 9.7.13.5, 9.7.13.6). Lanes execute in lane order, each atomically; on global memory
// in the serial phase, so that no other cluster intervenes.
#include "emulator/op/atomic.h"

#include <algorithm>
#include <cstring>

#include "emulator/isa/opcode.h"
#include "emulator/op/addresses.h"
#include "emulator/op/half_value.h"
#include "emulator/op/rounding.h"

namespace fp4lab::emu {

namespace {

constexpr unsigned kMostElements = 8;  // of a vector
enum class Op : uint8_t { add, inc, dec, min, max, and_, or_, xor_, exch, cas };

struct Atomic {
  Space space = Space::generic;
  uint8_t count = 1;
  bool returns = true;  // atom; red has no destination
  bool serial = true;   // scope reaches beyond the cluster
};
static_assert(sizeof(Atomic) <= 8);
Atomic unpack(uint64_t bits) {
  Atomic a;
  std::memcpy(static_cast<void*>(&a), &bits, sizeof a);
  return a;
}

struct U128 {
  uint64_t low, high;
  bool operator==(const U128&) const = default;
};

// One element's update; T is its type in memory and registers.
template <class T, Op kOp>
struct Integer {
  using Cell = T;
  static T apply(T old, T b, T c, bool) {
    using U = std::make_unsigned_t<T>;
    switch (kOp) {
      case Op::add:
        return T(U(old) + U(b));
      case Op::inc:
        return old >= b ? T(0) : T(old + 1);
      case Op::dec:
        return old == 0 || old > b ? b : T(old - 1);
      case Op::min:
        return std::min(old, b);
      case Op::max:
        return std::max(old, b);
      case Op::and_:
        return T(old & b);
      case Op::or_:
        return T(old | b);
      case Op::xor_:
        return T(old ^ b);
      case Op::exch:
        return b;
      case Op::cas:
        return old == b ? c : old;
    }
  }
};
// atom.add.f32 on global memory flushes subnormals, on shared memory it does not.
struct AddFloat {
  using Cell = uint32_t;
  static uint32_t apply(uint32_t old, uint32_t b, uint32_t, bool global) {
    float x = std::bit_cast<float>(old), y = std::bit_cast<float>(b);
    if (global) x = flush(x), y = flush(y);
    const float sum = canonical(x + y);
    return std::bit_cast<uint32_t>(global ? flush(sum) : sum);
  }
};
// Of two NaNs the operand is the result; global memory keeps it unchanged, shared memory makes it quiet (seen
// on an H200).
struct AddDouble {
  using Cell = uint64_t;
  static uint64_t apply(uint64_t old, uint64_t b, uint64_t, bool global) {
    if (global) return sum_in_global(old, b);
    const double x = std::bit_cast<double>(old), y = std::bit_cast<double>(b), sum = x + y;
    if (sum == sum) return std::bit_cast<uint64_t>(sum);
    return std::bit_cast<uint64_t>(nan_of(y, x));
  }
};
// f16 and bf16 values, or pairs of them; .noftz keeps subnormals.
template <class H, Op kOp>
struct Halves {
  static uint16_t one(uint16_t old, uint16_t b) {
    if constexpr (kOp == Op::add) return H::nearest(add_to_odd(H::value(old), H::value(b)));
    return Extreme<kOp == Op::max, false, false, false, false>::template two<typename H::Bits>(old, b);
  }
};
template <class H, Op kOp>
struct HalfOne {
  using Cell = uint16_t;
  static uint16_t apply(uint16_t old, uint16_t b, uint16_t, bool) { return Halves<H, kOp>::one(old, b); }
};
template <class H, Op kOp>
struct HalfPair {
  using Cell = uint32_t;
  static uint32_t apply(uint32_t old, uint32_t b, uint32_t, bool) {
    return Halves<H, kOp>::one(uint16_t(old), uint16_t(b)) |
           uint32_t(Halves<H, kOp>::one(uint16_t(old >> 16), uint16_t(b >> 16))) << 16;
  }
};

// ptxas 13.0 uses the instruction for global memory for sums of f16x2 and bf16x2 in another CTA's shared
// memory, and an H200 adds 32-bit integers there (2026-11-22: atom and red, by shared and by generic
// addresses; the scalar forms are loops, and right).
template <class F>
constexpr bool kSumOfHalves =
    std::is_same_v<F, HalfPair<HalfValue, Op::add>> || std::is_same_v<F, HalfPair<BfloatValue, Op::add>>;
bool is_peers(const Warp& w, Space space, uint64_t address) {
  if (w.cta.cluster.grid.device.major != 9) return false;
  if (space == Space::generic && (address < kSharedWindow || address - kSharedWindow >= kWindowBytes))
    return false;
  return (space == Space::generic || space == Space::shared_cluster) &&
         (address >> kRankShift & 0xff) != w.cta.rank;
}

const Operand& element(Warp& w, const Operand& o, unsigned n) {
  return o.kind == Operand::Kind::vector ? w.element(o, n) : o;
}

// atom d, [a], b{, c} has its address in operand 1; red [a], b in operand 0.
template <class F, bool kCas>
void update(Warp& w, const Instr& i) {
  using T = typename F::Cell;
  const Atomic a = unpack(i.aux);
  const unsigned address = a.returns ? 1 : 0;
  const Addresses at(w, i.op[address]);
  const auto look = [&] { return look_of(w, i, a.space, at, sizeof(T) * a.count); };
  if (a.serial && !may_proceed(w, a.space, at)) {
    // Not for one that takes a lock: the lock may have been freed and taken again between two polls.
    if (a.returns && !kCas) w.group->wanted = look();
    return;
  }
  bool changed = false;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    const unsigned l = unsigned(std::countr_zero(lanes));
    std::byte* p = w.memory(i, a.space, AccessKind::atomic, at[l], sizeof(T) * a.count, l, true);
    const bool global = is_global(a.space, at[l]);
    T before[kMostElements];
    std::memcpy(before, p, a.count * sizeof(T));
    for (unsigned n = 0; n < a.count; ++n) {
      const T b = T(w.source<T>(element(w, i.op[address + 1], n))[l]);
      const T c = kCas ? T(w.source<T>(i.op[address + 2])[l]) : b;
      const T old = before[n];
      T now;
      if constexpr (kSumOfHalves<F>)
        now = is_peers(w, a.space, at[l]) ? old + b : F::apply(old, b, c, global);
      else
        now = F::apply(old, b, c, global);
      changed |= now != old;
      std::memcpy(p + n * sizeof(T), &now, sizeof(T));
    }
    if (!a.returns) continue;
    for (unsigned n = 0; n < a.count; ++n)  // after the operand's last use: it may be the same register
      w.target<T>(element(w, i.op[0], n))[l] = std::make_unsigned_t<T>(before[n]);
  }
  if (a.returns && !changed) w.saw(look());
}

template <bool kCas>
void update_b128(Warp& w, const Instr& i) {
  const Atomic a = unpack(i.aux);
  const Addresses at(w, i.op[1]);
  if (a.serial && !may_proceed(w, a.space, at)) return;
  const uint64_t* b = w.source<uint64_t>(i.op[2]);
  const uint64_t* c = kCas ? w.source<uint64_t>(i.op[3]) : b;
  uint64_t* d = w.target<uint64_t>(i.op[0]);
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    const unsigned l = unsigned(std::countr_zero(lanes));
    std::byte* p = w.memory(i, a.space, AccessKind::atomic, at[l], 16, l, true);
    U128 old;
    std::memcpy(&old, p, 16);
    const U128 given{b[l], b[kLanes + l]}, wanted{c[l], c[kLanes + l]};
    const U128 now = !kCas ? given : old == given ? wanted : old;
    std::memcpy(p, &now, 16);
    d[l] = old.low;
    d[kLanes + l] = old.high;
  }
}

Op op_of(const Source& s) {
  constexpr std::pair<std::string_view, Op> names[] = {
      {"add", Op::add},  {"inc", Op::inc}, {"dec", Op::dec},  {"min", Op::min},   {"max", Op::max},
      {"and", Op::and_}, {"or", Op::or_},  {"xor", Op::xor_}, {"exch", Op::exch}, {"cas", Op::cas},
  };
  for (const auto& [name, op] : names)
    if (s.has(name)) return op;
  fail("no operation among the modifiers");
}

template <class T>
Body integer_body(Op op) {
  switch (op) {
    case Op::add:
      return update<Integer<T, Op::add>, false>;
    case Op::inc:
      return update<Integer<T, Op::inc>, false>;
    case Op::dec:
      return update<Integer<T, Op::dec>, false>;
    case Op::min:
      return update<Integer<T, Op::min>, false>;
    case Op::max:
      return update<Integer<T, Op::max>, false>;
    case Op::and_:
      return update<Integer<T, Op::and_>, false>;
    case Op::or_:
      return update<Integer<T, Op::or_>, false>;
    case Op::xor_:
      return update<Integer<T, Op::xor_>, false>;
    case Op::exch:
      return update<Integer<T, Op::exch>, false>;
    case Op::cas:
      return update<Integer<T, Op::cas>, true>;
  }
  return nullptr;
}

template <class H>
Body half_body(Op op, bool pair) {
  switch (op) {
    case Op::min:
      return pair ? update<HalfPair<H, Op::min>, false> : update<HalfOne<H, Op::min>, false>;
    case Op::max:
      return pair ? update<HalfPair<H, Op::max>, false> : update<HalfOne<H, Op::max>, false>;
    default:
      return pair ? update<HalfPair<H, Op::add>, false> : update<HalfOne<H, Op::add>, false>;
  }
}

Body bind_update(Instr& i, const Source& s, bool returns) {
  Atomic a;
  a.space = space_of(s);
  a.count = s.has("v2") ? 2 : s.has("v4") ? 4 : s.has("v8") ? 8 : 1;
  if (s.has("L2::cache_hint") && a.space != Space::global && a.space != Space::generic)
    fail("a cache hint is for .global memory");
  a.returns = returns;
  a.serial = beyond_cluster(s);
  const Operand& value = i.op[returns ? 2 : 1];
  const unsigned given = value.kind == Operand::Kind::vector ? value.count : 1;
  if (given != a.count) fail("{} elements are given, but the modifiers say {}", given, a.count);
  std::memcpy(&i.aux, &a, sizeof a);
  const Op op = op_of(s);
  switch (s.type()) {
    case Type::b16:
      return integer_body<uint16_t>(op);
    case Type::b32:
    case Type::u32:
      return integer_body<uint32_t>(op);
    case Type::s32:
      return integer_body<int32_t>(op);
    case Type::b64:
    case Type::u64:
      return integer_body<uint64_t>(op);
    case Type::s64:
      return integer_body<int64_t>(op);
    case Type::b128:
      return op == Op::cas ? update_b128<true> : update_b128<false>;
    case Type::f32:
      return op == Op::exch ? integer_body<uint32_t>(op) : Body(update<AddFloat, false>);
    case Type::f64:
      return op == Op::exch ? integer_body<uint64_t>(op) : Body(update<AddDouble, false>);
    case Type::f16:
      return half_body<HalfValue>(op, false);
    case Type::f16x2:
      return half_body<HalfValue>(op, true);
    case Type::bf16:
      return half_body<BfloatValue>(op, false);
    case Type::bf16x2:
      return half_body<BfloatValue>(op, true);
    default:
      no_such_type(s.type());
  }
}

}  // namespace

uint64_t sum_in_global(uint64_t old, uint64_t operand) {
  const double x = std::bit_cast<double>(old), y = std::bit_cast<double>(operand), sum = x + y;
  return sum == sum ? std::bit_cast<uint64_t>(sum) : y != y ? operand : x != x ? old : kNan64;
}

Body bind_atom(Instr& i, const Source& s) { return bind_update(i, s, true); }
Body bind_atom_cas(Instr& i, const Source& s) { return bind_update(i, s, true); }
Body bind_atom_half(Instr& i, const Source& s) { return bind_update(i, s, true); }
Body bind_atom_vector(Instr& i, const Source& s) { return bind_update(i, s, true); }
Body bind_red(Instr& i, const Source& s) { return bind_update(i, s, false); }
// Its completion is only observable through release ordering, so it completes at once.
Body bind_red_async_release(Instr& i, const Source& s) { return bind_update(i, s, false); }
Body bind_red_half(Instr& i, const Source& s) { return bind_update(i, s, false); }
Body bind_red_vector(Instr& i, const Source& s) { return bind_update(i, s, false); }

}  // namespace fp4lab::emu
