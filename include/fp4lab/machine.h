// Machine constants, each set with its source, and the roofline arithmetic that uses them.
#pragma once

#include <span>
#include <string_view>

#include "fp4lab/problem.h"

namespace fp4lab {

struct Machine {
  std::string_view name;    // what the tables print
  std::string_view source;  // where the numbers come from
  int sms;
  double bytes_per_second;  // DRAM
  double flops_per_second;  // dense NVFP4, a multiply-add counted as two; Hopper: fp16, all it has for it
};

// The set that the optimisation rounds argued with, the set of the task's own speed of light, and the
// device's.
std::span<const Machine> machines();
// What runs "sm_100a" (B200) or "sm_90a" (H200). Fails for others.
const Machine& machine_for(std::string_view arch);

struct Work {
  double flops = 0;
  double bytes = 0;
};

struct Roofline {
  double compute_us, memory_us;
  double time_us() const { return compute_us > memory_us ? compute_us : memory_us; }
  std::string_view bound() const { return compute_us > memory_us ? "compute" : "memory"; }
};

Roofline roofline(const Work&, const Machine&);

// The least that a case moves and computes: every input byte once, every output byte once.
Work work_of(const Case&);

}  // namespace fp4lab
