// Whole kernels: branches and loops whose trip counts differ by lane, warp collectives under the masks of the
// active lanes, functions called from divergent code, every memory space with vectors, narrow types and
// generic pointers, atomics whose result does not depend on the order, clusters that read their neighbour's
// shared memory, lanes that exit early.
#include <algorithm>

#include "fp4lab/error.h"
#include "mixed_parts.h"

namespace fp4lab::conformance {

namespace {

constexpr unsigned kMasks = 6;  // depth of nested divergence in which the mask is known

class Writer : MixedParts {
 public:
  explicit Writer(uint64_t seed) : MixedParts(seed) {}

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

  // f(i) may call later ones, which precede it in the text. It has pools of its own.
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

  // --- divergence. `depth` counts nesting; mask_ is the register with the active lanes.

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

  // With lanes that leave it in the middle, or skip the rest of an iteration.
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
};

}  // namespace

Program generate_mixed(uint64_t seed) { return Writer(seed).run(); }

}  // namespace fp4lab::conformance
