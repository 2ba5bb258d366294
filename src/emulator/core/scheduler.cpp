#include "emulator/core/scheduler.h"

#include <algorithm>
#include <utility>

#include "emulator/core/failure.h"
#include "emulator/engine/state.h"
#include "emulator/isa/opcode.h"

namespace fp4lab::emu {

namespace {
// After so many rounds in which every warp only polled, lanes that wait at a join for others of their warp go
// on alone: the others may be polling for what these have yet to write (a lock that one lane holds).
constexpr uint64_t kIdleRounds = 16;
// "mbarrier.try_wait ... waits up to a system-dependent time limit" (PTX ISA 9.7.13.15.16): when nothing else
// can go on, waits end without success. A kernel may well ask once for the phase that its next instructions
// bring about. One that comes back to the same waits so many times and did nothing in between is stuck.
constexpr unsigned kTimeOuts = 4;
// Instructions of a warp between two polls of a loop that does nothing else.
constexpr uint64_t kSpin = 64;
// Looks at the same before a cluster sleeps: few, or many when its last sleep was short (a lock that many
// take changes all the time).
constexpr uint32_t kRepeats = 2, kManyRepeats = 16;
// Of a warp that goes on with compare and swap: instructions at once, and serial phases between two such
// turns where they were in vain.
constexpr unsigned kSwapTurn = 512;
constexpr size_t kMostWarps = 32;  // of a CTA
constexpr uint32_t kMostRest = 63;
constexpr uint64_t kStartRounds = 32;  // between the starts of CTAs on an SM, see start_clusters
constexpr uint32_t kShortSleep = 4, kMostPatience = 64;  // rounds

unsigned host_threads(const Grid& grid) {
  if (grid.watcher && !grid.watcher->thread_safe()) return 1;
  if (grid.schedule.threads) return grid.schedule.threads;
  return std::max(1u, std::thread::hardware_concurrency());
}

bool is_allocation(const Instr& i) { return i.opcode && i.opcode->name == "tcgen05_alloc"; }

// The kernel, or a function that it may call.
bool allocates_tensor_memory(const Grid& grid) {
  return grid.device.tmem_columns && std::ranges::any_of(grid.module.functions, [&](const Function& f) {
           return (!f.entry || &f == &grid.function) && std::ranges::any_of(f.code, is_allocation);
         });
}

}  // namespace

Scheduler::Scheduler(Grid& grid)
    : grid_(grid),
      residency_(grid.device, grid.shared_bytes(), static_cast<uint32_t>(grid.config.block.count()),
                 static_cast<uint32_t>(grid.config.cluster.count())),
      rng_(grid.schedule.seed ^ 0x5ca1ab1e0ddba11ull),
      one_by_one_(grid.schedule.tolerant && allocates_tensor_memory(grid)) {
  uint64_t slots = 0;
  for (const Function& f : grid.module.functions) {
    grid.code_base_.push_back(static_cast<uint32_t>(slots));
    slots += f.code.size();
  }
  const unsigned n = static_cast<unsigned>(std::min<uint64_t>(host_threads(grid), grid.clusters_));
  counts_.assign(n, std::vector<uint64_t>(slots));
  for (unsigned k = 1; k < n; ++k) threads_.emplace_back([this, k] { worker(k); });
}

Scheduler::~Scheduler() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begin_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void Scheduler::worker(unsigned thread) {
  uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      begin_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
    }
    work(thread);
    std::lock_guard lock(mutex_);
    if (--busy_ == 0) end_.notify_one();
  }
}

void Scheduler::work(unsigned thread) {
  for (size_t k; (k = next_.fetch_add(1)) < awake_.size() + gone_.size();) {
    if (k >= awake_.size()) {
      gone_[k - awake_.size()].reset();
      continue;
    }
    Cluster& c = *awake_[k];
    c.counts_ = counts_[thread].data();
    c.run(grid_.schedule.round_steps);
  }
}

void Scheduler::parallel_phase() {
  next_ = 0;
  if (threads_.empty() || awake_.size() + gone_.size() <= 1) {
    work(0);
    gone_.clear();
    return;
  }
  {
    std::lock_guard lock(mutex_);
    ++generation_;
    busy_ = static_cast<unsigned>(threads_.size());
  }
  begin_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  end_.wait(lock, [&] { return busy_ == 0; });
  gone_.clear();
}

void Scheduler::serial_items(Cluster& c) {
  if (!c.serial_ops_.empty()) items_.push_back({&c, nullptr, nullptr});
  for (auto& cta : c.ctas)
    for (auto& w : cta->warps)
      for (auto& g : w->groups_)
        if (g->wait.kind == Wait::Kind::serial) items_.push_back({&c, w.get(), g.get()});
}

bool Scheduler::falls_asleep(Cluster& c) {
  if (!c.runnable_.empty() || !c.ops_.empty() || c.changed_ || c.failure_) return false;
  Sleeper s{&c, sum_.rounds, sum_.rounds + std::max(1u, c.patience_), {}};
  const uint32_t repeats = c.patience_ ? kRepeats : kManyRepeats;
  for (auto& cta : c.ctas)
    for (auto& w : cta->warps)
      for (auto& g : w->groups_) {
        switch (g->wait.kind) {
          case Wait::Kind::serial:
            break;
          case Wait::Kind::mbarrier:
          case Wait::Kind::named_barrier:
          case Wait::Kind::cluster_barrier:
          case Wait::Kind::warp_sync:
          case Wait::Kind::reconverge:
            continue;
          default:
            return false;
        }
        const Polled& p = g->polled;
        const Instr* const next = &grid_.module.functions[g->function].code[g->pc];
        const bool again = p.look.length && p.look == g->wanted && g->wanted.at == next;
        if (!again || p.repeats < repeats || w->instructions - p.instructions > kSpin) return false;
        if (grid_.memory.contents(p.look.low, p.look.length) != p.contents) return false;
        s.polled.push_back(p);
      }
  if (s.polled.empty()) return false;
  c.patience_ = std::clamp(2 * c.patience_, 1u, kMostPatience);
  asleep_clocks_ += c.clock_;
  asleep_progress_ += c.progress_;
  asleep_.push_back(std::move(s));
  return true;
}

template <class F>
void Scheduler::wake(F&& which) {
  const size_t before = awake_.size();
  std::erase_if(asleep_, [&](const Sleeper& s) {
    if (!which(s)) return false;
    asleep_clocks_ -= s.cluster->clock_;
    asleep_progress_ -= s.cluster->progress_;
    awake_.push_back(s.cluster);
    return true;
  });
  if (awake_.size() != before) std::ranges::sort(awake_, {}, &Cluster::id);
}

bool Scheduler::run_item(const Item& item) {
  grid_.snapshots_.clear();
  if (item.warp)
    item.cluster->run_serial(*item.warp, *item.group);
  else
    item.cluster->run_serial_ops();
  const bool changed = std::ranges::any_of(
      grid_.snapshots_, [](const Grid::Snapshot& s) { return std::memcmp(s.place, s.before, s.bytes) != 0; });
  item.cluster->progress_ += changed;
  return changed;
}

bool Scheduler::is_compare_and_swap(const LaneGroup& g) const {
  const Opcode* const opcode = grid_.module.functions[g.function].code[g.pc].opcode;
  return opcode && opcode->name == "atom_cas";
}

// The first try may fail, for it has yet to learn the value. Two failures on end look like a lock that
// another holds: then the warp takes single tries for a while, and its lanes have polled, no more.
void Scheduler::go_on_swapping(const Item& item, bool changed) {
  std::vector<Swapper>& of_cluster = swappers_[item.cluster->id];
  const size_t number = item.warp->cta.rank * kMostWarps + item.warp->id;
  if (of_cluster.size() <= number) of_cluster.resize(number + 1);
  Swapper& swapper = of_cluster[number];
  if (swapper.rest && swapper.rest--) return;
  if (rng_() % 4 == 0) return;  // a try alone is an order that the hardware may choose too
  bool any = changed;
  unsigned failures = !changed;
  for (unsigned left = kSwapTurn; left && failures < 2 && !item.cluster->failure_; --left) {
    LaneGroup* const next = item.warp->next_group();
    if (!next) break;
    changed = run_item({item.cluster, item.warp, next});
    if (grid_.snapshots_.empty()) continue;  // no access of the kind
    any |= changed;
    failures = changed ? 0 : failures + 1;
  }
  swapper.patience = any ? 0 : std::min(2 * swapper.patience + 1, kMostRest);
  swapper.rest = swapper.patience;
}

bool Scheduler::serial_phase(uint64_t spent) {
  wake([&](const Sleeper& s) {
    for (const Polled& p : s.polled)
      if (grid_.memory.contents(p.look.low, p.look.length) != p.contents) {
        s.cluster->patience_ = sum_.rounds - s.since > kShortSleep;
        return true;
      }
    return sum_.rounds >= s.until;
  });
  std::erase_if(awake_, [&](Cluster* c) { return falls_asleep(*c); });
  items_.clear();
  for (Cluster* c : awake_) serial_items(*c);
  if (items_.empty() && !spent) {  // somebody has to go on
    wake([](const Sleeper&) { return true; });
    for (Cluster* c : awake_) serial_items(*c);
  }
  for (size_t n = items_.size(); n > 1; --n) std::swap(items_[n - 1], items_[rng_() % n]);
  grid_.serial_ = true;
  for (const Item& item : items_) {
    if (item.cluster->failure_) continue;
    item.cluster->counts_ = counts_[0].data();
    const bool swaps = item.warp && is_compare_and_swap(*item.group);
    const bool changed = run_item(item);
    if (swaps) go_on_swapping(item, changed);
  }
  grid_.serial_ = false;
  return !items_.empty();
}

// Where the schedule is tolerant and the kernel allocates tensor memory, a CTA comes to an SM some rounds
// behind the one that is there, as a launch takes its time on hardware too: the first asks for its columns
// first. Where the others only poll, they may be polling for what is to come.
bool Scheduler::comes_too_soon(const std::vector<Sm*>& sms) const {
  const uint64_t apart = pace_.idle_rounds ? 1 : kStartRounds;
  return one_by_one_ && std::ranges::any_of(sms, [&](const Sm* sm) {
           const auto last = last_start_.find(sm);
           return sm->ctas > 1 && last != last_start_.end() && sum_.rounds < last->second + apart;
         });
}

void Scheduler::start_clusters() {
  std::vector<Sm*> sms;
  while (grid_.next_cluster_ < grid_.clusters_ && residency_.place(sms)) {
    if (comes_too_soon(sms)) {
      residency_.remove(sms);
      break;
    }
    if (one_by_one_)
      for (const Sm* sm : sms) last_start_[sm] = sum_.rounds;
    const uint64_t id = grid_.next_cluster_++;
    auto& c = resident_[id] = std::make_unique<Cluster>(grid_, id, grid_.first_cta(id), sms);
    awake_.push_back(c.get());
  }
}

void Scheduler::retire() {
  std::erase_if(awake_, [&](const Cluster* c) {
    if (!c->finished()) return false;
    count(*c);
    residency_.remove(c->sms_);
    const auto at = resident_.find(c->id);
    gone_.push_back(std::move(at->second));
    resident_.erase(at);
    swappers_.erase(gone_.back()->id);
    return true;
  });
}

std::vector<Cluster*> Scheduler::all() const {
  std::vector<Cluster*> clusters;
  for (const auto& [id, c] : resident_) clusters.push_back(c.get());
  return clusters;
}

void Scheduler::count(const Cluster& c) {
  sum_.async_ops += c.statistics.async_ops;
  sum_.tma_bytes += c.statistics.tma_bytes;
  sum_.mma_count += c.statistics.mma_count;
}

// The first failure of the round by cluster; every cluster has run its round, so it is the same for any
// number of host threads.
bool Scheduler::failed(LaunchResult& result) {
  const Failure* first = nullptr;
  unsigned others = 0;
  for (const Cluster* c : awake_) {
    if (!c->failure_) continue;
    if (c->failure_->other) std::rethrow_exception(c->failure_->other);
    if (!first)
      first = c->failure_.get();
    else
      ++others;
  }
  if (!first) return false;
  result.ok = false;
  result.kind = first->kind;
  result.report = first->report;
  result.line = first->line;
  if (others)
    result.report +=
        fmt::format("\n  ({} other cluster{} faulted in the same round)", others, others == 1 ? "" : "s");
  return true;
}

uint64_t Scheduler::clocks() const {
  uint64_t sum = asleep_clocks_;
  for (const Cluster* c : awake_) sum += c->clock_;
  return sum;
}

// Before clusters retire. `spent`: steps of the round.
void Scheduler::keep_pace(uint64_t spent) {
  uint64_t now = pace_.gone + asleep_progress_;
  for (const Cluster* c : awake_) {
    now += c->progress_;
    if (c->finished()) pace_.gone += c->progress_ + 1, ++now;
  }
  const bool idle = now == pace_.progress;
  pace_.progress = now;
  pace_.polled = idle ? pace_.polled + spent : 0;
  pace_.idle_rounds = idle ? pace_.idle_rounds + 1 : 0;
  if (!idle) pace_.time_outs = 0, pace_.leap = kFirstLeap;
}

bool Scheduler::release(bool (*how)(Warp&)) {
  bool any = false;
  wake([](const Sleeper&) { return true; });
  for (Cluster* c : awake_)
    for (auto& cta : c->ctas)
      for (auto& w : cta->warps)
        if (how(*w)) c->enqueue(*w), any = true;
  return any;
}

void Scheduler::leap() {
  bool read = false;
  for (Cluster* c : awake_) read |= std::exchange(c->clock_read_, false);
  if (!read) return;
  grid_.clock_ahead_ += pace_.leap;
  pace_.leap = std::min(2 * pace_.leap, kMostLeap);
}

bool Scheduler::end_waits(bool stuck) {
  const bool idle = pace_.idle_rounds == kIdleRounds;
  if (!stuck && !idle) return false;
  pace_.idle_rounds = 0;
  if (idle) leap();
  bool any = release([](Warp& w) { return w.release_joins(true); });
  stuck &= !any;
  if ((stuck && pace_.time_outs++ < kTimeOuts) || idle)
    any |= release([](Warp& w) { return w.time_out_waits(); });
  return any;
}

bool Scheduler::round(LaunchResult& result) {
  ++sum_.rounds;
  const uint64_t clock = clocks();
  parallel_phase();
  if (failed(result)) return false;
  const bool served = serial_phase(clocks() - clock);
  if (failed(result)) return false;

  const uint64_t spent = clocks() - clock;
  keep_pace(spent);
  const size_t before = resident_.size();
  retire();
  bool stuck = spent == 0 && !served && resident_.size() == before;
  if (end_waits(stuck)) stuck = false;
  const bool silent = std::ranges::any_of(
      awake_, [&](const Cluster* c) { return c->clock_ - c->silent_since_ > grid_.schedule.silence_limit; });
  if (!stuck && !silent && pace_.polled <= grid_.schedule.poll_limit) return true;
  result.ok = false;
  result.kind = FaultKind::deadlock;
  result.report = stuck_report(grid_, all(), !stuck);
  return false;
}

LaunchResult Scheduler::run() {
  LaunchResult result;
  do start_clusters();
  while (!resident_.empty() && round(result));
  collect(result);
  for (auto& [at, note] : grid_.notes) result.tolerated.push_back(std::move(note));
  result.notes = notes_text(result.tolerated);
  return result;
}

void Scheduler::collect(LaunchResult& result) {
  for (const auto& [id, c] : resident_) count(*c);  // of a launch that failed
  for (size_t f = 0; f < grid_.module.functions.size(); ++f) {
    const Function& function = grid_.module.functions[f];
    auto& by_pc = sum_.by_pc.emplace_back(function.code.size());
    for (size_t pc = 0; pc < by_pc.size(); ++pc) {
      for (const auto& counts : counts_) by_pc[pc] += counts[grid_.code_base_[f] + pc];
      if (!by_pc[pc]) continue;
      sum_.warp_instructions += by_pc[pc];
      const Opcode* op = function.code[pc].opcode;
      auto it =
          std::find_if(sum_.by_opcode.begin(), sum_.by_opcode.end(), [op](auto& e) { return e.first == op; });
      if (it == sum_.by_opcode.end())
        sum_.by_opcode.push_back({op, by_pc[pc]});
      else
        it->second += by_pc[pc];
    }
  }
  grid_.statistics = sum_;
  result.statistics = std::move(sum_);
}

}  // namespace fp4lab::emu
