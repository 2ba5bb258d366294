// Straight-line and branching programs: single instructions within branches, loops, carry chains, exchange
// within warps and through memory, and matrix instructions. Every instruction's result is stored in a slot of
// its own.
#include <algorithm>

#include "fp4lab/error.h"
#include "straight.h"

namespace fp4lab::conformance {

namespace {

constexpr unsigned kThreads = 128, kCtas = 2;

class Writer : Straight {
 public:
  Writer(uint64_t seed, bool matrices) : Straight(seed), matrices_(matrices) {}

  Program run() {
    prologue();
    const unsigned count = 30 + r_.below(60);
    for (unsigned i = 0; i < count; ++i) top();
    line("ret;");
    line("}");
    return finish(kThreads, kCtas);
  }

 private:
  void prologue() {
    module_head();
    line(".visible .entry k(.param .u64 out_p, .param .u64 in_p)");
    line("{");
    line(pools_.declaration());
    line("  .reg .b64 %out, %in, %x; .reg .b32 %t, %u, %me, %own, %loc, %c<8>; .reg .pred %q;");
    line(fmt::format("  .shared .align 16 .b8 sh[{}];", kThreads * 64));
    line("  .shared .align 4 .b32 counter[8];");
    line("  .local .align 16 .b8 stack[64];");
    line("  ld.param.u64 %out, [out_p]; ld.param.u64 %in, [in_p];");
    find_places(kThreads);
    load_pools();
    line("  mov.u32 %own, sh; mad.lo.u32 %own, %me, 64, %own; mov.u32 %loc, stack;");
    for (unsigned i = 0; i < 4; ++i) {
      line(fmt::format("  st.shared.v4.b32 [%own+{}], {{%r{}, %r{}, %r{}, %r{}}};", 16 * i, 4 * i, 4 * i + 1,
                       4 * i + 2, 4 * i + 3));
      line(fmt::format("  st.local.v4.b32 [%loc+{}], {{%r{}, %r{}, %r{}, %r{}}};", 16 * i, 4 * i, 4 * i + 1,
                       4 * i + 2, 4 * i + 3));
    }
    line(
        "  setp.lt.u32 %q, %me, 8; mov.u32 %t, counter; mad.lo.u32 %t, %me, 4, %t; @%q st.shared.u32 [%t], "
        "%me;");
    line("  bar.sync 0;");
  }

  // --- single instructions

  void local_memory() {
    static constexpr const char* kTypes[] = {"b16", "b32", "b64"};
    const std::string type = r_.pick(kTypes);
    line(fmt::format("  and.b32 %t, {}, 56; add.u32 %t, %t, %loc;", reg("b32")));
    line(fmt::format("  st.local.{} [%t], {};", type, reg(type)));
    line(fmt::format("  and.b32 %t, {}, 56; add.u32 %t, %t, %loc;", reg("b32")));
    const std::string d = reg(type);
    line(fmt::format("  ld.local.{} {}, [%t];", type, d));
    log(type, d);
    line(fmt::format("  and.b32 %t, {}, 15; mov.u64 %x, table; mad.wide.u32 %x, %t, 4, %x;", reg("b32")));
    const std::string c = reg("b32");
    line(fmt::format("  ld.const.b32 {}, [%x];", c));
    log("b32", c);
  }

  // Instructions that may be in divergent code.
  void simple(unsigned depth) {
    switch (r_.below(depth < 3 ? 24 : 20)) {
      case 0:
        return carries();
      case 1:
        return local_memory();
      case 20:
      case 21:
        return branch(depth);
      case 22:
        return loop(depth);
      case 23:
        return jump_table(depth);
      default:
        return form(r_.one_in(5));
    }
  }
  void block(unsigned depth) {
    for (unsigned n = 1 + r_.below(5); n > 0; --n) simple(depth + 1);
  }

  void branch(unsigned depth) {
    const std::string other = label(), end = label();
    const bool has_else = r_.one_in(2);
    line(fmt::format("  {}bra {};", guard(), other));
    block(depth);
    if (has_else) line(fmt::format("  bra {};", end));
    line(other + ":");
    if (has_else) {
      block(depth);
      line(end + ":");
    }
  }

  void loop(unsigned depth) {
    const std::string again = label();
    const std::string counter = fmt::format("%c{}", depth);
    line(fmt::format("  and.b32 {0}, {1}, 3; add.u32 {0}, {0}, 1;", counter, reg("b32")));
    line(again + ":");
    block(depth);
    line(fmt::format("  sub.u32 {0}, {0}, 1; setp.ne.u32 %q, {0}, 0;", counter));
    line(fmt::format("  @%q bra {};", again));
  }

  void jump_table(unsigned depth) {
    std::string names[3] = {label(), label(), label()};
    const std::string list = label(), end = label();
    line(fmt::format("  and.b32 %t, {}, 3; min.u32 %t, %t, 2;", reg("b32")));
    line(fmt::format("{}: .branchtargets {}, {}, {};", list, names[0], names[1], names[2]));
    line(fmt::format("  brx.idx %t, {};", list));
    for (const std::string& name : names) {
      line(name + ":");
      block(depth);
      line(fmt::format("  bra {};", end));
    }
    line(end + ":");
  }

  // --- collectives of lanes or warps: never in divergent code

  void exchange() {
    const std::string d = reg("b32"), p = reg("pred");
    switch (r_.below(6)) {
      case 0:
      case 1: {
        static constexpr const char* kModes[] = {"up", "down", "bfly", "idx"};
        static constexpr unsigned kClamps[] = {0x1f, 0, 0x181f, 0x1c07, 0x1000, 0x101f};
        line(fmt::format("  shfl.sync.{}.b32 {}|{}, {}, {}, {}, -1;", r_.pick(kModes), d, p, reg("b32"),
                         r_.one_in(2) ? reg("b32") : fmt::format("{}", r_.below(32)), r_.pick(kClamps)));
        log("b32", d);
        return log("pred", p);
      }
      case 2: {
        static constexpr const char* kModes[] = {"all", "any", "uni"};
        line(fmt::format("  vote.sync.{}.pred {}, {}{}, -1;", r_.pick(kModes), p, r_.one_in(2) ? "!" : "",
                         reg("pred")));
        return log("pred", p);
      }
      case 3:
        line(fmt::format("  vote.sync.ballot.b32 {}, {}, -1;", d, reg("pred")));
        return log("b32", d);
      case 4: {
        const std::string a = reg("b32");
        line(fmt::format("  and.b32 {0}, {0}, 3;", a));
        if (r_.one_in(2)) {
          line(fmt::format("  match.any.sync.b32 {}, {}, -1;", d, a));
        } else {
          line(fmt::format("  match.all.sync.b32 {}|{}, {}, -1;", d, p, a));
          log("pred", p);
        }
        return log("b32", d);
      }
      default: {
        static constexpr const char* kOps[] = {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32",
                                               "max.s32", "and.b32", "or.b32",  "xor.b32"};
        line(fmt::format("  redux.sync.{} {}, {}, -1;", r_.pick(kOps), d, reg("b32")));
        return log("b32", d);
      }
    }
  }

  void shared_memory() {
    static constexpr struct {
      const char* type;
      unsigned bytes;
      const char* reg;
    } kTypes[] = {{"b16", 2, "b16"}, {"b32", 4, "b32"}, {"b64", 8, "b64"},
                  {"u8", 1, "b32"},  {"s8", 1, "b32"},  {"s16", 2, "b32"}};
    const auto& store = r_.pick(kTypes);
    const auto& load = r_.pick(kTypes);
    std::string value = reg(store.reg);
    if (store.type[0] != 'b') {  // ptxas 13.0 converts a register that holds an f32 in a narrower store
      line(fmt::format("  xor.b32 %t, {}, {};", value, r_.below(1000)));
      value = "%t";
    }
    line(fmt::format("  st.shared.{} [%own+{}], {};", store.type, r_.below(64 / store.bytes) * store.bytes,
                     value));
    if (r_.one_in(2))
      line(fmt::format("  st.shared.v2.b32 [%own+{}], {{{}, {}}};", 8 * r_.below(8), reg("b32"), reg("b32")));
    line("  bar.sync 0;");
    line(
        fmt::format("  xor.b32 %t, %me, {}; mov.u32 %u, sh; mad.lo.u32 %t, %t, 64, %u;", r_.below(kThreads)));
    const std::string d = reg(load.reg);
    line(fmt::format("  ld.shared.{} {}, [%t+{}];", load.type, d, r_.below(64 / load.bytes) * load.bytes));
    log(load.reg, d);
    if (r_.one_in(2)) {
      const std::string a = fmt::format("%d{}", r_.below(6)), b = fmt::format("%d{}", 6 + r_.below(6));
      line(fmt::format("  ld.shared.v2.b64 {{{}, {}}}, [%t+{}];", a, b, 16 * r_.below(4)));
      log("b64", a);
      log("b64", b);
    }
    line("  bar.sync 0;");
  }

  void reduction() {
    static constexpr const char* kOps[] = {"add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32"};
    const unsigned cell = r_.below(8);
    line(fmt::format("  red.shared.{} [counter+{}], {};", r_.pick(kOps), 4 * cell, reg("b32")));
    line("  bar.sync 0;");
    const std::string d = reg("b32");
    line(fmt::format("  ld.shared.b32 {}, [counter+{}];", d, 4 * cell));
    log("b32", d);
    const std::string n = reg("b32");
    line(fmt::format("  bar.red.popc.u32 {}, 0, {};", n, reg("pred")));
    log("b32", n);
  }

  // `n` different registers of a pool.
  std::vector<std::string> several(const std::string& type, unsigned n) {
    std::vector<std::string> out;
    const unsigned pool = type == "b64" ? pools_.d : pools_.r, first = r_.below(pool);
    for (unsigned i = 0; i < n; ++i)
      out.push_back(fmt::format("{}{}", type == "b64" ? "%d" : "%r", (first + 5 * i) % pool));
    return out;
  }
  static std::string list(const std::vector<std::string>& v) {
    std::string s;
    for (const std::string& x : v) s += (s.empty() ? "" : ", ") + x;
    return "{" + s + "}";
  }

  void matrix() {
    struct Form {
      const char* text;
      unsigned d, a, b;
      const char* type = "b32";
    };
    static constexpr Form kForms[] = {
        {"m16n8k16.row.col.f32.f16.f16.f32", 4, 4, 2},
        {"m16n8k8.row.col.f32.f16.f16.f32", 4, 2, 1},
        {"m16n8k16.row.col.f16.f16.f16.f16", 2, 4, 2},
        {"m16n8k8.row.col.f16.f16.f16.f16", 2, 2, 1},
        {"m16n8k16.row.col.f32.bf16.bf16.f32", 4, 4, 2},
        {"m16n8k8.row.col.f32.bf16.bf16.f32", 4, 2, 1},
        {"m16n8k8.row.col.f32.tf32.tf32.f32", 4, 4, 2},
        {"m16n8k4.row.col.f32.tf32.tf32.f32", 4, 2, 1},
        {"m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 4, 2},
        {"m16n8k32.row.col.f32.e5m2.e4m3.f32", 4, 4, 2},
        {"m16n8k16.row.col.f32.e5m2.e5m2.f32", 4, 2, 1},
        {"m16n8k32.row.col.f16.e4m3.e5m2.f16", 2, 4, 2},
        {"m16n8k16.row.col.f16.e4m3.e4m3.f16", 2, 2, 1},
        {"m16n8k32.row.col.s32.s8.u8.s32", 4, 4, 2},
        {"m16n8k32.row.col.satfinite.s32.s8.s8.s32", 4, 4, 2},
        {"m16n8k16.row.col.s32.u8.u8.s32", 4, 2, 1},
        {"m8n8k16.row.col.satfinite.s32.u8.s8.s32", 2, 1, 1},
        {"m16n8k64.row.col.s32.s4.u4.s32", 4, 4, 2},
        {"m16n8k32.row.col.satfinite.s32.s4.s4.s32", 4, 2, 1},
        {"m8n8k32.row.col.s32.u4.u4.s32", 2, 1, 1},
        {"m16n8k256.row.col.s32.b1.b1.s32.xor.popc", 4, 4, 2},
        {"m16n8k128.row.col.s32.b1.b1.s32.and.popc", 4, 2, 1},
        {"m8n8k128.row.col.s32.b1.b1.s32.xor.popc", 2, 1, 1},
        {"m8n8k4.row.col.f64.f64.f64.f64", 2, 1, 1, "b64"},
        {"m16n8k4.row.col.f64.f64.f64.f64", 4, 2, 1, "b64"},
        {"m16n8k8.row.col.f64.f64.f64.f64", 4, 4, 2, "b64"},
        {"m16n8k16.row.col.f64.f64.f64.f64", 4, 8, 4, "b64"},
    };
    const Form& f = r_.pick(kForms);
    const std::string type = f.type;
    const auto a = several(type, f.a), b = several(type, f.b), c = several(type, f.d);
    // In place or elsewhere; not with C's registers in another order, for which ptxas 13.0 emits different
    // code for fp8 (see the conformance record).
    auto d = several(type, f.d);
    for (const std::string& x : d)
      if (std::find(c.begin(), c.end(), x) != c.end()) {
        d = c;
        break;
      }
    if (type == "b32" && r_.one_in(2)) {
      // Halves without Inf and NaN (exponents of fp16 and bf16 cut below the top): whole products stay
      // finite.
      for (const auto* v : {&a, &b})
        for (const std::string& x : *v) line(fmt::format("  and.b32 {0}, {0}, 0xbfffbfff;", x));
    } else if (type == "b64") {  // numbers: payloads of fp64 NaNs follow no rule
      for (const auto* v : {&a, &b, &c})
        for (const std::string& x : *v) line(fmt::format("  and.b64 {0}, {0}, 0xbfffffffffffffff;", x));
    }
    line(fmt::format("  mma.sync.aligned.{} {}, {}, {}, {};", f.text, list(d), list(a), list(b), list(c)));
    const uint32_t at = lines_;
    for (const std::string& x : d) {
      log(type, x);
      p_.slot_lines.back() = at;
    }
  }

  void matrix_move() {
    const unsigned n = 1u << r_.below(3);
    const auto v = several("b32", n), d = several("b32", n);
    if (r_.one_in(4)) {
      const std::string x = reg("b32");
      line(fmt::format("  movmatrix.sync.aligned.m8n8.trans.b16 {}, {};", x, reg("b32")));
      return log("b32", x);
    }
    // Rows of 16 bytes within the thread's own 64.
    line("  bar.sync 0;");
    line(fmt::format("  add.u32 %t, %own, {};", 16 * r_.below(4)));
    line(fmt::format("  stmatrix.sync.aligned.m8n8.x{}{}.shared.b16 [%t], {};", n,
                     r_.one_in(2) ? ".trans" : "", list(v)));
    line("  bar.warp.sync -1;");
    line(fmt::format("  add.u32 %t, %own, {};", 16 * r_.below(4)));
    line(fmt::format("  ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {}, [%t];", n,
                     r_.one_in(2) ? ".trans" : "", list(d)));
    const uint32_t at = lines_;
    for (const std::string& x : d) {
      log("b32", x);
      p_.slot_lines.back() = at;
    }
    line("  bar.sync 0;");
  }

  void top() {
    if (matrices_ && r_.one_in(3)) return r_.one_in(4) ? matrix_move() : matrix();
    switch (r_.below(16)) {
      case 0:
      case 1:
        return exchange();
      case 2:
        return shared_memory();
      case 3:
        return reduction();
      default:
        return simple(0);
    }
  }

  bool matrices_;
};

}  // namespace

Program generate_scalar(uint64_t seed, bool matrices) { return Writer(seed, matrices).run(); }

}  // namespace fp4lab::conformance
