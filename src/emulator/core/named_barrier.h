// The 16 CTA barriers of bar.sync, bar.arrive and bar.red (PTX ISA 9.7.13.1). Arrivals are counted in whole
// warps: a warp adds 32 threads once all its live lanes have arrived.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fp4lab::emu {

class Cta;
struct Instr;

struct NamedBarrier {
  struct Part {              // one warp's
    uint32_t partial = 0;    // lanes that arrived while others of their warp are missing
    uint32_t waiting = 0;    // lanes that wait (sync or red)
    uint32_t released = 0;   // lanes that may continue
    uint32_t predicate = 0;  // operand of bar.red in the waiting lanes
    uint32_t result = 0;     // what bar.red returns to the released lanes: population count
    uint32_t all = 0;        // ... and how many took part
    // For reports: how often the whole warp came in this round and the last, and in all rounds.
    uint32_t times = 0, last = 0, arrives = 0, syncs = 0;
  };
  // Rounds that ended because warps came twice while others did not come: by rounds, and a bit for each warp.
  struct RanAhead {
    uint64_t first = 0, last = 0, rounds = 0;
    uint32_t twice = 0, absent = 0;
    uint32_t left_behind() const { return absent & ~twice; }
  } ran_ahead;
  std::vector<Part> parts;  // by warp; empty until first used
  uint32_t expected = 0;    // threads of this generation; 0: all warps of the CTA that have not exited
  uint32_t arrived = 0;     // threads, in whole warps
  bool open = false;        // has an arrival in this generation
  uint64_t generation = 0;

  // Arrival of a group of one warp. Throws Fault when its count contradicts the one that opened the
  // generation.
  void arrive(const Cta&, unsigned id, unsigned warp, uint32_t lanes, uint32_t count, bool waits,
              uint32_t predicate);
  // Completes the generation when enough warps have arrived: the waiting lanes are released.
  bool settle(const Cta&);
  // Which warps completed the last round, "warps 0, 1 (2 times), 4"; empty before the first.
  std::string completed_by() const;
  std::string describe(const Cta&) const;  // "64 of 192 threads have arrived; warps 2, 3 wait"

 private:
  void count_round();
  uint32_t required(const Cta&) const;
};

// barrier.cluster: of each warp, the lanes that arrived and have not yet waited.
struct ClusterBarrierPart {
  uint32_t arrived = 0;   // in the running phase
  uint32_t complete = 0;  // arrived in a phase that is complete, wait not executed yet
  // If a second arrival before the wait is tolerated:
  uint32_t next = 0;            // lanes that arrived in the running phase and for the next one
  uint32_t complete_twice = 0;  // lanes whose last two phases are complete, neither waited for

  // A wait ends after the phase of the latest arrival (seen on an H200).
  bool ends_wait(uint32_t lanes) const { return (complete & lanes) == lanes && !(arrived & lanes); }
  void finish_phase() {
    complete_twice |= complete & arrived;
    complete |= arrived;
    arrived = next, next = 0;
  }
  void waited(uint32_t lanes) {
    complete &= ~lanes | complete_twice;
    complete_twice &= ~lanes;
  }
};

}  // namespace fp4lab::emu
