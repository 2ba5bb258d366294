// The other kinds of tcgen05.mma: one instruction's tile, K-major without a swizzle, values whose sums are
// exact; M = 128 and 64, A from shared memory or from TMEM, fp16 and s32 accumulators, ue8m0 scales.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "fp4lab/half.h"
#include "kernel.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

struct Form {
  const char* kind;     // "f16"
  const char* element;  // how its bits are made, below
  unsigned code;        // in the instruction descriptor
  unsigned bytes;       // of an element in shared memory
  unsigned d_format;    // 0 f16, 1 f32, 2 s32
  unsigned m, n;
  bool a_in_tmem, scaled, transposed_b;
  bool stationary = false;  // .ws
  bool sparse = false;      // A holds half of K
  bool wide() const { return bytes > 1; }
  unsigned b_row() const { return sparse ? 64 : 32; }                // bytes
  unsigned columns() const { return stationary ? n * m / 128 : n; }  // of D
};

// Bits of a small integer x in [-3, 3].
uint32_t element_bits(const std::string& e, int x) {
  const float f = static_cast<float>(x);
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const unsigned i = static_cast<unsigned>(x + 3);
  if (e == "f16") return fp4lab::half_from_float(f);
  if (e == "bf16") return u >> 16;
  if (e == "tf32") return u | 0x1fff;  // the low bits must not take part
  if (e == "s8") return static_cast<uint8_t>(x);
  constexpr uint8_t e4m3[] = {0xc4, 0xc0, 0xb8, 0, 0x38, 0x40, 0x44},
                    e5m2[] = {0xc2, 0xc0, 0xbc, 0, 0x3c, 0x40, 0x42},
                    e2m3[] = {0x34, 0x30, 0x28, 0, 0x08, 0x10, 0x14},
                    e3m2[] = {0x32, 0x30, 0x2c, 0, 0x0c, 0x10, 0x12}, e2m1[] = {0xd, 0xc, 0xa, 0, 2, 4, 5};
  return e == "e4m3"   ? e4m3[i]
         : e == "e5m2" ? e5m2[i]
         : e == "e2m3" ? e2m3[i]
         : e == "e3m2" ? e3m2[i]
                       : e2m1[i];
}

std::string kernel(const Form& f) {
  const unsigned a_bytes = f.m * 32, b_bytes = f.n * f.b_row();
  auto descriptor = [&](unsigned at) {
    return uint64_t(0x400 + at) >> 4 | uint64_t(128 >> 4) << 16 |
           uint64_t((at ? 8 * f.b_row() : 256) >> 4) << 32 | uint64_t(1) << 46;
  };
  uint32_t idesc = f.code << 7 | f.code << 10 | (f.n >> 3) << 17 | (f.transposed_b ? 1u << 16 : 0);
  idesc |= f.scaled ? (f.m >> 7) << 27 | 1u << 23 : (f.m >> 4) << 24 | f.d_format << 4;
  if (f.sparse) idesc |= 1u << 2 | (f.wide() ? 1 : 0);  // the second column of two
  // The padding of narrow elements stays unwritten.
  const std::string e = f.element;
  const char* store = e == "e2m1" ? "st.shared.v2.b32 [%r8], {%r4,%r5};"
                      : e == "e2m3" || e == "e3m2"
                          ? "st.shared.v2.b32 [%r8], {%r4,%r5}; st.shared.b32 [%r8+8], %r6;"
                          : "st.shared.v4.b32 [%r8], {%r4,%r5,%r6,%r7};";
  std::string fill_a, stores;
  if (f.a_in_tmem) {  // 32 bytes of each row stand behind B in `in`
    fill_a = "mul.wide.u32 %rd6, %r1, 32; add.u64 %rd6, %rd6, %rd0;\n";
    for (unsigned w = 0; w < 8; ++w)
      fill_a += fmt::format("ld.global.b32 %r{}, [%rd6+{}];\n", 20 + w, a_bytes + b_bytes + 4 * w);
    fill_a +=
        "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r12+320], {%r20,%r21,%r22,%r23,%r24,%r25,%r26,%r27};\n"
        "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\n";
  }
  if (f.scaled)  // 2^(row % 4 - 2) for A, 2 for B, in all four quarters
    fill_a +=
        "and.b32 %r20, %r1, 3; add.u32 %r20, %r20, 125; mul.lo.u32 %r20, %r20, 0x01010101; mov.u32 %r21, "
        "0x80808080;\n"
        "tcgen05.st.sync.aligned.32x32b.x4.b32 [%r12+400], {%r20,%r20,%r20,%r20};\n"
        "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r12+408], {%r21,%r21,%r21,%r21,%r21,%r21,%r21,%r21};\n"
        "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\n";
  if (f.sparse)
    fill_a += fmt::format(
        "mul.wide.u32 %rd6, %r1, 8; add.u64 %rd6, %rd6, %rd0; ld.global.v2.b32 {{%r20,%r21}}, [%rd6+{}];\n"
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r12+424], {{%r20,%r21}};\n"
        "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\n",
        a_bytes + b_bytes + 128 * 32);
  for (unsigned c = 0; c < f.columns(); c += 8) {
    stores += fmt::format(
        "tcgen05.ld.sync.aligned.32x32b.x8.b32 {{%r30,%r31,%r32,%r33,%r34,%r35,%r36,%r37}}, [%r12+{}];\n"
        "tcgen05.wait::ld.sync.aligned;\n",
        c);
    for (unsigned i = 0; i < 8; ++i)
      stores += fmt::format("st.global.b32 [%rd5+{}], %r{};\n", (c + i) * 512, 30 + i);
  }
  auto mma = [&](bool accumulate) {
    const std::string a = f.a_in_tmem ? "[%r10+320]" : fmt::format("{:#x}", descriptor(0));
    const std::string b = fmt::format("{:#x}{}", descriptor(a_bytes), f.sparse ? ", [%r10+424]" : "");
    const char* sp = f.sparse ? ".sp" : "";
    if (f.scaled)
      return fmt::format(
          "tcgen05.mma{}.cta_group::1.kind::{}.block_scale{} [%r10], {}, {}, {:#x}, [%r10+400], [%r10+408], "
          "{};\n",
          sp, f.kind, std::string_view(f.kind) == "mxf4nvf4" ? ".block32" : "", a, b, idesc,
          accumulate ? 1 : 0);
    return fmt::format(
        "tcgen05.mma{}{}.cta_group::1.kind::{}{} [%r10], {}, {}, {:#x}, {};\n", f.stationary ? ".ws" : "", sp,
        f.kind, f.stationary && accumulate ? ".collector::b1::fill" : "", a, b, idesc, accumulate ? 1 : 0);
  };
  return module_text(
      "sm_100a", ".param .u64 in, .param .u64 out",
      fmt::format(R"(
    mov.u32 %r0, smem; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mul.lo.u32 %r3, %r1, 16;
    add.u32 %r9, %r0, 65536;
    ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd1;
  C: cvt.u64.u32 %rd3, %r3; add.u64 %rd3, %rd3, %rd0; ld.global.v4.b32 {{%r4,%r5,%r6,%r7}}, [%rd3];
    add.u32 %r8, %r0, %r3; {store}
    add.u32 %r3, %r3, 2048; setp.lt.u32 %p2, %r3, {bytes};
    @%p2 bra C;
    fence.proxy.async.shared::cta;
    setp.ne.u32 %p0, %r2, 0; setp.ne.u32 %p1, %r1, 0;
    @%p0 bra SETUP;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9+16], 512;
    @%p1 bra SETUP;
    mbarrier.init.shared::cta.b64 [%r9], 1;
  SETUP: bar.sync 0;
    ld.shared.u32 %r10, [%r9+16];
    shl.b32 %r3, %r2, 21; or.b32 %r12, %r10, %r3;
    {fill_a}
    bar.sync 0;
    @%p1 bra EPILOGUE;
    tcgen05.fence::after_thread_sync;
    {first}
    {second}
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r9];
  EPILOGUE:
    {wait}
    {stores}
    bar.sync 0;
    @%p0 bra END;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 512;
  END:)",
                  fmt::arg("bytes", a_bytes + b_bytes), fmt::arg("store", store), fmt::arg("fill_a", fill_a),
                  fmt::arg("first", mma(false)), fmt::arg("second", mma(true)),
                  fmt::arg("wait", wait("%r9", 0)), fmt::arg("stores", stores)));
}

}  // namespace

TEST_CASE("tiles of the other kinds") {
  const Form forms[] = {{"f16", "f16", 0, 2, 1, 128, 64, false, false, false},
                        {"f16", "bf16", 1, 2, 1, 64, 40, false, false, false},
                        {"f16", "f16", 0, 2, 0, 128, 16, false, false, false},
                        {"f16", "bf16", 1, 2, 1, 128, 32, true, false, false},
                        {"f16", "f16", 0, 2, 1, 128, 64, false, false, true},
                        {"tf32", "tf32", 2, 4, 1, 128, 24, false, false, false},
                        {"f8f6f4", "e4m3", 0, 1, 1, 128, 256, false, false, false},
                        {"f8f6f4", "e5m2", 1, 1, 0, 128, 8, false, false, false},
                        {"f8f6f4", "e2m3", 3, 1, 1, 128, 16, false, false, false},
                        {"f8f6f4", "e3m2", 4, 1, 1, 128, 16, false, false, false},
                        {"f8f6f4", "e2m1", 5, 1, 1, 128, 16, false, false, false},
                        {"i8", "s8", 1, 1, 2, 64, 48, false, false, false},
                        {"mxf8f6f4", "e4m3", 0, 1, 1, 128, 96, false, true, false},
                        {"mxf8f6f4", "e2m1", 5, 1, 1, 128, 8, false, true, false},
                        {"f16", "bf16", 1, 2, 1, 32, 64, false, false, false, true},
                        {"f8f6f4", "e4m3", 0, 1, 1, 64, 128, false, false, false, true},
                        {"i8", "s8", 1, 1, 2, 128, 64, false, false, false, true},
                        {"f16", "f16", 0, 2, 0, 128, 64, true, false, false, true},
                        {"f16", "f16", 0, 2, 1, 128, 64, false, false, false, false, true},
                        {"f16", "bf16", 1, 2, 1, 64, 40, false, false, false, false, true},
                        {"f16", "f16", 0, 2, 0, 128, 32, true, false, true, false, true},
                        {"tf32", "tf32", 2, 4, 1, 128, 24, false, false, false, false, true},
                        {"f8f6f4", "e4m3", 0, 1, 1, 128, 256, false, false, false, false, true},
                        {"f8f6f4", "e2m1", 5, 1, 1, 64, 16, false, false, false, false, true},
                        {"i8", "s8", 1, 1, 2, 128, 48, true, false, false, false, true},
                        {"mxf8f6f4", "e2m3", 3, 1, 1, 128, 96, false, true, false, false, true},
                        {"mxf4nvf4", "e2m1 pairs", 1, 1, 1, 128, 64, false, true, false, false, true},
                        {"f16", "bf16", 1, 2, 1, 32, 64, false, false, false, true, true},
                        {"f8f6f4", "e4m3", 0, 1, 1, 64, 128, false, false, false, true, true}};
  std::mt19937 rng(6);
  for (const Form& f : forms) {
    const std::string e = f.element;
    const bool pairs = e == "e2m1 pairs";  // two in a byte
    const unsigned stored = pairs ? 64 : 32 / f.bytes, k = f.sparse ? 2 * stored : stored;
    std::vector<int> a(f.m * stored), b(f.n * k);
    for (int& x : a) x = static_cast<int>(rng() % 7) - 3;
    for (int& x : b) x = static_cast<int>(rng() % 7) - 3;
    const unsigned b_row = f.b_row(), behind = f.m * 32 + f.n * b_row;
    std::vector<uint8_t> in(behind + 128 * 32 + 128 * 8);
    auto place = [&](size_t base, unsigned row, unsigned byte) -> uint8_t& {
      return in[base + row / 8 * 8 * (base ? b_row : 32) + byte / 16 * 128 + row % 8 * 16 + byte % 16];
    };
    // Where each stored element stands along K, and the metadata that says so, in the TMEM lane of its row;
    // for elements of more than 8 bits by halves of K in lanes 8 apart, rows r and r + 8 in one word.
    std::vector<unsigned> position(f.m * stored);
    for (size_t i = 0; i < position.size(); ++i) position[i] = static_cast<unsigned>(i % stored);
    for (unsigned r = 0; f.sparse && r < f.m; ++r) {
      const unsigned unit = pairs ? 2 : 1, chunks = e == "tf32" ? k / 2 : k / (4 * unit);
      for (unsigned c = 0; c < chunks; ++c) {
        constexpr unsigned kIndices[] = {0x4, 0x8, 0x9, 0xc, 0xd, 0xe, 0x6};
        const unsigned index = e == "tf32" ? (rng() % 2 ? 0xe : 0x4) : kIndices[rng() % 7];
        if (e == "tf32")
          position[r * stored + c] = 2 * c + (index == 0xe);
        else
          for (unsigned i = 0; i < 2 * unit; ++i)
            position[r * stored + 2 * unit * c + i] =
                (4 * c + (index >> (i / unit * 2) & 3)) * unit + i % unit;
        const unsigned half = c / (chunks / 2), nibble = c % (chunks / 2);
        unsigned lane = f.m == 64 && !f.stationary ? r / 16 * 32 + r % 16 : r;
        unsigned column = half, shift = 4 * nibble;
        if (f.wide()) {
          lane = lane / 16 * 16 + r % 8 + 8 * half;
          column = 1, shift = r / 8 % 2 * 16 + 4 * nibble;
        }
        for (unsigned copy = lane; copy < (f.stationary ? 128 : lane + 1); copy += f.m)
          in[behind + 128 * 32 + copy * 8 + column * 4 + shift / 8] |=
              static_cast<uint8_t>(index << (shift % 8));
      }
    }
    const unsigned narrow = e == "e2m1" ? 4 : e == "e2m3" || e == "e3m2" ? 6 : 0;
    auto put = [&](size_t base, unsigned row, unsigned i, int x) {
      const uint32_t bits = element_bits(e, x);
      if (pairs) {
        place(base, row, i / 2) |= static_cast<uint8_t>(bits << (i % 2 * 4));
        return;
      }
      if (narrow) {  // 16 elements in the first 8 or 12 of 16 bytes
        const unsigned bit = i % 16 * narrow;
        for (unsigned n = 0; n < narrow; ++n)
          if (bits >> n & 1)
            place(base, row, i / 16 * 16 + (bit + n) / 8) |= static_cast<uint8_t>(1u << (bit + n) % 8);
        return;
      }
      for (unsigned c = 0; c < f.bytes; ++c)
        place(base, row, i * f.bytes + c) = static_cast<uint8_t>(bits >> (8 * c));
    };
    for (unsigned r = 0; r < f.m; ++r)
      for (unsigned i = 0; i < stored; ++i) {
        put(0, r, i, a[r * stored + i]);
        const uint32_t bits = element_bits(e, a[r * stored + i]);
        for (unsigned c = 0; c < f.bytes && !pairs; ++c)
          in[behind + r * 32 + i * f.bytes + c] = static_cast<uint8_t>(bits >> (8 * c));
      }
    for (unsigned r = 0; r < f.n; ++r)
      for (unsigned i = 0; i < k; ++i) {
        if (!f.transposed_b) {
          put(f.m * 32, r, i, b[r * k + i]);
          continue;
        }
        // MN-major without a swizzle: 8 n in 16 bytes, k 16 bytes on, 8 n SBO on, 8 k LBO (128) on
        const uint32_t bits = element_bits(e, b[r * k + i]);
        for (unsigned c = 0; c < 2; ++c)
          in[f.m * 32 + r / 8 * 8 * b_row + i / 8 * 128 + i % 8 * 16 + r % 8 * 2 + c] =
              static_cast<uint8_t>(bits >> (8 * c));
      }
    Kernel kern(kernel(f));
    kern.param(kern.upload(in));
    const uint64_t out = kern.buffer(f.n * 512);
    kern.param(out);
    kern.config.block.x = 128;
    kern.config.dynamic_shared = 65536 + 64;
    LaunchResult r = kern.run(f.n);
    CAPTURE(f.kind);
    CAPTURE(f.element);
    CAPTURE(f.m);
    CAPTURE(f.a_in_tmem);
    CAPTURE(f.sparse);
    INFO(r.report);
    REQUIRE(r.ok);
    const auto got = kern.download<uint32_t>(out, f.n * 128);
    unsigned wrong = 0;
    for (unsigned n = 0; n < f.n; ++n)
      for (unsigned m = 0; m < f.m; ++m) {
        double sum = 0;
        for (unsigned i = 0; i < stored; ++i)
          sum += 2.0 * a[m * stored + i] * b[n * k + position[m * stored + i]];
        if (f.scaled) sum *= std::ldexp(2.0, static_cast<int>(m % 4) - 2);
        const unsigned lane = f.stationary ? m + f.m * (n / f.columns())
                              : f.m == 64  ? m / 16 * 32 + m % 16
                                           : m;
        const uint32_t word = got[n % f.columns() * 128 + lane];
        const double have = f.d_format == 0   ? fp4lab::half_to_float(static_cast<uint16_t>(word))
                            : f.d_format == 2 ? static_cast<int32_t>(word)
                                              : std::bit_cast<float>(word);
        wrong += have != sum;
      }
    CHECK(wrong == 0);
  }
}
