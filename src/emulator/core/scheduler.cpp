#include "emulator/core/scheduler.h"

#include <algorithm>

#include "emulator/core/failure.h"
#include "emulator/engine/state.h"

namespace fp4lab::emu {

namespace {
// After so many rounds in which every warp only polled, lanes that wait at a join for others of their warp go
// on alone: the others may be polling for what these have yet to write (a lock that one lane holds).
constexpr uint64_t kIdleRounds = 16;
// "mbarrier.try_wait ... waits up to a system-dependent time limit" (PTX ISA 9.7.13.15.16): when nothing else
// can go on, waits end without success. A kernel may well ask once for the phase that its next instructions
// bring about. One that comes back to the same waits so many times and did nothing in between is stuck.
constexpr unsigned kTimeOuts = 4;

unsigned host_threads(const Grid& grid) {
  if (grid.watcher && !grid.watcher->thread_safe()) return 1;
  if (grid.schedule.threads) return grid.schedule.threads;
  return std::max(1u, std::thread::hardware_concurrency());
}
}  // namespace

Scheduler::Scheduler(Grid& grid)
    : grid_(grid),
      residency_(grid.device, grid.shared_bytes(), static_cast<uint32_t>(grid.config.block.count()),
                 static_cast<uint32_t>(grid.config.cluster.count())),
      rng_(grid.schedule.seed ^ 0x5ca1ab1e0ddba11ull) {
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
  for (size_t k; (k = next_.fetch_add(1)) < resident_.size();) {
    Cluster& c = *resident_[k];
    c.counts_ = counts_[thread].data();
    c.run(grid_.schedule.round_steps);
  }
}

void Scheduler::parallel_phase() {
  next_ = 0;
  if (threads_.empty() || resident_.size() == 1) {
    work(0);
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
}

bool Scheduler::serial_phase() {
  struct Item {
    Cluster* cluster;
    Warp* warp;  // null: the cluster's operations
    LaneGroup* group;
  };
  std::vector<Item> items;
  for (auto& c : resident_) {
    if (!c->serial_ops_.empty()) items.push_back({c.get(), nullptr, nullptr});
    for (auto& cta : c->ctas)
      for (auto& w : cta->warps)
        for (auto& g : w->groups_)
          if (g->wait.kind == Wait::Kind::serial) items.push_back({c.get(), w.get(), g.get()});
  }
  for (size_t n = items.size(); n > 1; --n) std::swap(items[n - 1], items[rng_() % n]);
  grid_.serial_ = true;
  for (const Item& item : items) {
    Cluster& c = *item.cluster;
    if (c.failure_) continue;
    c.counts_ = counts_[0].data();
    grid_.snapshots_.clear();
    if (item.warp)
      c.run_serial(*item.warp, *item.group);
    else
      c.run_serial_ops();
    for (const Grid::Snapshot& s : grid_.snapshots_)
      if (std::memcmp(s.place, s.before, s.bytes) != 0) {
        ++c.progress_;
        break;
      }
  }
  grid_.serial_ = false;
  return !items.empty();
}

void Scheduler::start_clusters() {
  std::vector<Sm*> sms;
  while (grid_.next_cluster_ < grid_.clusters_ && residency_.place(sms)) {
    const uint64_t id = grid_.next_cluster_++;
    resident_.push_back(std::make_unique<Cluster>(grid_, id, grid_.first_cta(id), sms));
  }
}

void Scheduler::retire() {
  std::erase_if(resident_, [&](std::unique_ptr<Cluster>& c) {
    if (!c->finished()) return false;
    sum_.async_ops += c->statistics.async_ops;
    sum_.tma_bytes += c->statistics.tma_bytes;
    sum_.mma_count += c->statistics.mma_count;
    residency_.remove(c->sms_);
    return true;
  });
}

// The first failure of the round by cluster; every cluster has run its round, so it is the same for any
// number of host threads.
bool Scheduler::failed(LaunchResult& result) {
  const Failure* first = nullptr;
  unsigned others = 0;
  for (const auto& c : resident_) {
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
  uint64_t sum = 0;
  for (const auto& c : resident_) sum += c->clock_;
  return sum;
}

// Before clusters retire. `spent`: steps of the round.
void Scheduler::keep_pace(uint64_t spent) {
  uint64_t now = pace_.gone;
  for (const auto& c : resident_) {
    now += c->progress_;
    if (c->finished()) pace_.gone += c->progress_ + 1, ++now;
  }
  const bool idle = now == pace_.progress;
  pace_.progress = now;
  pace_.polled = idle ? pace_.polled + spent : 0;
  pace_.idle_rounds = idle ? pace_.idle_rounds + 1 : 0;
  if (!idle) pace_.time_outs = 0;
}

bool Scheduler::release(bool (*how)(Warp&)) {
  bool any = false;
  for (auto& c : resident_)
    for (auto& cta : c->ctas)
      for (auto& w : cta->warps)
        if (how(*w)) c->enqueue(*w), any = true;
  return any;
}

bool Scheduler::end_waits(bool stuck) {
  const bool idle = pace_.idle_rounds == kIdleRounds;
  if (!stuck && !idle) return false;
  pace_.idle_rounds = 0;
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
  const bool served = serial_phase();
  if (failed(result)) return false;

  const uint64_t spent = clocks() - clock;
  keep_pace(spent);
  const size_t before = resident_.size();
  retire();
  bool stuck = spent == 0 && !served && resident_.size() == before;
  if (end_waits(stuck)) stuck = false;
  const bool silent = std::ranges::any_of(
      resident_, [&](const auto& c) { return c->clock_ - c->silent_since_ > grid_.schedule.silence_limit; });
  if (!stuck && !silent && pace_.polled <= grid_.schedule.poll_limit) return true;
  result.ok = false;
  result.kind = FaultKind::deadlock;
  result.report = stuck_report(grid_, resident_, !stuck);
  return false;
}

LaunchResult Scheduler::run() {
  LaunchResult result;
  do start_clusters();
  while (!resident_.empty() && round(result));
  collect(result);
  if (!grid_.notes.empty()) result.notes = grid_.notes.begin()->second.report + "\n";
  for (auto& [at, note] : grid_.notes) result.tolerated.push_back(std::move(note));
  if (grid_.notes.size() > 1)
    result.notes += fmt::format("  (and the like at {} more instructions)\n", grid_.notes.size() - 1);
  return result;
}

void Scheduler::collect(LaunchResult& result) {
  for (const auto& c : resident_) {  // of a launch that failed
    sum_.async_ops += c->statistics.async_ops;
    sum_.tma_bytes += c->statistics.tma_bytes;
    sum_.mma_count += c->statistics.mma_count;
  }
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
