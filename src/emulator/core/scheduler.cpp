#include "emulator/core/scheduler.h"

#include <algorithm>
#include <utility>

#include "emulator/core/cta_state.h"
#include "emulator/core/failure.h"
#include "emulator/core/opcode.h"

namespace fp4lab::emu {

namespace {
// After this many rounds in which every warp only polled, lanes that wait at a join for others of their warp
// continue alone: the others may be polling for what these have yet to write (a lock that one lane holds).
constexpr uint64_t kIdleRounds = 16;
// "mbarrier.try_wait ... waits up to a system-dependent time limit" (PTX ISA 9.7.13.15.16). When nothing else
// can run, waits end without success: a kernel may ask once for a phase that its next instructions complete.
// One that returns to the same waits this many times and did nothing in between is stuck.
constexpr unsigned kTimeOuts = 4;
constexpr uint64_t kStartRounds = 32;  // between the starts of CTAs on an SM, see start_clusters

unsigned host_threads(const Grid& grid) {
  if (grid.watcher && !grid.watcher->thread_safe()) return 1;
  if (grid.schedule.threads) return grid.schedule.threads;
  return std::max(1u, std::thread::hardware_concurrency());
}

// Whether the kernel, or a function that it may call, has an instruction whose name begins like this.
bool has_instruction(const Grid& grid, std::string_view name) {
  return grid.device.tmem_columns && std::ranges::any_of(grid.module.functions, [&](const Function& f) {
           return (!f.entry || &f == &grid.function) && std::ranges::any_of(f.code, [&](const Instr& i) {
                    return i.opcode && std::string_view(i.opcode->name).starts_with(name);
                  });
         });
}

}  // namespace

Scheduler::Scheduler(Grid& grid)
    : grid_(grid),
      residency_(grid.device, grid.shared_bytes(), static_cast<uint32_t>(grid.config.block.count()),
                 static_cast<uint32_t>(grid.config.cluster.count())),
      rng_(grid.schedule.seed ^ 0x5ca1ab1e0ddba11ull),
      tensor_memory_(grid.schedule.tolerant && has_instruction(grid, "tcgen05_")),
      one_by_one_(grid.schedule.tolerant && has_instruction(grid, "tcgen05_alloc")) {
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

// With a tolerant schedule and a kernel that allocates tensor memory, a CTA starts on an occupied SM some
// rounds after the CTA there, as on hardware, where launching takes time. So the first CTA allocates its
// columns first. If the others only poll, the new CTA starts soon: they may be polling for its results.
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
    for (Sm* sm : sms) {
      if (one_by_one_) last_start_[sm] = sum_.rounds;
      // Tensor memory exists before any allocation: a warp may use it before its CTA's tcgen05.alloc, and
      // Modular's attention never allocates.
      if (tensor_memory_ && !sm->tmem) sm->tmem = std::make_unique<TensorMemory>();
    }
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

// The round's first failure in the order of clusters. Every cluster has run its round, so the result does not
// depend on the number of host threads.
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
  result.source = first->source;
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

// Called before clusters retire. `spent`: steps of the round.
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
  wake_all();
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

// A limit of steps, of time, or Ctrl-C.
bool Scheduler::stopped(LaunchResult& result) {
  std::string why;
  if (grid_.schedule.each_round)
    why = grid_.schedule.each_round(
        {grid_.function.name, grid_.next_cluster_ - resident_.size(), grid_.clusters_});
  const uint64_t limit = grid_.schedule.step_limit;
  if (why.empty() && limit) {
    uint64_t steps = 0;
    for (const auto& counts : counts_)
      for (const uint64_t n : counts) steps += n;
    if (steps > limit) why = fmt::format("the limit of {} warp instructions is reached", limit);
  }
  if (why.empty()) return false;
  result.ok = false;
  result.kind = FaultKind::stopped;
  result.report = stopped_report(grid_, all(), why);
  return true;
}

bool Scheduler::round(LaunchResult& result) {
  ++sum_.rounds;
  if (stopped(result)) return false;
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
  std::ranges::stable_sort(result.tolerated, {}, &Tolerated::line);
  result.notes = notes_text(result.tolerated, false);
  result.errors = notes_text(result.tolerated, true);
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
