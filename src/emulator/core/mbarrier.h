// The mbarrier object (PTX ISA 9.7.13.15): a phase, its pending arrivals, and the bytes that asynchronous
// copies have yet to deliver.
//
// Its state is kept in a table outside the simulated shared memory. The object's 8 bytes hold a copy in an
// encoding of our own (below). Every operation compares the two, so a write over a live barrier is noticed at
// the barrier's next use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fp4lab::emu {

struct Instr;
class Warp;

constexpr uint32_t kNoPhase = ~0u;
constexpr uint32_t kMbarrierMaxCount = (1u << 20) - 1;  // of arrivals, and of bytes either way

// What `mbarrier.arrive` returns: the barrier's bits before the arrival.
//   0 phase parity | 20:1 pending | 41:21 tx-count (two's complement) | 61:42 expected | 63:62 = 0b10
struct MbarrierState {
  uint64_t bits = 0;
  uint32_t parity() const { return bits & 1; }
  uint32_t pending() const { return static_cast<uint32_t>(bits >> 1) & kMbarrierMaxCount; }
  bool plausible() const { return bits >> 62 == 2; }
};

// Threads that acted on an mbarrier. The deadlock report names those that arrived in earlier phases but not
// in this one.
struct MbarrierParty {
  // inits: the amount is the count. waits: has seen the end of all phases before `phase`.
  enum class What : uint8_t { inits, arrives, expects, delivers, waits } what;
  const Instr* at = nullptr;
  uint32_t function = 0;
  uint32_t rank = 0, warp = 0, lanes = 0;  // of the CTA; the thread that executed it
  uint32_t phase = 0;                      // the last one in which it did
  int64_t amount = 0;                      // arrivals or bytes in that phase
};

struct Mbarrier {
  uint32_t phase = 0;           // counts completed phases; its lowest bit is what parity waits see
  uint32_t pending = 0;         // arrivals pending in this phase
  uint32_t expected = 0;        // arrivals of the next phase
  uint32_t total = 0;           // arrivals of this phase (for reports)
  int64_t tx = 0;               // bytes announced and not yet delivered; negative if delivered first
  uint64_t waiters = 0;         // warps parked on it, one bit each
  uint64_t turn = 0;            // of the cluster, when the last phase was completed
  uint64_t ended = 0;           // the event of that completion (Cluster::next_event)
  const Warp* ender = nullptr;  // who completed it, only for comparison; null: an asynchronous operation
  std::vector<MbarrierParty> parties;

  // The number of phases that a warp has observed once it is told that the phase of this parity is over: up
  // to the first phase of that parity that it had not seen, however many more are over. All of them if it
  // asks again for a parity that it has already seen.
  uint32_t seen_after(uint32_t parity, uint32_t rank, uint32_t warp) const;
  uint32_t seen_by(uint32_t rank, uint32_t warp) const;
  // Call it with the phase for which the action counted.
  void note(MbarrierParty::What, uint32_t phase, const Instr*, uint32_t function, uint32_t rank,
            uint32_t warp, uint32_t lanes, int64_t amount);

  static Mbarrier fresh(uint32_t count);  // throws Fault when the count is out of range
  MbarrierState state() const;
  bool done(uint32_t parity) const { return (phase & 1) != (parity & 1); }
  // Whether this arrival, or these delivered bytes, complete the phase, or leave that to the announcement of
  // bytes that were delivered before it.
  bool completes(uint32_t count, int64_t bytes) const {
    return tx < bytes || (pending == count && tx == bytes);
  }

  // Each returns true if it completed the phase. They throw Fault with the values on underflow or overflow;
  // `address` is only for the message.
  bool arrive(uint32_t count, uint32_t address, bool may_complete = true);
  bool drop(uint32_t count, uint32_t address);  // the participants leave for good
  bool expect_tx(int64_t bytes, uint32_t address);
  bool complete_tx(int64_t bytes, uint32_t address);
  std::string describe() const;  // "phase 3 (parity 1), 2 of 4 arrivals and 8192 bytes pending"

 private:
  bool settle();
};

// The live barriers of one CTA, by offset in its window.
class MbarrierTable {
 public:
  Mbarrier* find(uint32_t offset) { return const_cast<Mbarrier*>(std::as_const(*this).find(offset)); }
  const Mbarrier* find(uint32_t offset) const {
    for (size_t i = 0; i < offsets_.size(); ++i)
      if (offsets_[i] == offset) return &barriers_[i];
    return nullptr;
  }
  Mbarrier& add(uint32_t offset, const Mbarrier&);
  void remove(uint32_t offset);
  // The offset of a live barrier whose 8 bytes overlap [offset, offset + bytes), or -1.
  int64_t overlapping(uint32_t offset, uint32_t bytes) const {
    if (offset >= high_ || offset + bytes <= low_) return -1;
    for (uint32_t b : offsets_)
      if (b < offset + bytes && offset < b + 8) return b;
    return -1;
  }
  const std::vector<uint32_t>& offsets() const { return offsets_; }

 private:
  void bounds();
  std::vector<uint32_t> offsets_;
  std::vector<Mbarrier> barriers_;
  uint32_t low_ = ~0u, high_ = 0;  // all live barriers lie in [low_, high_)
};

}  // namespace fp4lab::emu
