// wgmma on the emulator: one warpgroup, 64 x N products from shared memory and from registers against exact
// sums, and misuse of its registers.
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
  std::string_view types;  // ".f32.f16.f16"
  unsigned bytes;          // of an element
  bool registers = false, transposed_b = false;
  bool sparse = false;

  bool half_out() const { return types.starts_with(".f16"); }
  bool integer() const { return types.starts_with(".s32"); }
  bool bits() const { return types.ends_with("b1"); }
  unsigned b_row() const { return sparse ? 64 : 32; }  // bytes of K in a row of B
  unsigned k() const { return b_row() / bytes; }
  unsigned stored() const { return 32 / bytes; }  // elements in a row of A
  // Offsets in the input of B, the fragments of A and the metadata; its size in bytes.
  static constexpr unsigned kB = 64 * 32;
  unsigned fragments_at(unsigned n) const { return kB + n * b_row(); }
  unsigned metadata_at(unsigned n) const { return fragments_at(n) + 128 * 16; }
  unsigned input_bytes(unsigned n) const { return metadata_at(n) + 128 * 4; }
  unsigned d_registers(unsigned n) const { return half_out() ? n / 4 : n / 2; }
};

// A (64 x 32 bytes) and B (n x 32 bytes, or 64 with a sparse A) are in shared memory without a swizzle: cores
// of 8 rows x 16 bytes. The threads copy them there from `in`, multiply twice (so D = 2 A B), and store their
// accumulators.
std::string kernel(const Form& f, unsigned n, const std::string& between = "", bool fence = true) {
  std::string d, stores;
  for (unsigned r = 0; r < f.d_registers(n); ++r) {
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
  if (f.registers)  // 16 bytes per thread, prepared by the test after A and B
    operands = fmt::format("{{{}}}, {:#x}", "%r20,%r21,%r22,%r23", descriptor(f.kB, f.transposed_b));
  else
    operands = fmt::format("{:#x}, {:#x}", descriptor(0, false), descriptor(f.kB, f.transposed_b));
  if (f.sparse) operands += fmt::format(", %r24, {}", f.bytes == 1 ? 0 : 1);
  operands += ", %p2";
  std::string signs = f.integer() ? "" : ", 1, 1";
  if (f.bytes == 2)
    signs += f.registers ? fmt::format(", {}", f.transposed_b ? 1 : 0)
                         : fmt::format(", 0, {}", f.transposed_b ? 1 : 0);
  const std::string mma =
      fmt::format("wgmma.mma_async{}.sync.aligned.m64n{}k{}{}{} {{{}}}, {}{};\n", f.sparse ? ".sp" : "", n,
                  f.bits() ? 256 : f.k(), f.types, f.bits() ? ".and.popc" : "", d, operands, signs);
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
                  fmt::arg("bytes", f.fragments_at(n)), fmt::arg("fragments", f.fragments_at(n)),
                  fmt::arg("metadata", f.metadata_at(n)),
                  fmt::arg("fence", fence ? "wgmma.fence.sync.aligned;" : ""), fmt::arg("mma", mma),
                  fmt::arg("between", between), fmt::arg("stores", stores)));
}

// Random operands of a product as the kernel reads them, and the expected D: small integers, so that every
// sum is exact.
class Tile {
 public:
  Tile(const Form& f, unsigned n, std::mt19937& rng)
      : f_(f),
        n_(n),
        rng_(rng),
        a_(64 * 32),
        b_(n * f.b_row()),
        in_(f.input_bytes(n)),
        position_(64 * f.stored()) {
    fill(a_), fill(b_);
    for (size_t i = 0; i < position_.size(); ++i) position_[i] = static_cast<unsigned>(i % f.stored());
    for (unsigned r = 0; f.sparse && r < 64; ++r) thin_out(r);
    place_a(), place_b();
  }

  const std::vector<std::byte>& input() const { return in_; }
  double expected(unsigned row, unsigned column) const {
    double sum = 0;
    for (unsigned x = 0; x < f_.stored(); ++x)
      if (f_.bits())
        sum += 2 * std::popcount(std::to_integer<unsigned>(a_[row * 32 + x] & b_[column * f_.b_row() + x]));
      else
        sum += 2 * value(&a_[row * 32 + x * f_.bytes]) *
               value(&b_[column * f_.b_row() + position_[row * f_.stored() + x] * f_.bytes]);
    return sum;
  }
  // Accumulator v of thread t in the stored registers, [register][thread].
  double accumulator(const std::vector<uint32_t>& d, unsigned v, unsigned t) const {
    const uint32_t word = d[(f_.half_out() ? v / 2 : v) * 128 + t];
    return f_.half_out()  ? fp4lab::half_to_float(static_cast<uint16_t>(word >> (v % 2 * 16)))
           : f_.integer() ? static_cast<int32_t>(word)
                          : std::bit_cast<float>(word);
  }

 private:
  void fill(std::vector<std::byte>& v) {
    for (size_t i = 0; i < v.size(); i += f_.bytes) {
      const int x = static_cast<int>(rng_() % 7) - 3;
      const uint32_t bits = f_.bits() ? uint32_t(rng_()) : element_bits(x);
      std::memcpy(&v[i], &bits, f_.bytes);
    }
  }
  uint32_t element_bits(int x) const {
    const float f = static_cast<float>(x);
    const uint32_t bits = std::bit_cast<uint32_t>(f);
    constexpr uint8_t e4m3[] = {0xc4, 0xc0, 0xb8, 0, 0x38, 0x40, 0x44};
    return f_.types.ends_with("bf16")   ? bits >> 16
           : f_.types.ends_with(".f16") ? fp4lab::half_from_float(f)
           : f_.types.ends_with("tf32") ? bits
           : f_.types.ends_with("s8")   ? static_cast<uint8_t>(x)
                                        : e4m3[x + 3];
  }
  double value(const std::byte* p) const {
    uint32_t word = 0;
    std::memcpy(&word, p, f_.bytes);
    if (f_.types.ends_with("bf16")) return std::bit_cast<float>(word << 16);
    if (f_.types.ends_with(".f16")) return fp4lab::half_to_float(static_cast<uint16_t>(word));
    if (f_.types.ends_with("tf32")) return std::bit_cast<float>(word);
    if (f_.types.ends_with("s8")) return static_cast<int8_t>(word);
    const int e = word >> 3 & 15, m = word & 7;  // e4m3
    const double v = e ? std::ldexp(1 + m / 8.0, e - 7) : std::ldexp(m, -9);
    return word >> 7 ? -v : v;
  }

  // Draws the positions along K of the stored elements of row r and writes them as metadata. Elements of a
  // byte: lanes 0 and 2 of a group have the two halves of row g, lanes 1 and 3 those of row g + 8. Others:
  // lanes 2 and 3 (selector 1) have a half each, row g in the low bits.
  void thin_out(unsigned r) {
    constexpr unsigned kPairs[] = {0x4, 0x8, 0x9, 0xc, 0xd, 0xe};
    const bool byte = f_.bytes == 1;
    const unsigned per_word = byte ? 8 : 4;
    uint32_t words[2] = {};
    unsigned* position = &position_[r * f_.stored()];
    for (unsigned c = 0; c < 2 * per_word; ++c) {
      const unsigned index = f_.bytes == 4 ? (rng_() % 2 ? 0xe : 0x4) : kPairs[rng_() % 6];
      if (f_.bytes == 4)
        position[c] = 2 * c + (index == 0xe);
      else
        for (unsigned i = 0; i < 2; ++i) position[2 * c + i] = 4 * c + (index >> (2 * i) & 3);
      words[c / per_word] |= index << (4 * (c % per_word));
    }
    const unsigned upper = r / 8 % 2, first = r / 16 * 32 + r % 8 * 4;
    for (unsigned h = 0; h < 2; ++h) {
      const unsigned thread = byte ? first + 2 * h + upper : first + 2 + h;
      std::byte* to = &in_[f_.metadata_at(n_) + 4 * thread];
      uint32_t word;
      std::memcpy(&word, to, 4);
      word |= byte ? words[h] : words[h] << (16 * upper);
      std::memcpy(to, &word, 4);
    }
  }

  // Cores of 8 rows x 16 bytes.
  static unsigned place(unsigned row, unsigned byte, unsigned row_bytes) {
    return row / 8 * 8 * row_bytes + byte / 16 * 128 + row % 8 * 16 + byte % 16;
  }
  // In shared memory's order, and as the fragments of the threads (PTX ISA 9.7.15.5.1).
  void place_a() {
    for (unsigned r = 0; r < 64; ++r)
      for (unsigned c = 0; c < 32; ++c) in_[place(r, c, 32)] = a_[r * 32 + c];
    for (unsigned t = 0; t < 128; ++t)
      for (unsigned r = 0; r < 4; ++r) {
        const unsigned row = t / 32 * 16 + t % 32 / 4 + 8 * (r % 2), byte = t % 4 * 4 + 16 * (r / 2);
        std::memcpy(&in_[f_.fragments_at(n_) + t * 16 + r * 4], &a_[row * 32 + byte], 4);
      }
  }
  void place_b() {
    for (unsigned r = 0; r < n_; ++r)
      for (unsigned x = 0; x < f_.k(); ++x)
        for (unsigned c = 0; c < f_.bytes; ++c) {
          // MN-major: 8 neighbouring n in 16 bytes, the next k 16 bytes on, blocks of 8 n SBO apart and
          // blocks of 8 k LBO (128) apart.
          const unsigned to = f_.transposed_b
                                  ? r / 8 * 8 * f_.b_row() + x / 8 * 128 + x % 8 * 16 + r % 8 * 2 + c
                                  : place(r, x * f_.bytes + c, f_.b_row());
          in_[f_.kB + to] = b_[r * f_.b_row() + x * f_.bytes + c];
        }
  }

  const Form& f_;
  unsigned n_;
  std::mt19937& rng_;
  std::vector<std::byte> a_, b_;  // row-major
  std::vector<std::byte> in_;
  std::vector<unsigned> position_;  // of each stored element of A along K
};

}  // namespace

TEST_CASE("products of 64 x N from shared memory and from registers") {
  const Form forms[] = {
      {.types = ".f32.f16.f16", .bytes = 2},
      {.types = ".f32.bf16.bf16", .bytes = 2},
      {.types = ".f16.f16.f16", .bytes = 2},
      {.types = ".f32.f16.f16", .bytes = 2, .registers = true},
      {.types = ".f32.f16.f16", .bytes = 2, .transposed_b = true},
      {.types = ".f32.tf32.tf32", .bytes = 4},
      {.types = ".f32.tf32.tf32", .bytes = 4, .registers = true},
      {.types = ".f32.e4m3.e4m3", .bytes = 1},
      {.types = ".f32.e4m3.e4m3", .bytes = 1, .registers = true},
      {.types = ".s32.s8.s8", .bytes = 1},
      {.types = ".s32.s8.s8", .bytes = 1, .registers = true},
      {.types = ".s32.b1.b1", .bytes = 1},
      {.types = ".s32.b1.b1", .bytes = 1, .registers = true},
      {.types = ".f32.f16.f16", .bytes = 2, .sparse = true},
      {.types = ".f16.f16.f16", .bytes = 2, .registers = true, .sparse = true},
      {.types = ".f32.bf16.bf16", .bytes = 2, .registers = true, .transposed_b = true, .sparse = true},
      {.types = ".f32.tf32.tf32", .bytes = 4, .sparse = true},
      {.types = ".f32.tf32.tf32", .bytes = 4, .registers = true, .sparse = true},
      {.types = ".f32.e4m3.e4m3", .bytes = 1, .sparse = true},
      {.types = ".f32.e4m3.e4m3", .bytes = 1, .registers = true, .sparse = true},
      {.types = ".s32.s8.s8", .bytes = 1, .sparse = true},
      {.types = ".s32.s8.s8", .bytes = 1, .registers = true, .sparse = true},
  };
  std::mt19937 rng(8);
  for (const Form& f : forms)
    for (unsigned n : {8u, 96u}) {
      const Tile tile(f, n, rng);
      Kernel kern(kernel(f, n));
      kern.param(kern.upload(tile.input()));
      const uint64_t out = kern.buffer(f.d_registers(n) * 512);
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
      const auto d = kern.download<uint32_t>(out, f.d_registers(n) * 128);
      unsigned wrong = 0;
      for (unsigned t = 0; t < 128; ++t)
        for (unsigned v = 0; v < n / 2; ++v) {
          const unsigned row = t / 32 * 16 + t % 32 / 4 + 8 * (v / 2 % 2),
                         column = v / 4 * 8 + t % 4 * 2 + v % 2;
          wrong += tile.accumulator(d, v, t) != tile.expected(row, column);
        }
      CHECK(wrong == 0);
    }
}

TEST_CASE("registers of wgmma before the wait, and the first fence") {
  const Form f{".f32.f16.f16", 2};
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

// A of 64 x 16 ones and B of 8 x 16 ones. After its wait each warp writes zeros over the next warp's rows of
// A.
TEST_CASE("a wait for a wgmma group covers the products of all four warps") {
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
