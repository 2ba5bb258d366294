// The mbarrier object by itself (PTX ISA 9.7.13.15): counts, bytes, phases, limits.
#include "emulator/core/mbarrier.h"

#include <doctest/doctest.h>

#include "emulator/core/error.h"

using namespace fp4lab::emu;

TEST_CASE("a phase completes when all arrivals and bytes are in, in either order") {
  Mbarrier b = Mbarrier::fresh(2);
  CHECK_FALSE(b.done(0));
  CHECK(b.done(1));  // the phase before the first has parity 1
  SUBCASE("arrivals first") {
    CHECK_FALSE(b.expect_tx(64, 0));
    CHECK_FALSE(b.arrive(1, 0));
    CHECK_FALSE(b.arrive(1, 0));
    CHECK_FALSE(b.complete_tx(48, 0));
    CHECK(b.complete_tx(16, 0));
  }
  SUBCASE("bytes before they are announced") {
    CHECK_FALSE(b.complete_tx(64, 0));
    CHECK_FALSE(b.arrive(1, 0));
    CHECK_FALSE(b.expect_tx(64, 0));
    CHECK(b.arrive(1, 0));
  }
  SUBCASE("no bytes at all: the phase ends before the data (a forgotten expect_tx)") {
    CHECK(b.arrive(2, 0));
    CHECK_FALSE(b.complete_tx(64, 0));
    CHECK(b.tx == -64);
    CHECK(b.phase == 1);
    return;
  }
  CHECK(b.phase == 1);
  CHECK(b.pending == 2);
  CHECK(b.tx == 0);
  CHECK(b.done(0));
  CHECK_FALSE(b.done(1));
}

TEST_CASE("the state returned by arrive records its phase") {
  Mbarrier b = Mbarrier::fresh(3);
  MbarrierState before = b.state();
  CHECK(before.plausible());
  CHECK(before.pending() == 3);
  CHECK(before.parity() == 0);
  b.arrive(2, 0);
  CHECK(b.state().pending() == 1);
  CHECK_FALSE(b.done(before.parity()));
  b.arrive(1, 0);
  CHECK(b.done(before.parity()));
  CHECK(b.state().parity() == 1);
  CHECK_FALSE(MbarrierState{0x1234}.plausible());
}

TEST_CASE("arrive_drop lowers the expected arrivals of later phases") {
  Mbarrier b = Mbarrier::fresh(2);
  CHECK_FALSE(b.drop(1, 0));
  CHECK(b.arrive(1, 0));
  CHECK(b.pending == 1);
  CHECK(b.arrive(1, 0));
  CHECK(b.phase == 2);
}

TEST_CASE("undefined uses are reported with the values") {
  CHECK_THROWS_AS(Mbarrier::fresh(0), Fault);
  CHECK_THROWS_AS(Mbarrier::fresh(1u << 20), Fault);
  Mbarrier b = Mbarrier::fresh(kMbarrierMaxCount);
  CHECK_THROWS_WITH_AS(b.arrive(0, 0x420), doctest::Contains("count 0"), Fault);
  b = Mbarrier::fresh(1);
  CHECK_THROWS_WITH_AS(b.arrive(2, 0x420),
                       doctest::Contains("0x420: 2 arrive, but only 1 of 1 are pending in phase 0"), Fault);
  CHECK_FALSE(b.expect_tx(kMbarrierMaxCount, 0));
  CHECK_THROWS_WITH_AS(b.expect_tx(1, 0x420), doctest::Contains("1048576"), Fault);
  b = Mbarrier::fresh(1);
  CHECK_FALSE(b.complete_tx(kMbarrierMaxCount, 0));
  CHECK_THROWS_AS(b.complete_tx(1, 0), Fault);
  b = Mbarrier::fresh(1);
  CHECK_THROWS_AS(b.arrive(1, 0, false), Fault);  // noComplete that completes
  b = Mbarrier::fresh(2);
  CHECK_NOTHROW(b.arrive(1, 0, false));
}

TEST_CASE("the table knows which bytes are barriers") {
  MbarrierTable t;
  t.add(0x410, Mbarrier::fresh(1));
  t.add(0x440, Mbarrier::fresh(5));
  CHECK(t.find(0x410)->pending == 1);
  CHECK(t.find(0x418) == nullptr);
  CHECK(t.overlapping(0x400, 16) == -1);
  CHECK(t.overlapping(0x400, 17) == 0x410);
  CHECK(t.overlapping(0x417, 1) == 0x410);
  CHECK(t.overlapping(0x418, 0x28) == -1);
  CHECK(t.overlapping(0x418, 0x29) == 0x440);
  t.remove(0x440);
  CHECK(t.overlapping(0x418, 0x100) == -1);
  CHECK(t.find(0x440) == nullptr);
}
