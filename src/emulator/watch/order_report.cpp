// Findings in the words of whoever wrote the kernel.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/core/place.h"
#include "emulator/watch/order_found.h"

namespace fp4lab::emu {

using namespace order;

namespace {

constexpr size_t kShown = 12;

const Source& source_at(const Grid& grid, const std::vector<uint32_t>& base, uint32_t site) {
  size_t f = base.size() - 1;
  while (base[f] > site) --f;
  return grid.module.functions[f].source[site - base[f]];
}

std::string mnemonic(const Source& s) {
  std::string text;
  for (const std::string_view t : s.tokens) {
    if (t.starts_with("sync") || t.starts_with("shared") || t.starts_with("b32") || t.starts_with("L2"))
      break;
    text += fmt::format("{}{}", text.empty() ? "" : ".", t);
    if (text.size() > 24) break;
  }
  return text;
}

}  // namespace

std::string OrderChecker::cta_name(uint64_t cluster, uint32_t rank) const {
  const Dim3 grid = grid_->config.grid, size = grid_->config.cluster;
  const uint64_t nx = grid.x / size.x, ny = grid.y / size.y;
  return fmt::format("CTA ({},{},{})", cluster % nx * size.x + rank % size.x,
                     cluster / nx % ny * size.y + rank / size.x % size.y,
                     cluster / nx / ny * size.z + rank / size.x / size.y);
}

// The CTA is named where there is more than one.
std::string OrderChecker::thread_name(const ClusterState& c, uint32_t component) const {
  const uint32_t warp = component / kLanes % c.warps, rank = component / kLanes / c.warps;
  return fmt::format("warp {}, lane {}{}", warp, component % kLanes,
                     c.ctas > 1 ? " of " + cta_name(c.id, rank) : "");
}

OrderChecker::Party OrderChecker::party(const Touch& t) const {
  const Source& s = source_at(*grid_, code_base_, t.site);
  const Module& m = grid_->module;
  const ClusterState* c = clusters_[t.cluster].get();
  Party p;
  if (!c) {
    p.who = fmt::format("a thread of cluster {}", t.cluster);
  } else {
    const uint32_t thread = t.lanes ? t.component : t.issuer;
    p.who = fmt::format("{}warp {}, {} of {}", t.lanes ? "" : "issued by ", thread / kLanes % c->warps,
                        lane_list(t.lanes ? t.lanes : 1u << thread % kLanes),
                        cta_name(t.cluster, thread / kLanes / c->warps));
  }
  p.does = mnemonic(s);
  p.ptx = fmt::format("{}:{}", m.name.empty() ? "ptx" : m.name, s.line);
  p.cuda = cuda_position(m, s);
  p.line = s.line;
  std::string_view line = m.line_text(s.line);
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t")));
  p.source = line;
  return p;
}

std::string OrderChecker::Finding::text() const {
  auto party = [](const Party& p) {
    return fmt::format("{} ({})\n      {}  {}{}", p.does, p.who, p.ptx, p.source,
                       p.cuda.empty() ? "" : "  (" + p.cuda + ")");
  };
  return fmt::format("{}\n  kernel {}\n    first: {}\n    then:  {}\n    needs: {}", what, kernel,
                     party(first), party(then), needs);
}

const char* OrderChecker::name_of(Class k) {
  constexpr const char* names[] = {
#define ORDER_CLASS(id, name, severity, what) name,
#include "emulator/watch/order_classes.def"
#undef ORDER_CLASS
  };
  return names[static_cast<size_t>(k)];
}

bool OrderChecker::is_error(Class k) {
  constexpr std::string_view severities[] = {
#define ORDER_CLASS(id, name, severity, what) severity,
#include "emulator/watch/order_classes.def"
#undef ORDER_CLASS
  };
  return severities[static_cast<size_t>(k)] == "error";
}

// The edge that would have ordered `before` in front of what the actor does.
std::string OrderChecker::missing(const Touch& before, const Actor& a, const Touch& now) const {
  const ClusterState& c = *a.cluster;
  const std::string here =
      "what " +
      thread_name(
          c, now.lanes ? now.component + static_cast<uint32_t>(std::countr_zero(now.lanes)) : now.issuer) +
      (now.lanes ? " does" : " issues");
  if (before.cluster != c.id)
    return fmt::format(
        "a release of .gpu scope (fence.acq_rel.gpu and a flag, atom.acq_rel.gpu) by cluster {} behind its "
        "access, and an "
        "acquire of the same flag before {}",
        before.cluster, here);
  if (before.lanes) {
    const uint32_t first = before.component + static_cast<uint32_t>(std::countr_zero(before.lanes));
    if (!now.lanes && now.issuer == first)
      return "the thread itself touched the bytes again while its own operation was under way";
    const uint32_t theirs = before.component / kLanes, mine = a.own / kLanes;
    if (theirs == mine) return fmt::format("bar.warp.sync between {} and {}", thread_name(c, first), here);
    if (theirs / c.warps == mine / c.warps)
      return fmt::format(
          "a barrier (bar.sync, or an mbarrier that warp {} arrives on and warp {} waits for) between the "
          "access by {} and {}",
          theirs % c.warps, mine % c.warps, thread_name(c, first), here);
    return fmt::format(
        "a cluster barrier, or mbarrier.arrive.release.cluster by {} and a wait with .acquire.cluster (the "
        "default scope .cta does not reach the other CTA), before {}",
        thread_name(c, first), here);
  }
  const StreamInfo& s = c.streams[before.component - c.threads];
  const std::string cta = c.ctas > 1 ? " of " + cta_name(c.id, s.cta) : "";
  switch (s.kind) {
    case Stream::mbarrier:
      return fmt::format(
          "a wait for phase {} of the mbarrier at {:#x}{}, which counts the copy's bytes, before {}{}",
          before.time - 1, s.id, cta, here,
          a.own / kLanes / c.warps == s.cta
              ? ""
              : " (when a thread of the other CTA waits: then mbarrier.arrive.release.cluster by it and a "
                "wait "
                "with .acquire.cluster; the default scope .cta does not reach the other CTA)");
    case Stream::pipe:
      return fmt::format(
          "tcgen05.commit by {} behind it, and a wait for the mbarrier that it arrives on, before {}",
          thread_name(c, before.issuer), here);
    case Stream::bulk_read:
      return fmt::format(
          "cp.async.bulk.wait_group.read by {} (then a barrier, if another thread goes on), before {}",
          thread_name(c, before.issuer), here);
    case Stream::bulk_write:
      return fmt::format(
          "cp.async.bulk.wait_group by {} (then a barrier, if another thread goes on), before {}",
          thread_name(c, before.issuer), here);
    case Stream::copy:
      return fmt::format(
          "cp.async.wait_group (or cp.async.mbarrier.arrive and a wait for that mbarrier) by {} behind its "
          "copy, then a barrier if another thread goes on, before {}",
          thread_name(c, before.issuer), here);
    case Stream::wgmma:
      return fmt::format(
          "wgmma.wait_group by warp {}{} behind the wgmma's commit_group (then an arrive or a barrier, if "
          "another thread goes on), before {}",
          s.id, cta, here);
    case Stream::tmem_load:
    case Stream::tmem_store: {
      const WarpState& w = *c.warp[s.cta * c.warps + s.id];
      const bool load = s.kind == Stream::tmem_load;
      const char* wait = load ? "tcgen05.wait::ld" : "tcgen05.wait::st";
      if ((load ? w.loads_waited : w.stores_waited) < before.time)
        return fmt::format("{} by warp {}{} behind it (and then an arrive or a barrier), before {}", wait,
                           s.id, cta, here);
      return fmt::format("an arrive or a barrier by warp {}{} behind its {}, that reaches {}", s.id, cta,
                         wait, here);
    }
    default:
      return "an ordering edge";
  }
}

OrderChecker::Finding OrderChecker::words(Class k, const Touch& before, const Actor& a, const Touch& now,
                                          const Place& place) const {
  const ClusterState& c = *a.cluster;
  auto bytes = [&](uint16_t mask) {
    const unsigned low = static_cast<unsigned>(std::countr_zero(mask)),
                   high = 16 - static_cast<unsigned>(std::countl_zero(mask));
    return std::pair{place.address + low, place.address + high};
  };
  std::string where;
  const std::string cta = place.cta ? " of " + place.cta->name() : "";
  if (k == Class::init || k == Class::init_relaxed || k == Class::init_fence) {
    where = fmt::format("the mbarrier at {:#x}{}", place.address, cta);
  } else if (place.kind == Place::Kind::tmem) {
    where = fmt::format("TMEM column {}, lanes {} to {}{}", place.address,
                        16 * std::countr_zero(static_cast<unsigned>(before.mask & now.mask)),
                        16 * (16 - std::countl_zero(static_cast<uint16_t>(before.mask & now.mask))) - 1, cta);
  } else {
    const auto [low, high] = bytes(before.mask & now.mask);
    where = fmt::format("{} [{:#x}, {:#x}){}", place.kind == Place::Kind::shared ? "shared" : "global", low,
                        high, cta);
  }
  auto verb = [](const Touch& t) { return t.is(Touch::write) ? "written" : "read"; };
  std::string head, need;
  switch (k) {
    case Class::race:
      head = fmt::format("race on {}: {} by one, {} by another, in no order", where, verb(before), verb(now));
      need = missing(before, a, now);
      break;
    case Class::same_value:
      head = fmt::format("{}: one instruction writes the same value to it in two warps, in no order", where);
      need = "nothing, as long as the value is the same everywhere; else a barrier between the two";
      break;
    case Class::proxy:
      head = fmt::format(
          "missing proxy fence: {} written by ordinary stores, then {} through the async proxy, which need "
          "not see them yet",
          where, verb(now));
      need = fmt::format(
          "fence.proxy.async by {} behind its stores, before the barrier that lets the operation be issued",
          thread_name(c, before.component + static_cast<uint32_t>(std::countr_zero(before.lanes))));
      break;
    case Class::proxy_after_read:
      head = fmt::format(
          "no proxy fence between an ordinary read of {} and its being overwritten through the async proxy",
          where);
      need = fmt::format(
          "fence.proxy.async by {} behind its reads, before it lets the operation be issued (the manual's "
          "examples have it; no "
          "hardware is known to need it)",
          thread_name(c, before.component + static_cast<uint32_t>(std::countr_zero(before.lanes))));
      break;
    case Class::proxy_after_alloc:
      head = fmt::format(
          "no proxy fence between tcgen05.alloc, which stores an address to {}, and the copy that overwrites "
          "it",
          where);
      need = fmt::format(
          "fence.proxy.async by {} behind tcgen05.alloc, before the barrier that lets the operation be "
          "issued "
          "(the manual leaves the store's proxy open; shipped kernels do without)",
          thread_name(c, before.component + static_cast<uint32_t>(std::countr_zero(before.lanes))));
      break;
    case Class::tensor_map:
      head = fmt::format("tensor map at {} edited, then used without the tensor-map proxy's fence", where);
      need =
          "fence.proxy.tensormap::generic.acquire of the map by a thread that knows of the edit, before the "
          "copy is issued";
      break;
    case Class::tcgen05_fence: {
      head = fmt::format("tcgen05.fence missing between two threads' accesses of {}", where);
      const StreamInfo& s = c.streams[before.component - c.threads];
      const bool before_done = s.kind == Stream::pipe || (*a.v)[s.other] >= before.time;
      need =
          before_done
              ? fmt::format("tcgen05.fence::after_thread_sync by {} behind its wait", thread_name(c, a.own))
              : fmt::format("tcgen05.fence::before_thread_sync by warp {} before its arrive or barrier",
                            s.id);
      need += " (the manual asks for it; shipped kernels are known to do without)";
      break;
    }
    case Class::cp_after_mma:
      head =
          fmt::format("tcgen05.cp overwrites {} that an earlier tcgen05.mma of the same thread reads", where);
      need =
          "a commit and a wait between them by the manual's list of what stays in order; shipped kernels "
          "rely on the tensor pipe's order";
      break;
    case Class::exit:
    case Class::exit_read: {
      head = fmt::format(
          "{} may exit while its {} is still {} by {}: when a CTA is gone, so are its shared memory and its "
          "mbarriers",
          place.cta->name(), where.substr(0, where.find(" of CTA")),
          before.is(Touch::write) ? "written" : "read",
          before.lanes ? "another CTA" : "an asynchronous operation");
      if (before.lanes)
        need = fmt::format(
            "a cluster barrier at the end (barrier.cluster.arrive and .wait), behind what {} does and before "
            "the CTA returns",
            thread_name(c, before.component + static_cast<uint32_t>(std::countr_zero(before.lanes))));
      else
        need = missing(before, a, now);
      const std::string does = "what " + thread_name(c, now.issuer) + " does";
      if (const size_t at = need.find("before " + does); at != need.npos)
        need.replace(at, 7 + does.size(), "before the CTA returns (by any of its threads)");
      break;
    }
    case Class::layout:
    case Class::layout_none: {
      constexpr const char* names[] = {"?",
                                       "no swizzle",
                                       "32-byte swizzle",
                                       "64-byte swizzle",
                                       "128-byte swizzle",
                                       "128-byte swizzle with 32-byte atoms",
                                       "another swizzle"};
      head = fmt::format("{} was filled with {} (tensor map) and is read with {} (descriptor)", where,
                         names[before.layout], names[now.layout]);
      need =
          "the same swizzle in CUtensorMap and shared-memory descriptor (bits 63:61 of a tcgen05 descriptor, "
          "63:62 of a wgmma one)";
      break;
    }
    case Class::alloc:
      head = fmt::format("{} used without knowing that it is allocated", where);
      need = fmt::format(
          "a barrier between tcgen05.alloc by warp {} and {}, which reads the address from shared memory "
          "behind that barrier",
          before.component / kLanes % c.warps, thread_name(c, a.own));
      break;
    case Class::init:
      head = fmt::format("{} used without knowing that it is initialised", where);
      need = missing(before, a, now);
      break;
    case Class::init_relaxed:
      head = fmt::format(
          "{} used behind a relaxed cluster barrier, but its mbarrier.init was not fenced before that",
          where);
      need = fmt::format(
          "fence.mbarrier_init.release.cluster by {} behind its mbarrier.init, before barrier.cluster.arrive "
          "(shipped kernels are known to do without)",
          thread_name(c, before.issuer));
      break;
    case Class::init_fence:
      head = fmt::format("{} signalled by an asynchronous operation, but its mbarrier.init was never fenced",
                         where);
      need = fmt::format(
          "fence.mbarrier_init.release.cluster by {} behind its mbarrier.init, before the barrier",
          thread_name(c, before.issuer));
      break;
  }
  Finding f;
  if (k == Class::exit && !before.lanes && !before.is(Touch::write) &&
      c.streams[before.component - c.threads].kind == Stream::bulk_read)
    k = Class::exit_read;
  if (k == Class::layout && before.layout == static_cast<uint8_t>(Layout::none)) k = Class::layout_none;
  f.error = is_error(k);
  f.count = 1;
  f.kind = name_of(k);
  f.what = head, f.kernel = grid_->function.name, f.place = where, f.needs = need;
  f.first = party(before), f.then = party(now);
  if (k == Class::exit || k == Class::exit_read) f.then.does = "exit", f.then.who = place.cta->name();
  return f;
}

void OrderChecker::found(Class k, const Touch& before, const Actor& a, const Touch& now, const Place& place) {
  const uint8_t extra = static_cast<uint8_t>(place.kind) << 4 | (before.flags & 3) << 2 | (now.flags & 3);
  std::lock_guard lock(found_->mutex);
  auto [it, fresh] = found_->entries.try_emplace({k, before.site, now.site, extra});
  Found::Entry& e = it->second;
  ++e.finding.count;
  if (!fresh) return;
  e.order = found_->entries.size();
  e.finding = words(k, before, a, now, place);
  ++(e.finding.error ? errors_ : notes_);
}

void OrderChecker::Found::finish(const Grid&) {
  std::vector<const Entry*> all;
  for (const auto& [key, e] : entries) all.push_back(&e);
  std::sort(all.begin(), all.end(), [](const Entry* x, const Entry* y) {
    return x->finding.error != y->finding.error ? x->finding.error : x->order < y->order;
  });
  last.clear();
  for (const Entry* e : all) last.push_back(e->finding);
}

std::vector<OrderChecker::Finding> OrderChecker::findings() const { return found_->last; }

std::string OrderChecker::report(bool errors) const {
  std::string text;
  size_t shown = 0, rest = 0;
  for (const Finding& f : found_->last) {
    if (f.error != errors) continue;
    if (shown++ >= kShown) {
      ++rest;
      continue;
    }
    text += fmt::format("{}{}{}", text.empty() ? "" : "\n", f.text(),
                        f.count > 1 ? fmt::format("\n    seen {} times\n", f.count) : "\n");
  }
  if (rest) text += fmt::format("and {} more findings\n", rest);
  return text;
}

}  // namespace fp4lab::emu
