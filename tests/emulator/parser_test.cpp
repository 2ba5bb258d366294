// The front end with a small table of its own: parsing, lowering, refusals.
#include "emulator/ptx/parser.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "emulator/ptx/lower.h"
#include "fp4lab/error.h"

using namespace fp4lab::emu;

namespace {

void nothing(Warp&, const Instr&) {}
Body bind_nothing(Instr&, const Source&) { return nothing; }
Body bind_refused(Instr&, const Source&) { fp4lab::fail("no such combination"); }

constexpr Opcode kRows[] = {
    {"add", "add<.u16,.s16,.u32,.s32,.u64,.s64,.f32,.f64>", "d, a, b", "9.7.1.1", Fidelity::exact, 0,
     bind_nothing},
    {"mov", "mov<.pred,.b16,.b32,.b64,.b128,.u16,.u32,.u64,.s32,.f32,.f64>", "{d_}, {a}@", "9.7.9.3",
     Fidelity::exact, 0, bind_nothing},
    {"mul_wide", "mul.wide<.u16,.s16,.u32,.s32>", "d:w0, a, b", "9.7.1.3", Fidelity::exact, 0, bind_nothing},
    {"shl", "shl<.b16,.b32,.b64>", "d, a, b:u32", "9.7.8.7", Fidelity::exact, 0, bind_nothing},
    {"setp", "setp<.eq,.ne,.lt>{.and,.or}<.u32,.s32,.f32>", "P_|q_, a, b, p?", "9.7.6.3", Fidelity::exact, 0,
     bind_nothing},
    {"cvt", "cvt{.rn,.rz}{.sat}<.u8,.u16,.u32,.u64,.s32,.f32><.u8,.u16,.u32,.u64,.s32,.f32>", "d~, a~",
     "9.7.9.21", Fidelity::exact, 0, bind_nothing},
    {"ld", "ld{.volatile}{.param,.global,.shared,.local}{.v2,.v4}<.u8,.u16,.u32,.b32,.u64,.b64,.f32>",
     "{d_}~, [m]", "9.7.9.8", Fidelity::exact, 0, bind_nothing},
    {"st", "st{.param,.global,.shared,.local}{.v2,.v4}<.u8,.u32,.b32,.u64,.b64,.f32>", "[m], {a}~",
     "9.7.9.11", Fidelity::exact, 0, bind_nothing},
    {"bra", "bra{.uni}", "L", "9.7.12.3", Fidelity::exact, 0, bind_nothing},
    {"brx", "brx.idx{.uni}", "a:u32, {L}", "9.7.12.4", Fidelity::exact, 0, bind_nothing},
    {"call", "call{.uni}", "F", "9.7.12.5", Fidelity::exact, 0, bind_nothing},
    {"ret", "ret{.uni}", "", "9.7.12.6", Fidelity::exact, 0, bind_nothing},
    {"shfl", "shfl.sync<.idx,.up>.b32", "d_|p_, a, b:u32, c:u32, m:u32", "9.7.9.6", Fidelity::exact, 0,
     bind_nothing},
    {"tma",
     "cp.async.bulk.tensor<.1d,.2d>[{.cta_group::1,.cta_group::2}.shared::cluster.global{.multicast::cluster}"
     "]{.L2::cache_hint}",
     "[d], [m,{c}], [b], mask:u16?multicast::cluster, policy:b64?L2::cache_hint", "9.7.9.27", Fidelity::exact,
     0, bind_nothing},
    {"mma", "tcgen05.mma.kind::f16", "[d], a/[m]:b64, b:b64, c:b32, {v}:b32?, p", "9.7.16.10.9",
     Fidelity::exact, 100, bind_nothing},
    {"refused", "refused", "", "1.2.3", Fidelity::exact, 0, bind_refused},
    {"wait", "wait_group", "I", "9.7.9", Fidelity::exact, 0, bind_nothing},
    {"trap", "trap", "", "9.7.19.4", Fidelity::exact, 0, bind_nothing},
};
const Table& table() {
  static const Table t(kRows);
  return t;
}

constexpr std::string_view kHead = ".version 9.0\n.target sm_100a\n.address_size 64\n";
constexpr std::string_view kRegisters =
    ".reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<100>; .reg .f32 %f<10>; .reg .b64 %rd<20>; .reg .b128 "
    "%q<4>;\n";

std::unique_ptr<Module> module_of(std::string_view text) {
  return parse_with(table(), std::string(kHead) + std::string(text), "test.ptx");
}
// The body begins on the text's sixth line.
std::unique_ptr<Module> kernel(std::string_view body, std::string_view params = "") {
  return module_of(fmt::format(".visible .entry k({})\n{{ {}{}\n}}\n", params, kRegisters, body));
}
std::string refusal(std::string_view body, std::string_view params = "") {
  try {
    kernel(body, params);
  } catch (const PtxError& e) {
    return e.what();
  }
  return "accepted";
}
bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }
const Row* row_at(const Function& f, uint32_t offset) {
  for (const Row& r : f.constants)
    if (r.offset == offset) return &r;
  return nullptr;
}

}  // namespace

TEST_CASE("rows: every register has its own, as wide as its type") {
  auto m = kernel("add.u32 %r1, %r2, %r1;\nadd.u64 %rd1, %rd2, %rd1;\nmov.b128 %q1, {%rd1, %rd2};\nret;");
  const Function& f = m->functions.at(0);
  REQUIRE(f.code.size() == 4);
  const Instr &a = f.code[0], &b = f.code[1];
  CHECK(a.op[0].kind == Operand::Kind::value);
  CHECK(a.op[0].offset == a.op[2].offset);
  CHECK(a.op[0].offset != a.op[1].offset);
  std::vector<std::pair<uint32_t, uint32_t>> rows{{a.op[0].offset, 128},
                                                  {a.op[1].offset, 128},
                                                  {b.op[0].offset, 256},
                                                  {b.op[1].offset, 256},
                                                  {f.code[2].op[0].offset, 512}};
  std::sort(rows.begin(), rows.end());
  for (size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].first % 128 == 0);
    CHECK(rows[i].first + rows[i].second <= (i + 1 < rows.size() ? rows[i + 1].first : f.register_bytes));
  }
  const Operand& v = f.code[2].op[1];
  CHECK(v.kind == Operand::Kind::vector);
  CHECK(v.count == 2);
  CHECK(v.type == Type::b64);
  CHECK(f.vectors[v.index + 1].offset == b.op[1].offset);
}

TEST_CASE("constants: bits by the operand's type, equal ones share a row") {
  auto m = kernel(
      "mul.wide.s16 %r1, %h1, -21845;\nshl.b64 %rd1, %rd2, 3;\nadd.f32 %f1, %f1, 1.5;\nadd.f32 %f1, %f1, "
      "0f3FC00000;\n"
      "mov.u16 %h1, -1;\nadd.s64 %rd1, %rd1, -8;\nmov.b32 %r1, 0f40000000;\nmov.u32 %r1, "
      "(1<<4)|0b11;\nmov.u32 %r1, 017;\n"
      "mov.b64 %rd1, {%r1, 7};\nmov.u32 %r1, WARP_SZ;\nmov.u32 %r1, 0xFFFFFFFFU;\nst.shared.v2.b32 [%r1], "
      "{-1, %r2};\nret;");
  const Function& f = m->functions[0];
  auto bits = [&](size_t pc, unsigned op) {
    const Row* r = row_at(f, f.code[pc].op[op].offset);
    REQUIRE(r);
    return r->bits;
  };
  CHECK(bits(0, 2) == 0xaaab);
  CHECK(f.code[0].op[2].displacement == -21845);
  CHECK(bits(1, 2) == 3);
  CHECK(row_at(f, f.code[1].op[2].offset)->what == Row::What::bits32);  // a shift count is a 32-bit row
  CHECK(bits(2, 2) == 0x3fc00000);
  CHECK(f.code[2].op[2].offset == f.code[3].op[2].offset);
  CHECK(bits(4, 1) == 0xffff);
  CHECK(bits(5, 2) == 0xfffffffffffffff8);
  CHECK(row_at(f, f.code[5].op[2].offset)->what == Row::What::bits64);
  CHECK(bits(6, 1) == 0x40000000);
  CHECK(bits(7, 1) == 0x13);
  CHECK(bits(8, 1) == 15);
  CHECK(row_at(f, f.vectors[f.code[9].op[1].index + 1].offset)->bits == 7);
  CHECK(bits(10, 1) == 32);
  CHECK(bits(11, 1) == 0xffffffff);
  CHECK(row_at(f, f.vectors[f.code[12].op[1].index].offset)->bits == 0xffffffff);
}

TEST_CASE("blocks have their own registers and labels") {
  auto m = kernel(
      "mov.u32 %r1, 1;\n{ .reg .b32 %r1; .reg .pred p; mov.u32 %r1, 2; L: @p bra L; }\n"
      "{ .reg .pred p; L: @!p bra L; add.u32 %r1, %r1, 1; }\nret;");
  const Function& f = m->functions[0];
  REQUIRE(f.code.size() == 6);
  CHECK(f.code[0].op[0].offset != f.code[1].op[0].offset);
  CHECK(f.code[0].op[0].offset == f.code[4].op[0].offset);
  CHECK(f.code[2].op[0].index == 2);
  CHECK(f.code[3].op[0].index == 3);
  CHECK(f.code[2].guard != f.code[3].guard);
  CHECK(!f.code[2].guard_negated);
  CHECK(f.code[3].guard_negated);
  CHECK(f.code[2].guard != 0);  // predicate 0 is the constant
}

TEST_CASE("a range of registers may share its name with one register") {
  auto m = kernel("{ .reg .b32 a; .reg .b16 a<2>; mov.u32 a, 1; mov.b32 {a0, a1}, a; }\nret;");
  const Function& f = m->functions[0];
  REQUIRE(f.code.size() == 3);
  CHECK(f.code[0].op[0].offset == f.code[1].op[1].offset);
  CHECK(contains(refusal("{ .reg .b32 a<2>; .reg .b16 a<2>; }"), "'a<>' is declared twice in this block"));
}

TEST_CASE("vector registers: elements are registers, the whole of one is a { }") {
  auto m = kernel(R"({ .reg .v2 .b32 m, n<3>; .reg .b64 d;
      mov.b32 m.x, 1; mov.b32 m.g, m.r; mov.b64 d, m; mov.b64 d, {m.x, m.y}; mov.b64 n2, d;
      { .reg .b32 m; mov.b32 m, n2.y; } } ret;)");
  const Function& f = m->functions[0];
  REQUIRE(f.code.size() == 7);
  const uint32_t x = f.code[0].op[0].offset, y = f.code[1].op[0].offset;
  CHECK(x != y);
  CHECK(f.code[1].op[1].offset == x);
  for (const int i : {2, 3}) {
    REQUIRE(f.code[i].op[1].kind == Operand::Kind::vector);
    CHECK(f.vectors[f.code[i].op[1].index].offset == x);
    CHECK(f.vectors[f.code[i].op[1].index + 1].offset == y);
  }
  CHECK(f.code[5].op[1].offset == f.vectors[f.code[4].op[0].index + 1].offset);
  CHECK(f.code[5].op[0].offset != x);
  CHECK(contains(refusal("{ .reg .v2 .b32 m; mov.b32 m.z, 1; }"),
                 "'m' is a vector of 2: it has no element .z"));
  CHECK(contains(refusal("{ .reg .v2 .pred m; }"), "vectors of predicates do not exist"));
  CHECK(contains(refusal("{ .reg .v4 .b32 m; .reg .b32 m; }"), "'m' is declared twice in this block"));
  CHECK(contains(refusal("{ .reg .v4 .b32 m<2>; mov.b32 m2.x, 1; }"), "m2"));
}

// As in ptxas 13: 48 KiB for sm_90, all of 227 KiB for sm_90a and sm_100a.
TEST_CASE("static shared memory: up to the target's limit") {
  auto said = [](std::string_view target, unsigned bytes) -> std::string {
    try {
      parse_with(
          table(),
          fmt::format(".version 9.0\n.target {}\n.address_size 64\n.visible .entry k()\n{{ .reg .b32 %r<4>; "
                      ".shared .b8 s[{}]; mov.u32 %r1, s; ret; }}\n",
                      target, bytes),
          "test.ptx");
    } catch (const PtxError& e) {
      return e.what();
    }
    return "accepted";
  };
  CHECK(said("sm_90", 49152) == "accepted");
  CHECK(contains(said("sm_90", 49153), "more than 49152 bytes of static shared memory"));
  for (std::string_view target : {"sm_90a", "sm_100a"}) {
    CHECK(said(target, 232448) == "accepted");
    CHECK(contains(said(target, 232449), "more than 232448 bytes of static shared memory"));
  }
}

TEST_CASE("an .extern .shared array with a size that nothing defines is its own definition") {
  auto m = module_of(
      ".extern .shared .align 8 .b8 sized[512];\n.extern .shared .align 16 .b8 dynamic[];\n"
      ".entry k() { .reg .b32 %r<3>; mov.u32 %r1, sized; mov.u32 %r2, dynamic; ret; }\n");
  const Function& f = m->functions[0];
  CHECK(row_at(f, f.code[0].op[1].offset)->bits == 0x400);
  CHECK(row_at(f, f.code[1].op[1].offset)->bits == 0x600);  // after it
  CHECK(f.static_shared_bytes == 512);
}

TEST_CASE("places of parameters, shared and local variables") {
  auto m = module_of(
      ".extern .shared .align 1024 .b8 dyn[];\n.shared .align 8 .b64 bar[3];\n.shared .b8 unused[64];\n"
      ".entry k(.param .u32 a, .param .align 64 .b8 map[128], .param .u64 .ptr .global .align 4 p)\n"
      ".maxntid 192, 1, 1 .minnctapersm 1 .reqnctapercluster 2, 1, 1 .explicitcluster\n"
      "{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .b8 one; .local .align 16 .b8 depot[40];\n"
      "ld.param.u32 %r1, [a]; ld.param.u64 %rd1, [p+0]; mov.b64 %rd2, map; ld.shared.b64 %rd3, [bar+8];\n"
      "mov.u32 %r2, bar+16; mov.u64 %rd4, dyn; st.shared.u8 [one], %r1; mov.u64 %rd5, depot; ret; }\n");
  const Function& f = m->functions[0];
  REQUIRE(f.params.size() == 3);
  CHECK(f.params[1].offset == 64);
  CHECK(f.params[2].offset == 192);
  CHECK(f.param_bytes == 200);
  CHECK(f.max_ntid[0] == 192);
  CHECK(f.req_cluster[0] == 2);
  CHECK(f.explicit_cluster);
  CHECK(f.code[1].op[1].displacement == 192);
  CHECK(!f.code[1].op[1].has_base);
  CHECK(row_at(f, f.code[2].op[1].offset)->bits == 64);
  CHECK(f.code[3].op[1].has_base);
  CHECK(f.code[3].op[1].displacement == 8);
  CHECK(row_at(f, f.code[3].op[1].offset)->what == Row::What::shared32);
  CHECK(row_at(f, f.code[3].op[1].offset)->bits == 0x400);
  CHECK(row_at(f, f.code[4].op[1].offset)->bits == 0x410);
  CHECK(row_at(f, f.code[5].op[1].offset)->what == Row::What::shared64);
  CHECK(row_at(f, f.code[5].op[1].offset)->bits == 0x800);
  CHECK(f.static_shared_bytes == 25);
  CHECK(f.dynamic_shared_base == 0x800);
  CHECK(f.local_bytes == 48);  // from a multiple of 16
  CHECK(f.frame_bytes == 48);
}

TEST_CASE("reconvergence points of divergent branches") {
  auto m = kernel(
      "@%p1 bra A;\nmov.u32 %r1, 0;\nbra B;\nA: mov.u32 %r1, 1;\nB: @%p2 bra B;\n@%p3 bra END;\nmov.u32 %r1, "
      "2;\n"
      "@%p4 ret;\nX: bra X;\nEND: ret;");
  const Function& f = m->functions[0];
  CHECK(f.code[0].reconverge == 4);  // if/else reconverges at B
  CHECK(f.code[2].reconverge == 4);
  CHECK(f.code[4].reconverge == 5);  // the loop's exit
  CHECK(f.code[5].reconverge == 6);  // lanes that go to END leave at once
  CHECK(f.code[8].op[0].index == 8);
}

// A persistent kernel whose only exit is a guarded branch to the ret. Some lanes skip the last block in
// program order.
TEST_CASE("lanes that diverge in a loop without another exit reconverge in the same iteration") {
  auto m = kernel(
      "bra.uni HEAD;\nMEET: add.u32 %r1, %r1, 1;\nHEAD: @%p1 bra END;\n@%p2 bra MEET;\nmov.u32 %r2, 1;\nbra "
      "MEET;\nEND: ret;");
  const Function& f = m->functions[0];
  CHECK(f.code[2].reconverge == 3);  // lanes that go to END leave at once
  CHECK(f.code[3].reconverge == 1);
  // Without any exit, lanes that diverge in the loop's first block; before the loop, lanes reconverge at its
  // head.
  auto n = kernel(
      "@%p1 bra HEAD;\nmov.u32 %r1, 0;\nHEAD: @%p2 bra NEXT;\nmov.u32 %r1, 1;\nNEXT: @%p3 bra HEAD;\nmov.u32 "
      "%r1, 2;\nbra HEAD;");
  const Function& g = n->functions[0];
  CHECK(g.code[0].reconverge == 2);
  CHECK(g.code[2].reconverge == 4);
  CHECK(g.code[4].reconverge == 2);
}

TEST_CASE("registers keep their names, for messages") {
  auto m = kernel("setp.eq.u32 %p2, %r7, 0;\n@%p2 mov.u32 %r8, %r7;\nret;");
  const Function& f = m->functions[0];
  bool found = false;
  for (const auto& [offset, name] : f.register_names)
    if (offset == f.code[1].op[1].offset) found = name == "%r7";
  CHECK(found);
  REQUIRE(f.predicate_names.size() == 1);
  CHECK(f.predicate_names[0].second == "%p2");
  CHECK(f.predicate_names[0].first == static_cast<uint32_t>(f.code[1].guard));
}

TEST_CASE("lanes that exit early do not prevent the others' reconvergence") {
  auto m = kernel(
      "@%p1 bra JOIN;\n@%p2 bra OUT;\n@%p3 ret;\n@%p4 bra BAD;\nmov.u32 %r1, 0;\nJOIN: mov.u32 %r1, 1;\n"
      "bra OUT;\nBAD: trap;\nOUT: ret;");
  const Function& f = m->functions[0];
  CHECK(f.code[0].reconverge == 5);
  CHECK(f.code[1].reconverge == 2);
  CHECK(f.code[3].reconverge == 4);
  // Each side exits by itself: no waiting for the other at the ret.
  auto n = kernel("@%p1 bra B;\nmov.u32 %r1, 0;\nbra OUT;\nB: mov.u32 %r1, 1;\nOUT: ret;");
  CHECK(n->functions[0].code[0].reconverge == kNoPc);
}

TEST_CASE("calls: arguments share the places of the callee's parameters") {
  auto m = module_of(
      ".extern .func __assertfail(.param .b64 m) .noreturn;\n"
      ".func (.param .b32 r) f(.param .b32 x) { .reg .b32 %r<9>; ld.param.u32 %r1, [x]; add.u32 %r1, %r1, "
      "1;\n"
      "st.param.b32 [r], %r1; ret; }\n"
      ".entry k() { .reg .b32 %r<9>; mov.u32 %r1, 5;\n"
      "{ .param .b32 p0; .param .b32 q0; st.param.b32 [p0], %r1; call.uni (q0), f, (p0); ld.param.b32 %r2, "
      "[q0+0]; }\n"
      "{ .param .b32 p0; .param .b32 q0; st.param.b32 [p0+0], %r2; call (q0), f, (p0); ld.param.b32 %r2, "
      "[q0]; }\n"
      "ret; }\n");
  REQUIRE(m->functions.size() == 2);
  const Function &k = m->functions[0], &f = m->functions[1];
  CHECK(k.code[2].op[0].kind == Operand::Kind::function);
  CHECK(k.code[2].op[0].index == 1);
  CHECK(f.params[0].offset >= kCallParam);
  CHECK(static_cast<uint64_t>(k.code[1].op[0].displacement) == f.params[0].offset);
  CHECK(static_cast<uint64_t>(k.code[4].op[0].displacement) == f.params[0].offset);
  CHECK(static_cast<uint64_t>(k.code[3].op[1].displacement) == f.results[0].offset);
  CHECK(k.register_bytes == f.register_bytes);
  CHECK(k.code[0].op[0].offset != f.code[0].op[0].offset);
  CHECK(k.local_bytes == 8);
}

TEST_CASE("indexed branches name their labels") {
  auto m =
      kernel("ts: .branchtargets A, B, A;\nbrx.idx %r1, ts;\nA: mov.u32 %r1, 1;\nB: mov.u32 %r1, 2;\nret;");
  const Function& f = m->functions[0];
  const Operand& list = f.code[0].op[1];
  REQUIRE(list.count == 3);
  CHECK(f.vectors[list.index].index == 1);
  CHECK(f.vectors[list.index + 1].index == 2);
  CHECK(f.code[0].reconverge == 2);
}

TEST_CASE("optional operands, pairs, sinks, modifier order") {
  auto m = kernel(
      "setp.eq.u32 %p1, %r1, 0;\nsetp.eq.and.s32 %p1|%p2, %r1, %r2, !%p3;\nsetp.lt.u32 _|%p2, %r1, %r2;\n"
      "shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;\nshfl.sync.up.b32 %r1, %r2, 1, 0, -1;\nshfl.sync.up.b32 _, "
      "%r2, 1, 0, -1;\n"
      "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.L2::cache_hint [%r1], [%rd1, {%r2, 0}], "
      "[%r3], %rd2;\n"
      "cp.async.bulk.tensor.2d.shared::cluster.global.multicast::cluster.cta_group::2 [%r1], [%rd1, "
      "{%r2,%r3}], [%r4+8], %h1;\n"
      "tcgen05.mma.kind::f16 [%r1], %rd1, %rd2, %r3, 1;\n"
      "tcgen05.mma.kind::f16 [%r1], [%r2], %rd2, 5, {%r1,%r2,%r3,%r4}, !%p1;\nld.u32.global %r1, [%rd1];\n"
      "ld.global.v2.u32{%r1, _}, [%rd1+-8];ret;");
  const Function& f = m->functions[0];
  using K = Operand::Kind;
  CHECK(f.code[0].op[1].kind == K::none);
  CHECK(f.code[0].op[4].kind == K::none);
  CHECK(f.code[1].op[1].kind == K::predicate);
  CHECK(f.code[1].op[4].negated);
  CHECK(f.code[2].op[0].kind == K::sink);
  CHECK(f.code[3].op[1].kind == K::predicate);
  CHECK(f.code[4].op[1].kind == K::none);
  CHECK(f.code[5].op[0].kind == K::sink);
  CHECK(f.code[5].op[0].offset + 512 <= f.register_bytes);
  CHECK(f.code[6].op[2].kind == K::vector);
  CHECK(f.code[6].op[4].kind == K::none);
  CHECK(f.code[6].op[5].kind == K::value);
  CHECK(f.code[7].op[3].displacement == 8);
  CHECK(f.code[7].op[4].type == Type::b16);
  CHECK(f.code[8].op[4].kind == K::none);
  CHECK(f.code[8].op[5].index == 0);
  CHECK(!f.code[8].op[5].negated);
  CHECK(f.code[9].op[1].kind == K::address);
  CHECK(f.code[9].op[4].count == 4);
  CHECK(f.code[9].op[5].negated);
  CHECK(f.code[11].op[1].displacement == -8);
}

TEST_CASE("global variables: initialisers and addresses") {
  auto m = module_of(
      ".const .align 4 .f32 c[4] = {1.0, 0f40000000};\n.global .u64 ptr[2] = {generic(c)+4, 7};\n.global .b8 "
      "text[] = {104, 105, 0};\n"
      ".entry k() { .reg .b64 %rd<3>; .reg .b32 %r<3>; mov.u64 %rd1, ptr+8; ld.global.u32 %r1, [text+1]; "
      "ret; }");
  REQUIRE(m->symbols.size() == 3);
  CHECK(m->symbols[0].init.size() == 16);
  CHECK(m->symbols[0].init[3] == std::byte(0x3f));
  CHECK(m->symbols[1].relocations.at(0).addend == 4);
  CHECK(m->symbols[2].size == 3);
  REQUIRE(m->fixups.size() == 2);
  CHECK(m->functions[0].constants[m->fixups[0].row].bits == 8);
  CHECK(m->fixups[0].symbol == 1);
}

TEST_CASE("debug information is read or skipped") {
  auto m = module_of(
      ".file 1 \"/home/x/kernel.cu\"\n.entry k() { .loc 1 42 7\n ret;\n .loc 1 43 1, function_name "
      "$L__info_string0, inlined_at 1 42 7\n ret; }\n"
      ".section .debug_str { $L: .b8 1,2,3 }\n");
  CHECK(m->files.at(1) == "/home/x/kernel.cu");
  const auto location = [&](int i) { return m->locations.at(m->functions[0].source[i].location); };
  CHECK(location(0).line == 42);
  CHECK(location(1).line == 43);
  CHECK(location(1).caller == m->functions[0].source[0].location);
}

TEST_CASE("refusals name the place, the reason and the nearest names") {
  std::string e = refusal("add.u32 %r1, %r2, %r100;");
  CHECK(contains(e, "test.ptx:6:19: undeclared '%r100': the register range is %r<100>"));
  CHECK(contains(e, "\nadd.u32 %r1, %r2, %r100;\n                  ^"));
  CHECK(contains(refusal("addd.u32 %r1, %r2, %r3;"),
                 "test.ptx:6:1: unknown instruction 'addd'; did you mean add?"));
  CHECK(contains(refusal("tex.2d.v4.f32.f32 %r1;"), "'tex' is not implemented: textures (PTX ISA 9.7.10)"));
  CHECK(contains(refusal("add.u31 %r1, %r2, %r3;"),
                 "test.ptx:6:4: add: modifier .u31 is not supported here (did you mean .u32?); supported: "
                 ".f32, .f64, .s16"));
  CHECK(contains(refusal("tcgen05.mma.kind::mxf4 [%r1];"),
                 ":12: tcgen05.mma: modifier .kind::mxf4 is not supported here; supported: .kind::f16 (PTX "
                 "ISA 9.7.16.10.9)"));
  CHECK(contains(refusal("ld.global %r1, [%rd1];"), "ld.global: a modifier is missing; supported: "));
  CHECK(contains(refusal("add.u32 %r1, %r2;"),
                 "add.u32 takes 3 operands, found 2 (operands: d, a, b; PTX ISA 9.7.1.1)"));
  CHECK(contains(refusal("add.u32 %r1, %r2, %rd1;"), "register '%rd1' is .b64, the instruction needs .u32"));
  CHECK(contains(refusal("add.u32 %f1, %r2, %r1;"), "register '%f1' is .f32, the instruction needs .u32"));
  CHECK(contains(refusal("add.u32 %r1, [%r2], %r3;"), "add.u32: operand 2 must be a register or a constant"));
  CHECK(contains(refusal("add.u32 %r1, %p2, %r3;"), "'%p2' is a .pred register"));
  CHECK(contains(refusal("add.f32 %f1, %f1, 2;"), "an integer constant cannot be an operand of type .f32"));
  CHECK(contains(refusal("mov.b32 %r1, 1.5;"), "a floating-point constant cannot be an operand of"));
  CHECK(contains(refusal("add.u32 %r1, %tid.x, 1;"), "special register %tid can only be read with mov"));
  CHECK(contains(refusal("mov.u64 %rd1, %tid.x;"),
                 "special register %tid is .u32, the instruction needs .u64"));
  CHECK(contains(refusal("mov.u32 %r1, %tidd.x;"), "undeclared '%tidd'; did you mean %tid?"));
  CHECK(contains(refusal("bra nowhere;"), "undeclared 'nowhere'"));
  CHECK(contains(refusal("{ L: ret; } bra L;"), "undeclared 'L'"));
  CHECK(contains(refusal("L: ret; L: ret;"), "label 'L' is defined twice"));
  CHECK(contains(refusal("@%r1 ret;"), "'%r1' is not a predicate"));
  CHECK(contains(refusal("refused;"), "no such combination (PTX ISA 1.2.3)"));
  CHECK(contains(refusal("wait_group %r1;"), "operand 1 must be a constant"));
  CHECK(contains(refusal("ld.global.u32 %r1, [%f1];"), "an address needs up to 64 integer bits"));
  CHECK(contains(refusal("ld.global.u32 %r1, [%r2];"), "'%r2' has 32 bits, a global address needs 64"));
  CHECK(contains(refusal("ld.u32 %r1, [%r2];"), "'%r2' has 32 bits, a generic address needs 64"));
  CHECK(contains(refusal("tcgen05.mma.kind::f16 [%rd1], %rd1, %rd2, %r3, 1;"),
                 "a tensor-memory address needs 32"));
  CHECK(contains(refusal(".shared .b32 x; ld.global.u32 %r1, [x];"),
                 "'x' is a .shared variable, the instruction accesses global memory"));
  CHECK(contains(refusal("add.u32 _, %r1, %r2;"), "the result of add cannot be discarded"));
  CHECK(contains(refusal("ld.global.u32 %r1, [%rd1]"), "expected ';'"));
  CHECK(contains(refusal("mov.u32 %r1, 0f123;"), "'0f123' is not a number"));
  CHECK(contains(refusal("mov.u32 %r1, #;"), "PTX has no character '#'"));
  CHECK(contains(refusal(".shared .b8 a[240000]; mov.u32 %r1, a;"), "static shared memory"));
}

TEST_CASE("module scope, constants and initialisers: accepted and refused as by ptxas") {
  struct Case {
    const char *text, *why;
  };
  constexpr Case kCases[] = {
      {".entry k() { .reg .b64 %d; .reg .b32 %r; ld.global.u32 %r, [%d-4]; ret; }", "PTX has no '-' here"},
      {".entry k() { .reg .b64 %d; .reg .b32 %r; ld.global.u32 %r, [%d+2*4-12]; ret; }", ""},
      {".entry k() { .reg .f32 %f; mov.f32 %f, .5; mov.f32 %f, 5.; mov.f32 %f, 1.5+2.5; ret; }", ""},
      {".entry k() { .reg .f32 %f; mov.f32 %f, -0f3f800000; ret; }", "takes no sign: it is one of its bits"},
      {".entry k() { .reg .u32 %r; mov.u32 %r, !0; mov.u32 %r, 1.5<2.0; ret; }", ""},
      {".entry k() { .reg .u32 %r; mov.u32 %r, 7%3; ret; }", "found '%3'"},
      {".entry k() { ret;; }", "expected an instruction"},
      {".entry k() { ret; };", "expected a directive"},
      {".visible .weak .global .u32 x;", "unknown directive '.weak'"},
      {".global .u32 x[2*3];", "expected ']'"},
      {".shared .u32 x[];", "'x' has no size"},
      {".global .bf16 x;", "a type for instructions only"},
      {".global .b8 .align 16 x[16];", ".align must precede the type"},
      {".global .v4 .f64 x;", "at most 128 bits"},
      {".global .u32 x = {1};", "without braces"},
      {".global .u32 x[2] = 1;", "before the values of an array"},
      {".global .u32 x[2][2] = {1, 2, 3, 4};", "before the values of an array"},
      {".global .u32 x[2] = {1, 2, 3};", "more initial values than elements"},
      {".global .f32 x = 1;", "an integer cannot initialise .f32"},
      {".global .f16 x = 1.0;", "cannot initialise .f16"},
      {".global .b32 x = 1.5; .global .b64 y = 0f3fc00000;", ""},
      {".global .b8 x[2] = {1.5, 1}; .global .b16 y = 0d40091eb851eb851f;", ""},
      {".global .u8 x = 1.5;", "a floating-point value cannot initialise .u8"},
      {".entry k() .local_maxnreg 128 { ret; } .func f() .local_maxnreg 64 { ret; }", ""},
      {".pragma nounroll;", "expected the pragma's string"},
      {".global .u32 g; .global .b64 x = g;", "an address cannot initialise .b64"},
      {".global .u32 g; .global .u64 x = generic(g)+2*4; .global .u32 y = g;", ""},
      {".global .u32 g; .global .u8 x[2] = {0xff(g), 0xff00(g)};", ""},
      {".global .u32 g; .global .u64 x = 0xffff(g);", "a mask covers one byte"},
      {".const .b8 x[65537];", "more than 65536 bytes of .const variables"},
      {".func f(); .entry k() { ret; }", "declared but never defined"},
      {".func f() .maxntid 4 { ret; }", "'.maxntid' is for kernels only"},
      {".func f() .abi_preserve 4 { ret; }", ""},
      {".entry k() .noreturn { ret; }", "'.noreturn' is for functions"},
      {".entry k() .maxntid 32 .reqntid 32 { ret; }", "exclude each other"},
      {".entry k() .maxntid 0 { ret; }", "must be an integer from 1"},
      {".entry k(.param .u32 a, .param .u32 a) { ret; }", "'a' is declared twice"},
      {".entry k(.param .u32 a) { .reg .u32 r; st.param.u32 [a], r; ret; }", "'a' is a parameter"},
      {".func (.param .b32 r) f() { .reg .b32 x; ld.param.b32 x, [r]; ret; } .entry k() { .param .b32 y; "
       "call (y), f; ret; }",
       "'r' is a result"},
      {".version 9.0", "unknown directive '.version'"},
  };
  for (const Case& c : kCases) {
    std::string said = "accepted";
    try {
      parse(std::string(kHead) + c.text, "text");
    } catch (const PtxError& e) {
      said = e.what();
    }
    if (!*c.why)
      CHECK_MESSAGE(said == "accepted", c.text << ": " << said);
    else
      CHECK_MESSAGE(contains(said, c.why), c.text << ": " << said);
  }
  auto m = parse(std::string(kHead) + ".global .u8 x[2][3] = {{1}, {2, 3}};", "text");
  CHECK(m->symbols[0].init == std::vector<std::byte>{std::byte(1), std::byte(2), std::byte(3), {}, {}, {}});
  CHECK_THROWS_AS(parse(".version 8.0\n.target sm_100a\n.entry k() { ret; }", "text"), PtxError);
}

TEST_CASE("refusals at module scope") {
  auto why = [](std::string_view text) -> std::string {
    try {
      module_of(text);
    } catch (const PtxError& e) {
      return e.what();
    }
    return "accepted";
  };
  CHECK(why(".entry k() { call f; ret; } .func f() { call f; ret; }") == "accepted");
  CHECK(contains(why(".entry k() { call f; ret; } .func f() { .shared .b32 x; call f; ret; }"),
                 "a function that calls itself cannot have .shared"));
  CHECK(contains(why(".entry k() { call g; ret; }"), "call of the undeclared function 'g'"));
  CHECK(contains(why(".extern .func g(); .entry k() { call g; ret; }"), "function 'g' has no body"));
  CHECK(contains(
      why(".extern .func __cudaCDP2LaunchDeviceV2(); .entry k() { call __cudaCDP2LaunchDeviceV2; ret; }"),
      "a kernel launches kernels"));
  CHECK(contains(why(".func f(.param .b32 x) { ret; } .entry k() { call f; ret; }"),
                 "'f' has 1 argument, the call gives 0"));
  CHECK(why(".extern .global .u32 x; .entry k() { ret; }") == "accepted");
  CHECK(contains(why(".extern .global .u32 x; .entry k() { .reg .u32 %r; ld.global.u32 %r, [x]; ret; }"),
                 "no linked module defines it"));
  CHECK(contains(why(".entry k() { ret; } .entry k() { ret; }"), "defined twice"));
  CHECK(contains(why(".nonsense"), "unknown directive '.nonsense'"));
  CHECK(contains(why(".global .u32 x = y;"), "'y' is not a variable"));
  CHECK_THROWS_AS(parse_with(table(), "", "x"), PtxError);
  CHECK_THROWS_AS(
      parse_with(table(),
                 ".version 9.0\n.target sm_90a\n.address_size 64\n.entry k() { .reg .b64 %d; .reg .b32 %r; "
                 "tcgen05.mma.kind::f16 [%r], %d, %d, %r, 1; ret; }",
                 "x"),
      PtxError);
}
