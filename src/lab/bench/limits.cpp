// What the device can do at most, by measurement in the same run.
#include <limits>

#include "fp4lab/bench.h"
#include "lab/bench/expand.h"

namespace fp4lab {
namespace {

// As the cases are timed: one call or a few after a flush, so that both meet the same clocks. A minute of
// large products would meet the power cap, and the cases would beat the "limit".
template <class Enqueue>
void measure_limit(const Timer& timer, const Nvml& nvml, int repeats, const Enqueue& enqueue, Limit& limit) {
  TimingOptions options = timer.options();
  options.repeats = repeats, options.rounds = 1;
  std::vector<GpuState> readings;
  limit.timing = timer.time(1, enqueue, options, [&] {
    if (nvml.present()) readings.push_back(nvml.read());
  });
  limit.gpu = span_of(readings);
}

Limit tensor_limit(const Timer& timer, const Nvml& nvml, const std::shared_ptr<CublasLt>& lt,
                   const ExpandKernels& kernels, int size) {
  const Device& device = timer.device();
  const Problem problem =
      make_problem(find_case(fmt::format("gemm:{}/{}/{}", size, size, size)), Distribution::kModerate, 1);
  const DeviceProblem packed(device, problem);
  const DeviceGroup& group = packed.groups().front();
  DeviceBuffer a(device, size_t(size) * size * 2), b(device, size_t(size) * size * 2);
  DeviceBuffer workspace(device, kCublasWorkspace);
  kernels.to_f16(group.a, a.address(), timer.stream());
  kernels.to_f16(group.b, b.address(), timer.stream());
  const CublasGemm gemm(lt, device, {.m = size, .n = size, .k = size}, kCublasWorkspace);
  const auto run = [&](size_t algorithm) {
    return [&, algorithm](size_t, CUstream stream) {
      gemm.run(algorithm, a.address(), b.address(), group.c.address(), workspace.address(), stream);
    };
  };
  Limit limit;
  limit.name = "tensor";
  size_t best = 0;
  double best_us = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < gemm.algorithms(); ++i) {
    measure_limit(timer, nvml, 3, run(i), limit);
    if (limit.timing.us.median < best_us) best_us = limit.timing.us.median, best = i;
  }
  measure_limit(timer, nvml, 20, run(best), limit);
  limit.per_second = 2.0 * size * size * size / limit.timing.us.median * 1e6;
  limit.how =
      fmt::format("cuBLASLt {} fp16 {}x{}x{}, fp32 accumulation, best of {} algorithms, random numbers",
                  lt->version(), size, size, size, gemm.algorithms());
  return limit;
}

}  // namespace

Limit tensor_limit(const Timer& timer, const Nvml& nvml, const std::shared_ptr<CublasLt>& lt) {
  const ExpandKernels kernels(timer.device());
  Limit best;
  std::string all;
  for (const int size : {2048, 4096, 8192}) {
    Limit limit = tensor_limit(timer, nvml, lt, kernels, size);
    all += fmt::format("{}{}: {:.0f}", all.empty() ? "" : ", ", size, limit.per_second / 1e12);
    if (limit.per_second > best.per_second) best = std::move(limit);
  }
  best.how += fmt::format("; of the sizes {} TFLOP/s", all);
  return best;
}

Limit byte_limit(const Timer& timer, const Nvml& nvml, size_t bytes) {
  const Device& device = timer.device();
  DeviceBuffer from(device, bytes), to(device, bytes);
  from.fill(0x5A);
  Limit limit;
  limit.name = "bytes";
  measure_limit(
      timer, nvml, 20,
      [&](size_t, CUstream stream) {
        device.driver().cuMemcpyDtoDAsync(to.address(), from.address(), bytes, stream);
      },
      limit);
  limit.per_second = 2.0 * double(bytes) / limit.timing.us.median * 1e6;
  limit.how = fmt::format("device-to-device copy of {} MiB, read and written bytes", bytes >> 20);
  return limit;
}

}  // namespace fp4lab
