// Accesses as the order checker hears of them: by whom, as part of what, and which earlier ones they meet.
#include <algorithm>
#include <bit>

#include "emulator/core/cta_state.h"
#include "emulator/watch/order_found.h"

namespace fp4lab::emu {

using namespace order;

void OrderChecker::visit(Cell& cell, const Actor& a, const Touch& now, const Place& place, bool map) {
  const bool write = now.is(Touch::write);
  bool written = write || place.kind != Place::Kind::shared;
  cell.each(now.mask, [&](Touch& before) {
    written |= before.is(Touch::write);
    if (write || before.is(Touch::write)) check(before, a, now, place, map);
  });
  if (write) cell.forget(now.mask);
  if (written) return cell.add(now);
  Touch blind = now;
  blind.blind = true;
  cell.add(blind);
}

void OrderChecker::range(const Actor& a, Touch now, Space space, const Cta* owner, uint64_t address,
                         uint32_t bytes, bool map) {
  if (notes_reads_ && space == Space::global && !now.is(Touch::write)) [[unlikely]]
    note_read(now, address, bytes);
  const uint8_t width = now.lanes && bytes < 16 ? static_cast<uint8_t>(bytes) : 0;
  while (bytes) {
    const uint32_t at = address % 16, n = std::min(bytes, 16 - at);
    now.mask = static_cast<uint16_t>(((1u << n) - 1) << at);
    now.width = n == width ? width : 0;
    if (now.lanes && !now.width) now.width = static_cast<uint8_t>(n);
    if (space == Space::shared) {
      CtaStateOf& cta = a.cluster->cta[owner->rank];
      const uint64_t index = address / 16;
      if (cta.shared && index < cta.shared_cells)
        visit(cta.shared[index], a, now, {Place::Kind::shared, owner, address - at}, map);
    } else {
      const uint64_t page = address / Global::kPage;
      const bool write = now.is(Touch::write);
      if (overlaps_) [[unlikely]]
        meet_past(a, now, address, n);
      if (write || global_->possible(page)) {
        Global::Shard& shard = global_->shard(page);
        std::lock_guard lock(shard.mutex);
        auto it = shard.pages.find(page);
        if (it == shard.pages.end() && write) {
          it = shard.pages.emplace(page, std::make_unique<Global::Page>()).first;
          global_->maybe[Global::hash(page)].store(1, std::memory_order_relaxed);
        }
        if (it != shard.pages.end())
          visit(it->second->cell[address % Global::kPage / 16], a, now,
                {Place::Kind::global, nullptr, address - at}, map);
      }
    }
    address += n;
    bytes -= n;
  }
}

void OrderChecker::access(const Access& a) {
  if (a.space != Space::shared && a.space != Space::global) return;
  if (!a.op) return generic(a);
  auto* s = static_cast<OpState*>(a.op->watched.get());
  if (!s || s->kind == OpKind::unknown) return;
  ClusterState& c = of(*a.op->cta);
  if (a.space == Space::global && a.kind == AccessKind::read && !overlaps_ && !notes_reads_ &&
      !global_->possible(a.address / Global::kPage) &&
      !global_->possible((a.address + a.bytes - 1) / Global::kPage))
    return;
  if (s->kind == OpKind::delivery) {
    s->delivered.push_back(a);
    return;
  }
  const bool write = a.kind != AccessKind::read;
  if (s->kind == OpKind::copy) {
    const OpState::Lane& lane = s->lanes[a.lane];
    const Actor by(c, lane, s->own + a.lane, s->own_time, lane.fenced);
    Touch now;
    now.time = lane.number;
    now.component = static_cast<uint16_t>(lane.stream);
    now.site = s->site, now.cluster = static_cast<uint32_t>(c.id), now.issuer = static_cast<uint16_t>(by.own);
    now.flags = static_cast<uint8_t>(Touch::copied | (write ? Touch::write : 0));
    return range(by, now, a.space, a.cta, a.address, a.bytes, false);
  }
  Touch now;
  now.layout = static_cast<uint8_t>(a.layout);
  now.time = s->number;
  now.component = static_cast<uint16_t>(s->kind == OpKind::bulk_store && write ? s->write_stream : s->stream);
  now.site = s->site, now.cluster = static_cast<uint32_t>(c.id), now.issuer = static_cast<uint16_t>(s->own);
  const bool map = a.proxy == Proxy::tensormap;
  now.flags =
      static_cast<uint8_t>(Touch::async | (write ? Touch::write : 0) | (map ? Touch::map : 0) |
                           (a.kind == AccessKind::atomic ? Touch::strong : 0) | (s->copy ? Touch::cp : 0));
  range(Actor(c, *s), now, a.space, a.cta, a.address, a.bytes, map);
}

// What a copy did becomes known with the phase of the mbarrier that counts its bytes.
void OrderChecker::deliver(OpState& s, ClusterState& c, uint32_t stream, uint32_t number) {
  const Actor by(c, s);
  for (const Access& a : s.delivered) {
    Touch now;
    now.layout = static_cast<uint8_t>(a.layout);
    now.time = number;
    now.component = static_cast<uint16_t>(stream);
    now.site = s.site, now.cluster = static_cast<uint32_t>(c.id), now.issuer = static_cast<uint16_t>(s.own);
    const bool map = a.proxy == Proxy::tensormap;
    now.flags =
        static_cast<uint8_t>(Touch::async | (a.kind != AccessKind::read ? Touch::write : 0) |
                             (map ? Touch::map : 0) | (a.kind == AccessKind::atomic ? Touch::strong : 0));
    range(by, now, a.space, a.cta, a.address, a.bytes, map);
  }
  s.delivered.clear();
}

void OrderChecker::generic(const Access& a) {
  ClusterState& c = of(a.warp->cta);
  WarpState& w = c.of(*a.warp);
  const ThreadState& t = w.thread[a.lane];
  if (a.strong) synchronise(a, w);
  Touch now;
  now.time = w.time;
  now.lanes = 1u << a.lane;
  now.component = static_cast<uint16_t>(w.base);
  now.site = site(*a.warp), now.cluster = static_cast<uint32_t>(c.id),
  now.issuer = static_cast<uint16_t>(w.base + a.lane);
  now.flags =
      static_cast<uint8_t>((a.kind != AccessKind::read ? Touch::write : 0) | (a.strong ? Touch::strong : 0));
  Actor by(c, t, w.base + a.lane);
  by.access = &a;
  range(by, now, a.space, a.cta, a.address, a.bytes, false);
  if (a.strong && a.kind != AccessKind::read) ++w.time;
}

void OrderChecker::tmem(const TmemAccess& a) {
  ClusterState& c = of(*a.cta);
  auto& cells = c.cta[a.cta->rank].tmem;
  if (!cells) cells = std::make_unique<Cell[]>(512);
  using What = TmemAccess::What;
  Touch now;
  now.cluster = static_cast<uint32_t>(c.id);
  now.flags = a.what == What::read ? 0 : Touch::write;
  const unsigned first = a.lane0 / 16, last = (a.lane0 + a.lanes + 15) / 16;
  now.mask = static_cast<uint16_t>(((1u << last) - 1) & ~((1u << first) - 1));
  const auto touches = [&](const Actor& by) {
    for (unsigned column = a.column0; column < a.column0 + a.columns && column < 512; ++column) {
      if (a.what == What::alloc) {
        cells[column].forget(0xffff);
        cells[column].add(now);
        continue;
      }
      visit(cells[column], by, now, {Place::Kind::tmem, a.cta, column}, false);
      if (a.what == What::dealloc) cells[column].forget(0xffff);
    }
  };
  if (a.op) {
    const auto* s = static_cast<const OpState*>(a.op->watched.get());
    if (!s || s->kind == OpKind::unknown) return;
    now.time = s->number;
    now.component = static_cast<uint16_t>(s->stream);
    now.site = s->site, now.issuer = static_cast<uint16_t>(s->own);
    now.flags |= Touch::async | (s->copy ? Touch::cp : 0);
    return touches(Actor(c, *s));
  }
  // tcgen05.alloc, dealloc: by the whole warp
  WarpState& w = c.of(*a.warp);
  const ThreadState& t = w.thread[static_cast<unsigned>(std::countr_zero(a.warp->active))];
  now.time = w.time;
  now.component = static_cast<uint16_t>(w.base), now.lanes = a.warp->active;
  now.flags |= Touch::collective;
  now.site = site(*a.warp), now.issuer = static_cast<uint16_t>(w.base);
  if (a.cta->state->tmem_group == 2 && (a.cta->rank ^ 1) < c.cta.size()) {
    if (a.what == What::alloc) pair_allocates(a, c, now), c.cta[a.cta->rank].pair_allocation = now;
    if (a.what == What::dealloc) pair_frees(a, c, now);
  }
  Actor by(c, t, w.base);
  by.after = &*t.after;
  touches(by);
}

}  // namespace fp4lab::emu
