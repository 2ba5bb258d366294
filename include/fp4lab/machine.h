// Machine constants, each set with its source, and the roofline arithmetic that uses them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace fp4lab {

struct Machine {
  std::string_view name;    // what the tables print
  std::string_view source;  // where the numbers come from
  int sms;
  double bytes_per_second;  // DRAM
  double flops_per_second;  // dense NVFP4, a multiply-add counted as two
};

// The set that the optimisation rounds argued with, the set of the task's own speed of light, and the
// device's.
std::span<const Machine> machines();

// What one product moves and computes at least: every input byte read once, every output byte written once.
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

// A x B^T of M x N x K in NVFP4 with fp16 output: `weights` operands of N rows share one A and one C (dual:
// 2).
Work nvfp4_work(int64_t m, int64_t n, int64_t k, int weights = 1);

}  // namespace fp4lab
