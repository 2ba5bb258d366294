#include "fp4lab/machine.h"

namespace fp4lab {
namespace {

constexpr Machine kMachines[] = {
    {"rounds", "the rounds' theorist: 192 SMs, 4.5 TB/s, 2.5 PFLOP/s (no such part exists)", 192, 4.5e12,
     2.5e15},
    {"task", "what reproduces the task's speed of light: 7.68 TB/s, 6.9 PFLOP/s at 1.5 GHz", 148, 7.68e12,
     6.9e15},
    {"B200", "148 SMs, 7680-bit HBM3e at 3996 MHz = 7.672 TB/s, NVIDIA's 9 PFLOP/s dense FP4", 148, 7.672e12,
     9.0e15},
};

}  // namespace

std::span<const Machine> machines() { return kMachines; }

Roofline roofline(const Work& work, const Machine& machine) {
  return {work.flops / machine.flops_per_second * 1e6, work.bytes / machine.bytes_per_second * 1e6};
}

Work work_of(const Case& c) { return {c.flops(), double(c.input_bytes() + c.output_bytes())}; }

}  // namespace fp4lab
