// Warp-level products other than mma.sync's dense ones: mma.sp with random metadata, and wmma with its loads
// and stores in every layout.
#include <cstring>

#include "fp4lab/error.h"
#include "program.h"

namespace fp4lab::conformance {

namespace {

constexpr unsigned kThreads = 128, kWords = 24, kMetadata = 3, kArea = 2048, kWarpBytes = 4 * kArea;
constexpr unsigned kInWords = kWords + kMetadata + 1;

struct SparseForm {
  const char* text;
  unsigned d, a, selectors;
  bool tf32 = false;
};
constexpr SparseForm kSparse[] = {
    {"m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 4},
    {"m16n8k32.row.col.f32.f16.f16.f32", 4, 4, 2},
    {"m16n8k16.row.col.f16.f16.f16.f16", 2, 2, 4},
    {"m16n8k32.row.col.f16.f16.f16.f16", 2, 4, 2},
    {"m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4},
    {"m16n8k32.row.col.f32.bf16.bf16.f32", 4, 4, 2},
    {"m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4, true},
    {"m16n8k16.row.col.f32.tf32.tf32.f32", 4, 4, 2, true},
    {"m16n8k64.row.col.f32.e4m3.e4m3.f32", 4, 4, 1},
    {"m16n8k64.row.col.f32.e4m3.e5m2.f32", 4, 4, 1},
    {"m16n8k64.row.col.f32.e5m2.e5m2.f32", 4, 4, 1},
    {"m16n8k32.row.col.s32.s8.u8.s32", 4, 2, 2},
    {"m16n8k32.row.col.satfinite.s32.s8.s8.s32", 4, 2, 2},
    {"m16n8k64.row.col.s32.u8.s8.s32", 4, 4, 1},
    {"m16n8k64.row.col.satfinite.s32.u8.u8.s32", 4, 4, 1},
    {"m16n8k64.row.col.s32.s4.u4.s32", 4, 2, 2},
    {"m16n8k64.row.col.satfinite.s32.u4.u4.s32", 4, 2, 2},
    {"m16n8k128.row.col.s32.s4.s4.s32", 4, 4, 1},
    {"m16n8k128.row.col.satfinite.s32.u4.s4.s32", 4, 4, 1},
};

struct Shape {
  const char* text;
  unsigned m, n, k;
};
constexpr Shape kShapes[] = {{"m16n16k16", 16, 16, 16}, {"m32n8k16", 32, 8, 16}, {"m8n32k16", 8, 32, 16}};
constexpr Shape kTf32Shape = {"m16n16k8", 16, 16, 8};

struct Kind16 {
  const char* element;  // of A and B
  const char* types;    // of wmma.mma
  const char* c;        // of C and D
  unsigned bytes;       // of an element of A
};
constexpr Kind16 kKinds16[] = {{"f16", "f32.f32", "f32", 2},
                               {"f16", "f16.f16", "f16", 2},
                               {"bf16", "f32.bf16.bf16.f32", "f32", 2},
                               {"tf32", "f32.tf32.tf32.f32", "f32", 4},
                               {"s8", "s32.s8.s8.s32", "s32", 1},
                               {"u8", "s32.u8.u8.s32", "s32", 1}};

class Writer {
 public:
  explicit Writer(uint64_t seed) : r_(seed) {}

  Program run() {
    data();
    line(".version 8.7");
    line(".target sm_90a");
    line(".address_size 64");
    line(".visible .entry k(.param .u64 out_p, .param .u64 in_p)");
    line("{");
    line(
        "  .reg .b32 %r<24>, %e<3>, %a<8>, %b<8>, %c<8>, %d<8>, %t, %base, %own, %w; .reg .b64 %out, %in, "
        "%x;");
    line(fmt_("  .shared .align 128 .b8 sh[{}];", 4 * kWarpBytes));
    line("  ld.param.u64 %out, [out_p]; ld.param.u64 %in, [in_p]; mov.u32 %t, %tid.x;");
    line(fmt_("  mad.wide.u32 %in, %t, {}, %in; mad.wide.u32 %out, %t, 8, %out;", kInWords * 4));
    for (unsigned i = 0; i < kWords; ++i) line(fmt_("  ld.global.b32 %r{}, [%in+{}];", i, 4 * i));
    for (unsigned i = 0; i < kMetadata; ++i)
      line(fmt_("  ld.global.b32 %e{}, [%in+{}];", i, 4 * (kWords + i)));
    line(fmt_("  shr.u32 %w, %t, 5; mov.u32 %base, sh; mad.lo.u32 %base, %w, {}, %base;", kWarpBytes));
    line("  and.b32 %own, %t, 31; mad.lo.u32 %own, %own, 4, %base;");
    for (unsigned n = 2 + r_.below(4); n > 0; --n) r_.one_in(3) ? fragments() : sparse();
    line("  ret;");
    line("}");
    p_.text = std::move(text_);
    p_.threads = kThreads;
    p_.out_bytes = p_.slot_lines.size() * kThreads * 8;
    return std::move(p_);
  }

 private:
  template <class... A>
  static std::string fmt_(fmt::format_string<A...> f, A&&... a) {
    return fmt::format(f, std::forward<A>(a)...);
  }
  void line(const std::string& s) {
    text_ += s + '\n';
    ++lines_;
  }
  void log(const std::string& name, uint32_t at) {
    line(fmt_("  st.global.b32 [%out+{}], {};", p_.slot_lines.size() * kThreads * 8, name));
    p_.slot_lines.push_back(at);
  }
  static std::string list(const char* name, unsigned first, unsigned n) {
    std::string s;
    for (unsigned i = 0; i < n; ++i) s += fmt_("{}{}{}", i ? ", " : "", name, first + i);
    return "{" + s + "}";
  }

  void data() {
    p_.in.resize(kThreads * kInWords * 4);
    const unsigned mode = r_.below(4);  // 0: any bits
    for (size_t i = 0; i < p_.in.size(); i += 4) {
      uint32_t w = static_cast<uint32_t>(r_.bits());
      if (mode) w &= mode == 1 ? 0xbfbfbfbf : 0xbfffbfff;  // without Inf and NaN
      if (mode == 3 && r_.one_in(2)) w &= 0xffff;
      const size_t n = i / 4 % kInWords;
      if (n >= kWords && n < kWords + kMetadata) {
        static constexpr unsigned kOrdered[] = {0x4, 0x8, 0x9, 0xc, 0xd, 0xe};
        w = 0;
        for (unsigned nibble = 0; nibble < 8; ++nibble) {
          unsigned x = r_.pick(kOrdered);
          if (n == kWords + 1 && r_.one_in(2)) x = x >> 2 | (x & 3) << 2;  // unsorted
          if (n == kWords + 2) x = r_.one_in(2) ? 0xe : 0x4;
          w |= x << (4 * nibble);
        }
      }
      std::memcpy(&p_.in[i], &w, 4);
    }
  }

  void sparse() {
    const SparseForm& f = r_.pick(kSparse);
    const bool ordered = !r_.one_in(3);
    const unsigned a = r_.below(8), b = 8 + r_.below(4), c = 16 + r_.below(4);
    line(fmt_("  mma.sp{}.sync.aligned.{} {}, {}, {}, {}, %e{}, {};", ordered ? "::ordered_metadata" : "",
              f.text, list("%d", 0, f.d), list("%r", a, f.a), list("%r", b, f.a), list("%r", c, f.d),
              f.tf32    ? 2
              : ordered ? 0
                        : 1,
              r_.below(f.selectors)));
    const uint32_t at = lines_;
    for (unsigned i = 0; i < f.d; ++i) log(fmt_("%d{}", i), at);
  }

  // A, B and C from a warp's part of shared memory; D into the fourth area, all of which is stored.
  void fragments() {
    const Kind16& t = r_.pick(kKinds16);
    const bool tf32 = t.bytes == 4, half = std::string_view(t.c) == "f16";
    const Shape s = tf32 ? kTf32Shape : r_.pick(kShapes);
    line("  bar.warp.sync -1;");
    for (unsigned i = 0; i < kWarpBytes / 128; ++i)
      line(fmt_("  st.shared.b32 [%own+{}], %r{};", 128 * i, r_.below(kWords)));
    line("  bar.warp.sync -1;");
    const std::string_view element = t.element;
    const unsigned a_registers = element == "f16" ? 8 : s.m * s.k * t.bytes / 128,
                   b_registers = element == "f16" ? 8 : s.k * s.n * t.bytes / 128, c_registers = half ? 4 : 8;
    const bool a_row = r_.one_in(2), b_row = r_.one_in(2), c_row = r_.one_in(2), d_row = r_.one_in(2);
    auto stride = [&](unsigned length, unsigned lines, unsigned bytes) {
      const unsigned step = 16 / bytes, most = kArea / bytes / lines;  // rows begin at multiples of 16 bytes
      unsigned n = (length + step - 1) / step * step;
      if (n + step <= most && r_.one_in(2)) n += step;
      return n;
    };
    const unsigned c_bytes = half ? 2 : 4;
    line(fmt_("  wmma.load.a.sync.aligned.{}.{}.shared.{} {}, [%base], {};", a_row ? "row" : "col", s.text,
              t.element, list("%a", 0, a_registers),
              a_row ? stride(s.k, s.m, t.bytes) : stride(s.m, s.k, t.bytes)));
    line(fmt_("  wmma.load.b.sync.aligned.{}.{}.shared.{} {}, [%base+{}], {};", b_row ? "row" : "col", s.text,
              t.element, list("%b", 0, b_registers), kArea,
              b_row ? stride(s.n, s.k, t.bytes) : stride(s.k, s.n, t.bytes)));
    line(fmt_("  wmma.load.c.sync.aligned.{}.{}.shared.{} {}, [%base+{}], {};", c_row ? "row" : "col", s.text,
              t.c, list("%c", 0, c_registers), 2 * kArea,
              c_row ? stride(s.n, s.m, c_bytes) : stride(s.m, s.n, c_bytes)));
    const uint32_t at = lines_ + 1;
    line(fmt_("  wmma.mma.sync.aligned.{}.{}.{}.{}{} {}, {}, {}, {};", a_row ? "row" : "col",
              b_row ? "row" : "col", s.text, t.types, t.bytes == 1 && r_.one_in(2) ? ".satfinite" : "",
              list("%d", 0, c_registers), list("%a", 0, a_registers), list("%b", 0, b_registers),
              list("%c", 0, c_registers)));
    line(fmt_("  wmma.store.d.sync.aligned.{}.{}.shared.{} [%base+{}], {}, {};", d_row ? "row" : "col",
              s.text, t.c, 3 * kArea, list("%d", 0, c_registers),
              d_row ? stride(s.n, s.m, c_bytes) : stride(s.m, s.n, c_bytes)));
    line("  bar.warp.sync -1;");
    for (unsigned i = 0; i < kArea / 128; ++i) {
      line(fmt_("  ld.shared.b32 %w, [%own+{}];", 3 * kArea + 128 * i));
      log("%w", at);
    }
  }

  Random r_;
  Program p_;
  std::string text_;
  uint32_t lines_ = 0;
};

}  // namespace

Program generate_products(uint64_t seed) { return Writer(seed).run(); }

}  // namespace fp4lab::conformance
