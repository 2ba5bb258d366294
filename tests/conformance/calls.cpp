// Functions: calls by name and through pointers, under predicates and in loops, with parameters of several
// sizes; in some programs recursion, direct and mutual.
#include <cstring>

#include "fp4lab/error.h"
#include "program.h"

namespace fp4lab::conformance {

namespace {

constexpr unsigned kThreads = 128, kInWords = 8;

class Writer {
 public:
  explicit Writer(uint64_t seed) : r_(seed) {}

  Program run() {
    recursive_ = r_.one_in(3);
    functions_ = 2 + r_.below(4);
    line(".version 8.7");
    line(".target sm_90a");
    line(".address_size 64");
    for (unsigned i = 0; i < functions_; ++i) line(head(i) + ";");
    if (recursive_) line(".func (.param .b64 r) again(.param .b32 n, .param .b64 x);");
    std::string names;
    for (unsigned i = 0; i < functions_; ++i) names += fmt::format("{}f{}", i ? ", " : "", i);
    line(fmt::format(".global .align 8 .u64 table[{}] = {{{}}};", functions_, names));
    for (unsigned i = 0; i < functions_; ++i) function(i);
    if (recursive_) recursion();
    kernel();
    p_.text = std::move(text_);
    p_.threads = kThreads;
    p_.in.resize(kThreads * kInWords * 4);
    fill_random(r_, p_.in);
    p_.out_bytes = p_.slot_lines.size() * kThreads * 8;
    return std::move(p_);
  }

 private:
  void line(const std::string& s) {
    text_ += s + '\n';
    ++lines_;
  }
  static std::string head(unsigned i) {
    return fmt::format(".func (.param .b64 r) f{}(.param .b32 a, .param .b64 b)", i);
  }
  std::string a() { return fmt::format("%a{}", r_.below(4)); }
  std::string b() { return fmt::format("%b{}", r_.below(4)); }

  void arithmetic() {
    static constexpr const char* k32[] = {"add.u32",    "sub.u32", "xor.b32",
                                          "mul.lo.u32", "min.s32", "max.u32"};
    static constexpr const char* k64[] = {"add.u64",    "sub.u64", "xor.b64",
                                          "mul.lo.u64", "max.s64", "and.b64"};
    switch (r_.below(4)) {
      case 0:
        return line(fmt::format("  {} {}, {}, {};", r_.pick(k32), a(), a(), a()));
      case 1:
        return line(fmt::format("  {} {}, {}, {};", r_.pick(k64), b(), b(), b()));
      case 2:
        return line(fmt::format("  cvt.u32.u64 {}, {};", a(), b()));
      default:
        return line(fmt::format("  mad.wide.u32 {}, {}, {}, {};", b(), a(), a(), b()));
    }
  }
  void declare() {
    line("  .reg .b32 %a<4>, %n; .reg .b64 %b<4>, %x, %y; .reg .pred %p, %q; .local .align 8 .b8 own[32];");
  }

  // A call of one function by name, or through the table's pointer; the result in %b2.
  void call(const std::string& callee, bool pointer) {
    line("  { .param .b32 pa; .param .b64 pb; .param .b64 pr;");
    line(fmt::format("  st.param.b32 [pa], {}; st.param.b64 [pb], {};", a(), b()));
    if (pointer)
      line("  P" + std::to_string(labels_) +
           ": .callprototype (.param .b64 _) _ (.param .b32 _, .param .b64 _);");
    line(pointer ? fmt::format("  call (pr), {}, (pa, pb), P{};", callee, labels_++)
                 : fmt::format("  call (pr), {}, (pa, pb);", callee));
    line("  ld.param.b64 %b2, [pr]; }");
  }

  // f(i) may call later ones by name.
  void function(unsigned i) {
    line(head(i));
    line("{");
    declare();
    line("  ld.param.b32 %a0, [a]; ld.param.b64 %b0, [b];");
    line(fmt::format("  mov.b32 %a1, {}; add.u32 %a2, %a0, {}; mov.b32 %a3, -7;", r_.below(1000),
                     r_.below(9)));
    line(fmt::format("  mov.b64 %b1, {}; not.b64 %b2, %b0; mov.b64 %b3, 3;", r_.below(1u << 30)));
    const bool spills = r_.one_in(2);
    if (spills) line("  st.local.b64 [own], %b0; st.local.b32 [own+8], %a0;");
    for (unsigned n = 1 + r_.below(5); n > 0; --n) arithmetic();
    if (i + 1 < functions_ && r_.one_in(2)) {
      const std::string over = fmt::format("L{}", labels_++);
      line(fmt::format("  setp.lt.u32 %p, {}, 0x{:x}; @!%p bra {};", a(), uint32_t(r_.bits()), over));
      call(fmt::format("f{}", i + 1 + r_.below(functions_ - i - 1)), false);
      line(over + ":");
    }
    if (r_.one_in(3)) line(fmt::format("  setp.gt.s32 %q, {}, 0; @%q bra OUT;", a()));
    for (unsigned n = r_.below(4); n > 0; --n) arithmetic();
    if (spills)
      line("  ld.local.b64 %x, [own]; xor.b64 %b2, %b2, %x; ld.local.b32 %n, [own+8]; xor.b32 %a1, %a1, %n;");
    line("OUT:");
    line("  cvt.u64.u32 %x, %a1; xor.b64 %x, %x, %b2; st.param.b64 [r], %x;");
    line("  ret;");
    line("}");
  }

  // again(n, x): each call has local memory of its own, and passes a pointer to it on.
  void recursion() {
    line(".func (.param .b64 r) again(.param .b32 n, .param .b64 x)");
    line("{");
    declare();
    line("  ld.param.b32 %a0, [n]; ld.param.b64 %b0, [x];");
    line("  st.local.b64 [own], %b0; st.local.b32 [own+8], %a0;");
    line(fmt::format("  mov.b64 %b1, {};", r_.below(1u << 20)));
    line("  setp.eq.u32 %p, %a0, 0; @%p bra OUT;");
    line(fmt::format("  sub.u32 %a1, %a0, 1; mad.lo.u64 %b1, %b0, {}, %b1;", 3 + 2 * r_.below(100)));
    line(
        "  { .param .b32 pa; .param .b64 pb; .param .b64 pr; st.param.b32 [pa], %a1; st.param.b64 [pb], "
        "%b1;");
    line("  call (pr), again, (pa, pb); ld.param.b64 %b2, [pr]; }");
    line("  ld.local.b64 %b3, [own]; ld.local.b32 %a2, [own+8]; cvt.u64.u32 %x, %a2;");
    line("  xor.b64 %b1, %b1, %b2; add.u64 %b1, %b1, %b3; add.u64 %b1, %b1, %x;");
    if (r_.one_in(2)) {
      line("  and.b32 %a3, %a0, 1; setp.eq.u32 %q, %a3, 0; @%q bra OUT; and.b32 %a1, %a1, 1;");
      line(
          "  { .param .b32 pa; .param .b64 pb; .param .b64 pr; st.param.b32 [pa], %a1; st.param.b64 [pb], "
          "%b1;");
      line("  call (pr), again, (pa, pb); ld.param.b64 %b2, [pr]; }");
      line("  ld.param.b64 %b3, [x]; xor.b64 %b1, %b1, %b2; xor.b64 %b1, %b1, %b3;");
    }
    line("OUT:");
    line("  add.u64 %b1, %b1, %b0; st.param.b64 [r], %b1;");
    line("  ret;");
    line("}");
  }

  void log(const std::string& name) {
    line(fmt::format("  st.global.b64 [%out+{}], {};", p_.slot_lines.size() * kThreads * 8, name));
    p_.slot_lines.push_back(lines_ - 1);
  }

  void kernel() {
    line(".visible .entry k(.param .u64 out_p, .param .u64 in_p)");
    line("{");
    declare();
    line("  .reg .b64 %out, %in; .reg .b32 %i;");
    line("  ld.param.u64 %out, [out_p]; ld.param.u64 %in, [in_p]; mov.u32 %n, %tid.x;");
    line(fmt::format("  mad.wide.u32 %in, %n, {}, %in; mad.wide.u32 %out, %n, 8, %out;", kInWords * 4));
    for (unsigned i = 0; i < 4; ++i)
      line(fmt::format("  ld.global.b32 %a{0}, [%in+{1}]; cvt.u64.u32 %b{0}, %a{0};", i, 4 * i));
    for (unsigned n = 2 + r_.below(5); n > 0; --n) {
      if (recursive_ && r_.one_in(3)) {
        line(fmt::format("  and.b32 %n, {}, 7;", a()));
        line("  { .param .b32 pa; .param .b64 pb; .param .b64 pr;");
        line(fmt::format("  st.param.b32 [pa], %n; st.param.b64 [pb], {};", b()));
        line("  call (pr), again, (pa, pb); ld.param.b64 %b2, [pr]; }");
      } else if (r_.one_in(2)) {
        line(fmt::format("  rem.u32 %n, {}, {}; mov.u64 %x, table; mad.wide.u32 %x, %n, 8, %x;", a(),
                         functions_));
        line("  ld.global.u64 %y, [%x];");
        call("%y", true);
      } else {
        const std::string over = fmt::format("L{}", labels_++), loop = fmt::format("L{}", labels_++);
        line(fmt::format("  setp.lt.u32 %p, {}, 0xa0000000; @!%p bra {};", a(), over));
        line(fmt::format("  and.b32 %i, {}, 3;", a()));
        line(loop + ":");
        call(fmt::format("f{}", r_.below(functions_)), false);
        line(fmt::format("  setp.ne.u32 %p, %i, 0; sub.u32 %i, %i, 1; @%p bra {};", loop));
        line(over + ":");
      }
      log("%b2");
      arithmetic();
    }
    line("  ret;");
    line("}");
  }

  Random r_;
  Program p_;
  std::string text_;
  uint32_t lines_ = 0;
  unsigned labels_ = 0, functions_ = 2;
  bool recursive_ = false;
};

}  // namespace

Program generate_calls(uint64_t seed) { return Writer(seed).run(); }

}  // namespace fp4lab::conformance
