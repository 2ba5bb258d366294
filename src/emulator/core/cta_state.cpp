#include "emulator/core/cta_state.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

namespace fp4lab::emu {

void AsyncGroups::commit() {
  groups.emplace_back();
  while (groups.size() > 1 && groups[0].reading == 0 && groups[0].writing == 0) {
    groups.erase(groups.begin());
    ++first;
  }
}

bool AsyncGroups::reached(uint32_t newest, bool read) const {
  size_t committed = groups.size() - 1;
  for (size_t i = 0; i + newest < committed; ++i)
    if (groups[i].reading || (!read && groups[i].writing)) return false;
  return true;
}

unsigned AsyncGroups::unfinished() const {
  unsigned n = 0;
  for (size_t i = 0; i + 1 < groups.size(); ++i) n += groups[i].reading || groups[i].writing;
  return n;
}

CtaState::CtaState(Cta& cta) : cta(cta) {}
CtaState::~CtaState() = default;

WarpEngines& CtaState::warp(unsigned id) {
  if (warps.empty()) warps.resize(cta.warps.size());
  return warps[id];
}

// "; mbarriers are at 0x3f8 (line 12) and 0x408 (line 20): mbarrier.init between lines 12 and 20". The
// neighbours of a missing mbarrier show where its init belongs.
std::string CtaState::mbarriers_text(uint32_t where) const {
  std::map<uint32_t, uint32_t> made;  // offset, line
  for (const uint32_t offset : mbarriers.offsets())
    for (const MbarrierParty& p : mbarriers.find(offset)->parties)
      if (p.what == MbarrierParty::What::inits && p.at) made[offset] = ptx_line(p.function, *p.at);
  if (made.empty()) return "; this CTA has none yet";
  const auto above = made.upper_bound(where);
  std::vector<std::pair<uint32_t, uint32_t>> beside;
  if (above != made.begin()) beside.push_back(*std::prev(above));
  if (above != made.end()) beside.push_back(*above);
  std::string text;
  for (const auto& [offset, line] : beside)
    text += fmt::format("{}{:#x} (mbarrier.init line {})", text.empty() ? "; mbarriers are at " : " and ",
                        offset, line);
  if (beside.size() == 2)
    text +=
        fmt::format(": mbarrier.init between lines {} and {}", std::min(beside[0].second, beside[1].second),
                    std::max(beside[0].second, beside[1].second));
  return text;
}

uint32_t CtaState::ptx_line(uint32_t function, const Instr& i) const {
  return cta.cluster.grid.module.functions[function].source[i.pc].line;
}

// "; initialised with count 1 by line 98; arrived in this phase: line 120, line 651"
std::string CtaState::history(const Mbarrier& b) const {
  std::string made, came;
  for (const MbarrierParty& p : b.parties) {
    if (!p.at) continue;
    const uint32_t line = ptx_line(p.function, *p.at);
    if (p.what == MbarrierParty::What::inits)
      made = fmt::format("; initialised with count {} by line {}", p.amount, line);
    else if (p.what == MbarrierParty::What::arrives && p.phase + 1 >= b.phase)
      came += fmt::format("{}line {} ({} in phase {})", came.empty() ? "; arrived: " : ", ", line, p.amount,
                          p.phase);
  }
  return made + came;
}

Mbarrier& CtaState::mbarrier(uint32_t offset, const char* what) {
  if (offset % 8)
    fault(FaultKind::misaligned_address, 0,
          "{}: the mbarrier at shared offset {:#x} is not aligned to 8 bytes", what, offset);
  const std::byte* bytes = cta.window(offset, 8, what);
  Mbarrier* b = mbarriers.find(offset);
  if (!b)
    fault(FaultKind::mbarrier_absent, 0,
          "{} on shared offset {:#x} of CTA {}, where there is no mbarrier: not initialised yet, or "
          "invalidated{}",
          what, offset, cta.rank, mbarriers_text(offset));
  uint64_t bits;
  std::memcpy(&bits, bytes, 8);
  if (bits != b->state().bits)
    fault(FaultKind::mbarrier_overwritten, 0,
          "{} on the mbarrier at shared offset {:#x}: its bytes were overwritten by something else "
          "({:#018x}, should be {:#018x}: {})",
          what, offset, bits, b->state().bits, b->describe());
  return *b;
}

void CtaState::store(uint32_t offset, const Mbarrier& b) {
  uint64_t bits = b.state().bits;
  std::memcpy(cta.window(offset, 8, "mbarrier"), &bits, 8);
}

namespace {

// Whether the end of a phase must be delayed, so that no warp misses two phases: on hardware the signalling
// operation takes longer than a warp needs to return to its wait. Warps that have seen all phases but the
// last may be on their way there, and so may warps whose own tensor-memory accesses are still pending.
bool must_wait(const Cluster& cluster, const Cta& cta, const Mbarrier& b) {
  if (!cluster.all_moved_since(b.turn)) return true;
  if (!cluster.grid.schedule.tolerant) return false;
  const auto is_behind = [&](const MbarrierParty& p) {
    return p.what == MbarrierParty::What::waits && p.phase + 1 == b.phase &&
           cluster.can_run(cta.rank, p.warp);
  };
  const auto accesses = [](const WarpEngines& e) { return e.tmem_loads || e.tmem_stores; };
  return std::ranges::any_of(b.parties, is_behind) || std::ranges::any_of(cta.state->warps, accesses);
}

// The arrival or delivery that completes a phase (or lets the arrival that announces its bytes complete it)
// before the warps had time to see the previous phase. A parity wait cannot tell a phase from the next but
// one, so kernels rely on asynchronous operations taking longer than a few instructions. The operation's
// memory effects have been applied by now.
struct LateSignal final : AsyncOp {
  uint32_t offset = 0, count = 0;
  int64_t bytes = 0;

  Cta* barrier_cta = nullptr;
  std::string mnemonic;

  const char* name() const override { return mnemonic.c_str(); }
  // An arrival in flight to another CTA does not depend on its sender.
  bool holds_exit() const override { return barrier_cta == cta && !cta->cluster.grid.schedule.tolerant; }
  bool held(const Cluster& cluster) const override {
    const Mbarrier* b = barrier_cta->exited ? nullptr : barrier_cta->state->mbarriers.find(offset);
    return b && must_wait(cluster, *barrier_cta, *b);
  }
  bool run(Cluster& cluster) override {
    if (barrier_cta->exited) {
      const Fault gone(
          FaultKind::peer_exited, lane,
          fmt::format("{} signals an mbarrier of CTA rank {}, which has exited", name(), barrier_cta->rank));
      cluster.note_or_throw(gone, *this);
      return true;
    }
    barrier_cta->state->signal(barrier_cta->state->mbarrier(offset, name()), offset, count, bytes);
    return true;
  }
};

}  // namespace

void CtaState::signal(Mbarrier& b, uint32_t offset, uint32_t count, int64_t bytes) {
  const bool flipped = counted(b, [&] {
    return count ? b.arrive(count, cta.address_of(offset)) : b.complete_tx(bytes, cta.address_of(offset));
  });
  if (flipped) {
    b.turn = cta.cluster.turns();
    b.ended = cta.cluster.next_event();
    b.ender = nullptr;
  }
  store(offset, b);
  if (Watcher* watch = cta.cluster.watcher; watch && flipped)
    watch->barrier({BarrierEvent::What::phase, &cta, offset, 0, b.phase, nullptr, 0, nullptr});
  cta.cluster.notify();
}

void CtaState::signal_by(const AsyncOp& op, uint32_t offset, uint32_t count, int64_t bytes) {
  Mbarrier& b = mbarrier(offset, op.name());
  b.note(count ? MbarrierParty::What::arrives : MbarrierParty::What::delivers, b.phase, op.origin,
         op.function, op.cta->rank, op.warp, 1u << op.lane, count ? count : bytes);
  if (Watcher* watch = cta.cluster.watcher)
    watch->barrier({count ? BarrierEvent::What::arrive : BarrierEvent::What::complete_tx, &cta, offset,
                    count ? count : bytes, b.phase, nullptr, 0, &op});
  if (!b.completes(count, bytes) || !must_wait(cta.cluster, cta, b)) return signal(b, offset, count, bytes);
  auto late = std::make_unique<LateSignal>();
  late->offset = offset, late->count = count, late->bytes = bytes;
  late->barrier_cta = &cta, late->mnemonic = op.name();
  cta.cluster.defer(std::move(late), op);
}

void CtaState::engine_arrive(uint32_t offset, const AsyncOp& op) { signal_by(op, offset, 1, 0); }

void CtaState::engine_complete_tx(uint32_t offset, uint32_t bytes, const AsyncOp& op, uint32_t phase) {
  if (const Mbarrier* b = phase == kNoPhase ? nullptr : mbarriers.find(offset); b && b->phase != phase)
    too_few_bytes(*b, offset, bytes, op, phase);
  signal_by(op, offset, 0, bytes);
}

// Threads that waited for that phase did not wait for these bytes.
void CtaState::too_few_bytes(const Mbarrier& b, uint32_t offset, uint32_t bytes, const AsyncOp& op,
                             uint32_t phase) const {
  std::string announced;
  for (const MbarrierParty& p : b.parties)
    if (p.what == MbarrierParty::What::expects && p.phase == phase && p.at)
      announced += fmt::format("{}{} bytes by line {}", announced.empty() ? ": announced were " : ", ",
                               p.amount, ptx_line(p.function, *p.at));
  cta.cluster.tolerated(
      Fault(FaultKind::mbarrier_count, op.lane,
            fmt::format(
                "{} delivers {} bytes to the mbarrier at {:#x} in its phase {}, and was issued in phase "
                "{}, which ended without them{} (too few bytes announced, or "
                "mbarrier.init with too small a count?)",
                op.name(), bytes, cta.address_of(offset), b.phase, phase, announced)),
      op);
}

uint32_t CtaState::expect_signal(const Warp& issuer, uint32_t offset, const char* what) {
  try {
    return mbarrier(offset, what).phase;
  } catch (const Fault& early) {
    if (early.kind != FaultKind::mbarrier_absent || &issuer.cta == &cta ||
        !cta.cluster.grid.schedule.tolerant)
      throw;
    cta.cluster.tolerated(early, issuer);
    return kNoPhase;
  }
}

bool CtaState::ahead_of_init(const AsyncOp& op, uint32_t offset) const {
  return cta.cluster.grid.schedule.tolerant && op.cta != &cta && !cta.exited &&
         mbarriers.overlapping(offset, 8) < 0;
}

void CtaState::payload_fault(uint32_t offset, uint32_t bytes, uint32_t barrier, const char* what) const {
  fault(FaultKind::mbarrier_overwritten, 0,
        "{} writes shared [{:#x}, {:#x}) of CTA {}, over the live mbarrier at {:#x} (no mbarrier.inval "
        "before the bytes were used for something else)",
        what, offset, offset + bytes, cta.rank, barrier);
}

void CtaState::at_exit() const {
  check_registers();
  for (size_t i = 0; i + 1 < warps.size(); ++i)
    if (i % 4 != 3 && warps[i].wgmma_count != warps[i + 1].wgmma_count)
      fault(FaultKind::collective, kLanes,
            "wgmma.mma_async must be executed by all four warps of a warpgroup: warp {} issued {}, warp {} "
            "issued {}",
            i, warps[i].wgmma_count, i + 1, warps[i + 1].wgmma_count);
  if (tmem.empty()) return;
  const TmemAllocation& a = tmem.front();
  fault(FaultKind::tmem_life, kLanes,
        "TMEM allocated at PTX line {} never freed: CTA {} exits with columns [{}, {}) still allocated",
        cta.cluster.grid.module.functions[a.function].source[a.origin->pc].line, cta.rank, a.column,
        a.column + a.columns);
}

}  // namespace fp4lab::emu
