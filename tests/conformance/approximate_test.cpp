// The approximate functions against an H200: the results of 2^18 arguments of each, spread over all bit
// patterns, must have the recorded hash. With a GPU `make conformance` compares every argument.
#include <doctest/doctest.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <thread>

#include "../emulator/kernel.h"
#include "../gpu.h"
#include "../skip.h"
#include "emulator/op/float_approx.h"
#include "emulator/op/rounding.h"

using namespace fp4lab;

namespace {

// The meaning of an argument's and a result's 32 bits.
enum class Kind { f32, f16, upper_f64 };

struct Function {
  const char* instruction;
  Kind kind;
  uint32_t (*model)(uint32_t);  // null: no model; only the instruction's rows are compared
  uint64_t hash;                // XXH3 of an H200's results for strided() arguments (driver 580.159.04)
};

template <auto kFunction>
uint32_t of_float(uint32_t a) {
  return std::bit_cast<uint32_t>(emu::canonical(kFunction(std::bit_cast<float>(a))));
}
float sine(float a) { return emu::mufu::sin(emu::approx::turns(a)); }
float cosine(float a) { return emu::mufu::cos(emu::approx::turns(a)); }

const Function kFunctions[] = {
    {"rcp.approx.ftz.f32", Kind::f32, of_float<emu::mufu::rcp>, 0x608c90732d3b3a8e},
    {"rcp.approx.f32", Kind::f32, of_float<emu::approx::rcp<>>, 0xff5c154d5231fefb},
    {"sqrt.approx.ftz.f32", Kind::f32, of_float<emu::mufu::sqrt>, 0x0d93936ce22ac643},
    {"sqrt.approx.f32", Kind::f32, of_float<emu::approx::sqrt<>>, 0xc73f4724c2691262},
    {"rsqrt.approx.ftz.f32", Kind::f32, of_float<emu::mufu::rsq>, 0x2b04fd1a2b20ec36},
    {"rsqrt.approx.f32", Kind::f32, of_float<emu::approx::rsqrt<>>, 0xdad9dacb4fd32b26},
    {"sin.approx.ftz.f32", Kind::f32, of_float<sine>, 0x476892b80a81fcd8},
    {"sin.approx.f32", Kind::f32, of_float<sine>, 0x476892b80a81fcd8},
    {"cos.approx.ftz.f32", Kind::f32, of_float<cosine>, 0x2c651f79d2566ddf},
    {"cos.approx.f32", Kind::f32, of_float<cosine>, 0x2c651f79d2566ddf},
    {"lg2.approx.ftz.f32", Kind::f32, of_float<emu::mufu::lg2>, 0x4be5e0c9ee460199},
    {"lg2.approx.f32", Kind::f32, of_float<emu::approx::lg2<>>, 0x7c04ac1a031212c2},
    {"ex2.approx.ftz.f32", Kind::f32, of_float<emu::mufu::ex2>, 0x669a40554feadb08},
    {"ex2.approx.f32", Kind::f32, of_float<emu::approx::ex2<>>, 0x270bb7e862fa4301},
    {"tanh.approx.f32", Kind::f32, of_float<emu::mufu::tanh>, 0x32480f20b378c211},
    {"rcp.approx.ftz.f64", Kind::upper_f64, emu::mufu::rcp64h, 0x9d7c0eb739913e35},
    {"rsqrt.approx.ftz.f64", Kind::upper_f64, emu::mufu::rsq64h, 0xca1920504572a588},
    {"ex2.approx.f16", Kind::f16, nullptr, 0x9b9c4a3380b9ada8},
    {"ex2.approx.ftz.bf16", Kind::f16, nullptr, 0x140079b2dbecc30f},
    {"tanh.approx.f16", Kind::f16, nullptr, 0xa371047fc2005bdb},
    {"tanh.approx.bf16", Kind::f16, nullptr, 0x57680f4e62a221b5},
};

constexpr uint32_t kBlock = 256, kStrided = 1 << 18;
uint32_t step_of(const Function& f) { return f.kind == Kind::f16 ? 1 : 0x3ffd; }  // odd: over all patterns

// out[i] = instruction(first + i * step)
std::string module_of(const Function& f) {
  const char* convert[] = {"mov.b32 %a, %r;", "cvt.u16.u32 %ha, %r;", "mov.b64 %da, {0, %r};"};
  const char* operands[] = {"%d, %a", "%hd, %ha", "%dd, %da"};
  const char* result[] = {"mov.b32 %r, %d;", "cvt.u32.u16 %r, %hd;", "mov.b64 {_, %r}, %dd;"};
  const int k = int(f.kind);
  return fmt::format(R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 first, .param .u64 step)
{{
  .reg .b16 %ha, %hd; .reg .b32 %r, %t, %n, %first, %step; .reg .f32 %a, %d; .reg .f64 %da, %dd; .reg .b64 %o;
  mov.u32 %t, %tid.x;
  mov.u32 %n, %ctaid.x;
  mad.lo.u32 %t, %n, {}, %t;
  ld.param.u32 %first, [first];
  ld.param.u32 %step, [step];
  mad.lo.u32 %r, %t, %step, %first;
  {}
  {} {};
  {}
  ld.param.u64 %o, [out];
  mad.wide.u32 %o, %t, 4, %o;
  st.global.u32 [%o], %r;
  ret;
}}
)",
                     kBlock, convert[k], f.instruction, operands[k], result[k]);
}

std::vector<uint32_t> on_emulator(const Function& f, uint32_t count) {
  emu::test::Kernel k(module_of(f));
  const uint64_t out = k.buffer(count * 4);
  for (uint64_t p : {out, uint64_t(0), uint64_t(step_of(f))}) k.param(p);
  k.config.block.x = kBlock;
  k.config.grid.x = count / kBlock;
  const auto result = k.run();
  REQUIRE_MESSAGE(result.ok, result.report);
  return k.download<uint32_t>(out, count);
}

// The function on a GPU, for given arguments.
class OnGpu {
 public:
  OnGpu(Driver& d, const Function& f, uint32_t most) : driver_(d) {
    d.cuModuleLoadData(&module_, module_of(f).c_str());
    d.cuModuleGetFunction(&function_, module_, "k");
    d.cuMemAlloc(&out_, size_t(most) * 4);
  }
  ~OnGpu() {
    driver_.cuMemFree(out_);
    driver_.cuModuleUnload(module_);
  }
  OnGpu(const OnGpu&) = delete;

  std::vector<uint32_t> run(uint64_t first, uint64_t step, uint32_t count) {
    void* params[] = {&out_, &first, &step};
    driver_.cuLaunchKernel(function_, count / kBlock, 1, 1, kBlock, 1, 1, 0, nullptr, params, nullptr);
    std::vector<uint32_t> results(count);
    driver_.cuMemcpyDtoH(results.data(), out_, size_t(count) * 4);
    return results;
  }

 private:
  Driver& driver_;
  CUmodule module_;
  CUfunction function_;
  CUdeviceptr out_;
};

uint32_t count_of(const Function& f) { return f.kind == Kind::f16 ? 1 << 16 : kStrided; }
uint64_t hash_of(const std::vector<uint32_t>& v) { return XXH3_64bits(v.data(), 4 * v.size()); }

// Counts the arguments first, first + 1, ... whose result is not the model's, on all cores.
uint64_t different(const Function& f, uint32_t first, const std::vector<uint32_t>& results) {
  std::atomic<uint64_t> wrong = 0;
  std::vector<std::jthread> threads;
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (size_t c = 0; c < cores; ++c)
    threads.emplace_back([&, c] {
      uint64_t mine = 0;
      for (size_t i = results.size() * c / cores; i < results.size() * (c + 1) / cores; ++i)
        mine += f.model(first + uint32_t(i)) != results[i];
      wrong += mine;
    });
  threads.clear();
  return wrong;
}

}  // namespace

TEST_CASE("approximate functions give the H200's bits") {
  for (const Function& f : kFunctions) {
    CAPTURE(f.instruction);
    CHECK(fmt::format("{:016x}", hash_of(on_emulator(f, count_of(f)))) == fmt::format("{:016x}", f.hash));
  }
}

TEST_CASE("conformance: every argument of an approximate function gives a GPU's bits") {
  const std::shared_ptr<Driver> gpu = open_gpu();
  if (!gpu) FP4LAB_SKIP("no GPU");
  const bool all = std::getenv("FP4LAB_CONFORMANCE");
  constexpr uint32_t kChunk = 1 << 26;
  for (const Function& f : kFunctions) {
    OnGpu k(*gpu, f, kChunk);
    const std::vector<uint32_t> strided = k.run(0, step_of(f), count_of(f));
    CHECK_MESSAGE(hash_of(strided) == f.hash, fmt::format("{} {:016x}", f.instruction, hash_of(strided)));
    if (!all || !f.model) continue;
    uint64_t wrong = 0;
    for (uint64_t first = 0; first < 1ull << 32; first += kChunk)
      wrong += different(f, uint32_t(first), k.run(first, 1, kChunk));
    CHECK_MESSAGE(wrong == 0,
                  fmt::format("{}: {} of 2^32 arguments with different bits", f.instruction, wrong));
  }
}
