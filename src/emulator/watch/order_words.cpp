// What is wrong between two accesses, and what would have ordered them: the words for each class of findings.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/core/mbarrier.h"
#include "emulator/core/place.h"
#include "emulator/watch/order_found.h"

namespace fp4lab::emu {

using namespace order;

namespace {

const char* verb(const Touch& t) { return t.is(Touch::write) ? "written" : "read"; }
uint32_t first_thread(const Touch& t) {
  return t.component + static_cast<uint32_t>(std::countr_zero(t.lanes));
}
constexpr const char* kShipped = "shipped kernels are known to do without";
// By Layout:
constexpr const char* kSwizzles[] = {"?",
                                     "no swizzle",
                                     "32-byte swizzle",
                                     "64-byte swizzle",
                                     "128-byte swizzle",
                                     "128-byte swizzle with 32-byte atoms",
                                     "another swizzle"};

}  // namespace

// The edge that would have ordered `before` in front of what the actor does.
std::string OrderChecker::missing(const Touch& before, const Actor& a, const Touch& now) const {
  const ClusterState& c = *a.cluster;
  const std::string here = "what " + thread_name(c, now.lanes ? first_thread(now) : now.issuer) +
                           (now.lanes ? " does" : " issues");
  if (before.cluster != c.id)
    return fmt::format(
        "a release of .gpu scope (fence.acq_rel.gpu and a flag, atom.acq_rel.gpu) by cluster {} after its "
        "access, and an acquire of the same flag before {}",
        before.cluster, here);
  return before.lanes ? missing_between_threads(before, a, now, here)
                      : missing_behind_operation(before, a, now, here);
}

std::string OrderChecker::missing_between_threads(const Touch& before, const Actor& a, const Touch& now,
                                                  const std::string& here) const {
  const ClusterState& c = *a.cluster;
  const uint32_t first = first_thread(before);
  if (!now.lanes && now.issuer == first)
    return "the thread itself touched the bytes again while its own operation was under way";
  const uint32_t theirs = before.component / kLanes, mine = a.own / kLanes;
  if (theirs == mine) return fmt::format("bar.warp.sync between {} and {}", thread_name(c, first), here);
  if (theirs / c.warps == mine / c.warps)
    return fmt::format(
        "a barrier (bar.sync, or an mbarrier that warp {} arrives on and warp {} waits for) between the "
        "access by {} and {}{}",
        theirs % c.warps, mine % c.warps, thread_name(c, first), here, passed_again(c, a, now));
  return fmt::format(
      "a cluster barrier, or mbarrier.arrive.release.cluster by {} and a wait with .acquire.cluster (the "
      "default scope .cta does not reach the other CTA), before {}",
      thread_name(c, first), here);
}

// Where the warp waited for the mbarrier, but for an earlier phase.
std::string OrderChecker::waited_instead(const StreamInfo& s, uint32_t phase, const Actor& a,
                                         const Touch& now) const {
  const WarpState& w = *a.cluster->warp[a.own / kLanes];
  const uint32_t until = now.lanes ? now.time : a.own_time;
  const SyncPoint* wait = nullptr;
  w.waits.newest_first([&](const SyncPoint& p) {
    if (p.mbarrier == s.id && p.cta == s.cta && p.time <= until) wait = &p;
    return wait != nullptr;
  });
  if (!wait || (wait->phase != kNoPhase && wait->phase >= phase)) return {};
  const std::string seen = wait->phase == kNoPhase
                               ? "which the phase before the first has"
                               : fmt::format("which phase {} has{}", wait->phase,
                                             wait->again ? ", that it had waited for before" : "");
  return fmt::format(
      "; wrong parity: warp {} waited for it at line {}, with parity {}, {}{}, while phase {} has parity {}",
      a.own / kLanes % a.cluster->warps, line_of(wait->site), wait->phase & 1, seen,
      wait->at_once ? ": it passed at once" : "", phase, phase & 1);
}

// Where the warp's last wait for an mbarrier was for a phase that it had seen end: it held nobody back.
std::string OrderChecker::passed_again(const ClusterState& c, const Actor& a, const Touch& now) const {
  const uint32_t until = now.lanes ? now.time : a.own_time;
  const SyncPoint* wait = nullptr;
  c.warp[a.own / kLanes]->waits.newest_first([&](const SyncPoint& p) {
    if (p.mbarrier != kForever && p.time <= until) wait = &p;
    return wait != nullptr;
  });
  if (!wait || !wait->again) return {};
  return fmt::format(
      "; wrong parity? the last wait of warp {}, line {} for the mbarrier at {:#x} with parity {}, got {}",
      a.own / kLanes % c.warps, line_of(wait->site), wait->mbarrier, wait->phase & 1,
      wait->phase == kNoPhase ? "the phase before the first, once more"
                              : fmt::format("phase {}, which it had seen before", wait->phase));
}

// The first wait_group behind the operation's commit that lets its group be under way; or that nobody
// committed it.
std::string OrderChecker::group_waits(const ClusterState& c, const Touch& operation, bool bulk) const {
  const auto& threads = bulk ? c.bulk : c.copies;
  const auto it = threads.find(operation.issuer);
  if (it == threads.end()) return {};
  const BulkThread& b = it->second;
  const auto group = std::ranges::lower_bound(b.groups, operation.time);
  if (group == b.groups.end()) return "; no commit_group after it yet";
  const auto index = static_cast<uint32_t>(group - b.groups.begin());
  const auto size = static_cast<uint32_t>(b.waited.size());
  for (uint32_t k = b.waits > size ? b.waits - size : 0; k < b.waits; ++k) {
    const BulkThread::GroupWait& w = b.waited[k % size];
    if (w.committed <= index) continue;
    const uint32_t newer = w.committed - 1 - index;
    if (w.newest <= newer) return {};
    return fmt::format(
        "; line {} waits until at most {} groups are under way, and only {} had been committed after this "
        "one: "
        "wait_group {} is needed there",
        line_of(w.site), w.newest, newer, newer);
  }
  return "; no wait_group after its commit_group";
}

std::string OrderChecker::missing_behind_operation(const Touch& before, const Actor& a, const Touch& now,
                                                   const std::string& here) const {
  const ClusterState& c = *a.cluster;
  const StreamInfo& s = c.stream_of(before);
  const std::string cta = c.ctas > 1 ? " of " + cta_name(c.id, s.cta) : "";
  switch (s.kind) {
    case Stream::mbarrier:
      if (now.is(Touch::write) && !now.lanes)
        return fmt::format(
            "a wait until the buffer has been read, before {}: the copy before it is still on its way, or "
            "not read yet "
            "(an mbarrier that the readers arrive on; at least phase {} of the mbarrier at {:#x}{}, "
            "which counts "
            "that copy's bytes){}",
            here, before.time - 1, s.id, cta, passed_again(c, a, now));
      return fmt::format(
          "a wait for phase {} of the mbarrier at {:#x}{}, which counts the copy's bytes, before {}{}{}",
          before.time - 1, s.id, cta, here,
          c.rank_of(a.own) == s.cta
              ? ""
              : " (when a thread of the other CTA waits: then mbarrier.arrive.release.cluster by it and a "
                "wait with .acquire.cluster; the default scope .cta does not reach the other CTA)",
          waited_instead(s, before.time - 1, a, now));
    case Stream::pipe:
      return fmt::format(
          "tcgen05.commit by {} after it, and a wait for the mbarrier that it arrives on, before {}",
          thread_name(c, before.issuer), here);
    case Stream::bulk_read:
      return fmt::format(
          "cp.async.bulk.wait_group.read by {} (then a barrier, if another thread continues), before {}{}",
          thread_name(c, before.issuer), here, group_waits(c, before, true));
    case Stream::bulk_write:
      return fmt::format(
          "cp.async.bulk.wait_group by {} (then a barrier, if another thread continues), before {}{}",
          thread_name(c, before.issuer), here, group_waits(c, before, true));
    case Stream::copy:
      return fmt::format(
          "cp.async.wait_group (or cp.async.mbarrier.arrive and a wait for that mbarrier) by {} after its "
          "copy, then a barrier if another thread goes on, before {}{}",
          thread_name(c, before.issuer), here, group_waits(c, before, false));
    case Stream::wgmma:
      return fmt::format(
          "wgmma.wait_group by warp {}{} after the wgmma's commit_group (then an arrive or a barrier, if "
          "another thread continues), before {}",
          s.id, cta, here);
    case Stream::tmem_load:
    case Stream::tmem_store: {
      const WarpState& w = *c.warp[s.cta * c.warps + s.id];
      const bool load = s.kind == Stream::tmem_load;
      const char* wait = load ? "tcgen05.wait::ld" : "tcgen05.wait::st";
      if ((load ? w.loads_waited : w.stores_waited) < before.time)
        return fmt::format("{} by warp {}{} after it (and then an arrive or a barrier), before {}", wait,
                           s.id, cta, here);
      return fmt::format("an arrive or a barrier by warp {}{} after its {}, that reaches {}", s.id, cta, wait,
                         here);
    }
    default:
      return "an ordering edge";
  }
}

// Which bytes or columns both touch, and whose.
std::string OrderChecker::place_text(Class k, const Touch& before, const Touch& now,
                                     const Place& place) const {
  const std::string cta = place.cta ? " of " + place.cta->name() : "";
  if (k == Class::init || k == Class::init_relaxed || k == Class::init_fence || k == Class::init_barrier)
    return fmt::format("the mbarrier at {:#x}{}", place.address, cta);
  const auto both = static_cast<uint16_t>(before.mask & now.mask);
  const unsigned low = static_cast<unsigned>(std::countr_zero(both)),
                 high = 16 - static_cast<unsigned>(std::countl_zero(both));
  if (place.kind == Place::Kind::tmem)
    return fmt::format("TMEM column {}, lanes {} to {}{}", place.address, 16 * low, 16 * high - 1, cta);
  return fmt::format("{} [{:#x}, {:#x}){}", place.kind == Place::Kind::shared ? "shared" : "global",
                     place.address + low, place.address + high, cta);
}

OrderChecker::Wording OrderChecker::proxy_words(Class k, const Touch& before, const Actor& a,
                                                const Touch& now, const std::string& where) const {
  const ClusterState& c = *a.cluster;
  const std::string who = thread_name(c, before.lanes ? first_thread(before) : before.issuer);
  if (k == Class::proxy_after_read)
    return {
        fmt::format("no proxy fence between an ordinary {} of {} and its being overwritten through the "
                    "async proxy",
                    before.is(Touch::write) ? "write" : "read", where),
        fmt::format("fence.proxy.async by {} after its reads, before it lets the operation be issued (the "
                    "manual's examples have it; no hardware is known to need it)",
                    who)};
  if (k == Class::proxy_after_alloc)
    return {
        fmt::format("no proxy fence between tcgen05.alloc, which stores an address to {}, and the copy that "
                    "overwrites it",
                    where),
        fmt::format("fence.proxy.async by {} after tcgen05.alloc, before the barrier that lets the "
                    "operation be issued (the manual leaves the store's proxy open; {})",
                    who, kShipped)};
  const std::string need = fmt::format(
      "fence.proxy.async by {} after its {}, before the barrier that lets the operation be issued", who,
      before.lanes ? "stores" : "wait for its cp.async");
  if (k == Class::proxy_of_copy)
    return {fmt::format("no proxy fence between the cp.async that has written {} and the matrix product that "
                        "reads it",
                        where),
            fmt::format("{} ({})", need, kShipped)};
  return {fmt::format("missing proxy fence: {} written by ordinary stores, then {} through the async proxy, "
                      "which may not see them yet",
                      where, verb(now)),
          need};
}

OrderChecker::Wording OrderChecker::tensor_words(Class k, const Touch& before, const Actor& a,
                                                 const Touch& now, const std::string& where) const {
  const ClusterState& c = *a.cluster;
  if (k == Class::alloc)
    return {fmt::format("{} used without knowing that it is allocated", where),
            fmt::format("a barrier between tcgen05.alloc by warp {} and {}, which reads the address from "
                        "shared memory after that barrier",
                        before.component / kLanes % c.warps, thread_name(c, a.own))};
  if (k == Class::pair_alloc)
    return {fmt::format("a pair's tcgen05.alloc by {} before it knows that the other CTA runs ({})",
                        cta_name(c.id, c.rank_of(a.own)), where),
            fmt::format(
                "barrier.cluster.arrive (.relaxed is enough) and barrier.cluster.wait in both CTAs before "
                "tcgen05.alloc: the instruction shakes hands in the shared memory of {}, which must be "
                "there (PTX ISA 9.7.16.7.1)",
                cta_name(c.id, c.rank_of(before.component)))};
  if (k == Class::pair_dealloc)
    return {
        fmt::format("a pair's tcgen05.dealloc by {} before it knows that {} has allocated ({})",
                    cta_name(c.id, c.rank_of(a.own)), cta_name(c.id, c.rank_of(before.component)), where),
        "barrier.cluster.arrive and barrier.cluster.wait in both CTAs between the pair's tcgen05.alloc and "
        "tcgen05.dealloc (PTX ISA 9.7.16.7.1)"};
  if (k == Class::cp_after_mma)
    return {
        fmt::format("tcgen05.cp overwrites {} that an earlier tcgen05.mma of the same thread reads", where),
        "a commit and a wait between them by the manual's list of what stays in order; shipped kernels rely "
        "on the tensor pipe's order"};
  if (k == Class::store_wait)
    return {fmt::format("{} handed on to another warp's tcgen05.ld without tcgen05.wait::st", where),
            fmt::format("{} ({})", missing(before, a, now), kShipped)};
  if (k == Class::own_wait)
    return {fmt::format("{} loaded and stored by one warp without a tcgen05.wait between", where),
            fmt::format("{} ({})", missing(before, a, now), kShipped)};
  const StreamInfo& s = c.stream_of(before);
  const bool before_done = s.kind == Stream::pipe || (*a.v)[s.other] >= before.time;
  return {
      fmt::format("tcgen05.fence missing between two threads' accesses of {}", where),
      fmt::format(
          "{} (the manual asks for it; {})",
          before_done
              ? fmt::format("tcgen05.fence::after_thread_sync by {} after its wait", thread_name(c, a.own))
              : fmt::format("tcgen05.fence::before_thread_sync by warp {} before its arrive or barrier",
                            s.id),
          kShipped)};
}

OrderChecker::Wording OrderChecker::exit_words(const Touch& before, const Actor& a, const Touch& now,
                                               const Place& place, const std::string& where) const {
  const ClusterState& c = *a.cluster;
  Wording w;
  w.what = fmt::format(
      "{} may exit while its {} is still {} by {}: when a CTA is gone, so are its shared memory and its "
      "mbarriers",
      place.cta->name(), where.substr(0, where.find(" of CTA")), verb(before),
      before.lanes ? "another CTA" : "an asynchronous operation");
  w.needs = before.lanes
                ? fmt::format(
                      "a cluster barrier at the end (barrier.cluster.arrive and .wait), after what {} "
                      "does and before the CTA returns",
                      thread_name(c, first_thread(before)))
                : missing(before, a, now);
  const std::string does = "what " + thread_name(c, now.issuer) + " does";
  if (const size_t at = w.needs.find("before " + does); at != w.needs.npos)
    w.needs.replace(at, 7 + does.size(), "before the CTA returns (by any of its threads)");
  return w;
}

OrderChecker::Wording OrderChecker::init_words(Class k, const Touch& before, const Actor& a, const Touch& now,
                                               const std::string& where) const {
  if (k == Class::init)
    return {fmt::format("{} used without knowing that it is initialised", where), missing(before, a, now)};
  const char* what =
      k == Class::init_fence
          ? "{} signalled by an asynchronous operation, but its mbarrier.init was never fenced"
      : k == Class::init_barrier
          ? "{} signalled by an asynchronous operation, its mbarrier.init ordered but not fenced"
          : "{} used after a relaxed cluster barrier, but its mbarrier.init was not fenced "
            "before that";
  std::string need =
      fmt::format("fence.mbarrier_init.release.cluster by {} after its mbarrier.init, before {}",
                  thread_name(*a.cluster, before.issuer),
                  k == Class::init_relaxed ? "barrier.cluster.arrive" : "the barrier");
  if (k != Class::init_fence) need += fmt::format(" ({})", kShipped);
  return {fmt::format(fmt::runtime(what), where), need};
}

OrderChecker::Wording OrderChecker::race_words(Class k, const Touch& before, const Actor& a, const Touch& now,
                                               const std::string& where) const {
  switch (k) {
    case Class::same_value:
      return {fmt::format("{}: one instruction writes the same value to it in two warps, unordered", where),
              "nothing, as long as the value is the same everywhere; else a barrier between the two"};
    case Class::lanes:
      return {
          fmt::format(
              "{}: lanes of one store write different values to it, and which one remains is undefined",
              where),
          "one lane that stores (the emulator, and the hardware as far as seen, keeps the highest lane's)"};
    case Class::before_cas:
      return {fmt::format("{}: an ordinary load beside atomic operations; the atom.cas after it finds out "
                          "when its value is old",
                          where),
              "nothing; or ld.relaxed"};
    case Class::warpgroup:
      return {before.lanes
                  ? fmt::format("{} stored by one warp and read by a wgmma of its warpgroup", where)
                  : fmt::format("{} written by a cp.async that only the warp that issued it has waited "
                                "for, and read by a wgmma of its warpgroup",
                                where),
              fmt::format("a barrier between {} and the wgmma ({}: the warps of a warpgroup come to a wgmma "
                          "together)",
                          before.lanes ? "the store" : "the wait", kShipped)};
    case Class::elected:
      return {
          fmt::format(
              "{} accessed by the lanes of a warp, then by what the lane issues that elect.sync chose",
              where),
          fmt::format("{} ({}: the warp comes to elect.sync together)", missing(before, a, now), kShipped)};
    case Class::map_reuse:
      return {
          fmt::format("tensor map at {} written over while a copy by it is under way", where),
          fmt::format("{} ({}: a copy uses the map as it was at issue)", missing(before, a, now), kShipped)};
    case Class::scope:
      return {
          fmt::format("{}: {} by one CTA, {} by another after an mbarrier.arrive or a wait that names no "
                      "scope: the default .cta does not reach another CTA",
                      where, verb(before), verb(now)),
          fmt::format("mbarrier.arrive.release.cluster by the one and a wait with .acquire.cluster by the "
                      "other ({})",
                      kShipped)};
    default:
      return {fmt::format("race on {}: {} by one, {} by another, unordered", where, verb(before), verb(now)),
              missing(before, a, now)};
  }
}

OrderChecker::Wording OrderChecker::wording(Class k, const Touch& before, const Actor& a, const Touch& now,
                                            const Place& place, const std::string& where) const {
  switch (k) {
    case Class::race:
    case Class::same_value:
    case Class::lanes:
    case Class::before_cas:
    case Class::warpgroup:
    case Class::elected:
    case Class::map_reuse:
    case Class::scope:
      return race_words(k, before, a, now, where);
    case Class::wgmma_fence:
      return {
          "a register of a wgmma is written after the last wgmma.fence",
          "wgmma.fence between the write and the wgmma.mma_async (the manual asks for it; ptxas orders what "
          "it sees)"};
    case Class::proxy:
    case Class::proxy_of_copy:
    case Class::proxy_after_alloc:
    case Class::proxy_after_read:
      return proxy_words(k, before, a, now, where);
    case Class::tensor_map:
      return {
          fmt::format("tensor map at {} edited, then used without the tensor-map proxy's fence", where),
          "fence.proxy.tensormap::generic.acquire of the map by a thread that knows of the edit, before the "
          "copy is issued"};
    case Class::tcgen05_fence:
    case Class::cp_after_mma:
    case Class::store_wait:
    case Class::own_wait:
    case Class::alloc:
    case Class::pair_alloc:
    case Class::pair_dealloc:
      return tensor_words(k, before, a, now, where);
    case Class::exit:
    case Class::exit_arrival:
    case Class::exit_read:
      return exit_words(before, a, now, place, where);
    case Class::layout:
    case Class::layout_none:
      return {
          fmt::format("{} was filled with {} (tensor map) and is read with {} (descriptor)", where,
                      kSwizzles[before.layout], kSwizzles[now.layout]),
          "the same swizzle in CUtensorMap and shared-memory descriptor (bits 63:61 of a tcgen05 descriptor, "
          "63:62 of a wgmma one)"};
    case Class::init:
    case Class::init_relaxed:
    case Class::init_barrier:
    case Class::init_fence:
      return init_words(k, before, a, now, where);
    case Class::before_grid_wait:
      break;  // found_before_wait
  }
  return {};
}

}  // namespace fp4lab::emu
