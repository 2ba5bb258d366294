// Divergence and reconvergence of lanes: at the immediate post-dominator where there is one (Join), otherwise
// at instructions with a member mask.
#include <algorithm>

#include "emulator/core/machine.h"
#include "emulator/core/place.h"
#include "emulator/core/reschedule.h"
#include "emulator/core/warp.h"

namespace fp4lab::emu {

namespace {
// A group that has waited this long at a join continues without its siblings: they may be spinning on a value
// that it has yet to write.
constexpr uint64_t kStale = 1'000'000;
}  // namespace

LaneGroup* Warp::fork(LaneGroup& like, uint32_t mask, uint32_t pc) {
  count_quiet(like);
  if (spare_.empty()) spare_.push_back(std::make_unique<LaneGroup>());
  std::unique_ptr<LaneGroup> g = std::move(spare_.back());
  spare_.pop_back();
  g->mask = mask;
  g->pc = pc;
  g->function = like.function;
  g->quiet = like.quiet;  // lanes that diverge often may still make progress
  g->joins = like.joins;
  g->frames = like.frames;
  g->wait = {};
  groups_.push_back(std::move(g));
  events_ |= kSwitch;
  return groups_.back().get();
}

void Warp::remove(LaneGroup* g) {
  auto it = std::find_if(groups_.begin(), groups_.end(), [g](const auto& p) { return p.get() == g; });
  g->mask = 0;
  spare_.push_back(std::move(*it));
  groups_.erase(it);
  events_ |= kSwitch;
}

uint32_t Warp::push_join(LaneGroup& g, uint32_t pc, uint32_t depth) {
  uint32_t id = 0;
  while (id < joins_.size() && joins_[id].participants) ++id;
  if (id == joins_.size()) joins_.emplace_back();
  joins_[id] = {.pc = pc, .depth = depth, .participants = g.mask};
  g.joins.push_back(id);
  return id;
}

uint32_t Warp::join_pc(const LaneGroup& g) const {
  if (g.joins.empty()) return kNoPc;
  const Join& j = joins_[g.joins.back()];
  return j.depth == g.frames.size() ? j.pc : kNoPc;
}

// The group that continues, or null when the lanes wait for others.
LaneGroup* Warp::arrive(LaneGroup& arriving) {
  LaneGroup* g = &arriving;
  while (join_pc(*g) == g->pc) {
    const uint32_t id = g->joins.back();
    Join& j = joins_[id];
    j.arrived |= g->mask;
    if (j.waiting) {
      j.waiting->mask |= g->mask;
      j.waiting->quiet = std::min(j.waiting->quiet, g->quiet);
      remove(g);
      g = j.waiting;
    } else if (j.arrived != j.participants) {
      j.waiting = g;
      j.since = instructions;
      g->wait = {.kind = Wait::Kind::reconverge};
      wake_gathering();
    }
    if (j.arrived != j.participants) return nullptr;
    g->wait = {};
    g->joins.pop_back();
    j = {};
  }
  return g;
}

// Lanes exited, or wait at a join: groups that wait for them at a sync instruction check again.
void Warp::wake_gathering() {
  for (const auto& g : groups_)
    if (g->wait.kind == Wait::Kind::warp_sync) g->wait = {};
  events_ |= kSwitch;
}

void Warp::settle(uint32_t id) {
  Join& j = joins_[id];
  if (j.participants == 0) {
    j = {};
  } else if (j.participants == j.arrived) {
    LaneGroup* g = j.waiting;
    g->wait = {};
    g->joins.pop_back();
    j = {};
    arrive(*g);
  }
}

void Warp::leave_joins(LaneGroup& g, uint32_t lanes, size_t keep) {
  const std::vector<uint32_t> joins = g.joins;
  if (lanes == g.mask) g.joins.resize(keep);
  for (size_t i = joins.size(); i-- > keep;) {
    joins_[joins[i]].participants &= ~lanes;
    settle(joins[i]);
  }
}

bool Warp::release_joins(bool all) {
  bool any = false;
  for (size_t id = 0; id < joins_.size(); ++id) {
    Join& j = joins_[id];
    if (!j.waiting || (!all && instructions - j.since < kStale)) continue;
    release_join(j);
    any = true;
  }
  return any;
}

void Warp::release_join(Join& j) {
  LaneGroup* g = j.waiting;
  j.participants &= ~j.arrived;
  j.arrived = 0;
  j.waiting = nullptr;
  g->wait = {};
  g->joins.pop_back();
  arrive(*g);
}

// Moves some of the group's lanes to a branch target.
void Warp::part(const Instr& i, uint32_t target, uint32_t taken) {
  LaneGroup& g = *group;
  if (i.reconverge != kNoPc && join_pc(g) != i.reconverge)
    push_join(g, i.reconverge, static_cast<uint32_t>(g.frames.size()));
  LaneGroup* other = fork(g, taken, target);
  g.mask &= ~taken;
  arrive(*other);
}

void Warp::branch(const Instr& i, uint32_t target, uint32_t taken) {
  if (taken == group->mask) {
    group->pc = target;
  } else if (taken) {
    part(i, target, taken);
    arrive(*group);
  }
}

void Warp::branch_indexed(const Instr& i, const std::vector<uint32_t>& target_of_lane) {
  // The lanes leave the group one target at a time; the remaining ones continue as this group. It must not
  // check for reconvergence before the last lanes have left.
  bool parts = false;
  for (uint32_t left = active; left;) {
    const uint32_t target = target_of_lane[static_cast<unsigned>(std::countr_zero(left))];
    uint32_t same = 0;
    for_lanes(left, [&](unsigned lane) { same |= uint32_t(target_of_lane[lane] == target) << lane; });
    left &= ~same;
    if (same == group->mask) {
      group->pc = target;
    } else {
      part(i, target, same);
      parts = true;
    }
  }
  if (parts) arrive(*group);
}

void Warp::call(const Instr& i, uint32_t function) {
  LaneGroup* g = group;
  if (active != g->mask) {
    g = fork(*group, active, i.pc + 1);
    group->mask &= ~active;
  }
  const Function& callee = cta.cluster.grid.module.functions[function];
  if (callee.external || callee.code.empty())
    fault(FaultKind::illegal_instruction, kLanes, "call of {}, which has no body", callee.name);
  push_join(*g, i.pc + 1, static_cast<uint32_t>(g->frames.size()));
  g->frames.push_back({g->function, i.pc + 1});
  if (stack_) for_lanes(g->mask, [&](unsigned l) { stack_->callers[l].push_back(stack_->top[l]); });
  g->function = function;
  g->pc = 0;
  events_ |= kSwitch;
}

void Warp::ret(uint32_t lanes_) {
  if (group->frames.empty()) return exit(lanes_);
  LaneGroup* g = group;
  if (lanes_ != g->mask) {
    g = fork(*group, lanes_, 0);
    group->mask &= ~lanes_;
  }
  size_t keep = g->joins.size();
  while (keep && joins_[g->joins[keep - 1]].depth == g->frames.size()) --keep;
  leave_joins(*g, g->mask, keep);
  if (stack_)
    for_lanes(g->mask, [&](unsigned l) {
      stack_->top[l] = stack_->callers[l].back();
      stack_->callers[l].pop_back();
    });
  g->function = g->frames.back().function;
  g->pc = g->frames.back().return_pc;
  g->frames.pop_back();
  events_ |= kSwitch;
  arrive(*g);
}

void Warp::exit(uint32_t gone) {
  exited |= gone;
  leave_joins(*group, gone, 0);
  group->mask &= ~gone;
  if (group->mask == 0) remove(group);
  wake_gathering();
  events_ |= kSwitch;
  cta.cluster.notify();
  if (live() == 0) cta.cluster.warp_exited(*this);
}

void Warp::block(const Wait& wait) {
  events_ |= kBlocked;
  if (wait.kind == Wait::Kind::serial) cta.cluster.wants_serial_ = true;
  if (wait.kind == Wait::Kind::sleep)
    events_ |= kYield;
  else
    group->wait = wait;
}

bool Warp::time_out_waits() {
  bool any = false;
  for (const auto& g : groups_) {
    if (g->wait.kind != Wait::Kind::mbarrier) continue;
    g->wait = {};
    g->timed_out = any = true;
  }
  return any;
}

Fault Warp::not_named(uint32_t members) const {
  const uint32_t strangers = active & ~members;
  return {FaultKind::collective, static_cast<unsigned>(std::countr_zero(strangers)),
          fmt::format("member mask {:#010x} does not name {}, which executes the instruction", members,
                      lane_list(strangers))};
}

bool Warp::converge(const Instr& i, uint32_t members, std::vector<Party>* elsewhere) {
  if (active & ~members) throw not_named(members);
  const uint32_t need = members & live();
  if ((active & need) == need) return true;
  auto joins_in = [&](const LaneGroup& g) {
    return &g != group && g.wait.kind == Wait::Kind::warp_sync && g.pc == i.pc &&
           g.function == group->function && g.wait.address == members &&
           std::equal(g.frames.begin(), g.frames.end(), group->frames.begin(), group->frames.end(),
                      [](const Frame& a, const Frame& b) {
                        return a.function == b.function && a.return_pc == b.return_pc;
                      });
  };
  uint32_t here = active;
  for (const auto& g : groups_)
    if (joins_in(*g)) here |= static_cast<uint32_t>(g->wait.value);
  uint32_t come_elsewhere = 0;
  if (elsewhere && (here & need) != need)
    for (const auto& g : groups_) {
      if (g.get() == group || g->wait.kind != Wait::Kind::warp_sync || g->wait.address != members) continue;
      const Instr& other = cta.cluster.grid.module.functions[g->function].code[g->pc];
      if (other.body != i.body || joins_in(*g)) continue;
      elsewhere->push_back({g.get(), &other, g->mask});
      come_elsewhere |= g->mask;
    }
  if (((here | come_elsewhere) & need) != need) {
    if (elsewhere) elsewhere->clear();
    // Lanes whose guard is false need not wait here.
    if (uint32_t idle = group->mask & ~active) {
      fork(*group, idle, i.pc + 1);
      group->mask &= ~idle;
    }
    block({.kind = Wait::Kind::warp_sync, .address = members, .value = active});
    return false;
  }
  std::vector<LaneGroup*> come;
  for (const auto& g : groups_)
    if (joins_in(*g)) come.push_back(g.get());
  for (LaneGroup* g : come) {
    // Leaves the joins in which only one of the two takes part: their lanes have reconverged here.
    size_t common = 0;
    while (common < g->joins.size() && common < group->joins.size() &&
           g->joins[common] == group->joins[common])
      ++common;
    const uint32_t mask = g->mask;
    g->wait = {};
    leave_joins(*g, mask, common);
    leave_joins(*group, group->mask, common);
    group->mask |= mask;
    group->quiet = std::min(group->quiet, g->quiet);
    remove(g);
  }
  active = here;
  return true;
}

void Warp::let_go(const std::vector<Party>& parties) {
  Cluster& cluster = cta.cluster;
  for (const Party& p : parties) {
    ++instructions;
    ++cluster.counts_[cluster.grid.code_base_[p.group->function] + p.instr->pc];
    p.group->pc = p.instr->pc + 1;
    p.group->wait = {};
  }
  for (const Party& p : parties) arrive(*p.group);
  events_ |= kSwitch;
}

void Warp::require_full(const Instr& i) {
  const uint32_t missing = live() & ~active;
  if (!missing) return;
  const uint32_t off = missing & group->mask;
  if (off)
    fault(FaultKind::collective, static_cast<unsigned>(std::countr_zero(off)),
          "all threads of the warp must execute this instruction together, but its guard is false in {}",
          lane_list(off));
  // Lanes that wait at a join for these lanes can never arrive; all others may. Hardware has no such join
  // where only the function's end follows, and does not miss exited lanes: a tolerant schedule lets the
  // present lanes continue alone.
  std::vector<uint32_t> joins;
  for (const auto& g : groups_)
    if (g->wait.kind == Wait::Kind::reconverge && (g->mask & missing) &&
        (joins_[g->joins.back()].participants & active))
      joins.push_back(static_cast<uint32_t>(g->joins.back()));
  if (!joins.empty())
    cta.cluster.note_or_throw(
        Fault(FaultKind::collective, static_cast<unsigned>(std::countr_zero(missing)),
              fmt::format("all threads of the warp must execute this instruction together, but only {} of "
                          "warp {} do; missing: {}",
                          lane_list(active), id, where(missing))),
        *this);
  for (const uint32_t join : joins) release_join(joins_[join]);
  if (!converge(i, lanes)) throw Reschedule{};
}

void Warp::require_whole(const Instr& i) {
  require_full(i);
  if (active == ~0u) [[likely]]
    return;
  cta.cluster.note_or_throw(
      Fault(FaultKind::collective, static_cast<unsigned>(std::countr_zero(~active)),
            fmt::format("a matrix instruction needs all 32 threads of a warp, but {} of warp {} {}: their "
                        "part of the operands is undefined",
                        lane_list(~active), id, lanes == ~0u ? "have exited" : "do not exist")),
      *this);
}

std::string Warp::where(uint32_t which) const {
  std::string text;
  const Module& m = cta.cluster.grid.module;
  for (const auto& g : groups_) {
    uint32_t here = g->mask & which;
    if (!here) continue;
    const Function& f = m.functions[g->function];
    uint32_t pc = std::min<uint32_t>(g->pc, static_cast<uint32_t>(f.source.size()) - 1);
    text += fmt::format("{}{} at {}", text.empty() ? "" : "; ", lane_list(here), one_line(m, f.source[pc]));
  }
  return text;
}

}  // namespace fp4lab::emu
