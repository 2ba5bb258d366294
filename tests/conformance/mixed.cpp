// Whole kernels, as a stranger would write them: branches and loops whose trip counts differ by lane, warp
// collectives under the masks of the lanes that are there, functions called from divergent code, every memory
// space with vectors, narrow types and generic pointers, atomics whose result does not depend on the order,
// clusters that read their neighbour's shared memory, lanes that leave early.
#include <algorithm>

#include "fp4lab/error.h"
#include "straight.h"

namespace fp4lab::conformance {

namespace {

constexpr unsigned kRegion = 64;  // bytes of a thread in each memory space
constexpr unsigned kMasks = 6;    // depth of nested divergence in which the mask is known

struct Access {
  const char* type;
  unsigned bytes;
  const char* reg;
};
constexpr Access kAccesses[] = {{"u8", 1, "b32"},  {"s8", 1, "b32"},  {"b8", 1, "b16"},  {"u16", 2, "b32"},
                                {"s16", 2, "b32"}, {"b16", 2, "b16"}, {"u16", 2, "b16"}, {"b32", 4, "b32"},
                                {"u32", 4, "b64"}, {"s32", 4, "b64"}, {"f32", 4, "b32"}, {"b64", 8, "b64"},
                                {"s64", 8, "b64"}, {"f64", 8, "b64"}, {"u64", 8, "b64"}, {"b32", 4, "b32"}};

class Writer : Straight {
 public:
  explicit Writer(uint64_t seed) : Straight(seed) {}

  Program run() {
    static constexpr unsigned kSizes[] = {32, 64, 96, 128, 128, 192, 256, 40, 100};
    threads_ = r_.pick(kSizes);
    cluster_ = r_.one_in(4);
    ctas_ = cluster_ ? 2 * (1 + r_.below(2)) : 1 + r_.below(3);
    all_ = threads_ * ctas_;
    head();
    functions_ = r_.below(4);
    for (unsigned i = functions_; i > 0; --i) function(i - 1);
    prologue();
    for (unsigned n = 20 + r_.below(40); n > 0; --n) top();
    epilogue();
    p_.cluster = cluster_ ? 2 : 1;
    return finish(threads_, ctas_);
  }

 private:
  // --- the module

  void head() {
    module_head();
    line(".global .align 4 .b8 bytes[24] = {1, 255, 128, 127, 0x80, 3, 0, 9, 17, 200, 5, 77, 1, 2, 3, 4};");
    line(fmt::format(".global .align 16 .b8 scratch[{}];", all_ * kRegion));
  }

  static std::string signature(unsigned i) {
    return fmt::format(
        ".func (.param .align 8 .b8 r[16]) f{}(.param .b32 a, .param .b64 b, .param .align 4 .b8 c[6])", i);
  }

  // f(i) may call those behind it, which stand before it in the text. It has pools of its own.
  void function(unsigned i) {
    const Pools outer = pools_;
    pools_ = {5, 8, 5, 4};
    logging_ = false;
    line(signature(i));
    line("{");
    line(pools_.declaration());
    line("  .reg .b64 %x, %y; .reg .b32 %t, %u, %loc, %c<8>; .reg .pred %q;");
    line(fmt::format("  .local .align 16 .b8 stack[{}];", kRegion));
    line("  ld.param.b32 %r0, [a]; ld.param.b64 %d0, [b]; ld.param.b16 %h0, [c+4]; ld.param.b32 %r1, [c];");
    line("  ld.param.u8 %r2, [c+1];");
    for (unsigned k = 3; k < pools_.r; ++k)
      line(fmt::format("  mov.b32 %r{}, 0x{:x};", k, uint32_t(random_operand(r_, 4))));
    for (unsigned k = 1; k < pools_.d; ++k)
      line(fmt::format("  mov.b64 %d{}, 0x{:x};", k, random_operand(r_, 8)));
    for (unsigned k = 1; k < pools_.h; ++k)
      line(fmt::format("  mov.b16 %h{}, 0x{:x};", k, random_operand(r_, 2)));
    for (unsigned k = 0; k < pools_.p; ++k) line(fmt::format("  setp.gt.s32 %p{}, %r{}, %r{};", k, k, k + 1));
    line("  mov.u32 %loc, stack;");
    for (unsigned k = 0; k < kRegion / 8; ++k) line(fmt::format("  st.local.b64 [%loc+{}], %d0;", 8 * k));
    in_function_ = i + 1;
    for (unsigned n = 2 + r_.below(8); n > 0; --n) simple(1);
    in_function_ = 0;
    line(fmt::format("  st.param.b64 [r], {};", reg("b64")));
    line(fmt::format("  st.param.v2.b32 [r+8], {{{}, {}}};", reg("b32"), reg("b32")));
    line("  ret;");
    line("}");
    pools_ = outer;
    logging_ = true;
  }

  void prologue() {
    line(".visible .entry k(.param .u64 out_p, .param .u64 in_p)");
    line(fmt::format(".maxntid {}{}", threads_, cluster_ ? " .explicitcluster .reqnctapercluster 2" : ""));
    line("{");
    line(pools_.declaration());
    line("  .reg .b64 %out, %in, %cells, %x, %y, %gs, %gl, %gg; .reg .pred %q;");
    line(fmt::format("  .reg .b32 %t, %u, %v, %me, %own, %loc, %c<8>, %m<{}>;", kMasks + 2));
    line(fmt::format("  .shared .align 16 .b8 sh[{}];", threads_ * kRegion));
    line("  .shared .align 8 .b64 counter[8];");
    line(fmt::format("  .local .align 16 .b8 stack[{}];", kRegion));
    line("  ld.param.u64 %out, [out_p]; ld.param.u64 %in, [in_p]; mov.b64 %cells, %out;");
    find_places(threads_);
    line(fmt::format("  mov.u64 %gg, scratch; mad.wide.u32 %gg, %t, {}, %gg;", kRegion));
    p_.slot_lines.push_back(lines_);  // the cells of all threads
    load_pools();
    line(fmt::format("  mov.u32 %own, sh; mad.lo.u32 %own, %me, {}, %own; mov.u32 %loc, stack;", kRegion));
    line(
        "  cvt.u64.u32 %gs, %own; cvta.shared.u64 %gs, %gs; cvt.u64.u32 %gl, %loc; cvta.local.u64 %gl, %gl;");
    for (unsigned i = 0; i < kRegion / 16; ++i)
      for (const char* where : {"shared.v4.b32 [%own", "local.v4.b32 [%loc", "global.v4.b32 [%gg"})
        line(fmt::format("  st.{}+{}], {{%r{}, %r{}, %r{}, %r{}}};", where, 16 * i, 4 * i, 4 * i + 1,
                         4 * i + 2, 4 * i + 3));
    line("  setp.lt.u32 %q, %me, 8; mov.u32 %t, counter; mad.lo.u32 %t, %me, 8, %t;");
    line("  @%q st.shared.u64 [%t], %in; @%q mov.b64 %x, 77; @%q st.shared.u64 [%t], %x;");
    line("  activemask.b32 %m0;");
    barrier();
  }

  void epilogue() {
    barrier();
    if (cluster_) meet_cluster();
    for (unsigned i = 0; i < 8; ++i) {
      line(fmt::format("  ld.shared.b64 %x, [counter+{}];", 8 * i));
      log("b64", "%x");
    }
    line(fmt::format("  {}exit;", guard()));
    for (unsigned i = 0; i < 4; ++i) form(r_.one_in(3));
    for (unsigned i = 0; i < kRegion / 8; ++i) {
      line(fmt::format("  ld.global.b64 %x, [%gg+{}];", 8 * i));
      log("b64", "%x");
    }
    line("  ret;");
    line("}");
  }

  // --- divergence. `depth` counts nesting; mask_ is the register that holds the lanes which are here.

  std::string mask() const { return fmt::format("%m{}", mask_); }
  bool mask_known() const { return !in_function_ && lost_ == 0; }

  void block(unsigned depth) {
    for (unsigned n = 1 + r_.below(5); n > 0; --n) simple(depth + 1);
  }

  void simple(unsigned depth) {
    switch (r_.below(depth < 4 ? 40 : 30)) {
      case 0:
        return carries();
      case 1:
      case 2:
      case 3:
        return in_function_ ? local_memory() : memory();
      case 4:
        return local_memory();
      case 5:
      case 6:
        return in_function_ ? form(true) : atomics();
      case 7:
        return in_function_ ? pack() : cells();
      case 8:
        return pack();
      case 9:
        return predicates();
      case 10:
      case 11:
      case 12:
      case 13:
        return mask_known() ? collective() : form(false);
      case 14:
        return functions_ > in_function_ ? call() : form(false);
      case 15:
        return constants();
      case 16:
        return in_function_ ? form(true) : copy_async();
      case 30:
      case 31:
      case 32:
        return mask_known() && mask_ + 1 < kMasks ? masked_branch(depth) : branch(depth);
      case 33:
      case 34:
        return mask_known() && mask_ + 1 < kMasks ? masked_loop(depth) : loop(depth);
      case 35:
        return branch(depth);
      case 36:
      case 37:
        return loop(depth);
      case 38:
        return jump_table(depth);
      default:
        return form(r_.one_in(4));
    }
  }

  void masked_branch(unsigned depth) {
    const std::string other = label(), end = label(), here = mask(), inside = fmt::format("%m{}", mask_ + 1);
    const bool has_else = r_.one_in(2);
    const std::string p = reg("pred");
    line(fmt::format("  vote.sync.ballot.b32 {}, {}, {};", inside, p, here));
    line(fmt::format("  @!{} bra {};", p, other));
    ++mask_;
    block(depth);
    if (has_else) line(fmt::format("  bra {};", end));
    line(other + ":");
    if (has_else) {
      line(fmt::format("  not.b32 {0}, {0}; and.b32 {0}, {0}, {1};", inside, here));
      block(depth);
      line(end + ":");
    }
    --mask_;
    if (r_.one_in(3)) line(fmt::format("  bar.warp.sync {};", here));
  }

  void masked_loop(unsigned depth) {
    const std::string again = label(), here = mask(), inside = fmt::format("%m{}", mask_ + 1);
    const std::string counter = fmt::format("%c{}", depth);
    line(fmt::format("  and.b32 {0}, {1}, 3; mov.b32 {2}, {3};", counter, reg("b32"), inside, here));
    line(again + ":");
    ++mask_;
    block(depth);
    --mask_;
    line(fmt::format("  setp.ne.u32 %q, {0}, 0; sub.u32 {0}, {0}, 1;", counter));
    line(fmt::format("  vote.sync.ballot.b32 {0}, %q, {0};", inside));
    line(fmt::format("  @%q bra {};", again));
  }

  void branch(unsigned depth) {
    const std::string other = label(), end = label();
    const bool has_else = r_.one_in(2);
    ++lost_;
    line(fmt::format("  {}bra {};", guard(), other));
    block(depth);
    if (has_else) line(fmt::format("  bra {};", end));
    line(other + ":");
    if (has_else) {
      block(depth);
      line(end + ":");
    }
    --lost_;
  }

  // With lanes that leave it in the middle, or skip the rest of a turn.
  void loop(unsigned depth) {
    const std::string again = label(), next = label(), end = label();
    const std::string counter = fmt::format("%c{}", depth);
    ++lost_;
    line(fmt::format("  and.b32 {0}, {1}, 7; add.u32 {0}, {0}, 1;", counter, reg("b32")));
    line(again + ":");
    block(depth);
    if (r_.one_in(2)) line(fmt::format("  {}bra {};", guard(), end));
    if (r_.one_in(2)) line(fmt::format("  {}bra {};", guard(), next));
    block(depth);
    line(next + ":");
    line(fmt::format("  sub.u32 {0}, {0}, 1; setp.ne.u32 %q, {0}, 0;", counter));
    line(fmt::format("  @%q bra {};", again));
    line(end + ":");
    --lost_;
  }

  void jump_table(unsigned depth) {
    const std::string names[3] = {label(), label(), label()}, list = label(), end = label();
    ++lost_;
    line(fmt::format("  and.b32 %t, {}, 3; min.u32 %t, %t, 2;", reg("b32")));
    line(fmt::format("{}: .branchtargets {}, {}, {};", list, names[0], names[1], names[2]));
    line(fmt::format("  brx.idx %t, {};", list));
    for (unsigned i = 0; i < 3; ++i) {
      line(names[i] + ":");
      block(depth);
      if (i == 2 || r_.one_in(2)) line(fmt::format("  bra {};", end));  // or falls into the next
    }
    line(end + ":");
    --lost_;
  }

  // --- single things that may stand in divergent code

  // One to four accesses of a region: a store, then a load somewhere.
  void memory() {
    const unsigned space = r_.below(5);
    for (bool load : {false, true}) {
      const Access& a = r_.pick(kAccesses);
      unsigned count = 1u << r_.below(3);
      while (count * a.bytes > 16) count /= 2;
      const unsigned whole = count * a.bytes;
      std::string where = pointer(space, whole, load);
      const std::string vector = count == 1 ? "" : fmt::format(".v{}", count);
      std::vector<std::string> regs;
      while (regs.size() < count) {
        const std::string x = reg(a.reg);
        if (std::find(regs.begin(), regs.end(), x) == regs.end()) regs.push_back(x);
      }
      // ptxas 13.0 converts a register that holds an f32 in a narrower store.
      if (!load && std::string_view(a.reg) != "b16" && a.bytes * 8 < (a.reg[1] == '6' ? 64u : 32u))
        for (const std::string& x : regs)
          line(fmt::format("  xor.{0} {1}, {1}, {2};", a.reg, x, r_.below(1000)));
      std::string list;
      for (const std::string& x : regs) list += (list.empty() ? "" : ", ") + x;
      if (count > 1) list = "{" + list + "}";
      const std::string how = r_.one_in(4) ? guard() : "";
      if (load) {
        line(fmt::format("  {}ld{}{}.{} {}, [{}];", how, where.substr(0, where.find(' ')), vector, a.type,
                         list, where.substr(where.find(' ') + 1)));
        for (const std::string& x : regs) log(a.reg, x);
      } else {
        line(fmt::format("  {}st{}{}.{} [{}], {};", how, where.substr(0, where.find(' ')), vector, a.type,
                         where.substr(where.find(' ') + 1), list));
      }
    }
  }
  // "SPACE ADDRESS" of `bytes` aligned bytes in the thread's region, where SPACE has the qualifiers too.
  std::string pointer(unsigned space, unsigned bytes, bool load) {
    const unsigned at = r_.below(kRegion / bytes) * bytes;
    const bool dynamic = r_.one_in(2);
    std::string offset = fmt::format("+{}", at);
    if (dynamic) {
      line(fmt::format("  and.b32 %t, {}, {};", reg("b32"), (kRegion - 1) & ~(bytes - 1)));
      offset = "";
    }
    const auto narrow = [&](const char* base) {
      if (!dynamic) return std::string(base) + offset;
      line(fmt::format("  add.u32 %t, %t, {};", base));
      return std::string("%t");
    };
    const auto wide = [&](const std::string& base) {
      if (!dynamic) return base + offset;
      line(fmt::format("  cvt.u64.u32 %x, %t; add.u64 %x, %x, {};", base));
      return std::string("%x");
    };
    static constexpr const char* kShared[] = {".shared", ".shared::cta", ".volatile.shared",
                                              ".relaxed.cta.shared"};
    static constexpr const char* kGlobalLoad[] = {".global",
                                                  ".global.ca",
                                                  ".global.cg",
                                                  ".volatile.global",
                                                  ".relaxed.gpu.global",
                                                  ".weak.global",
                                                  ".acquire.gpu.global",
                                                  ".global.L1::evict_last"};
    static constexpr const char* kGlobalStore[] = {".global",
                                                   ".global.wb",
                                                   ".global.cg",
                                                   ".volatile.global",
                                                   ".relaxed.gpu.global",
                                                   ".weak.global",
                                                   ".release.gpu.global",
                                                   ".global.L1::no_allocate"};
    switch (space) {
      case 0:
        return std::string(r_.pick(kShared)) + " " + narrow("%own");
      case 1:
        return ".local " + narrow("%loc");
      case 2:
        return std::string(load ? r_.pick(kGlobalLoad) : r_.pick(kGlobalStore)) + " " + wide("%gg");
      case 3: {
        static constexpr const char* kBases[] = {"%gs", "%gl", "%gg"};
        return " " + wide(r_.pick(kBases));
      }
      default:  // each lane its own space
        line(fmt::format("  selp.b64 %y, %gs, %gl, {};", reg("pred")));
        line(fmt::format("  selp.b64 %y, %y, %gg, {};", reg("pred")));
        return " " + wide("%y");
    }
  }

  void local_memory() {
    static constexpr const char* kTypes[] = {"b16", "b32", "b64"};
    const std::string store = r_.pick(kTypes), load = r_.pick(kTypes), d = reg(load);
    line(fmt::format("  and.b32 %t, {}, 56; add.u32 %t, %t, %loc;", reg("b32")));
    line(fmt::format("  {}st.local.{} [%t], {};", r_.one_in(3) ? guard() : "", store, reg(store)));
    line(fmt::format("  and.b32 %t, {}, 56; add.u32 %t, %t, %loc;", reg("b32")));
    line(fmt::format("  {}ld.local.{} {}, [%t];", r_.one_in(3) ? guard() : "", load, d));
    log(load, d);
  }

  void constants() {
    const std::string c = reg("b32"), b = reg("b32");
    line(fmt::format("  and.b32 %t, {}, 15; mov.u64 %x, table; mad.wide.u32 %x, %t, 4, %x;", reg("b32")));
    line(fmt::format("  ld.const.b32 {}, [%x];", c));
    log("b32", c);
    line("  mov.u64 %x, bytes; cvt.u64.u32 %y, %t; add.u64 %x, %x, %y;");
    line(fmt::format("  ld.global{}.{} {}, [%x+{}];", r_.one_in(2) ? ".nc" : "", r_.one_in(2) ? "s8" : "u8",
                     b, r_.below(8)));
    log("b32", b);
  }

  // An atomic on a cell that no other thread touches: all of them are defined, with their results.
  void atomics() {
    struct Atomic {
      const char* text;
      unsigned bytes;
      const char* reg;
      bool compare = false, global_only = false;
    };
    static constexpr Atomic kAtomics[] = {
        {"add.u32", 4, "b32"},         {"add.s32", 4, "b32"},        {"add.u64", 8, "b64"},
        {"add.f32", 4, "b32"},         {"add.f64", 8, "b64"},        {"min.u32", 4, "b32"},
        {"min.s32", 4, "b32"},         {"max.u32", 4, "b32"},        {"max.s32", 4, "b32"},
        {"min.u64", 8, "b64"},         {"min.s64", 8, "b64"},        {"max.u64", 8, "b64"},
        {"max.s64", 8, "b64"},         {"and.b32", 4, "b32"},        {"or.b32", 4, "b32"},
        {"xor.b32", 4, "b32"},         {"and.b64", 8, "b64"},        {"or.b64", 8, "b64"},
        {"xor.b64", 8, "b64"},         {"exch.b32", 4, "b32"},       {"exch.b64", 8, "b64"},
        {"inc.u32", 4, "b32"},         {"dec.u32", 4, "b32"},        {"add.noftz.f16", 2, "b16"},
        {"add.noftz.f16x2", 4, "b32"}, {"add.noftz.bf16", 2, "b16"}, {"add.noftz.bf16x2", 4, "b32"},
        {"cas.b16", 2, "b16", true},   {"cas.b32", 4, "b32", true},  {"cas.b64", 8, "b64", true}};
    static constexpr const char* kOrders[] = {
        "", ".relaxed.cta", ".acq_rel.gpu", ".release.sys", ".acquire.gpu", ".gpu"};
    const Atomic& a = r_.pick(kAtomics);
    std::string where = pointer(r_.one_in(3) ? 3 : 2 * r_.below(2), a.bytes, true);
    // Generic pointers here: not to local memory.
    std::string space = where.find(".shared") != where.npos ? ".shared" : where[0] == ' ' ? "" : ".global";
    std::string address = where.substr(where.find(' ') + 1);
    if (space.empty()) {
      space = r_.one_in(2) ? ".global" : "";
      address = fmt::format("{}+{}", space.empty() && r_.one_in(2) ? "%gs" : "%gg",
                            r_.below(kRegion / a.bytes) * a.bytes);
    }
    const std::string d = reg(a.reg), x = reg(a.reg);
    std::string values = x;
    if (a.compare) {
      line(fmt::format("  ld{}.{} {}, [{}];", space, a.reg, x, address));
      if (r_.one_in(2)) line(fmt::format("  xor.{0} {1}, {1}, 1;", a.reg, x));
      values += ", " + reg(a.reg);
    }
    const std::string how = r_.one_in(4) ? guard() : "";
    if (!a.compare && !std::string_view(a.text).starts_with("exch") && r_.one_in(3)) {
      line(fmt::format("  {}red{}.{} [{}], {};", how, space, a.text, address, values));
      line(fmt::format("  ld{}.{} {}, [{}];", space, a.reg, d, address));
    } else {
      line(fmt::format("  {}atom{}{}.{} {}, [{}], {};", how, r_.pick(kOrders), space, a.text, d, address,
                       values));
    }
    log(a.reg, d);
  }

  // One operation for each cell, which everybody may use in any order.
  void cells() {
    struct Cell {
      const char* text;
      const char* reg;
    };
    static constexpr Cell kCells[] = {{"add.u32", "b32"}, {"max.s32", "b32"}, {"max.u32", "b32"},
                                      {"or.b32", "b32"},  {"xor.b32", "b32"}, {"add.u64", "b64"},
                                      {"max.u64", "b64"}, {"xor.b64", "b64"}, {"min.s64", "b64"},
                                      {"min.s32", "b32"}, {"or.b64", "b64"},  {"max.s64", "b64"}};
    const unsigned i = r_.below(std::size(kCells));
    const Cell& c = kCells[i];
    const std::string how = r_.one_in(3) ? guard() : "";
    line(fmt::format("  {}red{}.{} [%cells+{}], {};", how, r_.one_in(2) ? ".global" : "", c.text, 8 * i,
                     reg(c.reg)));
    static constexpr Cell kShared[] = {{"add.u32", "b32"}, {"min.s32", "b32"}, {"xor.b64", "b64"},
                                       {"and.b32", "b32"}, {"max.u32", "b32"}, {"or.b64", "b64"},
                                       {"add.u64", "b64"}, {"min.u64", "b64"}};
    const unsigned k = r_.below(std::size(kShared));
    line(fmt::format("  red.shared.{} [counter+{}], {};", kShared[k].text, 8 * k, reg(kShared[k].reg)));
  }

  void pack() {
    const std::string d = reg("b64"), r = reg("b32"), h = reg("b16");
    switch (r_.below(6)) {
      case 0:
        line(fmt::format("  mov.b64 {}, {{{}, {}}};", d, reg("b32"), reg("b32")));
        return log("b64", d);
      case 1:
        line(fmt::format("  mov.b64 {{{}, _}}, {};", r, d));
        return log("b32", r);
      case 2:
        line(fmt::format("  mov.b64 {}, {{{}, {}, {}, {}}};", d, reg("b16"), reg("b16"), reg("b16"),
                         reg("b16")));
        return log("b64", d);
      case 3:
        line(fmt::format("  mov.b32 {}, {{{}, {}}};", r, reg("b16"), reg("b16")));
        return log("b32", r);
      case 4:
        line(fmt::format("  mov.b64 {{_, _, {}, _}}, {};", h, d));
        return log("b16", h);
      default:
        line(fmt::format("  mov.b32 {{_, {}}}, {};", h, r));
        return log("b16", h);
    }
  }

  void predicates() {
    const std::string p = reg("pred"), r = reg("b32");
    switch (r_.below(5)) {
      case 0: {
        static constexpr const char* kOps[] = {"and", "or", "xor"};
        line(fmt::format("  {}.pred {}, {}, {};", r_.pick(kOps), p, reg("pred"), reg("pred")));
        break;
      }
      case 1:
        line(fmt::format("  not.pred {}, {};", p, reg("pred")));
        break;
      case 2: {
        static constexpr const char* kCombine[] = {"and", "or", "xor"};
        const std::string q = reg("pred");
        if (q == p) return;
        line(fmt::format("  setp.{}.{}.s32 {}|{}, {}, {}, {}{};", r_.one_in(2) ? "lt" : "ne",
                         r_.pick(kCombine), p, q, reg("b32"), r_.one_in(2) ? reg("b32") : "-5",
                         r_.one_in(2) ? "!" : "", reg("pred")));
        log("pred", q);
        break;
      }
      case 3: {
        static constexpr const char* kNames[] = {"%laneid",      "%tid.x",   "%ntid.x",   "%lanemask_lt",
                                                 "%lanemask_ge", "%ctaid.x", "%nctaid.x", "%lanemask_eq"};
        line(fmt::format("  mov.u32 {}, {};", r, r_.pick(kNames)));
        return log("b32", r);
      }
      default:
        line(fmt::format("  selp.b32 {}, {}, {}, {};", r, reg("b32"), reg("b32"), p));
        return log("b32", r);
    }
    log("pred", p);
  }

  // Sixteen bytes of the thread's global region, or fewer, to its shared one.
  void copy_async() {
    const unsigned bytes = 4u << r_.below(3), from = 16 * r_.below(4), to = 16 * r_.below(4);
    const std::string d = reg("b32");
    const bool part = r_.one_in(3);
    line(fmt::format("  cp.async.{}.shared.global [%own+{}], [%gg+{}], {}{};",
                     bytes == 16 && r_.one_in(2) ? "cg" : "ca", to, from, bytes,
                     part ? fmt::format(", {}", r_.below(bytes + 1)) : ""));
    line(r_.one_in(2) ? "  cp.async.wait_all;" : "  cp.async.commit_group; cp.async.wait_group 0;");
    line(fmt::format("  ld.shared.b32 {}, [%own+{}];", d, to + 4 * r_.below(bytes / 4)));
    log("b32", d);
  }

  void call() {
    const unsigned f = in_function_ + r_.below(functions_ - in_function_);
    const std::string d = reg("b64"), r = reg("b32");
    line("  { .param .b32 pa; .param .b64 pb; .param .align 4 .b8 pc[6]; .param .align 8 .b8 pr[16];");
    line(fmt::format("  st.param.b32 [pa], {}; st.param.b64 [pb], {};", reg("b32"), reg("b64")));
    line(fmt::format("  st.param.b32 [pc], {}; st.param.b16 [pc+4], {};", reg("b32"), reg("b16")));
    line(fmt::format("  call.uni (pr), f{}, (pa, pb, pc);", f).replace(6, 4, r_.one_in(2) ? ".uni" : ""));
    line(fmt::format("  ld.param.b64 {}, [pr]; ld.param.b32 {}, [pr+12]; }}", d, r));
    log("b64", d);
    log("b32", r);
  }

  // --- warp collectives of the lanes in the mask

  void collective() {
    const std::string d = reg("b32"), p = reg("pred"), m = mask();
    switch (r_.below(9)) {
      case 0: {  // from the nth lane of the mask
        line(fmt::format("  popc.b32 %t, {}; rem.u32 %u, {}, %t; add.u32 %u, %u, 1;", m, reg("b32")));
        line(fmt::format("  fns.b32 %u, {}, 0, %u;", m));
        line(fmt::format("  shfl.sync.idx.b32 {}|{}, {}, %u, 0x1f, {};", d, p, reg("b32"), m));
        log("b32", d);
        return log("pred", p);
      }
      case 1:
      case 2: {  // from a lane that may not be there: the result counts only if it is
        static constexpr const char* kModes[] = {"up", "down", "bfly"};
        const unsigned mode = r_.below(3), by = r_.below(32);
        static constexpr const char* kLane[] = {"sub.u32", "add.u32", "xor.b32"};
        line(fmt::format("  mov.u32 %u, %laneid; {} %u, %u, {}; shr.u32 %t, {}, %u; and.b32 %t, %t, 1;",
                         kLane[mode], by, m));
        line(fmt::format("  shfl.sync.{}.b32 %v|{}, {}, {}, {}, {};", kModes[mode], p, reg("b32"), by,
                         mode == 0 ? 0 : 0x1f, m));
        line("  setp.ne.u32 %q, %t, 0;");
        line(fmt::format("  setp.gt.and.u32 %q, 32, %u, %q; mov.b32 {0}, 0; @%q mov.b32 {0}, %v;", d));
        log("b32", d);
        return log("pred", p);
      }
      case 3: {
        static constexpr const char* kModes[] = {"all", "any", "uni"};
        line(fmt::format("  vote.sync.{}.pred {}, {}{}, {};", r_.pick(kModes), p, r_.one_in(2) ? "!" : "",
                         reg("pred"), m));
        return log("pred", p);
      }
      case 4:
        line(fmt::format("  vote.sync.ballot.b32 {}, {}{}, {};", d, r_.one_in(2) ? "!" : "", reg("pred"), m));
        return log("b32", d);
      case 5: {
        const bool wide = r_.one_in(2);
        const std::string type = wide ? "b64" : "b32", a = reg(type);
        line(fmt::format("  and.{0} {1}, {1}, 3;", type, a));
        if (r_.one_in(2)) {
          line(fmt::format("  match.any.sync.{} {}, {}, {};", type, d, a, m));
        } else {
          line(fmt::format("  match.all.sync.{} {}|{}, {}, {};", type, d, p, a, m));
          log("pred", p);
        }
        return log("b32", d);
      }
      case 6:
        line(fmt::format("  elect.sync {}|{}, {};", d, p, m));
        log("b32", d);
        return log("pred", p);
      default: {
        static constexpr const char* kOps[] = {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32",
                                               "max.s32", "and.b32", "or.b32",  "xor.b32"};
        line(fmt::format("  redux.sync.{} {}, {}, {};", r_.pick(kOps), d, reg("b32"), m));
        return log("b32", d);
      }
    }
  }

  // --- where all threads meet

  void barrier() {
    static constexpr const char* kForms[] = {"bar.sync 0;", "barrier.sync.aligned 1;", "barrier.cta.sync 2;",
                                             "bar.cta.sync 15;"};
    line(std::string("  ") + r_.pick(kForms));
  }
  void meet_cluster() {
    line("  barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;");
  }

  // Somebody else's region, of this CTA or of the cluster's other one.
  void neighbour() {
    const bool far = cluster_ && r_.one_in(2);
    const Access& a = r_.pick(kAccesses);
    far ? meet_cluster() : barrier();
    line(fmt::format(
        "  add.u32 %t, %me, {0}; rem.u32 %t, %t, {1}; mov.u32 %u, sh; mad.lo.u32 %t, %t, {2}, %u;",
        1 + r_.below(threads_), threads_, kRegion));
    const std::string d = reg(a.reg);
    const unsigned at = r_.below(kRegion / a.bytes) * a.bytes;
    if (far) {
      line("  mov.u32 %u, %cluster_ctarank; xor.b32 %u, %u, 1; mapa.shared::cluster.u32 %t, %t, %u;");
      line(fmt::format("  ld.shared::cluster.{} {}, [%t+{}];", a.type, d, at));
    } else {
      line(fmt::format("  ld.shared.{} {}, [%t+{}];", a.type, d, at));
    }
    log(a.reg, d);
    far ? meet_cluster() : barrier();
  }

  void vote() {
    const std::string n = reg("b32"), p = reg("pred");
    line(fmt::format("  bar.red.popc.u32 {}, 0, {}{};", n, r_.one_in(2) ? "!" : "", reg("pred")));
    log("b32", n);
    line(fmt::format("  barrier.cta.red.{}.aligned.pred {}, 3, {};", r_.one_in(2) ? "and" : "or", p,
                     reg("pred")));
    log("pred", p);
  }

  void top() {
    switch (r_.below(12)) {
      case 0:
        return neighbour();
      case 1:
        return threads_ % 32 ? barrier() : vote();
      default:
        return simple(0);
    }
  }

  unsigned threads_ = 128, ctas_ = 1, functions_ = 0;
  unsigned in_function_ = 0;  // 1 + its number while a function is written
  unsigned mask_ = 0;         // %m<mask_> holds the lanes that are here, unless
  unsigned lost_ = 0;         // so many branches that keep no account of it are open
  bool cluster_ = false;
};

}  // namespace

Program generate_mixed(uint64_t seed) { return Writer(seed).run(); }

}  // namespace fp4lab::conformance
