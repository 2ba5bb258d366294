#include "emulator/core/mbarrier.h"

#include <algorithm>

#include "emulator/core/error.h"

namespace fp4lab::emu {

Mbarrier Mbarrier::fresh(uint32_t count) {
  if (count == 0 || count > kMbarrierMaxCount)
    fault(FaultKind::mbarrier_count, 0, "mbarrier.init with count {}: the expected arrivals must be 1 to {}",
          count, kMbarrierMaxCount);
  Mbarrier b;
  b.pending = b.expected = b.total = count;
  return b;
}

MbarrierState Mbarrier::state() const {
  return {(phase & 1) | uint64_t(pending) << 1 | (static_cast<uint64_t>(tx) & 0x1fffff) << 21 |
          uint64_t(expected) << 42 | uint64_t(2) << 62};
}

bool Mbarrier::settle() {
  if (pending != 0 || tx != 0) return false;
  ++phase;
  pending = total = expected;
  return true;
}

bool Mbarrier::arrive(uint32_t count, uint32_t address, bool may_complete) {
  if (count == 0 || count > kMbarrierMaxCount)
    fault(FaultKind::mbarrier_count, 0,
          "mbarrier.arrive with count {} on the mbarrier at {:#x}: must be 1 to {}", count, address,
          kMbarrierMaxCount);
  if (count > pending)
    fault(FaultKind::mbarrier_count, 0,
          "too many arrivals on the mbarrier at {:#x}: {} arrive, but only {} of {} are pending in phase {} "
          "({} bytes pending)",
          address, count, pending, total, phase, tx);
  pending -= count;
  if (!may_complete && pending == 0 && tx == 0)
    fault(FaultKind::mbarrier_count, 0,
          "mbarrier.arrive.noComplete on the mbarrier at {:#x} completes phase {}, which is undefined",
          address, phase);
  return settle();
}

bool Mbarrier::drop(uint32_t count, uint32_t address) {
  if (count > expected)
    fault(FaultKind::mbarrier_count, 0,
          "mbarrier.arrive_drop of {} on the mbarrier at {:#x}, which expects only {} arrivals per phase",
          count, address, expected);
  expected -= count;
  return arrive(count, address);
}

bool Mbarrier::expect_tx(int64_t bytes, uint32_t address) {
  tx += bytes;
  if (tx > int64_t(kMbarrierMaxCount) || tx < -int64_t(kMbarrierMaxCount))
    fault(FaultKind::mbarrier_count, 0,
          "tx-count of the mbarrier at {:#x} out of range: {} after expect-tx of {}, allowed are +-{} bytes",
          address, tx, bytes, kMbarrierMaxCount);
  return settle();  // completes only when all arrivals were in and bytes had come before they were announced
}

bool Mbarrier::complete_tx(int64_t bytes, uint32_t address) {
  tx -= bytes;
  if (tx > int64_t(kMbarrierMaxCount) || tx < -int64_t(kMbarrierMaxCount))
    fault(
        FaultKind::mbarrier_count, 0,
        "tx-count of the mbarrier at {:#x} out of range: {} after complete-tx of {}, allowed are +-{} bytes",
        address, tx, bytes, kMbarrierMaxCount);
  return settle();
}

std::string Mbarrier::describe() const {
  return fmt::format("phase {} (parity {}), {} of {} arrivals pending, {} bytes pending", phase, phase & 1,
                     pending, total, tx);
}

uint32_t Mbarrier::seen_by(uint32_t rank, uint32_t warp) const {
  uint32_t seen = 0;
  for (const MbarrierParty& p : parties)
    if (p.what == MbarrierParty::What::waits && p.rank == rank && p.warp == warp)
      seen = std::max(seen, p.phase);
  return seen;
}

uint32_t Mbarrier::seen_after(uint32_t parity, uint32_t rank, uint32_t warp) const {
  const uint32_t seen = seen_by(rank, warp);
  return (seen & 1) == parity ? seen + 1 : phase;
}

void Mbarrier::note(MbarrierParty::What what, uint32_t now, const Instr* at, uint32_t function, uint32_t rank,
                    uint32_t warp, uint32_t lanes, int64_t amount) {
  constexpr size_t kParties = 64;  // enough for any pipeline; later ones are not recorded
  for (MbarrierParty& p : parties) {
    if (p.at != at || p.what != what || p.rank != rank || p.warp != warp) continue;
    if (p.phase != now) p.phase = now, p.amount = 0, p.lanes = 0;
    p.amount += amount;
    p.lanes |= lanes;
    return;
  }
  if (parties.size() < kParties) parties.push_back({what, at, function, rank, warp, lanes, now, amount});
}

Mbarrier& MbarrierTable::add(uint32_t offset, const Mbarrier& b) {
  offsets_.push_back(offset);
  barriers_.push_back(b);
  bounds();
  return barriers_.back();
}

void MbarrierTable::remove(uint32_t offset) {
  auto it = std::find(offsets_.begin(), offsets_.end(), offset);
  if (it == offsets_.end()) return;
  barriers_.erase(barriers_.begin() + (it - offsets_.begin()));
  offsets_.erase(it);
  bounds();
}

void MbarrierTable::bounds() {
  low_ = ~0u, high_ = 0;
  for (uint32_t o : offsets_) low_ = std::min(low_, o), high_ = std::max(high_, o + 8);
}

}  // namespace fp4lab::emu
