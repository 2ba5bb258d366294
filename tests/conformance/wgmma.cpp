// Warpgroup products: shared memory full of random elements, and descriptors that select matrices in it in
// every layout; a few products per accumulator.
#include <algorithm>
#include <cstring>

#include "fp4lab/error.h"
#include "program.h"

namespace fp4lab::conformance {

namespace {

constexpr unsigned kShared = 64 << 10, kThreads = 128;

struct Type {
  const char* text;
  unsigned bytes;  // of an element; 0 means one bit
  bool half_output = false, integer = false;
};
constexpr Type kTypes[] = {
    {"f32.f16.f16", 2},
    {"f32.f16.f16", 2},
    {"f16.f16.f16", 2, true},
    {"f32.bf16.bf16", 2},
    {"f32.tf32.tf32", 4},
    {"f32.e4m3.e4m3", 1},
    {"f32.e4m3.e5m2", 1},
    {"f32.e5m2.e4m3", 1},
    {"f32.e5m2.e5m2", 1},
    {"f16.e4m3.e4m3", 1, true},
    {"f16.e5m2.e4m3", 1, true},
    {"s32.s8.s8", 1, false, true},
    {"s32.u8.s8", 1, false, true},
    {"s32.u8.u8", 1, false, true},
    {"s32.b1.b1", 0, false, true},
};

class Writer {
 public:
  Writer(uint64_t seed, bool sparse) : r_(seed), sparse_(sparse) {}

  Program run() {
    do t_ = r_.pick(kTypes);
    while (sparse_ && t_.bytes == 0);
    n_ = t_.integer ? 16 * (1 + r_.below(16)) : 8 * (1 + r_.below(32));
    if (t_.integer && r_.one_in(6)) n_ = r_.one_in(2) ? 8 : 24;
    registers_ = t_.half_output ? n_ / 4 : n_ / 2;
    data();
    std::string text =
        ".version 8.7\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
        ".visible .entry k(.param .u64 out_p, .param .u64 in_p)\n{\n"
        "  .reg .b32 %d<128>; .reg .b32 %a<4>; .reg .b32 %t, %u, %v<4>, %base, %e; .reg .b64 %out, %in, %x, "
        "%y, %smem; .reg .pred %p;\n"
        "  ld.param.u64 %out, [out_p]; ld.param.u64 %in, [in_p]; mov.u32 %base, smem; mov.u32 %t, %tid.x;\n"
        "  mad.wide.u32 %x, %t, 16, %in; mad.lo.u32 %u, %t, 16, %base;\n";
    text += fmt::format("  add.u32 %a0, %base, {};\nFILL:\n", kShared);
    text +=
        "  ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%x]; st.shared.v4.b32 [%u], {%v0, %v1, %v2, %v3};\n"
        "  add.u64 %x, %x, 2048; add.u32 %u, %u, 2048; setp.lt.u32 %p, %u, %a0;\n  @%p bra FILL;\n"
        "  ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%x];\n";
    if (sparse_)
      text += fmt::format("  mad.wide.u32 %x, %t, 4, %in; ld.global.b32 %e, [%x+{}];\n",
                          kShared + kThreads * (16 + registers_ * 4));
    text += fmt::format("  mad.wide.u32 %x, %t, {}, %in;\n", 4 * registers_);
    for (unsigned i = 0; i < registers_; ++i)
      text += fmt::format("  ld.global.b32 %d{}, [%x+{}];\n", i, kShared + kThreads * 16 + 4 * i);
    text +=
        "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n  cvt.u64.u32 %smem, %base; shr.u64 %smem, %smem, "
        "4;\n"
        "  wgmma.fence.sync.aligned;\n";
    for (unsigned i = 1 + r_.below(3); i > 0; --i) text += product();
    text += "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n";
    text += "  mad.wide.u32 %out, %t, 8, %out;\n";
    for (unsigned i = 0; i < registers_; ++i)
      text += fmt::format("  st.global.b32 [%out+{}], %d{};\n", i * kThreads * 8, i);
    p_.text = text + "  ret;\n}\n";
    p_.threads = kThreads, p_.shared = kShared;
    p_.out_bytes = size_t(registers_) * kThreads * 8;
    const uint32_t line = static_cast<uint32_t>(std::count(
                              text.begin(), text.begin() + static_cast<long>(text.find("wgmma.mma")), '\n')) +
                          1;
    p_.slot_lines.assign(registers_, line);
    return std::move(p_);
  }

 private:
  void data() {
    p_.in.resize(kShared + kThreads * 16 + kThreads * registers_ * 4 + (sparse_ ? kThreads * 4 : 0));
    fill_random(r_, p_.in);
    unordered_ = sparse_ && r_.one_in(3);
    const unsigned mode = r_.below(4);  // 0: any bits
    for (size_t i = 0; i < p_.in.size(); i += 4) {
      uint32_t w;
      std::memcpy(&w, &p_.in[i], 4);
      if (i >= kShared + kThreads * (16 + registers_ * 4)) {
        w = metadata();
      } else if (i >= kShared + kThreads * 16) {  // the accumulators
        if (!t_.integer && !t_.half_output && !r_.one_in(64))
          w = (w & 0x807fffff) | (60 + r_.below(130)) << 23;
        if (t_.half_output && mode) w &= 0xbfffbfff;
      } else if (mode) {
        if (t_.bytes == 2) w &= 0xbfffbfff;  // below 2: no Inf, no NaN
        if (t_.bytes == 4) w &= 0xbfffffff;
        if (t_.bytes == 1 && !t_.integer) w &= mode == 1 ? 0xbfbfbfbf : 0xfbfbfbfb;
        if (mode == 2 && r_.one_in(2)) w = 0;
        if (mode == 3 && t_.bytes == 2) w = (w & 0x9fff9fff) | 0x20002000;  // a narrow range
      }
      std::memcpy(&p_.in[i], &w, 4);
    }
  }

  // Eight indices of a sparse A, in any order.
  uint32_t metadata() {
    static constexpr unsigned kOrdered[] = {0x4, 0x8, 0x9, 0xc, 0xd, 0xe};
    uint32_t w = 0;
    for (unsigned n = 0; n < 8; ++n) {
      unsigned x = t_.bytes == 4 ? (r_.one_in(2) ? 0xe : 0x4) : r_.pick(kOrdered);
      if (t_.bytes != 4 && unordered_ && r_.one_in(2)) x = x >> 2 | (x & 3) << 2;
      w |= x << (4 * n);
    }
    return w;
  }

  // A descriptor's upper bits as a constant, and its start as an offset from smem. `rows`: 64 or N.
  std::string descriptor(const char* name, unsigned rows, bool k_major, unsigned row_bytes = 32) {
    const unsigned wide = row_bytes / 32;  // 2: of B where A is sparse
    static constexpr unsigned kSpans[] = {16, 128, 64, 32};
    unsigned code = r_.below(4);
    uint64_t lbo = 16, sbo = 0, extent = 0, advance = 0;
    for (;; code = r_.below(4)) {
      const unsigned span = kSpans[code], period = 8 * span;
      if (code && span < row_bytes && k_major) continue;
      if (k_major) {
        const uint64_t cores = rows / 8;
        sbo = period * (1 + r_.below(2));
        lbo = code == 0 ? 128 * (1 + r_.below(20)) : 16;
        if (code) advance = 32 * r_.below(span / 32 - wide + 1);
        extent = (cores - 1) * sbo + (code ? period : 128 + (2 * wide - 1) * lbo);
      } else {
        const unsigned width = span / 2;  // 16-bit elements
        if (rows % width) continue;
        const uint64_t along = code ? rows / width : rows / 8;
        const uint64_t step = period * (1 + r_.below(2)), other = period * (1 + r_.below(3));
        lbo = code ? step : other, sbo = code ? other : step;
        extent = (along - 1) * step + (2 * wide - 1) * other + period;
      }
      if (extent + advance <= kShared) break;
    }
    const unsigned period = code ? 8 * kSpans[code] : 16;
    const uint64_t start =
        r_.below(static_cast<unsigned>((kShared - extent) / period + 1)) * period + advance;
    const uint64_t high = (lbo >> 4) << 16 | (sbo >> 4) << 32 | uint64_t(code) << 62;
    return fmt::format("  add.u64 {0}, %smem, {1}; or.b64 {0}, {0}, {2:#x};\n", name, start >> 4, high);
  }

  std::string product() {
    const bool registers = r_.one_in(3), may_transpose = t_.bytes == 2;
    const bool ta = may_transpose && !registers && r_.one_in(2), tb = may_transpose && r_.one_in(2);
    std::string text = fmt::format("  setp.ne.u32 %p, {}, 0;\n", r_.one_in(3) ? 0 : 1);
    if (!registers) text += descriptor("%x", 64, !ta);
    text += descriptor("%y", n_, !tb, sparse_ ? 64 : 32);
    std::string d;
    for (unsigned i = 0; i < registers_; ++i) d += fmt::format("{}%d{}", i ? ", " : "", i);
    const bool one_bit = t_.bytes == 0;
    const unsigned k = one_bit ? 256 : (sparse_ ? 64 : 32) / t_.bytes;
    const char* saturate = t_.integer && !one_bit && r_.one_in(3) ? ".satfinite" : "";
    text += fmt::format("  wgmma.mma_async{}.sync.aligned.m64n{}k{}{}.{}{} {{{}}}, {}, %y{}, %p",
                        sparse_ ? ".sp" : "", n_, k, saturate, t_.text, one_bit ? ".and.popc" : "", d,
                        registers ? "{%a0, %a1, %a2, %a3}" : "%x",
                        !sparse_                       ? ""
                        : t_.bytes > 1 && r_.one_in(2) ? ", %e, 1"
                                                       : ", %e, 0");
    if (!t_.integer) text += fmt::format(", {}, {}", r_.one_in(3) ? -1 : 1, r_.one_in(3) ? -1 : 1);
    if (may_transpose && !registers) text += fmt::format(", {}", ta ? 1 : 0);
    if (may_transpose) text += fmt::format(", {}", tb ? 1 : 0);
    return text + ";\n";
  }

  Random r_;
  Program p_;
  Type t_;
  bool sparse_, unordered_ = false;
  unsigned n_ = 8, registers_ = 4;
};

}  // namespace

Program generate_wgmma(uint64_t seed, bool sparse) { return Writer(seed, sparse).run(); }

}  // namespace fp4lab::conformance
