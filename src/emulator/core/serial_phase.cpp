// The serial phase of a round: interactions between clusters, one item at a time in an order drawn from the
// seed; and which clusters sleep until another changes what they poll.
#include <algorithm>
#include <cstring>

#include "emulator/core/opcode.h"
#include "emulator/core/scheduler.h"

namespace fp4lab::emu {

namespace {
// Instructions of a warp between two polls of a loop that only polls.
constexpr uint64_t kSpin = 64;
// Unchanged polls before a cluster sleeps: few, or many if its last sleep was short (a contended lock changes
// all the time).
constexpr uint32_t kRepeats = 2, kManyRepeats = 16;
// For a warp that repeats a compare and swap: instructions at once, and serial phases between two such turns
// after failures.
constexpr unsigned kSwapTurn = 512;
constexpr size_t kMostWarps = 32;  // of a CTA
constexpr uint32_t kMostRest = 63;
constexpr uint32_t kShortSleep = 4, kMostPatience = 64;  // rounds
}  // namespace

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

void Scheduler::wake_all() {
  wake([](const Sleeper&) { return true; });
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

// The first try may fail, since it has yet to learn the value. Two failures in a row look like a held lock:
// the warp then takes single tries for a while, which count as polls.
void Scheduler::go_on_swapping(const Item& item, bool changed) {
  std::vector<Swapper>& of_cluster = swappers_[item.cluster->id];
  const size_t number = item.warp->cta.rank * kMostWarps + item.warp->id;
  if (of_cluster.size() <= number) of_cluster.resize(number + 1);
  Swapper& swapper = of_cluster[number];
  if (swapper.rest && swapper.rest--) return;
  if (rng_() % 4 == 0) return;  // hardware may choose a single try too
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
  if (items_.empty() && !spent) {  // something has to run
    wake_all();
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

}  // namespace fp4lab::emu
