// The building blocks of mixed kernels: accesses to every memory space, atomics, predicates and packs, calls,
// warp collectives, and CTA-wide operations. mixed.cpp adds the control flow.
#pragma once

#include <string>

#include "straight.h"

namespace fp4lab::conformance {

class MixedParts : protected Straight {
 protected:
  static constexpr unsigned kRegion = 64;  // bytes of a thread in each memory space

  explicit MixedParts(uint64_t seed) : Straight(seed) {}

  // The register with the active lanes, where it is known.
  std::string mask() const { return fmt::format("%m{}", mask_); }
  bool mask_known() const { return !in_function_ && lost_ == 0; }

  // One to four accesses of a region: a store, then a load somewhere.
  void memory();
  // "SPACE ADDRESS" of `bytes` aligned bytes in the thread's region, where SPACE has the qualifiers too.
  std::string pointer(unsigned space, unsigned bytes, bool load);
  void local_memory();
  void constants();
  // An atomic on a cell that no other thread accesses: any operation, with its result.
  void atomics();
  // One operation per cell, which all threads may use in any order.
  void cells();
  void pack();
  void predicates();
  // Sixteen bytes of the thread's global region, or fewer, to its shared one.
  void copy_async();
  void call();
  void collective();
  void barrier();
  void meet_cluster();
  // Another thread's region, in this CTA or in the cluster's other one.
  void neighbour();
  void vote();

  unsigned threads_ = 128, ctas_ = 1, functions_ = 0;
  unsigned in_function_ = 0;  // 1 + its number while a function is written
  unsigned mask_ = 0;         // %m<mask_> holds the active lanes, unless
  unsigned lost_ = 0;         // this many branches are open that do not update it
  bool cluster_ = false;
};

}  // namespace fp4lab::conformance
