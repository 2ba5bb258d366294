#include "fp4lab/machine.h"

#include "fp4lab/error.h"
#include "model/chip.h"

namespace fp4lab {
namespace {

// The devices' constants are the model's (src/model), which names their sources one by one.
Machine of(const model::Chip& chip, std::string_view source) {
  return {chip.name, source, int(chip.sms), chip.dram_peak * 1e9, chip.flops_peak * 1e15};
}

const Machine& hopper() {
  static const Machine h200 =
      of(model::kH200, "132 SMs, 4.8 TB/s, 989.5 TFLOP/s dense fp16 at 1830 MHz (NVIDIA's data sheet)");
  return h200;
}

}  // namespace

std::span<const Machine> machines() {
  static const Machine all[] = {
      {"rounds", "the rounds' theorist: 192 SMs, 4.5 TB/s, 2.5 PFLOP/s (no such part exists)", 192, 4.5e12,
       2.5e15},
      {"task", "what reproduces the task's speed of light: 7.68 TB/s, 6.9 PFLOP/s at 1.5 GHz", 148, 7.68e12,
       6.9e15},
      of(model::kB200, "148 SMs, 7680-bit HBM3e at 3996 MHz = 7.672 TB/s, NVIDIA's 9 PFLOP/s dense FP4"),
  };
  return all;
}

const Machine& machine_for(std::string_view arch) {
  if (arch == model::kH200.arch) return hopper();
  if (arch == model::kB200.arch) return machines().back();
  fail("no machine is known for {}; known are {} and {}", arch, model::kB200.arch, model::kH200.arch);
}

Roofline roofline(const Work& work, const Machine& machine) {
  return {work.flops / machine.flops_per_second * 1e6, work.bytes / machine.bytes_per_second * 1e6};
}

Work work_of(const Case& c) { return {c.flops(), double(c.input_bytes() + c.output_bytes())}; }

}  // namespace fp4lab
