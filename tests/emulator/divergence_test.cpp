#include <doctest/doctest.h>

#include "hand.h"

using namespace fp4lab::emu;
using hand::Kernel;
using hand::label;

namespace {

// Each lane's u32 result: stored to global memory at base + 4 * lane.
struct Out {
  GlobalMemory memory{1 << 20};
  uint64_t base = memory.allocate(4096);
  uint32_t operator[](unsigned k) const {
    uint32_t v;
    std::memcpy(&v, memory.host(base + 4 * k), 4);
    return v;
  }
};
// Registers for every test: the lane and its address in the output.
struct Lanes : Kernel {
  Out out;
  Operand lane = special(FixedSpecial::laneid), place = reg("%rd1", Type::u64);
  Lanes() {
    add("place",
        [](Warp& w, const Instr& i) {
          auto* d = w.target<uint64_t>(i.op[0]);
          for_lanes(w.active,
                    [&](unsigned l) { d[l] = static_cast<uint64_t>(i.op[1].displacement) + 4 * l; });
        },
        {place, hand::Kernel::at(static_cast<int64_t>(out.base))});
  }
  void finish(const Operand& value) {
    add("st.global.u32 [place], v;", hand::store<Space::global>, {address(place), value});
    add("exit;", hand::exit);
  }
  LaunchResult go(Schedule s = {}) {
    LaunchConfig c;
    c.block = {32, 1, 1};
    return run(c, s, &out.memory);
  }
};

bool says(const LaunchResult& r, const std::string& text) { return r.report.find(text) != std::string::npos; }

}  // namespace

TEST_CASE("lanes diverge at a branch and reconverge at its join") {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Lanes k;
    Operand p = k.pred("%p1"), q = k.pred("%p2"), v = k.reg("%r1"), n = k.reg("%r2");
    k.add("mov v, 1", hand::mov, {v, k.imm(1)});
    k.add("setp p, lane < 20", hand::less, {p, k.lane, k.imm(20)});
    Instr& b = k.add("@!p bra JOIN", hand::bra, {label(8)});
    Kernel::guard(b, p, true);
    b.reconverge = 8;
    k.add("setp q, lane < 7", hand::less, {q, k.lane, k.imm(7)});
    Instr& b2 = k.add("@!q bra INNER", hand::bra, {label(7)});
    Kernel::guard(b2, q, true);
    b2.reconverge = 7;
    k.add("add v, v, 100", hand::add, {v, v, k.imm(100)});
    CHECK(k.here() == 7);
    k.add("INNER: add v, v, 10", hand::add, {v, v, k.imm(10)});
    k.add("JOIN: n = lanes here", hand::together, {n});
    k.add("add v, v, n", hand::add, {v, v, n});
    k.finish(v);
    LaunchResult r = k.go({.seed = seed});
    REQUIRE_MESSAGE(r.ok, r.report);
    for (unsigned l = 0; l < 32; ++l) CHECK(k.out[l] == 1 + 32 + (l < 20 ? 10u : 0) + (l < 7 ? 100u : 0));
  }
}

TEST_CASE("lanes with different trip counts reconverge after the loop") {
  Lanes k;
  Operand p = k.pred("%p1"), v = k.reg("%r1"), n = k.reg("%r2");
  k.add("mov v, 0", hand::mov, {v, k.imm(0)});
  uint32_t loop = k.here();
  k.add("LOOP: add v, v, 1", hand::add, {v, v, k.imm(1)});
  k.add("setp p, v < lane", hand::less, {p, v, k.lane});
  Instr& b = k.add("@p bra LOOP", hand::bra, {label(loop)});
  Kernel::guard(b, p);
  b.reconverge = k.here();
  k.add("n = lanes here", hand::together, {n});
  k.add("add v, v, n", hand::add, {v, v, n});
  k.finish(v);
  LaunchResult r = k.go();
  REQUIRE_MESSAGE(r.ok, r.report);
  for (unsigned l = 0; l < 32; ++l) CHECK(k.out[l] == 32 + std::max(1u, l));
}

TEST_CASE("lanes that exit inside a branch do not block reconvergence") {
  Lanes k;
  Operand p = k.pred("%p1"), n = k.reg("%r2");
  k.add("setp p, lane < 5", hand::less, {p, k.lane, k.imm(5)});
  Instr& b = k.add("@!p bra JOIN", hand::bra, {label(4)});
  Kernel::guard(b, p, true);
  b.reconverge = 4;
  Instr& e = k.add("exit", hand::exit);
  (void)e;
  k.add("JOIN: n = lanes here", hand::together, {n});
  k.finish(n);
  LaunchResult r = k.go();
  REQUIRE_MESSAGE(r.ok, r.report);
  CHECK(k.out[4] == 0xcbcbcbcb);
  for (unsigned l = 5; l < 32; ++l) CHECK(k.out[l] == 27);
}

TEST_CASE("a spinning lane does not block its siblings, even those that wait at a join") {
  // Lane 0 spins inside the branch on a flag that the others set after the join.
  Lanes k;
  Operand p = k.pred("%p1"), q = k.pred("%p2"), v = k.reg("%r1");
  Operand flag = Kernel::at(0x400);
  k.f().static_shared_bytes = 16;
  k.f().dynamic_shared_base = 0x410;
  k.add("st.shared [flag], 0", hand::store<Space::shared>, {flag, k.imm(0)});
  k.add("setp p, lane < 1", hand::less, {p, k.lane, k.imm(1)});
  Instr& b = k.add("@!p bra JOIN", hand::bra, {label(7)});
  Kernel::guard(b, p, true);
  b.reconverge = 7;
  k.add("SPIN: ld.volatile.shared v, [flag]", hand::load<Space::shared, true>, {v, flag});
  k.add("setp q, v < 1", hand::less, {q, v, k.imm(1)});
  Instr& s = k.add("@q bra SPIN", hand::bra, {label(4)});
  Kernel::guard(s, q);
  s.reconverge = 7;
  REQUIRE(k.here() == 7);
  k.add("JOIN: st.shared [flag], 1", hand::store<Space::shared, true>, {flag, k.imm(1)});
  k.add("mov v, 5", hand::mov, {v, k.imm(5)});
  k.finish(v);
  LaunchResult r = k.go();
  REQUIRE_MESSAGE(r.ok, r.report);
  CHECK(k.out[0] == 5);
  CHECK(k.out[31] == 5);
}

TEST_CASE("lanes that diverged without a join reconverge at a sync instruction") {
  Lanes k;
  Operand p = k.pred("%p1"), v = k.reg("%r1");
  Operand members;
  members.displacement = 0xffffffff;
  k.add("setp p, lane < 9", hand::less, {p, k.lane, k.imm(9)});
  Instr& b = k.add("@p bra A", hand::bra, {label(5)});  // no post-dominator
  Kernel::guard(b, p);
  k.add("mov v, 1", hand::mov, {v, k.imm(1)});
  k.add("bra A", hand::bra, {label(5)});
  k.add("A: shfl.sync-like", hand::gather, {v, members});
  k.add("full", hand::full);
  k.finish(v);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    LaunchResult r = k.go({.seed = seed});
    REQUIRE_MESSAGE(r.ok, r.report);
    for (unsigned l = 0; l < 32; ++l) CHECK(k.out[l] == 32);
  }
}

TEST_CASE("an aligned instruction executed by part of a warp names the missing lanes and their places") {
  Lanes k;
  Operand p = k.pred("%p1"), v = k.reg("%r1");
  k.add("setp p, lane < 1;", hand::less, {p, k.lane, k.imm(1)});
  Instr& b = k.add("@!p bra JOIN;", hand::bra, {label(4)});
  Kernel::guard(b, p, true);
  b.reconverge = 4;
  k.add("barrier.sync.aligned 0;", hand::full);
  k.add("JOIN: mov v, 1;", hand::mov, {v, k.imm(1)});
  k.finish(v);
  LaunchResult r = k.go();
  REQUIRE(!r.ok);
  CHECK(r.kind == FaultKind::collective);
  CHECK_MESSAGE(r.report.find("lanes 1-31 at hand.ptx:5  JOIN: mov v, 1;") != std::string::npos, r.report);
  CHECK_MESSAGE(r.report.find("hand.ptx:4:3") != std::string::npos, r.report);
}

TEST_CASE("an aligned instruction after an early branch out waits for lanes that can still arrive") {
  // if (lane < 8) { if (lane < 4) goto OUT; work } aligned; OUT: exit   -- the outer branch's join is OUT
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Lanes k;
    Operand p = k.pred("%p1"), q = k.pred("%p2"), v = k.reg("%r1"), n = k.reg("%r2");
    k.add("mov v, 1", hand::mov, {v, k.imm(1)});
    k.add("setp p, lane < 8", hand::less, {p, k.lane, k.imm(8)});
    Instr& b = k.add("@!p bra SYNC", hand::bra, {label(8)});
    Kernel::guard(b, p, true);
    b.reconverge = 12;
    k.add("setp q, lane < 4", hand::less, {q, k.lane, k.imm(4)});
    Instr& b2 = k.add("@q bra OUT", hand::bra, {label(12)});
    Kernel::guard(b2, q);
    b2.reconverge = 12;
    for (int j = 0; j < 2; ++j) k.add("add v, v, 100", hand::add, {v, v, k.imm(100)});
    REQUIRE(k.here() == 8);
    k.add("SYNC: aligned", hand::full);
    k.add("n = lanes here", hand::together, {n});
    k.add("add v, v, n", hand::add, {v, v, n});
    k.add("nothing", hand::mov, {v, v});
    REQUIRE(k.here() == 12);
    k.add("OUT: nothing", hand::mov, {v, v});
    k.finish(v);
    LaunchResult r = k.go({.seed = seed});
    // Lanes 0-3 wait at OUT for the others, which must not execute an aligned instruction without them.
    REQUIRE(!r.ok);
    CHECK_MESSAGE(says(r, "lanes 0-3 at hand.ptx:13"), r.report);
  }
  // The same with an early exit instead: legal, the others execute the instruction together.
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Lanes k;
    Operand p = k.pred("%p1"), q = k.pred("%p2"), v = k.reg("%r1"), n = k.reg("%r2");
    k.add("mov v, 1", hand::mov, {v, k.imm(1)});
    k.add("setp p, lane < 8", hand::less, {p, k.lane, k.imm(8)});
    Instr& b = k.add("@!p bra SYNC", hand::bra, {label(7)});
    Kernel::guard(b, p, true);
    k.add("setp q, lane < 4", hand::less, {q, k.lane, k.imm(4)});
    Kernel::guard(k.add("@q exit", hand::exit), q);
    k.add("add v, v, 100", hand::add, {v, v, k.imm(100)});
    REQUIRE(k.here() == 7);
    k.add("SYNC: aligned", hand::full);
    k.add("n = lanes here", hand::together, {n});
    k.add("add v, v, n", hand::add, {v, v, n});
    k.finish(v);
    LaunchResult r = k.go({.seed = seed});
    REQUIRE_MESSAGE(r.ok, r.report);
    for (unsigned l = 4; l < 32; ++l) CHECK(k.out[l] == 1 + 28 + (l < 8 ? 100u : 0));
  }
}

TEST_CASE("functions are called and return, also for some lanes and from different depths") {
  Lanes k;
  Operand p = k.pred("%p1"), v = k.reg("%r1"), n = k.reg("%r2");
  Operand callee;
  callee.kind = Operand::Kind::function;
  callee.index = 1;
  k.module.functions.emplace_back();
  k.f(1).name = "callee";
  k.add("mov v, 0", hand::mov, {v, k.imm(0)});
  k.add("call callee", hand::call, {callee});
  k.add("call callee", hand::call, {callee});
  k.add("n = lanes here", hand::together, {n});
  k.add("add v, v, n", hand::add, {v, v, n});
  k.finish(v);
  // callee: half of the lanes return early
  k.add("setp p, lane < 16", hand::less, {p, k.lane, k.imm(16)}, 1);
  Instr& r1 = k.add("@p ret", hand::ret, {}, 1);
  Kernel::guard(r1, p);
  k.add("add v, v, 100", hand::add, {v, v, k.imm(100)}, 1);
  k.add("ret", hand::ret, {}, 1);
  LaunchResult r = k.go();
  REQUIRE_MESSAGE(r.ok, r.report);
  for (unsigned l = 0; l < 32; ++l) CHECK(k.out[l] == 32 + (l < 16 ? 0u : 200u));
}
