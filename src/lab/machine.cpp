#include "fp4lab/machine.h"

#include "fp4lab/error.h"

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

constexpr Machine kHopper = {"H200",
                             "132 SMs, 4.8 TB/s, 989.5 TFLOP/s dense fp16 at 1830 MHz (NVIDIA's data sheet)",
                             132, 4.8e12, 989.5e12};

}  // namespace

std::span<const Machine> machines() { return kMachines; }

const Machine& machine_for(std::string_view arch) {
  if (arch == "sm_90a") return kHopper;
  if (arch == "sm_100a") return machines().back();
  fail("no machine is known for {}; sm_100a and sm_90a are", arch);
}

Roofline roofline(const Work& work, const Machine& machine) {
  return {work.flops / machine.flops_per_second * 1e6, work.bytes / machine.bytes_per_second * 1e6};
}

Work work_of(const Case& c) { return {c.flops(), double(c.input_bytes() + c.output_bytes())}; }

}  // namespace fp4lab
