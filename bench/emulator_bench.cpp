// How fast the emulator is: warp instructions, tensor-core products of every kind, bulk copies; each beside
// what this CPU could do at best.
//
//   build/bench/emulator_bench [--benchmark_filter=tcgen05]
//
// One line is one kernel launched on an emulated B200 or H200 with two CTAs to an SM's worth of work, on all
// cores. Bounds checks, initialisation checks and the fidelity count are on, as they always are. "Minstr/s"
// is millions of warp instructions per second, "/core" divided by the host's threads. "GFLOP/s" counts 2 M N
// K of each product; "of FMA" and "of int8" are shares of the first two lines: multiply-adds in fp32
// registers and 8-bit dot products (VNNI), the best this CPU's units give when nothing else is done. The
// tensor core's arithmetic is exact alignment and truncation, not an fp32 multiply-add, so those are limits,
// not targets.
// GCC 12 warns of its own intrinsics.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "fp4lab/device.h"
#include "fp4lab/emulator.h"
#include "fp4lab/simd.h"

using namespace fp4lab;

namespace {

unsigned threads() { return std::max(1u, std::thread::hardware_concurrency()); }

// ---- what the CPU can do

constexpr int kPeakSteps = 200'000;

// Eight independent chains of fp32 multiply-adds: enough to hide their latency on two ports.
__attribute__((target("avx512f"))) float fma_avx512() {
  __m512 sum[8], x = _mm512_set1_ps(1.0001f), y = _mm512_set1_ps(1e-7f);
  for (auto& s : sum) s = x;
  for (int i = 0; i < kPeakSteps; ++i)
    for (auto& s : sum) s = _mm512_fmadd_ps(s, x, y);
  float total = 0;
  for (auto& s : sum) total += _mm512_reduce_add_ps(s);
  return total;
}
__attribute__((target("avx2,fma"))) float fma_avx2() {
  __m256 sum[8], x = _mm256_set1_ps(1.0001f), y = _mm256_set1_ps(1e-7f);
  for (auto& s : sum) s = x;
  for (int i = 0; i < kPeakSteps; ++i)
    for (auto& s : sum) s = _mm256_fmadd_ps(s, x, y);
  float total = 0;
  for (auto& s : sum) total += _mm_cvtss_f32(_mm256_castps256_ps128(s));
  return total;
}
__attribute__((target("avx512f,avx512vnni"))) int dot_vnni() {
  __m512i sum[8], x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(5);
  for (auto& s : sum) s = _mm512_setzero_si512();
  for (int i = 0; i < kPeakSteps; ++i)
    for (auto& s : sum) s = _mm512_dpbusd_epi32(s, x, y);
  int total = 0;
  for (auto& s : sum) total += _mm512_reduce_add_epi32(s);
  return total;
}

template <class Work>
double gflops_of(Work work, double flops_per_call) {
  const auto run = [&] {
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads(); ++t) all.emplace_back([&] { benchmark::DoNotOptimize(work()); });
    for (auto& t : all) t.join();
  };
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, flops_per_call * threads() / seconds * 1e-9);
  }
  return best;
}
// GFLOP/s of all threads together; 0: the CPU has no such unit.
double fma_peak() {
  static const double peak = __builtin_cpu_supports("avx512f")
                                 ? gflops_of(fma_avx512, 2.0 * 16 * 8 * kPeakSteps)
                             : __builtin_cpu_supports("fma") ? gflops_of(fma_avx2, 2.0 * 8 * 8 * kPeakSteps)
                                                             : 0;
  return peak;
}
double int8_peak() {
  static const double peak =
      __builtin_cpu_supports("avx512vnni") ? gflops_of(dot_vnni, 2.0 * 64 * 8 * kPeakSteps) : 0;
  return peak;
}
void peak(benchmark::State& state, double gflops, const char* missing) {
  if (gflops == 0) return state.SkipWithError(missing);
  for (auto _ : state) benchmark::ClobberMemory();
  state.counters["GFLOP/s"] = gflops;  // of all threads together
}

// ---- kernels

std::string module_text(const char* arch, const std::string& body) {
  return fmt::format(
      ".version 9.0\n.target {}\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
      ".visible .entry k(.param .u64 data)\n{{\n"
      ".reg .pred %p<8>; .reg .b32 %r<300>; .reg .b64 %rd<16>; .reg .f32 %f<300>;\n{}\nret;\n}}\n",
      arch, body);
}

// `body` `times` times, counted in %r0.
std::string loop(int times, const std::string& body) {
  return fmt::format(
      "mov.u32 %r0, 0;\nLOOP:\n{}add.u32 %r0, %r0, 1;\nsetp.lt.u32 %p0, %r0, {};\n@%p0 bra LOOP;\n", body,
      times);
}
std::string repeated(int times, const char* line) {
  std::string text;
  for (int i = 0; i < times; ++i) text += fmt::format(fmt::runtime(line), fmt::arg("i", i));
  return text;
}

struct Program {
  const char* arch;
  std::string text;
  unsigned ctas_per_sm = 2, threads = 128, shared = 0;
  double flops = 0, bytes = 0;  // of one CTA
};

constexpr unsigned kMmas = 64;

// Shared memory full of numbers: bytes of a multiplicative hash, `mask`ed so that no element is Inf or NaN.
std::string fill_shared(unsigned bytes, unsigned mask) {
  return fmt::format(
      "mov.u32 %r1, %tid.x; mov.u32 %r2, smem; shl.b32 %r3, %r1, 2;\n"
      "FILL: mul.lo.u32 %r4, %r3, 2654435769; shr.u32 %r5, %r4, 15; xor.b32 %r4, %r4, %r5;\n"
      "and.b32 %r4, %r4, {:#x}; add.u32 %r5, %r2, %r3; st.shared.u32 [%r5], %r4;\n"
      "add.u32 %r3, %r3, 512; setp.lt.u32 %p0, %r3, {}; @%p0 bra FILL;\n"
      "fence.proxy.async.shared::cta;\nbar.sync 0;\n",
      mask, bytes);
}

struct Kind {
  const char* name;
  unsigned k;           // of one instruction
  unsigned mask;        // for fill_shared
  const char* form;     // tcgen05: the kind; wgmma, mma.sync: shape and types
  unsigned idesc = 0;   // tcgen05: formats of A, B, D
  bool scaled = false;  // tcgen05 with block scales
};

// K-major operands without a swizzle: 8 rows x 16 bytes contiguous, 128 bytes to the next 16 bytes of K.
uint64_t shared_descriptor(unsigned at, bool blackwell) {
  return uint64_t(0x400 + at) >> 4 | uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32 |
         (blackwell ? uint64_t(1) << 46 : 0);
}

// 128 x 256 in one instruction, accumulated in TMEM.
Program tcgen05(const Kind& kind) {
  const unsigned m = 128, n = 256, a_bytes = m * 32;
  const unsigned idesc = kind.idesc | (n >> 3) << 17 | (kind.scaled ? (m >> 7) << 27 : (m >> 4) << 24);
  const std::string operands = fmt::format("[%r10], {:#x}, {:#x}, {:#x}", shared_descriptor(0, true),
                                           shared_descriptor(a_bytes, true), idesc);
  const std::string mma =
      kind.scaled ? fmt::format("tcgen05.mma.cta_group::1.kind::{} {}, [%r10+256], [%r10+272], %p3;\n",
                                kind.form, operands)
                  : fmt::format("tcgen05.mma.cta_group::1.kind::{} {}, %p3;\n", kind.form, operands);
  // Scales: 1 in every format (ue8m0 127, ue4m3 0x38), in 32 columns.
  const unsigned one = kind.idesc >> 23 & 1 ? 0x7f7f7f7f : 0x38383838;
  std::string scales = fmt::format("mov.u32 %r20, {};\n", one);
  for (int c = 0; c < 32; c += 4)
    scales +=
        fmt::format("tcgen05.st.sync.aligned.32x32b.x4.b32 [%r12+{}], {{%r20,%r20,%r20,%r20}};\n", 256 + c);
  scales += "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\n";
  const std::string text =
      fill_shared((m + n) * 32, kind.mask) + fmt::format(R"(
    add.u32 %r9, %r2, 65536; shr.u32 %r6, %r1, 5; setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r6, 0;
    @%p2 bra READY;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9+16], 512;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r9], 1;
  READY: bar.sync 0;
    ld.shared.u32 %r10, [%r9+16]; shl.b32 %r11, %r6, 21; or.b32 %r12, %r10, %r11;
    {scales}
    bar.sync 0;
    @%p1 bra WAIT;
    tcgen05.fence::after_thread_sync;
    setp.ne.u32 %p3, 0, 0;
    {mma}
    setp.eq.u32 %p3, 0, 0;
    {loop}
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r9];
  WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r9], 0;
    @!%p4 bra WAIT;
    tcgen05.fence::after_thread_sync;
    bar.sync 0;
    @%p2 bra END;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 512;
  END:)",
                                                         fmt::arg("scales", scales), fmt::arg("mma", mma),
                                                         fmt::arg("loop", loop(kMmas - 1, mma)));
  return {"sm_100a", module_text("sm_100a", text), 1, 128, 65536 + 32, 2.0 * m * n * kind.k * kMmas};
}

// 64 x 256 in one instruction, both operands from shared memory.
Program wgmma(const Kind& kind) {
  const unsigned n = 256;
  const std::string form = kind.form;
  const bool integer = form.starts_with(".s32"), half = form.ends_with("f16.f16") || form.ends_with("bf16");
  std::string d;
  for (unsigned r = 0; r < n / 2; ++r) d += fmt::format("{}%r{}", r ? "," : "", 100 + r);
  const auto mma = [&](const char* accumulate) {
    return fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}{} {{{}}}, {:#x}, {:#x}, {}{}{};\n", n, kind.k,
                       form, d, shared_descriptor(0, false), shared_descriptor(64 * 32, false), accumulate,
                       integer ? "" : ", 1, 1", half ? ", 0, 0" : "");
  };
  const std::string text = fill_shared((64 + n) * 32, kind.mask) +
                           "setp.ne.u32 %p2, 0, 0; setp.eq.u32 %p3, 0, 0;\nwgmma.fence.sync.aligned;\n" +
                           mma("%p2") + loop(kMmas - 1, mma("%p3")) +
                           "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
  return {"sm_90a", module_text("sm_90a", text), 1, 128, 65536, 2.0 * 64 * n * kind.k * kMmas};
}

// 16 x 8 in one instruction of a warp, all in registers.
Program mma_sync(const Kind& kind, unsigned a_registers, unsigned b_registers) {
  const auto list = [](const char* prefix, unsigned first, unsigned count) {
    std::string text;
    for (unsigned i = 0; i < count; ++i) text += fmt::format("{}%{}{}", i ? "," : "", prefix, first + i);
    return "{" + text + "}";
  };
  const bool integer = std::string(kind.form).find("s32") != std::string::npos;
  const std::string d = list(integer ? "r" : "f", 100, 4);
  std::string text = "mov.u32 %r1, %tid.x;\n";
  for (unsigned i = 0; i < a_registers + b_registers; ++i)
    text += fmt::format("add.u32 %r4, %r1, {}; mul.lo.u32 %r4, %r4, 2654435769; and.b32 %r{}, %r4, {:#x};\n",
                        i, 20 + i, kind.mask);
  for (unsigned i = 0; i < 4; ++i) text += fmt::format("mov.b32 %{}{}, 0;\n", integer ? "r" : "f", 100 + i);
  text += loop(kMmas, fmt::format("mma.sync.aligned.{} {}, {}, {}, {};\n", kind.form, d,
                                  list("r", 20, a_registers), list("r", 20 + a_registers, b_registers), d));
  return {"sm_90a", module_text("sm_90a", text), 4, 128, 0, 2.0 * 16 * 8 * kind.k * kMmas * 4};
}

// Bulk copies of 16 KiB from global to shared memory, one in flight.
Program bulk_copy() {
  const std::string copy =
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 16384;\n"
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 16384, [%r9];\n"
      "and.b32 %r5, %r0, 1;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r9], %r5;\n@!%p4 bra "
      "WAIT;\n";
  const std::string text =
      "mov.u32 %r1, %tid.x; mov.u32 %r2, smem; add.u32 %r9, %r2, 16384; ld.param.u64 %rd0, [data];\n"
      "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\n"
      "mbarrier.init.shared::cta.b64 [%r9], 1;\nfence.mbarrier_init.release.cluster;\n" +
      loop(64, copy) + "END:\n";
  return {"sm_100a", module_text("sm_100a", text), 2, 32, 16384 + 16, 0, 64.0 * 16384};
}

// Straight-line instructions: 32 of `line` per turn; {i} is their number.
Program straight(const char* line, const std::string& before = "", unsigned turns = 100) {
  return {"sm_100a", module_text("sm_100a", before + loop(int(turns), repeated(32, line))), 4, 128, 32768};
}

// Each decides about a sum that nobody reads in the end: what a compiler finds out one after the other.
std::string idle_ifs(unsigned count) {
  std::string text = "ld.param.u64 %rd0, [data]; ld.global.u32 %r1, [%rd0];\n";
  for (unsigned i = 0; i < count; ++i)
    text += fmt::format("setp.gt.s32 %p1, %r1, {0};\n@%p1 bra L{0};\nadd.s32 %r1, %r1, {0};\nL{0}:\n", i);
  return text;
}

// ---- running one

void load(benchmark::State& state, const std::string& text) {
  const Device device = Device::open("emulator", "sm_90a");
  for (auto _ : state) Module(device, text, "bench.ptx");
  state.counters["instr/s"] = benchmark::Counter(double(std::ranges::count(text, ';')),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

void run(benchmark::State& state, const Program& program) {
  try {
    const Device device = Device::open("emulator", program.arch);
    const Kernel kernel = Module(device, program.text, "bench.ptx").kernel("k");
    const auto statistics = reinterpret_cast<decltype(&fp4lab_emulator_statistics)>(
        device.driver().symbol("fp4lab_emulator_statistics"));
    LaunchConfig config;
    const unsigned ctas = std::max(1u, program.ctas_per_sm * unsigned(device.sms()));
    config.grid.x = ctas, config.block.x = program.threads, config.dynamic_shared = program.shared;
    const DeviceBuffer data = DeviceBuffer::from(device, std::vector<unsigned char>(1 << 20, 1));
    launch(kernel, config, data.address());
    fp4lab_emulator_stats stats;
    statistics(&stats);
    for (auto _ : state) launch(kernel, config, data.address());
    using benchmark::Counter;
    const auto rate = [&](const char* name, double amount) {
      state.counters[name] = Counter(amount, Counter::kIsIterationInvariantRate);
    };
    if (program.flops) {
      rate("GFLOP/s", program.flops * ctas * 1e-9);
      if (fma_peak()) rate("of FMA", program.flops * ctas * 1e-9 / fma_peak());
      if (int8_peak()) rate("of int8", program.flops * ctas * 1e-9 / int8_peak());
    } else if (program.bytes) {
      rate("GB/s", program.bytes * ctas * 1e-9);
    } else {
      rate("Minstr/s", double(stats.warp_instructions) * 1e-6);
      rate("/core", double(stats.warp_instructions) * 1e-6 / threads());
    }
  } catch (const std::exception& e) {
    state.SkipWithError(e.what());
  }
}

void add(const std::string& name, Program program) {
  benchmark::RegisterBenchmark(name.c_str(), [program](benchmark::State& state) { run(state, program); })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RegisterBenchmark("limit/fp32 FMA", [](benchmark::State& s) {
    peak(s, fma_peak(), "no FMA");
  })->Iterations(1);
  benchmark::RegisterBenchmark("limit/int8 VNNI", [](benchmark::State& s) {
    peak(s, int8_peak(), "no AVX-512 VNNI");
  })->Iterations(1);

  const std::string setup =
      "mov.u32 %r1, %tid.x; mov.b32 %f1, 0f3F800001; mov.u32 %r2, smem; shl.b32 %r3, %r1, 4;\n"
      "add.u32 %r2, %r2, %r3; ld.param.u64 %rd0, [data]; cvt.u64.u32 %rd1, %r3;\n"
      "add.u64 %rd0, %rd0, %rd1; mov.b64 %rd2, {%r1, %r1}; st.shared.v2.b64 [%r2], {%rd2, %rd2};\n";
  // What a launch costs beside its instructions; and the text of a large kernel until it can be launched.
  add("launch/one CTA", {"sm_90a", module_text("sm_90a", ""), 0, 32});
  for (const unsigned ifs : {1000u, 10000u}) {
    const std::string text = module_text("sm_90a", idle_ifs(ifs));
    benchmark::RegisterBenchmark(fmt::format("load/{} ifs", ifs).c_str(), [text](benchmark::State& s) {
      load(s, text);
    })->Unit(benchmark::kMillisecond);
  }
  add("instructions/mad.lo.u32", straight("mad.lo.u32 %r1, %r1, 17, %r3;\n", setup));
  add("instructions/lop3.b32", straight("lop3.b32 %r1, %r1, %r3, 0x5a5a, 0x6a;\n", setup));
  add("instructions/fma.rn.f32", straight("fma.rn.f32 %f1, %f1, %f1, %f1;\n", setup));
  add("instructions/fma.rn.f16x2", straight("fma.rn.f16x2 %r1, %r1, %r3, %r1;\n", setup));
  add("instructions/ld.shared.v4", straight("ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r2];\n", setup));
  add("instructions/ld.global.v4", straight("ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd0];\n", setup));
  add("instructions/divergent branch", straight("and.b32 %r4, %r1, {i};\nsetp.eq.u32 %p2, %r4, 0;\n@%p2 bra "
                                                "SKIP{i};\nadd.u32 %r3, %r3, 1;\nSKIP{i}:\n",
                                                setup, 30));

  for (const Kind& kind :
       {Kind{"f16", 16, 0xbfffbfff, "f16", 1 << 4},
        Kind{"bf16", 16, 0xbfffbfff, "f16", 1 << 4 | 1 << 7 | 1 << 10},
        Kind{"tf32", 8, 0xbfffffff, "tf32", 1 << 4 | 2 << 7 | 2 << 10},
        Kind{"e4m3", 32, 0xbfbfbfbf, "f8f6f4", 1 << 4},
        Kind{"s8", 32, 0xffffffff, "i8", 2 << 4 | 1 << 7 | 1 << 10},
        Kind{"mx e4m3", 32, 0xbfbfbfbf, "mxf8f6f4.block_scale", 1u << 23, true},
        Kind{"mxf4", 64, 0xffffffff, "mxf4.block_scale.block32", 1u << 23 | 1 << 7 | 1 << 10, true},
        Kind{"nvf4", 64, 0xffffffff, "mxf4nvf4.block_scale.block16", 1 << 7 | 1 << 10, true}})
    add(fmt::format("tcgen05.mma/{}", kind.name), tcgen05(kind));
  for (const Kind& kind :
       {Kind{"f16", 16, 0xbfffbfff, ".f32.f16.f16"}, Kind{"bf16", 16, 0xbfffbfff, ".f32.bf16.bf16"},
        Kind{"tf32", 8, 0xbfffffff, ".f32.tf32.tf32"}, Kind{"e4m3", 32, 0xbfbfbfbf, ".f32.e4m3.e4m3"},
        Kind{"s8", 32, 0xffffffff, ".s32.s8.s8"}})
    add(fmt::format("wgmma/{}", kind.name), wgmma(kind));
  add("mma.sync/f16", mma_sync({"f16", 16, 0xbfffbfff, "m16n8k16.row.col.f32.f16.f16.f32"}, 4, 2));
  add("mma.sync/tf32", mma_sync({"tf32", 8, 0xbfffffff, "m16n8k8.row.col.f32.tf32.tf32.f32"}, 4, 2));
  add("mma.sync/s8", mma_sync({"s8", 32, 0xffffffff, "m16n8k32.row.col.s32.s8.s8.s32"}, 4, 2));
  add("copies/cp.async.bulk", bulk_copy());

  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
