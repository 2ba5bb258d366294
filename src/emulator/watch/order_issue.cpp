// An asynchronous operation begins with what its thread knows, and belongs to a stream by which others will
// know that it is over.
#include "emulator/watch/order.h"
#include "emulator/watch/order_state.h"

namespace fp4lab::emu {

using namespace order;

namespace {

// tcgen05.ld and st: a stream for each of a warp, which the fences before thread synchronisation end too.
void join_tmem_stream(OpState& s, ClusterState& c, WarpState& w, const Warp& warp, bool load) {
  const uint32_t rank = warp.cta.rank;
  s.kind = load ? OpKind::tmem_load : OpKind::tmem_store;
  uint32_t& stream = load ? w.load : w.store;
  uint32_t& fenced = load ? w.load_fenced : w.store_fenced;
  if (!stream) {
    stream = c.stream(load ? Stream::tmem_load : Stream::tmem_store, rank, warp.id);
    fenced = c.stream(load ? Stream::load_fenced : Stream::store_fenced, rank, warp.id);
    c.streams[stream - c.threads].other = fenced;
    if (!load)
      c.streams[stream - c.threads].issued = w.store_issued = c.stream(Stream::store_issued, rank, warp.id);
  }
  s.stream = stream;
  s.number = ++(load ? w.loads : w.stores);
  if (!load) change(w, warp.active, &Knowledge::v, [&](Clock& k) { k.raise(w.store_issued, s.number); });
}

// cp.async and cp.async.mbarrier.arrive: each lane has a stream of its own.
void join_copy_streams(OpState& s, ClusterState& c, const WarpState& w, const Warp& warp, bool copy) {
  s.kind = copy ? OpKind::copy : OpKind::copy_arrival;
  s.own = w.base;
  s.lanes.resize(kLanes);
  for_lanes(warp.active, [&](unsigned l) {
    const ThreadState& own = w.thread[l];
    BulkThread& b = c.copies[w.base + l];
    if (copy) {
      if (!b.read) b.read = c.stream(Stream::copy, warp.cta.rank, warp.id * kLanes + l);
      ++b.issued;
    }
    s.lanes[l] = {own, own.fenced, b.read, b.issued};
  });
}

void join_bulk_streams(OpState& s, ClusterState& c, const Warp& warp, uint32_t thread) {
  s.kind = OpKind::bulk_store;
  BulkThread& b = c.bulk[s.own];
  if (!b.read) {
    b.read = c.stream(Stream::bulk_read, warp.cta.rank, thread);
    b.write = c.stream(Stream::bulk_write, warp.cta.rank, thread);
  }
  s.stream = b.read, s.write_stream = b.write;
  s.number = ++b.issued;
}

}  // namespace

// All lanes issue it together: it comes after what each of them did.
void OrderChecker::issue_wgmma(OpState& s, ClusterState& c, WarpState& w, const Warp& warp) {
  s.kind = OpKind::wgmma;
  if (!w.wgmma) w.wgmma = c.stream(Stream::wgmma, warp.cta.rank, warp.id);
  s.stream = w.wgmma;
  s.number = ++w.wgmmas;
  Sum all;
  --w.time;
  publish(all, c, w, warp.active, Reach::all);
  static_cast<Knowledge&>(s) = settled(std::move(all));
  w.products[s.number % w.products.size()] = s.v;
  if (const auto it = unfenced_.find(s.site); it != unfenced_.end())
    found_unfenced(it->second, s.site, Actor(c, s));
}

void OrderChecker::issue(Warp& warp, const AsyncOp& op) {
  ClusterState& c = of(warp.cta);
  WarpState& w = c.of(warp);
  const ThreadState& t = w.thread[op.lane];
  auto state = std::make_unique<OpState>();
  OpState& s = *state;
  static_cast<Knowledge&>(s) = t;
  s.after = t.after;
  s.elected = w.elected;
  w.waits.newest_first([&](const SyncPoint& p) {
    s.waits[s.waited++] = p;
    return s.waited == s.waits.size();
  });
  s.own = w.base + op.lane;
  s.own_time = w.time++;
  s.fenced = t.fenced;
  s.site = site(op.function, *op.origin);
  s.sequence = static_cast<uint32_t>(op.sequence) + 1;
  s.copy = traits_[s.site].copy;
  const std::string_view name = op.name();
  const uint32_t thread = warp.id * kLanes + op.lane;
  if (op.queue.kind == Queue::tensor_pipe) {
    s.kind = OpKind::pipe;
    s.stream = c.stream(Stream::pipe, warp.cta.rank, thread);
    s.number = s.sequence;
  } else if (name == "tcgen05.ld" || name == "tcgen05.st") {
    join_tmem_stream(s, c, w, warp, name == "tcgen05.ld");
  } else if (op.queue.kind == Queue::wgmma) {
    issue_wgmma(s, c, w, warp);
  } else if (op.queue.kind == Queue::cp_async) {
    join_copy_streams(s, c, w, warp, name == "cp.async");
  } else {
    const Source& source = grid_->module.functions[op.function].source[op.origin->pc];
    if (source.has("bulk_group")) {
      join_bulk_streams(s, c, warp, thread);
    } else if (source.has("mbarrier::complete_tx::bytes")) {
      s.kind = OpKind::delivery;
      s.generic = name == "st.async" || name == "red.async";
    }
  }
  ++c.operations;
  const_cast<AsyncOp&>(op).watched = std::move(state);
}

void OrderChecker::complete(const AsyncOp& op) {
  auto& slot = clusters_[op.cta->cluster.id];
  if (--slot->operations == 0 && slot->live == 0) slot.reset();
}

}  // namespace fp4lab::emu
