// A cluster: its CTAs, the memory they reach, the pending operations, and the tolerated faults.
#include <algorithm>

#include "emulator/core/cta_state.h"
#include "emulator/core/failure.h"
#include "emulator/core/machine.h"
#include "emulator/core/place.h"

namespace fp4lab::emu {

AsyncOp::AsyncOp() = default;
AsyncOp::~AsyncOp() = default;

Cluster::Cluster(Grid& grid, uint64_t id, Dim3 first, std::span<Sm* const> sms)
    : grid(grid),
      id(id),
      rng(grid.schedule.seed * 0x9e3779b97f4a7c15ull + id),
      watcher(grid.watcher),
      first_(first),
      sms_(sms.begin(), sms.end()) {}

void Cluster::start() {
  const Dim3 shape = grid.config.cluster;
  for (uint32_t rank = 0; rank < shape.count(); ++rank) {
    const Dim3 index{first_.x + rank % shape.x, first_.y + rank / shape.x % shape.y,
                     first_.z + rank / shape.x / shape.y};
    ctas.push_back(std::make_unique<Cta>(*this, rank, index, *sms_[rank]));
  }
  for (auto& cta : ctas) {
    for (auto& w : cta->warps) enqueue(*w);
    if (watcher) watcher->cta_start(*cta);
  }
}

Cluster::~Cluster() = default;

uint64_t Cluster::random(uint64_t below) { return below <= 1 ? 0 : rng() % below; }

bool Cluster::finished() const {
  for (const auto& cta : ctas)
    if (!cta->exited) return false;
  return ops_.empty();
}

Cta& Cluster::owner(uint32_t address, const char* what) {
  const uint32_t rank = address >> kRankShift;
  if (rank >= ctas.size())
    fault(FaultKind::illegal_address, kLanes,
          "{}: shared::cluster address {:#010x} names the CTA of rank {}, but the cluster has {}", what,
          address, rank, ctas.size());
  if (ctas[rank]->exited)
    fault(FaultKind::peer_exited, kLanes,
          "{}: shared::cluster address {:#010x} is in {}, which has exited; its shared memory is gone", what,
          address, ctas[rank]->name());
  return *ctas[rank];
}

std::byte* Cluster::global(uint64_t address, uint64_t bytes, const char* what) {
  for (const GlobalMemory::Range& r : recent_ranges_)
    if (r.contains(address, bytes)) return grid.memory.host(address);
  GlobalMemory::Range r = grid.memory.find(address, bytes);
  if (r.end == 0)
    fault(FaultKind::illegal_address, kLanes, "{}: illegal access to {} bytes at global address {:#x}: {}",
          what, bytes, address, grid.memory.describe(address));
  recent_ranges_[next_range_++ % std::size(recent_ranges_)] = r;
  return grid.memory.host(address);
}

void Cluster::submit(std::unique_ptr<AsyncOp> op, Warp& w, const Instr& i, unsigned lane) {
  op->origin = &i;
  op->function = w.group->function;
  op->cta = &w.cta;
  op->warp = w.id;
  op->lane = lane;
  op->sequence = next_sequence_++;
  op->turn = turns_;
  ++progress_;
  w.note();
  AsyncOp* raw = op.get();
  ops_.push_back(std::move(op));
  if (watcher) watcher->issue(w, *raw);
  if (grid.schedule.kind != Schedule::Kind::eager) return;
  // An operation may need several runs; if it does not finish it stays pending.
  for (int k = 0; k < 64 && !ops_.empty() && ops_.back().get() == raw && eligible(ops_.size() - 1) == raw &&
                  !raw->due && !raw->held(*this);
       ++k)
    run_op(raw);
}

void Cluster::defer(std::unique_ptr<AsyncOp> rest, const AsyncOp& of) {
  rest->origin = of.origin, rest->function = of.function, rest->cta = of.cta;
  rest->warp = of.warp, rest->lane = of.lane, rest->sequence = of.sequence;
  rest->queue = of.queue, rest->rest = true;
  const auto at = std::find_if(ops_.begin(), ops_.end(), [&](const auto& op) { return op.get() == &of; });
  ops_.insert(at == ops_.end() ? at : at + 1, std::move(rest));
}

uint64_t Cluster::read_clock(const Warp& w) {
  clock_read_ = true;
  return w.instructions + grid.clock_ahead_;
}

bool Cluster::all_awake_since(uint64_t turn) const {
  return std::ranges::all_of(runnable_,
                             [&](const Warp* w) { return w->taken_turn_ > std::max(turn, w->ready_turn_); });
}

bool Cluster::all_moved_since(uint64_t turn) const {
  for (const Warp* w : runnable_)
    if (w->moved_turn_ <= turn) return false;
  return true;
}

bool Cluster::can_run(uint32_t rank, uint32_t warp) const {
  const Cta& cta = *ctas[rank];
  if (cta.exited || warp >= cta.warps.size()) return false;
  Warp& w = *cta.warps[warp];
  return w.queued_ ||
         std::ranges::any_of(w.groups_, [&](const auto& g) { return g->wait.ready && g->wait.ready(w, *g); });
}

void Cluster::finish_now(const Warp& w, std::string_view name) {
  for (size_t k = 0; k < ops_.size();) {
    AsyncOp* op = ops_[k].get();
    if (op->cta == &w.cta && op->warp == w.id && op->name() == name)
      run_op(op);  // removes it when it is done
    else
      ++k;
  }
}

void Cluster::tolerated(const Fault& fault, const Warp& w) { tolerated(fault, w.current(), &w, nullptr); }
void Cluster::tolerated(const Fault& fault, const AsyncOp& op) { tolerated(fault, op.origin, nullptr, &op); }

namespace {

// Whether the launch goes on although this is no note of its schedule.
bool goes_on(const Schedule& s, const Fault& fault) {
  return s.tolerant || (s.checked && fault.kind == FaultKind::uninitialized);
}

bool is_error(const Schedule& s, const Fault& fault, const AsyncOp* op) {
  if (!s.checked) return false;
  if (fault.kind == FaultKind::uninitialized) return !s.tolerant;
  const bool prefetch = op && std::string_view(op->name()).find("prefetch") != std::string_view::npos;
  return fault.serious || (fault.kind == FaultKind::illegal_address && !prefetch);
}

}  // namespace

void Cluster::note_or_throw(const Fault& fault, const Warp& w) {
  if (!goes_on(grid.schedule, fault)) throw fault;
  tolerated(fault, w);
}

void Cluster::note_or_throw(const Fault& fault, const AsyncOp& op) {
  if (!goes_on(grid.schedule, fault)) throw fault;
  tolerated(fault, op);
}

void Cluster::tolerated(const Fault& fault, const Instr* at, const Warp* w, const AsyncOp* op) {
  std::lock_guard lock(grid.notes_mutex);
  auto [it, fresh] = grid.notes.try_emplace({at, fault.kind});
  Tolerated& t = it->second;
  const uint64_t count = fresh ? 1 : t.count + 1;
  t.count = count;
  if (!fresh && t.cluster <= id) return;  // the same one is told for any number of host threads
  t = {fault.kind,
       fault_report(fault, grid, w, op),
       fault_line(grid, w, op),
       fault_source(grid, w, op),
       is_error(grid.schedule, fault, op),
       count,
       id};
  ask(fault, w, op, &t);
}

bool Cluster::behind_product(const AsyncOp& copy) const {
  if (!grid.schedule.tolerant) return false;
  for (const auto& op : ops_) {
    if (op->sequence >= copy.sequence) return false;  // in issue order
    // A product of the other CTA that reads shared memory here waits for this copy instead (choose_op).
    if (op->is_product() && (op->cta == copy.cta || !op->of_pair())) return true;
  }
  return false;
}

bool Cluster::at_once(const AsyncOp& op) const {
  if (!grid.schedule.tolerant) return false;
  if (!all_moved_since(op.turn)) return true;
  return std::ranges::any_of(
      ops_, [&](const auto& older) { return older->loads_registers() && older->sequence < op.sequence; });
}

uint32_t Cluster::ranks_that_go_on() const {
  uint32_t ranks = 0;
  for (const Warp* w : runnable_) ranks |= 1u << w->cta.rank;
  for (const auto& op : ops_) {
    const uint32_t rank = 1u << op->cta->rank;
    if (!(ranks & rank) && op->queue.kind == Queue::unordered && !op->due && !op->held(*this)) ranks |= rank;
  }
  return ranks;
}

void Cluster::enqueue(Warp& w) {
  if (w.queued_) return;
  w.queued_ = true;
  w.ready_turn_ = turns_;
  runnable_.push_back(&w);
}

// Faults if an operation that must be complete by then is pending when `w`, the last warp of a CTA, exits.
bool Cluster::dropped_at_exit(const Warp& w, const AsyncOp& op) {
  if (!op.holds_exit()) return false;
  const Fault early(
      FaultKind::exit_while_running, kLanes,
      fmt::format("{} exits while an operation that it issued is still running: {}, issued by {}",
                  w.cta.name(), op.name(),
                  one_line(grid.module, grid.module.functions[op.function].source[op.origin->pc])));
  if (!op.lost_at_exit()) throw early;
  note_or_throw(early, w);
  return true;
}

void Cluster::warp_exited(Warp& w) {
  Cta& cta = w.cta;
  if (watcher) [[unlikely]]
    watcher->warp_exit(w);
  if (--cta.live_warps) return;
  cta.state->at_exit();
  std::erase_if(ops_, [&](const auto& op) {
    if (op->cta != &cta || op.get() == running_op_ || !dropped_at_exit(w, *op)) return false;
    std::erase(serial_ops_, op.get());
    return true;
  });
  for (const auto& op : ops_) {
    if (op->cta != &cta || op.get() == running_op_) continue;
    if (watcher && op->reads_shared()) watcher->exit_before_read(cta, *op);
  }
  cta.exited = true;
  if (watcher) watcher->cta_exit(cta);
  notify();
}

}  // namespace fp4lab::emu
