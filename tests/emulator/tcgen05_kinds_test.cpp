// The other kinds of tcgen05.mma: one instruction's tile, K-major without a swizzle, values with exact sums;
// M = 128 and 64, A from shared memory or TMEM, fp16 and s32 accumulators, ue8m0 scales.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <sstream>

#include "emulator/core/failure.h"
#include "emulator/engine/sparse.h"
#include "emulator/watch/inspect.h"
#include "fp4lab/half.h"
#include "kernel.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

struct Element {
  const char* name;
  unsigned code;        // in the instruction descriptor
  unsigned bytes;       // in shared memory
  unsigned narrow = 0;  // bits, where 16 elements lie in the first bytes of 16
  bool pairs = false;   // two in a byte
};
constexpr Element kF16{"f16", 0, 2}, kBf16{"bf16", 1, 2}, kTf32{"tf32", 2, 4}, kS8{"s8", 1, 1},
    kE4m3{"e4m3", 0, 1}, kE5m2{"e5m2", 1, 1}, kE2m3{"e2m3", 3, 1, 6}, kE3m2{"e3m2", 4, 1, 6},
    kE2m1{"e2m1", 5, 1, 4}, kE2m1Pairs{"e2m1", 1, 1, 0, true};

struct Form {
  const char* kind;
  Element element;
  unsigned m, n;
  unsigned d_format = 1;  // 0 f16, 1 f32, 2 s32
  bool a_in_tmem = false, scaled = false, transposed_b = false;
  bool stationary = false;  // .ws
  bool sparse = false;      // A holds half of K
  bool nowhere = false;     // its last elements are zeros with invalid metadata

  bool wide() const { return element.bytes > 1; }
  unsigned b_row() const { return sparse ? 64 : 32; }                        // bytes
  unsigned b_core() const { return transposed_b ? 16 / element.bytes : 8; }  // rows that SBO steps over
  unsigned columns() const { return stationary ? n * m / 128 : n; }          // of D
  // Elements of a row of A as stored, and of B.
  unsigned stored() const { return element.pairs ? 64 : 32 / element.bytes; }
  unsigned k() const { return sparse ? 2 * stored() : stored(); }
  // Offsets in the input of B, the rows of A for TMEM, and the metadata.
  unsigned b_at() const { return m * 32; }
  unsigned rows_at() const { return b_at() + n * b_row(); }
  unsigned metadata_at() const { return rows_at() + 128 * 32; }
  unsigned input_bytes() const { return metadata_at() + 128 * 8; }
};

// Bits of a small integer x in [-3, 3].
uint32_t element_bits(const Element& element, int x) {
  const std::string_view e = element.name;
  const float f = static_cast<float>(x);
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const unsigned i = static_cast<unsigned>(x + 3);
  if (e == "f16") return fp4lab::half_from_float(f);
  if (e == "bf16") return u >> 16;
  if (e == "tf32") return u | 0x1fff;  // the low bits must be ignored
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
  auto descriptor = [&](unsigned at) {
    return uint64_t(0x400 + at) >> 4 | uint64_t(128 >> 4) << 16 |
           uint64_t((at ? f.b_core() * f.b_row() : 256) >> 4) << 32 | uint64_t(1) << 46;
  };
  uint32_t idesc =
      f.element.code << 7 | f.element.code << 10 | (f.n >> 3) << 17 | (f.transposed_b ? 1u << 16 : 0);
  idesc |= f.scaled ? (f.m >> 7) << 27 | 1u << 23 : (f.m >> 4) << 24 | f.d_format << 4;
  if (f.sparse) idesc |= 1u << 2 | (f.wide() ? 1 : 0);  // the second column of two
  // The padding of narrow elements stays unwritten.
  const char* store = f.element.narrow == 4 ? "st.shared.v2.b32 [%r8], {%r4,%r5};"
                      : f.element.narrow == 6
                          ? "st.shared.v2.b32 [%r8], {%r4,%r5}; st.shared.b32 [%r8+8], %r6;"
                          : "st.shared.v4.b32 [%r8], {%r4,%r5,%r6,%r7};";
  std::string fill_a, stores;
  if (f.a_in_tmem) {  // 32 bytes of each row follow B in `in`
    fill_a = "mul.wide.u32 %rd6, %r1, 32; add.u64 %rd6, %rd6, %rd0;\n";
    for (unsigned w = 0; w < 8; ++w)
      fill_a += fmt::format("ld.global.b32 %r{}, [%rd6+{}];\n", 20 + w, f.rows_at() + 4 * w);
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
        f.metadata_at());
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
    const std::string b = fmt::format("{:#x}{}", descriptor(f.b_at()), f.sparse ? ", [%r10+424]" : "");
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
                  fmt::arg("bytes", f.rows_at()), fmt::arg("store", store), fmt::arg("fill_a", fill_a),
                  fmt::arg("first", mma(false)), fmt::arg("second", mma(true)),
                  fmt::arg("wait", wait("%r9", 0)), fmt::arg("stores", stores)));
}

// Random operands of one instruction as the kernel reads them, and the expected D.
class Tile {
 public:
  Tile(const Form& f, std::mt19937& rng)
      : f_(f), rng_(rng), a_(f.m * f.stored()), b_(f.n * f.k()), in_(f.input_bytes()) {
    for (int& x : a_) x = static_cast<int>(rng() % 7) - 3;
    for (int& x : b_) x = static_cast<int>(rng() % 7) - 3;
    position_.resize(a_.size());
    for (size_t i = 0; i < position_.size(); ++i) position_[i] = static_cast<unsigned>(i % f.stored());
    for (unsigned r = 0; f.sparse && r < f.m; ++r) thin_out(r);
    place_a();
    place_b();
  }

  const std::vector<uint8_t>& input() const { return in_; }
  std::vector<float> row_of_b(unsigned row) const {
    return {b_.begin() + row * f_.k(), b_.begin() + (row + 1) * f_.k()};
  }
  double expected(unsigned m, unsigned n) const {
    double sum = 0;
    for (size_t i = m * f_.stored(); i < (m + 1) * f_.stored(); ++i)
      sum += 2.0 * a_[i] * b_[n * f_.k() + position_[i]];
    return f_.scaled ? sum * std::ldexp(2.0, static_cast<int>(m % 4) - 2) : sum;
  }
  // D as the kernel wrote it: 128 lanes of each column.
  double value(const std::vector<uint32_t>& d, unsigned m, unsigned n) const {
    const unsigned lane = f_.stationary ? m + f_.m * (n / f_.columns())
                          : f_.m == 64  ? m / 16 * 32 + m % 16
                                        : m;
    const uint32_t word = d[n % f_.columns() * 128 + lane];
    return f_.d_format == 0   ? fp4lab::half_to_float(static_cast<uint16_t>(word))
           : f_.d_format == 2 ? static_cast<int32_t>(word)
                              : std::bit_cast<float>(word);
  }

 private:
  // Draws the positions along K of the stored elements of row r of A and writes them as metadata into the
  // row's TMEM lane. For elements of more than 8 bits the halves of K are in lanes 8 apart, rows r and r + 8
  // in one word.
  void thin_out(unsigned r) {
    constexpr unsigned kIndices[] = {0x4, 0x8, 0x9, 0xc, 0xd, 0xe, 0x6};
    const bool one_of_two = f_.element.bytes == 4;
    const unsigned unit = f_.element.pairs ? 2 : 1, chunks = one_of_two ? f_.k() / 2 : f_.k() / (4 * unit);
    unsigned* position = &position_[r * f_.stored()];
    for (unsigned c = 0; c < chunks; ++c) {
      unsigned index = one_of_two ? (rng_() % 2 ? 0xe : 0x4) : kIndices[rng_() % 7];
      if (f_.nowhere && c == chunks - 1) {
        index = 0;
        a_[(r + 1) * f_.stored() - 1] = a_[(r + 1) * f_.stored() - 2] = 0;
      }
      if (one_of_two)
        position[c] = 2 * c + (index == 0xe);
      else
        for (unsigned i = 0; i < 2 * unit; ++i)
          position[2 * unit * c + i] = (4 * c + (index >> (i / unit * 2) & 3)) * unit + i % unit;
      put_metadata(r, c / (chunks / 2), c % (chunks / 2), index);
    }
  }
  void put_metadata(unsigned r, unsigned half, unsigned nibble, unsigned index) {
    unsigned lane = f_.m == 64 && !f_.stationary ? r / 16 * 32 + r % 16 : r;
    unsigned column = half, shift = 4 * nibble;
    if (f_.wide()) {
      lane = lane / 16 * 16 + r % 8 + 8 * half;
      column = 1, shift = r / 8 % 2 * 16 + 4 * nibble;
    }
    for (unsigned copy = lane; copy < (f_.stationary ? 128 : lane + 1); copy += f_.m)
      in_[f_.metadata_at() + copy * 8 + column * 4 + shift / 8] |= static_cast<uint8_t>(index << (shift % 8));
  }

  // K-major without a swizzle: core matrices of 8 rows of 16 bytes.
  uint8_t& place(unsigned base, unsigned row, unsigned byte) {
    return in_[base + row / 8 * 8 * (base ? f_.b_row() : 32) + byte / 16 * 128 + row % 8 * 16 + byte % 16];
  }
  void put(unsigned base, unsigned row, unsigned i, int x) {
    if (f_.element.pairs)
      place(base, row, i / 2) |= static_cast<uint8_t>(element_bits(f_.element, x) << (i % 2 * 4));
    else
      put_in_chunk(&place(base, row, i * f_.element.bytes / 16 * 16), i, x);
  }
  // Bits of element i, counted along the 16 bytes.
  void put_in_chunk(uint8_t* chunk, unsigned i, int x) {
    const uint32_t bits = element_bits(f_.element, x);
    if (const unsigned narrow = f_.element.narrow) {  // 16 elements in the first 8 or 12 of 16 bytes
      const unsigned bit = i % 16 * narrow;
      for (unsigned n = 0; n < narrow; ++n)
        if (bits >> n & 1) chunk[(bit + n) / 8] |= static_cast<uint8_t>(1u << (bit + n) % 8);
    } else {
      std::memcpy(chunk + i * f_.element.bytes % 16, &bits, f_.element.bytes);
    }
  }
  // In core matrices, and as rows for TMEM, where each narrow element has a byte and e2m1 uses its bits 5:2.
  void place_a() {
    const unsigned up = f_.element.narrow == 4 ? 2 : 0;
    for (unsigned r = 0; r < f_.m; ++r)
      for (unsigned i = 0; i < f_.stored(); ++i) {
        const int x = a_[r * f_.stored() + i];
        put(0, r, i, x);
        for (unsigned c = 0; c < f_.element.bytes && !f_.element.pairs; ++c)
          for (unsigned lane = r; lane < (f_.stationary ? 128 : r + 1); lane += f_.m)
            in_[f_.rows_at() + lane * 32 + i * f_.element.bytes + c] =
                static_cast<uint8_t>(element_bits(f_.element, x) << up >> (8 * c));
      }
  }
  void place_b() {
    for (unsigned r = 0; r < f_.n; ++r)
      for (unsigned i = 0; i < f_.k(); ++i) {
        const int x = b_[r * f_.k() + i];
        if (!f_.transposed_b) {
          put(f_.b_at(), r, i, x);
          continue;
        }
        // MN-major without a swizzle: a chunk of n in 16 bytes, k 16 bytes on, 8 k LBO (128) on, n SBO on
        const unsigned core = f_.b_core();
        put_in_chunk(&in_[f_.b_at() + r / core * core * f_.b_row() + i / 8 * 128 + i % 8 * 16], r, x);
      }
  }

  const Form& f_;
  std::mt19937& rng_;
  std::vector<int> a_, b_;
  std::vector<unsigned> position_;  // of each stored element of A along K
  std::vector<uint8_t> in_;
};

// The numbers after the colons of the lines that name elements.
std::vector<float> elements_in(const std::string& report) {
  std::vector<float> all;
  std::istringstream lines(report);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("..") == line.npos) continue;
    std::istringstream numbers(line.substr(line.rfind(':') + 1));
    for (float x; numbers >> x;) all.push_back(x);
  }
  return all;
}

}  // namespace

// The lists of PTX ISA 9.7.16.10.8.1 and .2.
TEST_CASE("valid sparsity metadata of tcgen05.mma") {
  for (unsigned m = 0; m < 16; ++m)
    for (const bool tf32 : {false, true}) {
      SparseRows rows;
      rows.rows = rows.chunks = 1;
      rows.tcgen05 = true, rows.tf32 = tf32;
      rows.metadata = {static_cast<uint8_t>(m)};
      const uint32_t valid = tf32 ? 1u << 0x4 | 1u << 0xe : 0x7350;
      CAPTURE(m);
      CAPTURE(tf32);
      if (valid >> m & 1)
        CHECK_NOTHROW(rows.check("tcgen05.mma", 0));
      else
        CHECK_THROWS_AS(rows.check("tcgen05.mma", 0), Fault);
    }
}

TEST_CASE("tiles of the other kinds") {
  const Form forms[] = {
      {.kind = "f16", .element = kF16, .m = 128, .n = 64},
      {.kind = "f16", .element = kBf16, .m = 64, .n = 40},
      {.kind = "f16", .element = kF16, .m = 128, .n = 16, .d_format = 0},
      {.kind = "f16", .element = kBf16, .m = 128, .n = 32, .a_in_tmem = true},
      {.kind = "f16", .element = kF16, .m = 128, .n = 64, .transposed_b = true},
      {.kind = "tf32", .element = kTf32, .m = 128, .n = 24},
      {.kind = "f8f6f4", .element = kE4m3, .m = 128, .n = 256},
      {.kind = "f8f6f4", .element = kE5m2, .m = 128, .n = 8, .d_format = 0},
      {.kind = "f8f6f4", .element = kE2m3, .m = 128, .n = 16},
      {.kind = "f8f6f4", .element = kE3m2, .m = 128, .n = 16},
      {.kind = "f8f6f4", .element = kE2m1, .m = 128, .n = 16},
      {.kind = "f8f6f4", .element = kE2m1, .m = 128, .n = 32, .transposed_b = true},
      {.kind = "f8f6f4", .element = kE2m1, .m = 128, .n = 16, .a_in_tmem = true},
      {.kind = "f8f6f4", .element = kE3m2, .m = 128, .n = 8, .d_format = 0, .a_in_tmem = true},
      {.kind = "mxf8f6f4", .element = kE2m1, .m = 128, .n = 8, .a_in_tmem = true, .scaled = true},
      {.kind = "f8f6f4", .element = kE4m3, .m = 64, .n = 48, .transposed_b = true},
      {.kind = "i8", .element = kS8, .m = 64, .n = 48, .d_format = 2},
      {.kind = "mxf8f6f4", .element = kE4m3, .m = 128, .n = 96, .scaled = true},
      {.kind = "mxf8f6f4", .element = kE2m1, .m = 128, .n = 8, .scaled = true},
      {.kind = "mxf8f6f4", .element = kE3m2, .m = 128, .n = 64, .scaled = true, .transposed_b = true},
      {.kind = "f16", .element = kBf16, .m = 32, .n = 64, .stationary = true},
      {.kind = "f8f6f4", .element = kE4m3, .m = 64, .n = 128, .stationary = true},
      {.kind = "f16", .element = kBf16, .m = 64, .n = 128, .a_in_tmem = true, .stationary = true},
      {.kind = "f16", .element = kBf16, .m = 32, .n = 64, .a_in_tmem = true, .stationary = true},
      {.kind = "i8", .element = kS8, .m = 128, .n = 64, .d_format = 2, .stationary = true},
      {.kind = "f16",
       .element = kF16,
       .m = 128,
       .n = 64,
       .d_format = 0,
       .a_in_tmem = true,
       .stationary = true},
      {.kind = "f16", .element = kF16, .m = 128, .n = 64, .sparse = true},
      {.kind = "f16", .element = kBf16, .m = 64, .n = 40, .sparse = true},
      {.kind = "f16",
       .element = kF16,
       .m = 128,
       .n = 32,
       .d_format = 0,
       .a_in_tmem = true,
       .transposed_b = true,
       .sparse = true},
      {.kind = "tf32", .element = kTf32, .m = 128, .n = 24, .sparse = true},
      {.kind = "f8f6f4", .element = kE4m3, .m = 128, .n = 256, .sparse = true},
      {.kind = "f8f6f4", .element = kE2m1, .m = 64, .n = 16, .sparse = true},
      {.kind = "i8", .element = kS8, .m = 128, .n = 48, .d_format = 2, .a_in_tmem = true, .sparse = true},
      {.kind = "mxf8f6f4", .element = kE2m3, .m = 128, .n = 96, .scaled = true, .sparse = true},
      {.kind = "mxf4nvf4", .element = kE2m1Pairs, .m = 128, .n = 64, .scaled = true, .sparse = true},
      {.kind = "f8f6f4", .element = kE5m2, .m = 128, .n = 32, .sparse = true, .nowhere = true},
      {.kind = "f16", .element = kBf16, .m = 32, .n = 64, .stationary = true, .sparse = true},
      {.kind = "f8f6f4", .element = kE4m3, .m = 64, .n = 128, .stationary = true, .sparse = true},
  };
  std::mt19937 rng(6);
  for (const Form& f : forms) {
    const Tile tile(f, rng);
    Kernel kern(kernel(f));
    kern.param(kern.upload(tile.input()));
    const uint64_t out = kern.buffer(f.n * 512);
    kern.param(out);
    kern.config.block.x = 128;
    kern.config.dynamic_shared = 65536 + 64;
    if (f.nowhere) {
      CHECK(kern.run(f.n).report.find("metadata of row 0, chunk 15 of K is 0b0000") != std::string::npos);
      kern.schedule.tolerant = true;
    }
    Inspect inspect;
    inspect.tile = {.operand = 'B', .row0 = 5, .row1 = 5};
    kern.watcher = &inspect;
    LaunchResult r = kern.run(f.n);
    CAPTURE(f.kind);
    CAPTURE(f.element.name);
    CAPTURE(f.m);
    CAPTURE(f.a_in_tmem);
    CAPTURE(f.sparse);
    INFO(r.report);
    REQUIRE(r.ok);
    CHECK(r.notes.empty() == !f.nowhere);
    INFO(inspect.report());
    CHECK(elements_in(inspect.report()) == tile.row_of_b(5));
    const auto d = kern.download<uint32_t>(out, f.n * 128);
    unsigned wrong = 0;
    for (unsigned n = 0; n < f.n; ++n)
      for (unsigned m = 0; m < f.m; ++m) wrong += tile.value(d, m, n) != tile.expected(m, n);
    CHECK(wrong == 0);
  }
}

namespace {

// The report on the kernel of a form after replacing every `from` by `to`.
std::string report_of(const Form& f, const std::string& from, const std::string& to) {
  std::string text = kernel(f);
  size_t found = 0;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size(), ++found)
    text.replace(at, from.size(), to);
  REQUIRE(found > 0);
  Kernel kern(text);
  kern.param(kern.buffer(f.input_bytes()));
  kern.param(kern.buffer(f.n * 512));
  kern.config.block.x = 128;
  kern.config.dynamic_shared = 65536 + 64;
  return kern.run(1).report;
}

}  // namespace

TEST_CASE("operands in tensor memory must not overlap D") {
  const Form a{.kind = "f16", .element = kBf16, .m = 128, .n = 32, .a_in_tmem = true};
  CHECK(report_of(a, "+320]", "+24]").find("A in TMEM columns [24, 32) overlaps D in [0, 32)") !=
        std::string::npos);
  CHECK(report_of(a, "+320]", "+32]").find("overlaps") == std::string::npos);
  const Form sparse{.kind = "f16", .element = kF16, .m = 128, .n = 64, .sparse = true};
  CHECK(report_of(sparse, "+424]", "+62]").find("metadata in TMEM columns [62, 64) overlaps D in [0, 64)") !=
        std::string::npos);
}

// PTX ISA 9.7.16.10.3: K-major operands allow every swizzle, MN-major ones of 8 and 16 bits all but this one.
TEST_CASE("the 128-byte swizzle with 32-byte atoms") {
  const Form f{.kind = "f16", .element = kF16, .m = 128, .n = 64};
  const std::string a = fmt::format("{:#x}, ", uint64_t(0x400) >> 4 | uint64_t(8) << 16 | uint64_t(16) << 32 |
                                                   uint64_t(1) << 46),
                    swizzled = fmt::format("{:#x}, ", uint64_t(0x400) >> 4 | uint64_t(64) << 32 |
                                                          uint64_t(1) << 46 | uint64_t(1) << 61);
  CHECK(report_of(f, a, swizzled).find("which was never written") != std::string::npos);  // far rows
  const Form transposed{.kind = "f16", .element = kF16, .m = 128, .n = 64, .transposed_b = true};
  const std::string b =
      fmt::format("{:#x}, ", uint64_t(0x400 + f.b_at()) >> 4 | uint64_t(8) << 16 |
                                 uint64_t(transposed.b_core() * 32 >> 4) << 32 | uint64_t(1) << 46);
  CHECK(report_of(transposed, b, swizzled).find("B is MN-major and has the 128B swizzle with 32B atoms") !=
        std::string::npos);
}
