// To which CTAs copies and signals go, and in which pieces.
#pragma once

#include <algorithm>
#include <vector>

#include "emulator/engine/operand.h"

namespace fp4lab::emu {

// Where a load delivers: one entry for each destination CTA.
struct TmaTarget {
  Cta* cta = nullptr;
  Cta* barrier_cta = nullptr;
  uint32_t phase = kNoPhase;  // of the mbarrier, at issue
};

// The CTAs that the 16-bit mask of a .multicast::cluster names. Faults where one is not in the cluster, or
// where it names none; for a copy that is a note where the schedule tolerates it (an H200 copies for nobody).
std::vector<Cta*> multicast_ctas(Warp&, const Operand& mask, unsigned lane, const char* what,
                                 bool none_is_fine);

inline AsyncOp::Counted counted_by(const std::vector<TmaTarget>& targets, uint32_t barrier) {
  if (targets.empty() || !targets[0].barrier_cta) return {};
  return {targets[0].barrier_cta, barrier, targets[0].phase};
}

// A piece of what one target gets: `count` units (runs of a box, 16 bytes of a bulk copy) from `first` on.
struct Delivery {
  uint32_t target, first, count;
};
// The pieces in which `units` units come to each target: in any order, unless the schedule is eager.
std::vector<Delivery> deliveries(Cluster&, size_t targets, uint32_t units);

// Whether a CTA's shared memory still takes part in a load: as long as it does, the CTA must not exit. What
// is on its way to other CTAs alone does not hold the one that issued it. `parts` are those not delivered
// yet.
inline bool any_concerns(const std::vector<TmaTarget>& targets, const Cta& cta) {
  return std::ranges::any_of(targets,
                             [&](const TmaTarget& t) { return t.cta == &cta || t.barrier_cta == &cta; });
}
inline bool any_part_concerns(const std::vector<Delivery>& parts, const std::vector<TmaTarget>& targets,
                              const Cta& cta) {
  return std::ranges::any_of(parts, [&](const Delivery& part) {
    const TmaTarget& t = targets[part.target];
    return t.cta == &cta || t.barrier_cta == &cta;
  });
}

// See CtaState::ahead_of_init; parts that have been delivered have found their mbarrier.
inline bool any_ahead_of_init(const std::vector<TmaTarget>& targets, uint32_t barrier, const AsyncOp& op) {
  return std::ranges::any_of(targets, [&](const TmaTarget& t) {
    return t.barrier_cta && t.barrier_cta->state->ahead_of_init(op, barrier);
  });
}

}  // namespace fp4lab::emu
