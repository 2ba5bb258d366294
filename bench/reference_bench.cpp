// The CPU reference against OpenBLAS's sgemm on the same matrices expanded to fp32: same shape, same run,
// same threads.
//
// Shape 256 x 4096 x 7168, a dual-GEMM weight at the size of the public task. sgemm is given its operands
// already expanded (the expansion is not timed) and returns an fp32 sum in some order; the reference starts
// from packed codes and scales and returns the exactly rounded fp16. Both count 2 M N K operations. What this
// leaves out: sgemm would also need its inputs expanded, and the reference's speed depends on the range of
// the scales, hence one line per distribution. Every output is compared with the other side's before anything
// is timed: a wrong one is an error, not a number.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <thread>

#include "fp4lab/half.h"
#include "fp4lab/reference.h"

using namespace fp4lab;

namespace {

constexpr int kM = 256, kN = 4096, kK = 7168;

// cblas_sgemm (cblas.h: row major 101, no transpose 111, transpose 112), found at run time, so that the
// benchmark builds without OpenBLAS.
using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                       float*, int);
struct Blas {
  Sgemm sgemm = nullptr;
  std::string missing;
};
const Blas& blas() {
  static const Blas found = [] {
    Blas b;
    void* library = dlopen("libopenblas.so.0", RTLD_NOW);
    if (!library) {
      b.missing = fmt::format("OpenBLAS is not installed ({}); Debian: libopenblas-dev", dlerror());
      return b;
    }
    b.sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    if (!b.sgemm) b.missing = "libopenblas.so.0 has no cblas_sgemm";
    if (auto* set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads")))
      set_threads(int(std::thread::hardware_concurrency()));
    return b;
  }();
  return found;
}

struct Input {
  Operand a, b;
  std::vector<float> exact;  // by a path that is not timed, from which the exact ones must not differ
  double magnitude = 0;      // mean |C|
};
const Input& input(Distribution distribution) {
  static std::map<Distribution, Input> all;
  Input& in = all[distribution];
  if (in.exact.empty()) {
    in.a = random_operand(kM, kK, distribution, 1, 0);
    in.b = random_operand(kN, kK, distribution, 1, 1);
    const Simd simd = simd_levels().back() == Simd::kScalar ? Simd::kScalar : Simd::kAvx2;
    in.exact = reference_gemm_f32(in.a, in.b, {Rounding::kExact, 1, 0, simd});
    for (float v : in.exact) in.magnitude += std::fabs(v) / double(in.exact.size());
  }
  return in;
}

void count(benchmark::State& state) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(2.0 * kM * kN * kK * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

// The first element that is not the exact sum to within `part` of the mean magnitude; empty when all are.
std::string disagreement(const Input& in, const std::vector<float>& got, double part) {
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::fabs(got[i] - in.exact[i]) <= part * in.magnitude))
      return fmt::format("row {} col {}: {} instead of {}", i / kN, i % kN, got[i], in.exact[i]);
  return {};
}

void openblas_sgemm(benchmark::State& state, Distribution distribution) {
  if (!blas().sgemm) return state.SkipWithError(blas().missing.c_str());
  const Input& in = input(distribution);
  const std::vector<float> a = dequantize(in.a), b = dequantize(in.b);
  std::vector<float> c(std::size_t(kM) * kN);
  const auto multiply = [&] {
    blas().sgemm(101, 111, 112, kM, kN, kK, 1.0f, a.data(), kK, b.data(), kK, 0.0f, c.data(), kN);
  };
  multiply();
  const std::string wrong = disagreement(in, c, 1e-4);
  if (!wrong.empty()) return state.SkipWithError(wrong.c_str());
  for (auto _ : state) multiply();
  count(state);
}

void reference_line(benchmark::State& state, Distribution distribution, Rounding rounding, Simd simd) {
  const Input& in = input(distribution);
  const ReferenceOptions options{rounding, 1, 0, simd};
  const std::string wrong =
      disagreement(in, reference_gemm_f32(in.a, in.b, options), rounding == Rounding::kExact ? 0 : 1e-4);
  if (!wrong.empty()) return state.SkipWithError(wrong.c_str());
  std::vector<std::uint16_t> c;
  for (auto _ : state) {
    c = reference_gemm(in.a, in.b, options);
    benchmark::DoNotOptimize(c.data());
  }
  count(state);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const auto add = [](const std::string& name, auto f) {
    benchmark::RegisterBenchmark(name.c_str(), f)
        ->Unit(benchmark::kMillisecond)
        ->MeasureProcessCPUTime()
        ->UseRealTime();
  };
  for (Distribution d : distributions()) {
    const std::string in(distribution_name(d));
    add("openblas_sgemm/" + in, [d](benchmark::State& s) { openblas_sgemm(s, d); });
    for (Simd simd : simd_levels()) {
      if (simd == Simd::kScalar) continue;
      for (Rounding r : {Rounding::kExact, Rounding::kTensorCore})
        add(fmt::format("reference/{}/{}/{}", rounding_name(r), in, simd_name(simd)),
            [=](benchmark::State& s) { reference_line(s, d, r, simd); });
    }
  }
  benchmark::RunSpecifiedBenchmarks();
}
