// One cluster's part of a round: which warp runs next and for how long, and when asynchronous operations run.
#include <algorithm>
#include <optional>

#include "emulator/core/failure.h"
#include "emulator/core/machine.h"

namespace fp4lab::emu {

namespace {
constexpr uint64_t kOpCost = 16;         // steps of the round's budget that an asynchronous operation uses
constexpr uint64_t kSerialSoon = 256;    // steps until the round ends early for a strong access
constexpr uint32_t kOneIn = 64;          // how often a policy does what it otherwise avoids
constexpr uint32_t kPolicyTurns = 4096;  // at most, before another policy is drawn
constexpr uint64_t kTurn = 32;           // instructions of a warp, see Cluster::in_turn
constexpr uint64_t kChance = 256;  // instructions; on hardware a copy or a product takes as long as that
}  // namespace

template <class F>
void Cluster::guarded(F&& f) {
  try {
    f();
  } catch (const Fault& e) {
    const Warp* w = running_;
    AsyncOp* op = running_op_;
    failure_ = std::make_unique<Failure>(Failure{
        e.kind, fault_report(e, grid, w, op), fault_line(grid, w, op), fault_source(grid, w, op), nullptr});
    running_ = nullptr;
    running_op_ = nullptr;
    if (!w && !op) return;
    ask(e, w, op, nullptr);
    look_ahead(op ? *op->cta->warps[op->warp] : *w);
    return;
  } catch (...) {
    failure_ = std::make_unique<Failure>(Failure{{}, {}, 0, {}, std::current_exception()});
  }
  running_ = nullptr;
  running_op_ = nullptr;
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
  const bool in_step = grid.schedule.tolerant && grid.schedule.kind != Schedule::Kind::eager;
  std::optional<uint32_t> going;  // asked for once
  const auto peer_goes_on = [&](const AsyncOp& op) {
    if (!in_step || !op.of_pair()) return false;
    if (!going) going = ranks_that_go_on();
    return (*going >> (op.cta->rank ^ 1) & 1) != 0;
  };
  AsyncOp *held = nullptr, *early = nullptr;
  for (size_t k = 0; k < n; ++k) {
    AsyncOp* op = eligible((start + k) % n);
    if (op->due) continue;
    if (op->held(*this)) {
      if (!held) held = op;
    } else if (peer_goes_on(*op)) {
      if (!early) early = op;
    } else {
      return op;
    }
  }
  if (!held_too) return nullptr;
  return early ? early : held;  // a copy may be held for a product
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
  const AsyncOp::Counted counted = questions_.empty() ? AsyncOp::Counted{} : op->counted();
  const bool done = op->run(*this);
  if (!questions_.empty()) [[unlikely]]
    answer(counted, op->origin, op->function, *op->cta, op->warp, true);
  if (done) {
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

// A bulk store reads shared memory soon after its issue. TransformerEngine's NVFP4 and MXFP8 casts rely on
// it: only the issuing thread waits for the store, while the others refill the buffer one stage later. So
// with a tolerant schedule the store has read its source once every runnable warp has had a turn.
AsyncOp* Cluster::overdue_store() {
  if (!grid.schedule.tolerant) return nullptr;
  for (size_t k = 0; k < ops_.size(); ++k) {
    AsyncOp* op = ops_[k].get();
    if (op->reads_shared() && !op->due && all_awake_since(op->turn) && eligible(k) == op) return op;
  }
  return nullptr;
}

// Whether an operation is due now, given `n` runnable warps.
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

// Hardware issues from every ready warp of an SM, and from every CTA of a cluster, and starves none. Public
// kernels rely on it: FlashMLA's decode passes row maxima between warps through shared memory and writes the
// next ones with no barrier after the reads; CUTLASS's example 93 clears mailboxes for other CTAs' st.async
// with no barrier after that, while those load, multiply and add. So with a tolerant schedule the warps of a
// cluster take turns, in any order: a warp that has had its turn gives way to one that has not.
size_t Cluster::in_turn(size_t pick) {
  const size_t n = runnable_.size();
  for (size_t k = pick; k < pick + n; ++k) {
    const Warp& w = *runnable_[k % n];
    if (w.taken_turn_ <= std::max(round_turn_, w.ready_turn_)) return k % n;
  }
  round_turn_ = turns_;
  return pick;
}

// The function that an instruction belongs to: the group that executed it may be gone.
uint32_t Cluster::function_of(const Instr* i) const {
  const auto& functions = grid.module.functions;
  for (uint32_t k = 0; k < functions.size(); ++k)
    if (const auto& code = functions[k].code;
        i && !code.empty() && i >= code.data() && i < code.data() + code.size())
      return k;
  return 0;
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
  if (!questions_.empty()) [[unlikely]]
    answer({}, w.current(), function_of(w.current()), w.cta, w.id, false);
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
    // Operations may stay pending while the serial phase runs those that wait for it.
    if (n == 0 && wants_serial_ && policy_.ops == Policy::Ops::last && random(4)) return false;
    AsyncOp* op = overdue_store();
    if (!op && (no_warp || eager || operation_due(n))) op = choose_op(no_warp);
    if (op) {
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
  changed_ = true;  // the serial phase, or another cluster of the same SM, may have ended a wait
  idle_turns_ = 0, idle_since_ = turns_;
  guarded([&] {
    if (ctas.empty()) start();
    wants_serial_ = false;
    bool cut = false;
    for (uint64_t left = steps; left;) {
      if (changed_) poll();
      if (!turn(left)) break;
      // Otherwise an operation of the serial phase would always run after everything else of the round. Where
      // the CTAs of a cluster take turns, none waits that long.
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
