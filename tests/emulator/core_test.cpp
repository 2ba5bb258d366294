#include <doctest/doctest.h>

#include "emulator/core/place.h"
#include "hand.h"

using namespace fp4lab::emu;
using hand::Kernel;
using hand::label;

namespace {
bool says(const LaunchResult& r, std::string_view text) { return r.report.find(text) != std::string::npos; }
LaunchConfig one_warp() {
  LaunchConfig c;
  c.block = {32, 1, 1};
  return c;
}
}  // namespace

TEST_CASE("fresh device memory: poison, or zeros, even at reused addresses") {
  GlobalMemory m(1 << 20);
  const uint64_t poisoned = m.allocate(8192);
  for (const uint64_t at : {0, 4095, 8191}) CHECK(*m.host(poisoned + at) == std::byte{0xcb});
  m.free(poisoned);
  m.fresh = GlobalMemory::Fresh::zeros;
  for (int k = 0; k < 2000; ++k) {  // until addresses are reused
    const uint64_t a = m.allocate(8192);
    REQUIRE(a);
    for (const uint64_t at : {0, 4095, 8191}) REQUIRE(*m.host(a + at) == std::byte{0});
    std::memset(m.host(a), 7, 8192);
    m.free(a);
  }
}

TEST_CASE("device memory: bounds, double free, poison, no reuse") {
  GlobalMemory m(1 << 20);
  uint64_t a = m.allocate(1000), b = m.allocate(100);
  REQUIRE(a);
  REQUIRE(b);
  CHECK(a % 256 == 0);
  CHECK(b % 256 == 0);
  CHECK(*m.host(a) == std::byte{0xcb});
  CHECK(m.find(a, 1000).begin == a);
  CHECK(m.find(a + 999, 1).end == a + 1000);
  CHECK(m.find(a + 999, 2).end == 0);
  CHECK(m.used() == 1100);
  CHECK(m.describe(a + 1000).find("0 bytes past the end of the allocation") != std::string::npos);
  CHECK(m.free(a));
  CHECK(!m.free(a));
  CHECK(!m.free(b + 1));
  CHECK(m.describe(a + 5).find("which was freed") != std::string::npos);
  uint64_t c = m.allocate(1000);
  CHECK(c != a);
  CHECK(m.allocate(2 << 20) == 0);
  // Freed ranges are reused in the end: the device does not run out of addresses before it runs out of
  // memory.
  for (int k = 0; k < 5000; ++k) {
    uint64_t x = m.allocate(500'000);
    REQUIRE(x);
    REQUIRE(m.free(x));
  }
}

TEST_CASE(
    "allocations begin at odd multiples of the guaranteed alignment: 256 bytes, or a driver's placement") {
  const auto misplaced = [](GlobalMemory& m, size_t bytes, uint64_t multiple) {
    const uint64_t a = m.allocate(bytes), b = m.allocate(bytes);
    REQUIRE(a);
    REQUIRE(b);
    CHECK(m.find(b, bytes).begin == b);
    const uint64_t both = a | b;
    CHECK(m.free(a));
    CHECK(m.free(b));
    return (both & (0 - both)) != multiple;  // the largest power of two that divides both
  };
  const size_t small = 1 << 20, large = small + 1;
  GlobalMemory m(64 << 20);
  CHECK(!misplaced(m, small, 256));
  CHECK(!misplaced(m, large, 256));
  m.fresh = GlobalMemory::Fresh::zeros;
  for (int k = 0; k < 100; ++k) {  // more than the address range: freed ranges are reused
    CHECK(!misplaced(m, small, 512));
    const uint64_t a = m.allocate(large);
    CHECK(a % (2 << 20) == 0);
    CHECK(m.free(a));
  }
}

TEST_CASE("the report names an unwritten register") {
  Kernel k;
  Operand a = k.reg("%r7"), b = k.reg("%r8");
  k.add("mov.u32 %r8, %r7;", hand::mov, {b, a});
  k.add("exit;", hand::exit);
  LaunchResult r = k.run(one_warp());
  REQUIRE(!r.ok);
  CHECK(r.kind == FaultKind::uninitialized);
  CHECK_MESSAGE(says(r, "register %r7 (.u32) is read before it was written, in all 32 lanes"), r.report);
  CHECK_MESSAGE(says(r, "\n      mov.u32 %r8, %r7;\n      ^"), r.report);
}

TEST_CASE("shared memory: reads of unwritten bytes, bounds, alignment, the reserved bytes, other ranks") {
  for (bool at_once : {false, true}) {
    auto go = [&](int64_t address, bool write, uint32_t cluster = 1) {
      Kernel k;
      k.f().static_shared_bytes = 64;
      k.f().dynamic_shared_base = 0x440;
      Operand v = k.reg("%r1");
      if (write)
        k.add("st.shared.u32 [x], 1;", at_once ? hand::store_all<Space::shared> : hand::store<Space::shared>,
              {Kernel::at(address), k.imm(1)});
      else
        k.add("ld.shared.u32 %r1, [x];", at_once ? hand::load_all<Space::shared> : hand::load<Space::shared>,
              {v, Kernel::at(address)});
      k.add("exit;", hand::exit);
      LaunchConfig c = one_warp();
      c.grid.x = c.cluster.x = cluster;
      return k.run(c);
    };
    CHECK(go(0x400, true).ok);
    CHECK_MESSAGE(
        says(go(0x410, false), "read of 4 bytes of shared memory at 0x410 (lane 0) that was never written"),
        go(0x410, false).report);
    CHECK(go(0x440, true).kind == FaultKind::illegal_address);
    CHECK_MESSAGE(says(go(0x440, true), "ends at offset 0x440 (64 bytes"), go(0x440, true).report);
    CHECK(go(0x401, true).kind == FaultKind::misaligned_address);
    CHECK_MESSAGE(says(go(0x3fc, true), "reserved for the system"), go(0x3fc, true).report);
    CHECK_MESSAGE(says(go(0x400, true, 2), "belongs to the CTA of rank 0, not to this one of rank 1"),
                  go(0x400, true, 2).report);
  }
}

TEST_CASE("all lanes at once: each lane's address is checked, also scattered and with gaps") {
  GlobalMemory memory(1 << 20);
  uint64_t out = memory.allocate(128);
  Kernel k;
  k.f().static_shared_bytes = 4096;
  k.f().dynamic_shared_base = 0x1400;
  Operand lane = k.special(FixedSpecial::laneid), a = k.reg("%r1"), v = k.reg("%r2"),
          g = k.reg("%rd1", Type::u64);
  k.add("a = scatter(lane)",
        [](Warp& w, const Instr& i) {
          auto* d = w.target<uint32_t>(i.op[0]);
          for_lanes(w.active, [&](unsigned l) { d[l] = 0x400 + 4 * ((l * 37) % 1000); });
        },
        {a});
  k.add("g = out + 4 * lane",
        [](Warp& w, const Instr& i) {
          auto* d = w.target<uint64_t>(i.op[0]);
          for_lanes(w.active,
                    [&](unsigned l) { d[l] = static_cast<uint64_t>(i.op[1].displacement) + 4 * l; });
        },
        {g, Kernel::at(static_cast<int64_t>(out))});
  k.add("st.shared", hand::store_all<Space::shared>, {Kernel::address(a), lane});
  k.add("ld.shared", hand::load_all<Space::shared>, {v, Kernel::address(a)});
  k.add("st.global", hand::store_all<Space::global>, {Kernel::address(g), v});
  k.add("st.global", hand::store_all<Space::global>, {Kernel::address(g), v});
  k.add("exit", hand::exit);
  LaunchResult r = k.run(one_warp(), {}, &memory);
  REQUIRE_MESSAGE(r.ok, r.report);
  for (uint32_t l = 0; l < 32; ++l) {
    uint32_t x;
    std::memcpy(&x, memory.host(out + 4 * l), 4);
    CHECK(x == l);
  }
}

TEST_CASE("global memory: the message names the nearest allocation") {
  GlobalMemory memory(1 << 20);
  uint64_t a = memory.allocate(64);
  Kernel k;
  Operand v = k.reg("%r1");
  k.add("ld.global.u32 %r1, [a+64];", hand::load<Space::global>,
        {v, Kernel::at(static_cast<int64_t>(a + 64))});
  k.add("exit;", hand::exit);
  LaunchResult r = k.run(one_warp(), {}, &memory);
  REQUIRE(!r.ok);
  CHECK(r.kind == FaultKind::illegal_address);
  CHECK_MESSAGE(says(r, "0 bytes past the end of the allocation"), r.report);
  CHECK_MESSAGE(says(r, "kernel hand, CTA (0,0,0), warp 0, lane 0, thread (0,0,0)"), r.report);
}

TEST_CASE("deadlock report: waiting threads with their places, folded over CTAs and warps") {
  Kernel k;
  k.add("mbarrier.try_wait.b64 p, [x], s;", hand::never);
  k.add("exit;", hand::exit);
  LaunchConfig c;
  c.grid.x = 300;
  c.block.x = 96;
  LaunchResult r = k.run(c);
  REQUIRE(!r.ok);
  CHECK(r.kind == FaultKind::deadlock);
  CHECK_MESSAGE(says(r, "warps 0-2, all 32 lanes: "), r.report);
  CHECK_MESSAGE(says(r, "more like it"), r.report);
  CHECK_MESSAGE(says(r, "hand.ptx:1  mbarrier.try_wait.b64 p, [x], s;"), r.report);
}

TEST_CASE("polling a value that never changes is reported") {
  GlobalMemory memory(1 << 20);
  uint64_t flag = memory.allocate(4);
  std::memset(memory.host(flag), 0, 4);
  Kernel k;
  Operand v = k.reg("%r1"), p = k.pred("%p1");
  Operand at = Kernel::at(static_cast<int64_t>(flag));
  k.add("SPIN: ld.acquire.gpu.u32 %r1, [flag];", hand::load_acquire, {v, at});
  k.add("setp.lt.u32 p, %r1, 1;", hand::less, {p, v, k.imm(1)});
  Kernel::guard(k.add("@p bra SPIN;", hand::bra, {label(0)}), p);
  k.add("exit;", hand::exit);
  Schedule s;
  s.poll_limit = 10000;
  LaunchResult r = k.run(one_warp(), s, &memory);
  REQUIRE(!r.ok);
  CHECK(r.kind == FaultKind::deadlock);
  CHECK_MESSAGE(says(r, "only poll"), r.report);
}

namespace {
// A grid barrier by a counter in global memory; then every warp adds its CTA's number to an order-dependent
// hash.
struct GridBarrier : Kernel {
  GridBarrier(uint64_t counter, unsigned ctas) {
    Operand lane = special(FixedSpecial::laneid), cta = special(FixedSpecial::ctaid_x);
    Operand p = pred("%p1"), q = pred("%p2"), v = reg("%r1");
    Operand at = Kernel::at(static_cast<int64_t>(counter)),
            order = Kernel::at(static_cast<int64_t>(counter + 4));
    add("setp p, lane == 0", hand::equal, {p, lane, imm(0)});
    guard(add("@!p exit", hand::exit), p, true);
    add("atom.add", hand::atom_add, {v, at, imm(1)});
    uint32_t spin = here();
    add("SPIN: ld.acquire", hand::load_acquire, {v, at});
    add("setp q, v < n", hand::less, {q, v, imm(ctas)});
    guard(add("@q bra SPIN", hand::bra, {label(spin)}), q);
    add("hash",
        [](Warp& w, const Instr& i) {
          if (!w.in_serial_phase()) return w.block({.kind = Wait::Kind::serial});
          auto* v = w.source<uint32_t>(i.op[1]);
          std::byte* place =
              w.memory(i, Space::global, AccessKind::atomic, w.address(i.op[0], 0), 4, 0, true);
          uint32_t h;
          std::memcpy(&h, place, 4);
          h = h * 31 + v[0] + 1;
          std::memcpy(place, &h, 4);
        },
        {order, cta});
    add("exit", hand::exit);
  }
};
}  // namespace

TEST_CASE("a grid barrier in global memory works; the run depends on the seed alone") {
  std::vector<uint32_t> hashes;
  for (uint64_t seed : {1, 2})
    for (unsigned threads : {1, 2, 3}) {
      GlobalMemory memory(1 << 20);
      uint64_t counter = memory.allocate(8);
      std::memset(memory.host(counter), 0, 8);
      GridBarrier k(counter, 148);
      LaunchConfig c = one_warp();
      c.grid.x = 148;
      c.cooperative = true;
      LaunchResult r = k.run(c, {.seed = seed, .threads = threads}, &memory);
      REQUIRE_MESSAGE(r.ok, r.report);
      uint32_t h;
      std::memcpy(&h, memory.host(counter + 4), 4);
      hashes.push_back(h);
    }
  CHECK(hashes[0] == hashes[1]);
  CHECK(hashes[0] == hashes[2]);
  CHECK(hashes[3] == hashes[4]);
  CHECK(hashes[3] == hashes[5]);
  CHECK(hashes[0] != hashes[3]);
}

TEST_CASE("a grid larger than the machine runs in waves, with clusters on the SMs of one GPC") {
  GlobalMemory memory(1 << 20);
  uint64_t counter = memory.allocate(8);
  std::memset(memory.host(counter), 0, 8);
  GridBarrier k(counter, 1);
  LaunchConfig c = one_warp();
  c.grid.x = 1000;
  c.cluster.x = 4;
  c.dynamic_shared = 200 * 1024;
  CHECK(resident_clusters(k.f(), c, *device_model("b200")) == 34);  // floor(20/4)*2 + floor(18/4)*6
  LaunchResult r = k.run(c, {}, &memory);
  REQUIRE_MESSAGE(r.ok, r.report);
  uint32_t n;
  std::memcpy(&n, memory.host(counter), 4);
  CHECK(n == 1000);
  CHECK(r.statistics.warp_instructions >= 1000 * 6);
}

TEST_CASE("illegal launches are refused with the values") {
  Kernel k;
  k.add("exit", hand::exit);
  LaunchConfig c = one_warp();
  c.dynamic_shared = 228 * 1024;
  CHECK_THROWS_WITH(k.run(c), doctest::Contains("233472 bytes of shared memory"));
  c = one_warp();
  c.block.x = 2048;
  CHECK_THROWS_WITH(k.run(c), doctest::Contains("2048 threads"));
  c = one_warp();
  c.grid.x = 3;
  c.cluster.x = 2;
  CHECK_THROWS_WITH(k.run(c), doctest::Contains("not a multiple"));
  c = one_warp();
  c.grid.x = 149;
  c.dynamic_shared = 200 * 1024;
  c.cooperative = true;
  CHECK_THROWS_WITH(k.run(c), doctest::Contains("149 clusters, but only 148"));
}

namespace {
// Increments a word of shared memory when it runs.
struct TestOp : AsyncOp {
  uint32_t offset, value;
  TestOp(uint32_t o, uint32_t v, Queue q) : offset(o), value(v) { queue = q; }
  bool run(Cluster& c) override {
    std::memcpy(cta->window(offset, 4, name()), &value, 4);
    cta->define(offset, 4);
    c.notify();
    return true;
  }
  const char* name() const override { return "test.copy"; }
};
template <int kQueue>
void issue(Warp& w, const Instr& i) {
  for (uint32_t k = 1; k <= 4; ++k)
    w.cta.cluster.submit(std::make_unique<TestOp>(0x400 + (kQueue ? 0 : 4 * k), k,
                                                  kQueue ? Queue{Queue::tensor_pipe, 0} : Queue{}),
                         w, i, 0);
}
void wait_all(Warp& w, const Instr&) {
  if (w.cta.cluster.pending([](const AsyncOp&) { return true; }))
    w.block({.kind = Wait::Kind::async_ops, .ready = [](Warp& w, const LaneGroup&) {
               return w.cta.cluster.pending([](const AsyncOp&) { return true; }) == 0;
             }});
}
}  // namespace

TEST_CASE("operations of a queue run in order; some seed reveals a missing wait") {
  unsigned faults = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Kernel k;
    k.f().static_shared_bytes = 64;
    k.f().dynamic_shared_base = 0x440;
    Operand v = k.reg("%r1"), p = k.pred("%p1");
    k.add("issue", issue<1>);
    k.add("wait", wait_all);
    k.add("ld.shared", hand::load<Space::shared>, {v, Kernel::at(0x400)});
    k.add("setp.eq p, v, 4", hand::equal, {p, v, k.imm(4)});
    Kernel::guard(k.add("@!p never", hand::never), p, true);
    k.add("exit;", hand::exit);
    LaunchResult r = k.run(one_warp(), {.seed = seed});
    CHECK_MESSAGE(r.ok, r.report);
    CHECK(r.statistics.async_ops == 4);

    Kernel bad;
    bad.f().static_shared_bytes = 64;
    bad.f().dynamic_shared_base = 0x440;
    Operand x = bad.reg("%r1");
    bad.add("issue", issue<0>);
    bad.add("ld.shared", hand::load<Space::shared>, {x, Kernel::at(0x410)});
    bad.add("wait", wait_all);
    bad.add("exit;", hand::exit);
    faults += !bad.run(one_warp(), {.seed = seed}).ok;
    CHECK(bad.run(one_warp(), {.kind = Schedule::Kind::eager, .seed = seed}).ok);
  }
  CHECK(faults >= 10);
}

TEST_CASE("a CTA that exits while its operations are pending faults and names them") {
  Kernel k;
  k.f().static_shared_bytes = 64;
  k.f().dynamic_shared_base = 0x440;
  k.add("issue", issue<0>);
  k.add("exit;", hand::exit);
  unsigned seen = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    LaunchResult r = k.run(one_warp(), {.seed = seed});
    seen += !r.ok && says(r, "exits while an operation that it issued is still running: test.copy");
  }
  CHECK(seen >= 3);
}

TEST_CASE("strong accesses may run early or late, and operations before or after them") {
  // Warp 0 adds to a counter (serial phase) while warp 1 works for some time and then writes its own flag. An
  // operation that warp 0 issued before may still be pending when the counter changes.
  unsigned early = 0, late = 0, behind = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    GlobalMemory memory(1 << 20);
    uint64_t counter = memory.allocate(64);
    std::memset(memory.host(counter), 0, 64);
    Kernel k;
    k.f().static_shared_bytes = 64;
    k.f().dynamic_shared_base = 0x440;
    Operand warp = k.special(FixedSpecial::warpid), p = k.pred("%p1"), v = k.reg("%r1"), n = k.reg("%r2");
    Operand at = Kernel::at(static_cast<int64_t>(counter));
    k.add("setp p, warpid == 0", hand::equal, {p, warp, k.imm(0)});
    k.add("mov n, 0", hand::mov, {n, k.imm(0)});
    Kernel::guard(k.add("@!p bra OTHER", hand::bra, {label(7)}), p, true);
    k.add("issue", issue<0>);
    k.add("atom.add, and what is pending then",
          [](Warp& w, const Instr& i) {
            if (!w.in_serial_phase()) return w.block({.kind = Wait::Kind::serial});
            uint32_t x[2] = {1, w.cta.cluster.pending([](const AsyncOp&) { return true; })};
            std::memcpy(w.memory(i, Space::global, AccessKind::write, w.address(i.op[0], 0), 8, 0, true), x,
                        8);
          },
          {at});
    k.add("wait", wait_all);
    k.add("exit", hand::exit);
    uint32_t other = k.here();
    CHECK(other == 7);
    k.add("OTHER: add n, n, 1", hand::add, {n, n, k.imm(1)});
    k.add("setp p, n < 50", hand::less, {p, n, k.imm(50)});
    Kernel::guard(k.add("@p bra OTHER", hand::bra, {label(other)}), p);
    k.add("ld.global v, [counter]", hand::load<Space::global>, {v, at});
    k.add("st.global [counter + 8], v", hand::store<Space::global>,
          {Kernel::at(static_cast<int64_t>(counter + 8)), v});
    k.add("exit", hand::exit);
    LaunchConfig c;
    c.block.x = 64;
    LaunchResult r = k.run(c, {.seed = seed}, &memory);
    REQUIRE_MESSAGE(r.ok, r.report);
    uint32_t x[3];
    std::memcpy(x, memory.host(counter), 12);
    CHECK(x[0] == 1);
    behind += x[1] != 0;
    ++(x[2] ? early : late);
  }
  CHECK(early > 5);
  CHECK(late > 5);
  CHECK(behind > 5);
}

TEST_CASE("messages have the source's kernel names, shortened if long") {
  CHECK(kernel_name("group_gemm_v0") == "group_gemm_v0");
  CHECK(kernel_name("_Z4castILi4EfEvPT0_i") == "cast<4, float>");
  CHECK(kernel_name("_ZN1a3runI3BoxI3BoxIiES1_IfEEiEEvT_") == "a::run<Box<...>, int>");
  CHECK(kernel_name("_Z" + std::string(4000, 'x')).size() < 110);
}
