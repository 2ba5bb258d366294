// An access against an earlier one of the same bytes: are they in order?
#include <bit>
#include <cstring>

#include "emulator/core/cta_state.h"
#include "emulator/isa/opcode.h"
#include "emulator/watch/order_found.h"

namespace fp4lab::emu {

using namespace order;

namespace {

bool behind_threads(const Touch& t, uint32_t lanes, const Actor& a, const Clock& clock, uint32_t own_time) {
  if (t.is(Touch::collective)) {
    bool any = false;
    for_lanes(lanes,
              [&](unsigned l) { any |= t.component + l == a.own || clock[t.component + l] >= t.time; });
    return any;
  }
  bool all = true;
  if (t.cluster != a.cluster->id) {
    for_lanes(lanes, [&](unsigned l) { all &= clock.of(t.cluster, t.component + l) >= t.time; });
    return all;
  }
  for_lanes(lanes, [&](unsigned l) {
    const uint32_t c = t.component + l;
    all &= (c == a.own ? own_time : clock[c]) >= t.time || (c == a.own && clock[c] >= t.time);
  });
  return all;
}

// What an ordinary store writes: f(element, its first lane's value, bytes from lane to lane, bytes of the
// element), until it returns false. Whether it never did; false for what is no ordinary store, or not known.
template <class F>
bool all_stored(const Access& a, F&& f) {
  const Instr& in = *a.warp->current();
  if (a.kind != AccessKind::write || a.strong || in.opcode->name != "st") return false;
  const Operand& value = in.op[1];
  const bool vector = value.kind == Operand::Kind::vector;
  const uint32_t count = vector ? value.count : 1;
  for (uint32_t n = 0; n < count; ++n) {
    const Operand& o = vector ? a.warp->element(value, n) : value;
    if (bits_of(o.type) > 64) return false;
    const auto* row = reinterpret_cast<const std::byte*>(a.warp->source<uint32_t>(o));
    if (!f(n, row, size_t(bits_of(o.type) == 64 ? 8 : 4), a.bytes / count)) return false;
  }
  return true;
}

bool stores_what_is_there(const Access& a, const Grid& grid) {
  const std::byte* there =
      a.space == Space::shared ? a.cta->shared.data() + a.address : grid.memory.host(a.address);
  return all_stored(a, [&](uint32_t n, const std::byte* row, size_t stride, uint32_t bytes) {
    return !std::memcmp(there + n * bytes, row + a.lane * stride, bytes);
  });
}

// Whether an ordinary store has another value in one of the lanes `lanes` than in the lane of `a`.
bool stores_otherwise(const Access& a, uint32_t lanes) {
  bool differs = false;
  all_stored(a, [&](uint32_t, const std::byte* row, size_t stride, uint32_t bytes) {
    for_lanes(lanes, [&](unsigned l) {
      differs |= std::memcmp(row + l * stride, row + a.lane * stride, bytes) != 0;
    });
    return true;
  });
  return differs;
}

}  // namespace

// Is `t` over before what somebody with the clock `v` does?
static bool behind(const Touch& t, uint32_t lanes, const Actor& a, const Clock& v, bool writes) {
  if (t.lanes) return behind_threads(t, lanes, a, v, a.own_time);
  if (t.cluster != a.cluster->id) return v.of(t.cluster, t.component) >= t.time;
  if (t.component == a.pipe()) return true;
  const StreamInfo& s = a.cluster->stream_of(t);
  return v[writes && s.kind == Stream::mbarrier ? s.other : t.component] >= t.time;
}

static bool in_cluster(const Touch& t, const Actor& a) { return t.cluster == a.cluster->id; }

// Two parts of one instruction: that its lanes write to the same place at once is theirs to know.
static bool same_instruction(const Touch& before, const Actor& a, const Touch& now) {
  if (before.site != now.site || before.time != now.time || before.cluster != now.cluster) return false;
  if (before.lanes) return before.component == now.component;
  // The halves of one tcgen05.ld or st (16x32bx2, whose halves may be the same columns).
  if (!now.lanes && in_cluster(before, a) && before.component == now.component) {
    const Stream kind = a.cluster->stream_of(now).kind;
    if (kind == Stream::tmem_load || kind == Stream::tmem_store) return true;
  }
  // So with what the lanes of a warp store asynchronously: CUTLASS's Blackwell epilogues have all 32 lanes
  // issue the same cp.async.bulk.tensor (the nth one of each lane).
  return !now.lanes && in_cluster(before, a) && before.is(Touch::write) && now.is(Touch::write) &&
         before.issuer / kLanes == now.issuer / kLanes &&
         a.cluster->stream_of(now).kind == Stream::bulk_write;
}

// A pair's two CTAs allocate together: neither warp returns before the other has come. So the other CTA
// knows of these columns, and so does who knows of the other CTA's (by a commit of its products, say).
static bool allocated_for(const Actor& a, const Place& place) {
  if (a.cluster->rank_of(a.own) != place.cta->rank) return true;
  const uint32_t peer = place.cta->rank ^ 1;
  if (peer >= a.cluster->cta.size()) return false;
  const Touch& t = a.cluster->cta[peer].pair_allocation;
  return t.time && behind(t, t.lanes, a, *a.v, true);
}

void OrderChecker::check(Touch& before, const Actor& a, const Touch& now, const Place& place, bool map) {
  if (before.is(Touch::strong) && now.is(Touch::strong)) return;
  if (same_instruction(before, a, now)) {
    if (before.is(Touch::write) && a.access &&
        stores_otherwise(*a.access, before.lanes_of(before.mask & now.mask)))
      found(Class::lanes, before, a, now, place);
    return;
  }
  if (before.is(Touch::collective) && allocated_for(a, place)) return;
  if (before.layout && now.layout && before.layout != now.layout && before.is(Touch::write) &&
      !now.is(Touch::write))
    found(Class::layout, before, a, now, place);
  const uint32_t lanes = before.lanes_of(before.mask & now.mask);
  const bool writes = now.is(Touch::write);
  if (!behind(before, lanes, a, *a.v, writes)) {
    if (!behind(before, lanes, a, *a.lax_v, writes)) return unordered(before, a, now, place);
    found(Class::scope, before, a, now, place);
  }
  if (place.kind == Place::Kind::tmem) return check_tensor_fences(before, a, now, place);
  if (!a.async() || (!before.lanes && !before.is(Touch::copied))) return;
  if (map) {
    if (!before.is(Touch::map_acquired)) found(Class::tensor_map, before, a, now, place);
    return;
  }
  check_proxy_fence(before, lanes, a, now, place);
}

// Is it a warpgroup's product that reads what another warp of the warpgroup knew to be there when it issued
// its part of the product: what it had stored, or a cp.async that it had waited for?
static bool known_to_warpgroup(const Touch& before, uint32_t lanes, const Actor& a) {
  if (!(before.lanes ? before.is(Touch::write) : before.is(Touch::copied)) || !in_cluster(before, a))
    return false;
  if (!a.op || a.op->kind != OpKind::wgmma) return false;
  const ClusterState& c = *a.cluster;
  const uint32_t theirs = (before.lanes ? before.component : before.issuer) / kLanes, mine = a.own / kLanes;
  if (theirs / c.warps != mine / c.warps || theirs % c.warps / 4 != mine % c.warps / 4) return false;
  const WarpState& w = *c.warp[theirs];
  const uint32_t number = a.op->number, kept = static_cast<uint32_t>(w.products.size());
  if (w.wgmmas < number || w.wgmmas >= number + kept) return false;
  const Clock& then = *w.products[number % kept];
  return before.lanes ? behind_threads(before, lanes, a, then, a.own_time)
                      : then[before.component] >= before.time;
}

// What the lanes of a warp had stored when they came to an elect.sync is there, on every machine, for what
// the warp issues behind it. DeepGEMM's paged and ragged logits have nothing else between the scale factors
// that all lanes store and the tcgen05.cp of the lane that is chosen.
bool OrderChecker::known_at_election(const Touch& before, const Actor& a, const Touch& now,
                                     const Place& place) {
  if (!before.lanes || !in_cluster(before, a) || before.component / kLanes != a.own / kLanes) return false;
  if (!a.async() || !a.op->elected.v) return false;
  Actor together(*a.cluster, a.op->elected, a.own, a.own_time, a.fenced);
  together.op = a.op;
  const uint32_t lanes = before.lanes_of(before.mask & now.mask);
  if (!behind_threads(before, lanes, together, *together.v, a.own_time)) return false;
  found(Class::elected, before, a, now, place);
  check_proxy_fence(before, lanes, together, now, place);
  return true;
}

// tcgen05.ld and tcgen05.st keep their order in the SM's quarter although no tcgen05.wait asks for it, and
// CUTLASS relies on it: its FMHA hands a store on before it is over, to a load of the same lanes or to who
// frees the columns; its stream-K loads what the same warp stores. The emulator keeps the second kind in
// order only where it is tolerant.
bool OrderChecker::tensor_memory_keeps_order(const StreamInfo& stream, const Touch& before, const Actor& a,
                                             const Touch& now) const {
  const bool load = a.op && a.op->kind == OpKind::tmem_load;
  if (a.own / kLanes == before.issuer / kLanes)
    return grid_->schedule.tolerant &&
           (stream.kind == Stream::tmem_load || stream.kind == Stream::tmem_store) &&
           (load || (a.op && a.op->kind == OpKind::tmem_store));
  return stream.issued && (load || now.is(Touch::collective)) &&
         ((*a.v)[stream.issued] >= before.time || (*a.lax_v)[stream.issued] >= before.time);
}

// A tensor map that the warp writes over while a copy that it has issued with it is under way: where the
// schedule is tolerant the copy uses the map as it was at issue. DeepGEMM's k-grouped kernels count on it.
bool OrderChecker::map_written_over(const Touch& before, const Actor& a, const Touch& now) const {
  if (!grid_->schedule.tolerant || !in_cluster(before, a)) return false;
  if (before.is(Touch::map)) return now.lanes && before.issuer / kLanes == a.own / kLanes;
  return now.is(Touch::map) && before.lanes && before.component / kLanes == a.own / kLanes &&
         a.own_time < before.time;
}

// Did a thread know, when it did `before`, that the operation `now` was issued? Then that is over too late
// for it.
static bool knew_issue(const Touch& before, const Actor& a, const Touch& now) {
  if (!before.lanes || now.lanes || !in_cluster(before, a)) return false;
  const WarpState& w = *a.cluster->warp[before.component / kLanes];
  const uint32_t lanes = before.lanes_of(before.mask & now.mask);
  if (!lanes) return false;
  const Clock* then = w.knew(static_cast<unsigned>(std::countr_zero(lanes)), before.time);
  return then && (*then)[a.own] >= a.own_time;
}

// Is the write `now` what the read `before` was to wait for, though it came first? It read what nobody had
// written, or waited for the mbarrier that counts the copy, but once more for a phase that it had seen.
static bool wants(const Touch& before, const Actor& a, const Touch& now) {
  if (before.is(Touch::write) || !now.is(Touch::write)) return false;
  if (before.blind) return true;
  if (now.lanes || !in_cluster(before, a) || !in_cluster(now, a)) return false;
  const StreamInfo& copy = a.cluster->stream_of(now);
  if (copy.kind != Stream::mbarrier) return false;
  const uint32_t until = before.lanes ? before.time : kForever;
  bool again = false;
  a.cluster->warp[before.issuer / kLanes]->waits.newest_first([&](const SyncPoint& p) {
    if (p.mbarrier != copy.id || p.cta != copy.cta || p.time > until) return false;
    again = p.again && p.phase + 1 < now.time;
    return true;
  });
  return again;
}

// No chain orders the two accesses.
void OrderChecker::unordered(const Touch& before, const Actor& a, const Touch& now, const Place& place) {
  if (before.is(Touch::collective)) return found(Class::alloc, before, a, now, place);
  if (before.is(Touch::write) && before.site == now.site && a.access &&
      stores_what_is_there(*a.access, *grid_))
    return found(Class::same_value, before, a, now, place);
  const bool cas = (traits_[before.site].before_cas && now.is(Touch::strong)) ||
                   (traits_[now.site].before_cas && before.is(Touch::strong));
  if (cas) return found(Class::before_cas, before, a, now, place);
  if (known_to_warpgroup(before, before.lanes_of(before.mask & now.mask), a))
    return found(Class::warpgroup, before, a, now, place);
  if (known_at_election(before, a, now, place)) return;
  const StreamInfo* stream = before.lanes || !in_cluster(before, a) ? nullptr : &a.cluster->stream_of(before);
  if (stream && tensor_memory_keeps_order(*stream, before, a, now))
    return found(a.own / kLanes == before.issuer / kLanes ? Class::own_wait : Class::store_wait, before, a,
                 now, place);
  // What the program does first is told first: a copy that is late was still issued before, and so was one of
  // which whoever read or wrote knew then that it was issued: not the issue lacks an order, but the
  // completion.
  const bool issued_before =
      wants(before, a, now) || knew_issue(before, a, now) ||
      (stream && stream->kind == Stream::pipe && a.op && a.op->sequence && a.op->sequence < before.time) ||
      (before.lanes && !now.lanes && in_cluster(before, a) && before.component / kLanes == a.own / kLanes &&
       a.own_time < before.time);
  const Class is = map_written_over(before, a, now) ? Class::map_reuse : Class::race;
  if (!issued_before) return found(is, before, a, now, place);
  Actor other = a;
  other.own = before.issuer, other.op = nullptr;
  other.own_time = before.lanes ? before.time : kForever;
  found(is, now, other, before, place);
}

// Accesses of tensor memory in order: with the tcgen05.fence that the manual asks for besides?
void OrderChecker::check_tensor_fences(const Touch& before, const Actor& a, const Touch& now,
                                       const Place& place) {
  if (before.lanes) return;
  if (before.component == a.pipe() && in_cluster(before, a)) {
    if (now.is(Touch::cp) && !before.is(Touch::cp) && !before.is(Touch::write) &&
        (*a.v)[before.component] < before.time)
      found(Class::cp_after_mma, before, a, now, place);
    return;
  }
  const StreamInfo& s = a.cluster->stream_of(before);
  const auto after_less = [&](uint32_t component) { return a.after && (*a.after)[component] < before.time; };
  if (s.kind == Stream::pipe) {
    if (after_less(before.component)) found(Class::tcgen05_fence, before, a, now, place);
  } else if (s.other && now.component != before.component) {
    // The same warp needs no fence.
    const uint32_t warp = a.own / kLanes, theirs = s.cta * a.cluster->warps + s.id;
    if (warp != theirs && ((*a.v)[s.other] < before.time || after_less(s.other)))
      found(Class::tcgen05_fence, before, a, now, place);
  }
}

void OrderChecker::check_proxy_fence(const Touch& before, uint32_t lanes, const Actor& a, const Touch& now,
                                     const Place& place) {
  const auto fenced = [&](const Clock& f) {
    return before.lanes ? behind_threads(before, lanes, a, f, a.fenced) : f[before.component] >= before.time;
  };
  if (fenced(*a.f) || fenced(*a.lax_f)) return;
  if (place.kind == Place::Kind::global && fenced(*a.g)) return;
  const Traits& first = traits_[before.site];
  const bool overwrites = now.is(Touch::write);
  const auto class_of = [&] {
    // tensormap.replace edits a map that is then copied from there (tensormap.cp_fenceproxy reads it), so
    // that the bytes are as good as read when they are filled by a copy again.
    if (!before.is(Touch::write) || (overwrites && first.map_edit)) return Class::proxy_after_read;
    // The manual calls the store of tcgen05.alloc a weak one (9.7.16.7.1) and leaves its proxy open. Kernels
    // that know that their tensor memory begins at 0 let it fall into the first tile's buffer.
    if (overwrites && first.alloc) return Class::proxy_after_alloc;
    return before.is(Touch::copied) && a.product() ? Class::proxy_of_copy : Class::proxy;
  };
  found(class_of(), before, a, now, place);
}

// fence.proxy.tensormap::generic.acquire [map], 128: from now on the tensor-map proxy sees the edits that are
// ordered before it.
void OrderChecker::fence_of_map(Warp& warp, const Instr& i) {
  ClusterState& c = of(warp.cta);
  WarpState& w = c.of(warp);
  for_lanes(warp.active, [&](unsigned l) {
    const ThreadState& t = w.thread[l];
    const Actor a(c, t, w.base + l);
    const uint64_t address = warp.address(i.op[0], l);
    const uint64_t page = address / Global::kPage;
    if (!global_->possible(page)) return;
    Global::Shard& shard = global_->shard(page);
    std::lock_guard lock(shard.mutex);
    const auto it = shard.pages.find(page);
    if (it == shard.pages.end()) return;
    for (uint64_t at = address; at < address + 128; at += 16)
      it->second->cell[at % Global::kPage / 16].each(0xffff, [&](Touch& before) {
        if (before.is(Touch::write) && before.lanes && behind(before, before.lanes, a, *a.v, false))
          before.flags |= Touch::map_acquired;
      });
  });
}

}  // namespace fp4lab::emu
