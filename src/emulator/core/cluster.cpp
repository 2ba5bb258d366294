// One cluster's part of a round: which warp runs next, for how long, and when asynchronous operations happen.
#include <algorithm>

#include "emulator/core/failure.h"
#include "emulator/core/hooks.h"
#include "emulator/core/machine.h"
#include "emulator/core/place.h"

namespace fp4lab::emu {

namespace {
constexpr uint64_t kOpCost = 16;         // steps of the round's budget that an asynchronous operation uses
constexpr uint64_t kSerialSoon = 256;    // steps until the round ends early for a strong access
constexpr uint32_t kOneIn = 64;          // how often a policy does what it otherwise avoids
constexpr uint32_t kPolicyTurns = 4096;  // at most, before another policy is drawn
constexpr uint64_t kTurn = 32;           // instructions of a warp, see Cluster::in_turn
constexpr uint64_t kChance = 256;  // instructions; on hardware a copy or a product takes as long as that
}  // namespace

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

template <class F>
void Cluster::guarded(F&& f) {
  try {
    f();
  } catch (const Fault& e) {
    failure_ = std::make_unique<Failure>(Failure{e.kind, fault_report(e, grid, running_, running_op_),
                                                 fault_line(grid, running_, running_op_), nullptr});
  } catch (...) {
    failure_ = std::make_unique<Failure>(Failure{{}, {}, 0, std::current_exception()});
  }
  running_ = nullptr;
  running_op_ = nullptr;
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
  // An operation may need several runs; one that is never done stays pending.
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

void Cluster::note_or_throw(const Fault& fault, const Warp& w) {
  if (!grid.schedule.tolerant) throw fault;
  tolerated(fault, w);
}

void Cluster::note_or_throw(const Fault& fault, const AsyncOp& op) {
  if (!grid.schedule.tolerant) throw fault;
  tolerated(fault, op);
}

void Cluster::tolerated(const Fault& fault, const Instr* at, const Warp* w, const AsyncOp* op) {
  std::lock_guard lock(grid.notes_mutex);
  auto [it, fresh] = grid.notes.try_emplace(at);
  if (fresh) it->second = {fault.kind, fault_report(fault, grid, w, op), fault_line(grid, w, op)};
}

bool Cluster::behind_product(const AsyncOp& copy) const {
  if (!grid.schedule.tolerant) return false;
  for (const auto& op : ops_) {
    if (op->sequence >= copy.sequence) return false;  // in issue order
    if (op->is_product()) return true;
  }
  return false;
}

bool Cluster::at_once(const AsyncOp& op) const {
  if (!grid.schedule.tolerant) return false;
  if (!all_moved_since(op.turn)) return true;
  return std::ranges::any_of(
      ops_, [&](const auto& older) { return older->loads_registers() && older->sequence < op.sequence; });
}

AsyncOp* Cluster::eligible(size_t index) const {
  AsyncOp* chosen = ops_[index].get();
  if (chosen->queue.kind == Queue::unordered) return chosen;
  for (size_t k = 0; k < index; ++k)
    if (ops_[k]->queue == chosen->queue) return ops_[k].get();
  return chosen;
}

AsyncOp* Cluster::choose_op(bool held_too) {
  const size_t n = ops_.size();
  if (n == serial_ops_.size()) return nullptr;
  const size_t start = random(n);
  AsyncOp* held = nullptr;
  for (size_t k = 0; k < n; ++k) {
    AsyncOp* op = eligible((start + k) % n);
    if (op->due) continue;
    if (!op->held(*this)) return op;
    if (!held) held = op;
  }
  return held_too ? held : nullptr;
}

void Cluster::run_op(AsyncOp* op) {
  if (op->serial() && !grid.in_serial_phase()) {
    op->due = true;
    serial_ops_.push_back(op);
    return;
  }
  AsyncOp* outer = running_op_;
  running_op_ = op;
  op->due = false;
  clock_ += kOpCost;
  if (op->run(*this)) {
    if (watcher && !op->rest) watcher->complete(*op);
    ++statistics.async_ops;
    notify();
    for (size_t k = 0; k < ops_.size(); ++k)
      if (ops_[k].get() == op) {
        ops_.erase(ops_.begin() + static_cast<std::ptrdiff_t>(k));
        break;
      }
  } else {
    changed_ = true;
  }
  running_op_ = outer;
}

void Cluster::enqueue(Warp& w) {
  if (w.queued_) return;
  w.queued_ = true;
  w.ready_turn_ = turns_;
  runnable_.push_back(&w);
}

void Cluster::poll() {
  changed_ = false;
  for (auto& cta : ctas) {
    if (cta->exited) continue;
    for (auto& w : cta->warps)
      for (size_t k = 0; k < w->groups_.size(); ++k) {
        LaneGroup& g = *w->groups_[k];
        if (!g.wait.ready || !g.wait.ready(*w, g)) continue;
        g.wait = {};
        enqueue(*w);
      }
  }
}

// Faults when the last warp `w` of a CTA exits before an operation that has to be over by then.
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
  hooks::at_exit(*cta.state);
  std::erase_if(ops_, [&](const auto& op) {
    return op->cta == &cta && op.get() != running_op_ && dropped_at_exit(w, *op);
  });
  for (const auto& op : ops_) {
    if (op->cta != &cta || op.get() == running_op_) continue;
    if (watcher && op->reads_shared()) watcher->exit_before_read(cta, *op);
  }
  cta.exited = true;
  if (watcher) watcher->cta_exit(cta);
  notify();
}

void Cluster::draw_policy() {
  using W = Policy::Warps;
  using O = Policy::Ops;
  constexpr W warps[] = {W::uniform, W::rotate, W::stay, W::starve_one};
  constexpr O ops[] = {O::uniform, O::first, O::last, O::last};
  constexpr uint32_t bursts[] = {4, 64, 512, 512, 4096, 4096};
  policy_.warps = warps[random(std::size(warps))];
  policy_.ops = ops[random(std::size(ops))];
  policy_.burst = bursts[random(std::size(bursts))];
  policy_.victim = static_cast<uint32_t>(random(ctas.size() * ctas[0]->warps.size()));
  policy_.lifetime = 1 + static_cast<uint32_t>(random(kPolicyTurns));
}

// Is an operation due now, with `n` warps that could run instead?
bool Cluster::operation_due(size_t n) {
  switch (policy_.ops) {
    case Policy::Ops::uniform:
      return random(n + ops_.size()) >= n;
    case Policy::Ops::first:
      return true;
    case Policy::Ops::last:
      return random(kOneIn) == 0;
  }
  return true;
}

size_t Cluster::next_warp() {
  const size_t n = runnable_.size();
  switch (policy_.warps) {
    case Policy::Warps::uniform:
      return random(n);
    case Policy::Warps::rotate:
    case Policy::Warps::stay:
      return rotate_ % n;
    case Policy::Warps::starve_one:
      break;
  }
  const size_t pick = random(n);
  const Warp& w = *runnable_[pick];
  const bool victim = w.cta.rank * ctas[0]->warps.size() + w.id == policy_.victim;
  return n > 1 && victim && random(kOneIn) ? (pick + 1) % n : pick;
}

// Hardware issues for whatever warp of an SM can go on, and lets none stand while another runs on and on; nor
// does it let a CTA of a cluster. Public kernels count on it: FlashMLA's decode hands row maxima from warp to
// warp through shared memory, and writes the next ones with no barrier behind the reads of the last;
// CUTLASS's example 93 clears mailboxes for other CTAs' st.async with no barrier behind, while those load,
// multiply and add. So where the schedule is tolerant the warps of a cluster take turns, in any order:
// instead of one that has had its turn goes one that has not.
size_t Cluster::in_turn(size_t pick) {
  const size_t n = runnable_.size();
  for (size_t k = pick; k < pick + n; ++k) {
    const Warp& w = *runnable_[k % n];
    if (w.taken_turn_ <= std::max(round_turn_, w.ready_turn_)) return k % n;
  }
  round_turn_ = turns_;
  return pick;
}

// Runs one warp for a while.
void Cluster::warp_turn(size_t pick, uint64_t& left) {
  Warp& w = *runnable_[pick];
  const uint64_t longest = grid.schedule.tolerant ? std::min<uint64_t>(left, kTurn) : left;
  const uint64_t burst =
      std::min<uint64_t>(longest, policy_.burst <= 4 ? 1 + random(policy_.burst) : policy_.burst);
  uint64_t budget = burst;
  turn_begin_ = w.instructions;
  w.put_off = false;
  running_ = &w;
  const uint64_t progress = progress_;
  const Warp::Turn end = w.run(budget);
  running_ = nullptr;
  const uint64_t used = std::max<uint64_t>(1, burst - budget);
  ++turns_;
  if (!w.put_off) {
    const bool waits = end != Warp::Turn::spent;
    if (waits || w.instructions - w.moved_at_ >= kChance)
      w.moved_turn_ = turns_, w.moved_at_ = w.instructions;
    if (waits || w.instructions - w.taken_at_ >= kTurn) w.taken_turn_ = turns_, w.taken_at_ = w.instructions;
  }
  clock_ += used;
  left -= std::min(left, used);
  idle_turns_ = end == Warp::Turn::yielded && progress == progress_ ? idle_turns_ + 1 : 0;
  if (idle_turns_ == 0) idle_since_ = turns_;
  if (end == Warp::Turn::yielded || policy_.warps == Policy::Warps::rotate) ++rotate_;
  if (w.groups_.size() > 1) w.release_joins(false);
  if (!w.runnable()) {
    w.queued_ = false;
    runnable_[pick] = runnable_.back();
    runnable_.pop_back();
  }
}

bool Cluster::turn(uint64_t& left) {
  const bool eager = grid.schedule.kind == Schedule::Kind::eager;
  if (policy_.lifetime == 0) {
    draw_policy();
    if (eager) policy_.warps = Policy::Warps::rotate, policy_.burst = 4096;
  }
  --policy_.lifetime;
  const size_t n = runnable_.size();
  const bool pollers_only = idle_turns_ > 2 * n && all_moved_since(idle_since_);
  const bool no_warp = n == 0 || pollers_only;
  if (ops_.size() > serial_ops_.size()) {
    // Operations may well stay behind while the serial phase goes on with those that wait for it.
    if (n == 0 && wants_serial_ && policy_.ops == Policy::Ops::last && random(4)) return false;
    if (no_warp || eager || operation_due(n))
      if (AsyncOp* op = choose_op(no_warp)) {
        idle_turns_ = 0, idle_since_ = turns_;
        run_op(op);
        left -= std::min(left, kOpCost);
        return true;
      }
  }
  if (no_warp) return false;
  const size_t pick = next_warp();
  warp_turn(grid.schedule.tolerant ? in_turn(pick) : pick, left);
  return true;
}

void Cluster::run(uint64_t steps) {
  changed_ =
      true;  // the serial phase, or another cluster of the same SM, may have changed what somebody waits for
  idle_turns_ = 0, idle_since_ = turns_;
  guarded([&] {
    if (ctas.empty()) start();
    wants_serial_ = false;
    bool cut = false;
    for (uint64_t left = steps; left;) {
      if (changed_) poll();
      if (!turn(left)) break;
      // What waits for the serial phase would otherwise always come after everything else of the round. Where
      // the CTAs of a cluster take turns, none stands that long.
      if (wants_serial_ && !cut && grid.schedule.kind != Schedule::Kind::eager) {
        cut = true;
        if ((grid.schedule.tolerant && ctas.size() > 1) || random(2))
          left = std::min(left, random(kSerialSoon));
      }
    }
  });
}

void Cluster::run_serial(Warp& w, LaneGroup& g) {
  guarded([&] {
    g.wait = {};
    turn_begin_ = w.instructions;
    running_ = &w;
    uint64_t budget = 1;
    w.run(budget, &g);
    ++clock_;
    running_ = nullptr;
    if (w.runnable()) enqueue(w);
  });
}

void Cluster::run_serial_ops() {
  std::vector<AsyncOp*> due;
  due.swap(serial_ops_);
  for (AsyncOp* op : due) {
    if (failure_) return;
    guarded([&] { run_op(op); });
  }
}

}  // namespace fp4lab::emu
