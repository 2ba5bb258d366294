// wgmma on the emulator: one warpgroup, 64 x N products from shared memory and from registers, against exact
// sums; and the misuse of its registers.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>

#include "fp4lab/half.h"
#include "kernel.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

struct Form {
  const char* types;  // ".f32.f16.f16"
  unsigned bytes;     // of an element
  bool registers, transposed_b;
  bool sparse = false;

  unsigned b_row() const { return sparse ? 64 : 32; }  // bytes of K in a row of B
};

// A (64 x 32 bytes) and B (n x 32 bytes, or 64 with a sparse A) stand in shared memory without a swizzle:
// cores of 8 rows x 16 bytes. The threads copy them there from `in`, multiply twice (so D = 2 A B), and store
// their accumulators.
std::string kernel(const Form& f, unsigned n, const std::string& between = "", bool fence = true) {
  const unsigned k = f.b_row() / f.bytes, a_bytes = 64 * 32, b_bytes = n * f.b_row();
  const bool half_out = std::string(f.types).starts_with(".f16"),
             integer = std::string(f.types).starts_with(".s32");
  const unsigned registers = half_out ? n / 4 : n / 2;
  std::string d, stores;
  for (unsigned r = 0; r < registers; ++r) {
    d += fmt::format("{}%r{}", r ? "," : "", 100 + r);
    stores += fmt::format("st.global.b32 [%rd2+{}], %r{};\n", r * 512, 100 + r);
  }
  const uint64_t lbo = 128;
  auto descriptor = [&](unsigned at, bool transposed) {
    // MN-major without a swizzle: cores of 8 (mn) x 8 (k); here laid out by the test below
    const uint64_t l = transposed ? 128 : lbo, s = at ? 8 * f.b_row() : 256;
    return uint64_t(0x400 + at) >> 4 | (l >> 4) << 16 | (s >> 4) << 32;
  };
  std::string operands;
  if (f.registers)  // 16 bytes of every thread, prepared by the test behind A and B
    operands = fmt::format("{{{}}}, {:#x}", "%r20,%r21,%r22,%r23", descriptor(a_bytes, f.transposed_b));
  else
    operands = fmt::format("{:#x}, {:#x}", descriptor(0, false), descriptor(a_bytes, f.transposed_b));
  if (f.sparse) operands += fmt::format(", %r24, {}", f.bytes == 1 ? 0 : 1);
  operands += ", %p2";
  std::string signs = integer ? "" : ", 1, 1";
  if (f.bytes == 2)
    signs += f.registers ? fmt::format(", {}", f.transposed_b ? 1 : 0)
                         : fmt::format(", 0, {}", f.transposed_b ? 1 : 0);
  const bool bits = std::string(f.types).ends_with("b1");
  const std::string mma =
      fmt::format("wgmma.mma_async{}.sync.aligned.m64n{}k{}{}{} {{{}}}, {}{};\n", f.sparse ? ".sp" : "", n,
                  bits ? 256 : k, f.types, bits ? ".and.popc" : "", d, operands, signs);
  return module_text(
      "sm_90a", ".param .u64 in, .param .u64 out",
      fmt::format(R"(
    mov.u32 %r0, smem; mov.u32 %r1, %tid.x; mul.lo.u32 %r2, %r1, 16;
    ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd2, %rd1;
    mov.u32 %r3, %r2;
  C: cvt.u64.u32 %rd3, %r3; add.u64 %rd3, %rd3, %rd0; ld.global.v4.b32 {{%r4,%r5,%r6,%r7}}, [%rd3];
    add.u32 %r8, %r0, %r3; st.shared.v4.b32 [%r8], {{%r4,%r5,%r6,%r7}};
    add.u32 %r3, %r3, 2048; setp.lt.u32 %p0, %r3, {bytes};
    @%p0 bra C;
    cvt.u64.u32 %rd3, %r2; add.u64 %rd3, %rd3, %rd0; ld.global.v4.b32 {{%r20,%r21,%r22,%r23}}, [%rd3+{fragments}];
    mad.wide.u32 %rd3, %r1, 4, %rd0; ld.global.b32 %r24, [%rd3+{metadata}];
    fence.proxy.async.shared::cta;
    bar.sync 0;
    {fence}
    setp.ne.u32 %p2, 0, 0;
    {mma}
    setp.eq.u32 %p2, 0, 0;
    {mma}
    wgmma.commit_group.sync.aligned;
    {between}
    wgmma.wait_group.sync.aligned 0;
    {stores})",
                  fmt::arg("bytes", a_bytes + b_bytes), fmt::arg("fragments", a_bytes + b_bytes),
                  fmt::arg("metadata", a_bytes + b_bytes + 128 * 16),
                  fmt::arg("fence", fence ? "wgmma.fence.sync.aligned;" : ""), fmt::arg("mma", mma),
                  fmt::arg("between", between), fmt::arg("stores", stores)));
}

double value(const Form& f, const std::byte* p) {
  const std::string t = f.types;
  if (t.ends_with("f16")) {
    uint16_t h;
    std::memcpy(&h, p, 2);
    return t.ends_with("bf16") ? std::bit_cast<float>(uint32_t(h) << 16) : fp4lab::half_to_float(h);
  }
  if (t.ends_with("tf32")) {
    float x;
    std::memcpy(&x, p, 4);
    return x;
  }
  const uint8_t b = static_cast<uint8_t>(*p);
  if (t.ends_with("s8")) return static_cast<int8_t>(b);
  const int e = b >> 3 & 15, m = b & 7;  // e4m3
  const double v = e ? std::ldexp(1 + m / 8.0, e - 7) : std::ldexp(m, -9);
  return b >> 7 ? -v : v;
}

}  // namespace

TEST_CASE("products of 64 x N from shared memory and from registers") {
  std::mt19937 rng(8);
  const Form forms[] = {{".f32.f16.f16", 2, false, false},
                        {".f32.bf16.bf16", 2, false, false},
                        {".f16.f16.f16", 2, false, false},
                        {".f32.f16.f16", 2, true, false},
                        {".f32.f16.f16", 2, false, true},
                        {".f32.tf32.tf32", 4, false, false},
                        {".f32.tf32.tf32", 4, true, false},
                        {".f32.e4m3.e4m3", 1, false, false},
                        {".f32.e4m3.e4m3", 1, true, false},
                        {".s32.s8.s8", 1, false, false},
                        {".s32.s8.s8", 1, true, false},
                        {".s32.b1.b1", 1, false, false},
                        {".s32.b1.b1", 1, true, false},
                        {".f32.f16.f16", 2, false, false, true},
                        {".f16.f16.f16", 2, true, false, true},
                        {".f32.bf16.bf16", 2, true, true, true},
                        {".f32.tf32.tf32", 4, false, false, true},
                        {".f32.tf32.tf32", 4, true, false, true},
                        {".f32.e4m3.e4m3", 1, false, false, true},
                        {".f32.e4m3.e4m3", 1, true, false, true},
                        {".s32.s8.s8", 1, false, false, true},
                        {".s32.s8.s8", 1, true, false, true}};
  for (const Form& f : forms)
    for (unsigned n : {8u, 96u}) {
      const unsigned k = f.b_row() / f.bytes, b_row = f.b_row();
      std::vector<std::byte> a(64 * 32), b(n * b_row);  // row-major
      auto fill = [&](std::vector<std::byte>& v) {      // small integers: every sum is exact
        for (size_t i = 0; i < v.size(); i += f.bytes) {
          const int x = static_cast<int>(rng() % 7) - 3;
          const float fx = static_cast<float>(x);
          const uint32_t bits = std::bit_cast<uint32_t>(fx);
          const std::string t = f.types;
          if (t.ends_with("bf16")) {
            const uint16_t h = static_cast<uint16_t>(bits >> 16);
            std::memcpy(&v[i], &h, 2);
          } else if (t.ends_with(".f16")) {
            const uint16_t h = fp4lab::half_from_float(fx);
            std::memcpy(&v[i], &h, 2);
          } else if (t.ends_with("tf32")) {
            std::memcpy(&v[i], &bits, 4);
          } else if (t.ends_with("s8")) {
            v[i] = static_cast<std::byte>(x);
          } else if (t.ends_with("b1")) {
            v[i] = static_cast<std::byte>(rng());
          } else {
            constexpr uint8_t codes[] = {0xc4, 0xc0, 0xb8, 0, 0x38, 0x40, 0x44};
            v[i] = std::byte{codes[x + 3]};
          }
        }
      };
      fill(a), fill(b);
      std::vector<std::byte> in(64 * 32 + n * b_row + 128 * 16 + 128 * 4);
      auto at = [&](unsigned row, unsigned byte, unsigned row_bytes) {
        return row / 8 * 8 * row_bytes + byte / 16 * 128 + row % 8 * 16 + byte % 16;
      };
      for (unsigned r = 0; r < 64; ++r)
        for (unsigned c = 0; c < 32; ++c) in[at(r, c, 32)] = a[r * 32 + c];
      // Where each stored element stands along K, and the metadata that says so.
      const unsigned stored = 32 / f.bytes;
      std::vector<unsigned> place(64 * stored);
      for (unsigned r = 0; r < 64; ++r) {
        uint32_t words[2] = {};
        for (unsigned c = 0; c < (f.bytes == 1 ? 16u : 8u); ++c) {
          constexpr unsigned kPairs[] = {0x4, 0x8, 0x9, 0xc, 0xd, 0xe};
          const unsigned index = f.bytes == 4 ? (rng() % 2 ? 0xe : 0x4) : kPairs[rng() % 6];
          if (f.bytes == 4)
            place[r * stored + c] = 2 * c + (index == 0xe);
          else
            for (unsigned i = 0; i < 2; ++i) place[r * stored + 2 * c + i] = 4 * c + (index >> (2 * i) & 3);
          // Bytes: lanes 0 and 2 of a group hold the two halves of row g, lanes 1 and 3 those of row g + 8.
          // Others: lanes 2 and 3 (selector 1) hold a half each, row g in the low bits.
          words[f.bytes == 1 ? c / 8 : c / 4] |= index << (f.bytes == 1 ? 4 * (c % 8) : 4 * (c % 4));
        }
        for (unsigned h = 0; h < 2; ++h) {
          const unsigned upper = r / 8 % 2, first = r / 16 * 32 + r % 8 * 4;
          const unsigned t = f.bytes == 1 ? first + 2 * h + upper : first + 2 + h;
          uint32_t word;
          std::byte* to = &in[64 * 32 + n * b_row + 128 * 16 + 4 * t];
          std::memcpy(&word, to, 4);
          word |= f.bytes == 1 ? words[h] : words[h] << (16 * upper);
          std::memcpy(to, &word, 4);
        }
      }
      if (!f.sparse)
        for (size_t i = 0; i < place.size(); ++i) place[i] = static_cast<unsigned>(i % stored);
      for (unsigned r = 0; r < n; ++r)
        for (unsigned x = 0; x < k; ++x)
          for (unsigned c = 0; c < f.bytes; ++c) {
            const std::byte v = b[r * b_row + x * f.bytes + c];
            // MN-major: 8 neighbouring n in 16 bytes, the next k 16 bytes on, blocks of 8 n SBO apart
            // and blocks of 8 k LBO (128) apart.
            const unsigned to = f.transposed_b ? r / 8 * 8 * b_row + x / 8 * 128 + x % 8 * 16 + r % 8 * 2 + c
                                               : at(r, x * f.bytes + c, b_row);
            in[64 * 32 + to] = v;
          }
      for (unsigned t = 0; t < 128; ++t)  // fragments of A: PTX ISA 9.7.15.5.1
        for (unsigned r = 0; r < 4; ++r)
          for (unsigned e = 0; e < 4 / f.bytes; ++e) {
            const unsigned row = t / 32 * 16 + t % 32 / 4 + 8 * (r % 2);
            const unsigned column = (t % 4) * (4 / f.bytes) + e + (16 / f.bytes) * (r / 2);
            std::memcpy(&in[64 * 32 + n * b_row + t * 16 + r * 4 + e * f.bytes],
                        &a[row * 32 + column * f.bytes], f.bytes);
          }
      Kernel kern(kernel(f, n));
      kern.param(kern.upload(in));
      const bool half_out = std::string(f.types).starts_with(".f16"),
                 integer = std::string(f.types).starts_with(".s32");
      const unsigned registers = half_out ? n / 4 : n / 2;
      const uint64_t out = kern.buffer(registers * 512);
      kern.param(out);
      kern.config.block.x = 128;
      kern.config.dynamic_shared = 16384;
      LaunchResult r = kern.run(n);
      CAPTURE(f.types);
      CAPTURE(f.registers);
      CAPTURE(f.sparse);
      CAPTURE(f.transposed_b);
      CAPTURE(n);
      INFO(r.report);
      REQUIRE(r.ok);
      const auto got = kern.download<uint32_t>(out, registers * 128);
      unsigned wrong = 0;
      for (unsigned t = 0; t < 128; ++t)
        for (unsigned v = 0; v < n / 2; ++v) {
          const unsigned row = t / 32 * 16 + t % 32 / 4 + 8 * (v / 2 % 2),
                         column = v / 4 * 8 + t % 4 * 2 + v % 2;
          double sum = 0;
          for (unsigned x = 0; x < stored; ++x)
            if (std::string(f.types).ends_with("b1"))
              sum += 2 * std::popcount(std::to_integer<unsigned>(a[row * 32 + x] & b[column * b_row + x]));
            else
              sum += 2 * value(f, &a[row * 32 + x * f.bytes]) *
                     value(f, &b[column * b_row + place[row * stored + x] * f.bytes]);
          const uint32_t word = got[(half_out ? v / 2 : v) * 128 + t];
          const double have = half_out  ? fp4lab::half_to_float(static_cast<uint16_t>(word >> (v % 2 * 16)))
                              : integer ? static_cast<int32_t>(word)
                                        : std::bit_cast<float>(word);
          wrong += have != sum;
        }
      CHECK(wrong == 0);
    }
}

TEST_CASE("registers of wgmma before the wait, and the first fence") {
  const Form f{".f32.f16.f16", 2, false, false};
  auto run = [&](const std::string& text) {
    Kernel k(text);
    k.param(k.upload(std::vector<uint8_t>(64 * 32 + 8 * 32 + 4096, 0x11)));
    k.param(k.buffer(4 * 512));
    k.config.block.x = 128;
    k.config.dynamic_shared = 16384;
    return k.run(1).report;
  };
  CHECK(run(kernel(f, 8)).empty());
  CHECK(run(kernel(f, 8, "st.global.b32 [%rd2], %r100;")).find("%r100") != std::string::npos);
  CHECK(run(kernel(f, 8, "", false)).find("without a wgmma.fence") != std::string::npos);
}

// A of 64 x 16 ones and B of 8 x 16 ones. Behind its wait each warp writes zeros over the next warp's rows of
// A.
TEST_CASE("a wait for a wgmma-group is for the products of all four warps") {
  const std::string text = module_text("sm_90a", ".param .u64 out", R"(
      mov.u32 %r0, smem; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; add.u32 %r3, %r0, %r2;
      mov.u32 %r4, 0x3c003c00; mov.u32 %r5, 0;
      st.shared.v4.b32 [%r3], {%r4, %r4, %r4, %r4};
      st.shared.v4.b32 [%r3+2048], {%r4, %r4, %r4, %r4};
      fence.proxy.async.shared::cta;
      bar.sync 0;
      wgmma.fence.sync.aligned;
      setp.ne.u32 %p2, %r0, %r0;
      wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r10, %r11, %r12, %r13}, 0x1000080040, 0x10000800c0, %p2, 1, 1, 0, 0;
      wgmma.commit_group.sync.aligned;
      wgmma.wait_group.sync.aligned 0;
      add.u32 %r2, %r2, 512; and.b32 %r2, %r2, 2047; add.u32 %r3, %r0, %r2;
      st.shared.v4.b32 [%r3], {%r5, %r5, %r5, %r5};
      ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r1, 16; add.u64 %rd0, %rd0, %rd1;
      st.global.v4.b32 [%rd0], {%r10, %r11, %r12, %r13};)");
  for (const bool eager : {false, true})
    for (uint64_t seed = 0; seed < 30; ++seed) {
      Kernel k(text);
      const uint64_t out = k.buffer(2048);
      k.param(out);
      k.config.block.x = 128;
      k.config.dynamic_shared = 4096;
      if (eager) k.schedule.kind = Schedule::Kind::eager;
      const LaunchResult r = k.run(seed);
      INFO(r.report);
      REQUIRE(r.ok);
      for (uint32_t bits : k.download<uint32_t>(out, 512)) REQUIRE(bits == std::bit_cast<uint32_t>(16.0f));
    }
}
