// Address instructions: cvta, isspacep, mapa, getctarank, and the hints that need no action here (PTX ISA
// 9.7.9.15 to 9.7.9.24).
#include <cmath>

#include "emulator/isa/opcode.h"
#include "emulator/op/addresses.h"

namespace fp4lab::emu {

namespace {

bool in_window(uint64_t address, uint64_t window) { return address - window < kWindowBytes; }

// The difference between an address in a space and its generic address; 0 for global.
uint64_t window_of(Space space, const Warp& w) {
  switch (space) {
    case Space::shared:
    case Space::shared_cluster:
      return kSharedWindow;
    case Space::local:
      return kLocalWindow;
    case Space::param:
      return kParamWindow;
    case Space::constant:
      return w.cta.cluster.grid.memory.constants();
    default:
      return 0;
  }
}

template <bool kTo>
void cvta(Warp& w, const Instr& i) {
  const uint64_t window = window_of(Space(i.aux), w);
  const auto* a = w.source<uint64_t>(i.op[1]);
  auto* d = w.target<uint64_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) { d[l] = kTo ? a[l] - window : a[l] + window; });
}

bool in_constant(const Module& module, uint64_t address) {
  for (const Symbol& s : module.symbols)
    if (s.space == Space::constant && address - s.address < s.size) return true;
  return false;
}

// isspacep.global is true outside all windows and constants, and for kernel parameters (the manual says so).
template <Space kSpace>
void isspacep(Warp& w, const Instr& i) {
  const auto* a = w.source<uint64_t>(i.op[1]);
  uint32_t holds = 0;
  for_lanes(w.active, [&](unsigned l) {
    const uint64_t x = a[l];
    bool in;
    if constexpr (kSpace == Space::global)
      in = !in_window(x, kSharedWindow) && !in_window(x, kLocalWindow) &&
           !in_constant(w.cta.cluster.grid.module, x);
    else if constexpr (kSpace == Space::shared)
      in = in_window(x, kSharedWindow) && (x - kSharedWindow) >> kRankShift == w.cta.rank;
    else if constexpr (kSpace == Space::shared_cluster)
      in = in_window(x, kSharedWindow) && (x - kSharedWindow) >> kRankShift < w.cta.cluster.ctas.size();
    else if constexpr (kSpace == Space::constant)
      in = in_constant(w.cta.cluster.grid.module, x);
    else
      in = in_window(x, kSpace == Space::local ? kLocalWindow : kParamWindow);
    holds |= uint32_t(in) << l;
  });
  w.set_mask(i.op[0], holds);
}

// mapa d, a, b: the address of a's offset in the CTA of rank b. The rank's low byte replaces bits 31:24, as
// in ptxas' code (PRMT). A rank that the cluster lacks faults only when the address is used: CUTLASS's launch
// control maps a barrier with each lane's number and lets only the lanes that name a CTA arrive.
template <class T, bool kGeneric>
void mapa(Warp& w, const Instr& i) {
  const auto* a = w.source<T>(i.op[1]);
  const auto* b = w.source<uint32_t>(i.op[2]);
  auto* d = w.target<T>(i.op[0]);
  constexpr uint64_t kRankMask = uint64_t(0xff) << kRankShift;
  for_lanes(w.active, [&](unsigned l) {
    if (kGeneric && !in_window(a[l], kSharedWindow))
      fault(FaultKind::illegal_address, l, "mapa of 0x{:x}, which is not in shared memory", a[l]);
    d[l] = LaneOf<T>((uint64_t(a[l]) & ~kRankMask) | (uint64_t(b[l]) << kRankShift & kRankMask));
  });
}

template <class T, bool kGeneric>
void getctarank(Warp& w, const Instr& i) {
  const auto* a = w.source<T>(i.op[1]);
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) {
    if (kGeneric && !in_window(a[l], kSharedWindow))
      fault(FaultKind::illegal_address, l, "getctarank of 0x{:x}, which is not in shared memory", a[l]);
    d[l] = uint32_t(a[l] >> kRankShift) & 0xff;
  });
}

// Operands are still read, so that an undefined address faults.
void hint(Warp& w, const Instr& i) { static_cast<void>(Addresses(w, i.op[0])); }

}  // namespace

Body bind_cvta(Instr& i, const Source& s) {
  i.aux = uint64_t(space_of(s));
  return s.has("to") ? cvta<true> : cvta<false>;
}
Body bind_cvta_to(Instr& i, const Source& s) { return bind_cvta(i, s); }

Body bind_isspacep(Instr&, const Source& s) {
  switch (space_of(s)) {
    case Space::global:
      return isspacep<Space::global>;
    case Space::shared:
      return isspacep<Space::shared>;
    case Space::shared_cluster:
      return isspacep<Space::shared_cluster>;
    case Space::local:
      return isspacep<Space::local>;
    case Space::param:
      return isspacep<Space::param>;
    default:
      return isspacep<Space::constant>;
  }
}

// Generic addresses have 64 bits. ptxas 13.0 treats a 32-bit one as an address in shared memory.
Body bind_mapa(Instr&, const Source& s) {
  if (bits_of(s.type()) == 32) return mapa<uint32_t, false>;
  return s.has("shared::cluster") ? mapa<uint64_t, false> : mapa<uint64_t, true>;
}

Body bind_getctarank(Instr&, const Source& s) {
  if (bits_of(s.type()) == 32) return getctarank<uint32_t, false>;
  return s.has("shared::cluster") ? getctarank<uint64_t, false> : getctarank<uint64_t, true>;
}

Body bind_prefetch(Instr&, const Source& s) {
  if (s.has("local") && (s.has("L2::evict_last") || s.has("L2::evict_normal")))
    fail("eviction priorities are for .global");
  return hint;
}
Body bind_prefetchu(Instr&, const Source&) { return hint; }
Body bind_prefetch_tensormap(Instr&, const Source&) { return hint; }
namespace {
Body hint_of_a_line(const Instr& i) {
  if (i.op[1].displacement != 128) fail("the size must be 128, not {}", i.op[1].displacement);
  return hint;
}
}  // namespace
Body bind_applypriority(Instr& i, const Source&) { return hint_of_a_line(i); }
// After a discard reads may return anything; here memory is unchanged.
Body bind_discard(Instr& i, const Source&) { return hint_of_a_line(i); }

// createpolicy.fractional: cache policies are opaque words that only hints use. The word's layout (seen on an
// H200): 0x10, plus twice the primary priority's number, plus one for a secondary evict_first; below it the
// fraction in sixteenths, less one.
namespace {

uint64_t policy_of(const Source& s) {
  constexpr std::string_view names[] = {"L2::evict_unchanged", "L2::evict_first", "L2::evict_last",
                                        "L2::evict_normal"};
  std::vector<unsigned> priorities;
  for (const std::string_view t : s.tokens)
    for (unsigned n = 0; n < std::size(names); ++n)
      if (t == names[n]) priorities.push_back(n);
  return 0x10 + 2 * priorities.at(0) + (priorities.size() > 1 && priorities[1] == 1);
}

}  // namespace

Body bind_createpolicy(Instr& i, const Source& s) {
  i.aux = policy_of(s);
  return [](Warp& w, const Instr& i) {
    const auto* f = i.op[1] ? w.source<float>(i.op[1]) : nullptr;
    auto* d = w.target<uint64_t>(i.op[0]);
    for_lanes(w.active, [&](unsigned l) {
      const float fraction = f ? from_row<float>(f[l]) : 1.0f;
      if (!(fraction > 0 && fraction <= 1))
        fault(FaultKind::misuse, l, "createpolicy with the fraction {}, which is not in (0, 1]", fraction);
      d[l] = i.aux << 56 | (uint64_t(std::ceil(16 * fraction)) - 1) << 52;
    });
  };
}

// The layout of the range's bits is unknown; the word only contains the priorities.
Body bind_createpolicy_range(Instr& i, const Source& s) {
  i.aux = policy_of(s);
  return [](Warp& w, const Instr& i) {
    const auto* primary = w.source<uint32_t>(i.op[2]);
    const auto* total = w.source<uint32_t>(i.op[3]);
    auto* d = w.target<uint64_t>(i.op[0]);
    for_lanes(w.active, [&](unsigned l) {
      if (primary[l] > total[l])
        fault(FaultKind::misuse, l, "createpolicy.range: the primary size {} is more than the total {}",
              primary[l], total[l]);
      d[l] = i.aux << 56;
    });
  };
}
// Access properties of the CUDA API are cache policies already.
Body bind_createpolicy_cvt(Instr&, const Source&) {
  return map1<uint64_t>([](uint64_t property) { return property; });
}

}  // namespace fp4lab::emu
