#include "fp4lab/problem.h"

#include <doctest/doctest.h>

#include <set>

#include "fp4lab/error.h"
#include "fp4lab/ue4m3.h"

using namespace fp4lab;

TEST_CASE("cases: names are unique, sizes legal, and the public task's numbers are there") {
  std::set<std::string> names;
  int full = 0;
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    CHECK(names.insert(c.name).second);
    CHECK(size_reasons(c).empty());
    full += c.full_size;
    CHECK(c.full_size == c.speed_of_light_us.has_value());
    CHECK((c.operation == Operation::kGroup || c.shapes.size() == 1));
  }
  CHECK(full == 11);
  CHECK(cases().size() == 11 + 10 + 9);
  const Case c = find_case("g8k7168");
  CHECK(c.shapes.size() == 8);
  CHECK(c.shapes[5] == Shape{248, 4096, 7168});
  CHECK(*c.rounds_us == 479);
  CHECK(c.flops() == 2.0 * 1024 * 4096 * 7168);
  CHECK(find_case("dual-256-4096-7168").flops() == 4.0 * 256 * 4096 * 7168);
  CHECK(find_case("gemm-128-7168-2048").input_bytes() == (128 + 7168) * (1024 + 128));
  CHECK(find_case("group-c10").shapes[3] == Shape{128, 256, 768});
  CHECK(find_case("dual-c5").shapes[0] == Shape{7168, 2304, 2048});
}

TEST_CASE("cases: a shape in words, and errors that list what there is") {
  const Case c = find_case("group:1,72/128/256,512");
  CHECK(c.shapes == std::vector<Shape>{{1, 128, 256}, {72, 128, 512}});
  CHECK(find_case("dual:5/128/256").shapes[0] == Shape{5, 128, 256});
  CHECK_THROWS_WITH_AS(find_case("g8k9999"), doctest::Contains("g8k2048"), Error);
  CHECK_THROWS_WITH_AS(find_case("group:1,2/128"), doctest::Contains("three"), Error);
  CHECK_THROWS_WITH_AS(find_case("group:1,x/128/256"), doctest::Contains("1,x"), Error);
  CHECK_THROWS_WITH_AS(find_case("group:1,2/128,256,384/256"), doctest::Contains("one per group"), Error);
  CHECK_THROWS_WITH_AS(find_case("gemm:1,2/128/256"), doctest::Contains("2 groups"), Error);
}

TEST_CASE("sizes that no kernel takes are refused with group, value and reason") {
  const auto reasons = size_reasons(find_case("group:64,0/100/256,320"));
  REQUIRE(reasons.size() == 4);
  CHECK(reasons[0].text.find("group 0: N = 100") != std::string::npos);
  CHECK(reasons[1].text.find("group 1: M = 0") != std::string::npos);
  CHECK(reasons[3].rule == "K");
  CHECK(reasons[3].text.find("K = 320") != std::string::npos);
  CHECK_THROWS_WITH_AS(make_problem(find_case("gemm:64/100/256"), Distribution::kFull, 1),
                       doctest::Contains("N = 100"), Error);
}

TEST_CASE("the generator is the documented function: these words hold on every machine") {
  // splitmix64 of a known state: the first output of a generator seeded with 0 is 0xE220A8397B1DCDAF.
  const std::uint64_t golden = 0x9E3779B97F4A7C15ull;
  const auto mix = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  };
  CHECK(mix(golden) == 0xE220A8397B1DCDAFull);
  CHECK(random_word(0, 0, 0) == mix(mix(mix(golden) + golden) + golden));
  CHECK(random_word(7, 3, 11) == mix(mix(mix(7 + golden) + 4 * golden) + 12 * golden));
}

TEST_CASE("operands do not depend on threads, differ by seed and tensor, and carry their blocked scales") {
  const Operand one = random_operand(300, 512, Distribution::kFull, 42, 1, 1);
  const Operand four = random_operand(300, 512, Distribution::kFull, 42, 1, 4);
  CHECK(one.codes == four.codes);
  CHECK(one.scales == four.scales);
  CHECK(one.blocked == four.blocked);
  CHECK(unblock_scales(one.blocked, 300, 32) == one.scales);
  CHECK(random_operand(300, 512, Distribution::kFull, 43, 1).codes != one.codes);
  CHECK(random_operand(300, 512, Distribution::kFull, 42, 2).codes != one.codes);
  const std::uint64_t word = random_word(42, 2, 5);
  for (int i = 0; i < 8; ++i) CHECK(one.codes[5 * 8 + i] == std::uint8_t(word >> 8 * i));
}

TEST_CASE("distributions hold what they promise, and all of it") {
  for (Distribution d : distributions()) {
    CAPTURE(distribution_name(d));
    CHECK(find_distribution(distribution_name(d)) == d);
    const Operand operand = random_operand(512, 1024, d, 5, 0);
    std::set<unsigned> codes, scales;
    for (std::uint8_t byte : operand.codes) codes.insert(byte & 15), codes.insert(byte >> 4);
    for (std::uint8_t scale : operand.scales) scales.insert(scale);
    std::set<unsigned> want_codes, want_scales;
    const bool task = d == Distribution::kTaskGroup || d == Distribution::kTaskDual;
    for (unsigned code = 0; code < 16; ++code)
      if (!task || !(code & 4)) want_codes.insert(code);
    CHECK(codes == want_codes);
    switch (d) {
      case Distribution::kTaskGroup:
        want_scales = {0x38, 0x40};
        break;
      case Distribution::kTaskDual:
        for (unsigned s = 0; s <= 0x38; ++s) want_scales.insert(s);
        break;
      case Distribution::kFull:
        for (unsigned s = 0; s < 127; ++s) want_scales.insert(s);
        break;
      case Distribution::kModerate:
        for (unsigned s = 40; s < 72; ++s) want_scales.insert(s);
        break;
    }
    for (unsigned scale : scales) CHECK(want_scales.count(scale) == 1);
    CHECK(scales.size() >=
          want_scales.size() - 2);  // the rarest of task-dual (2^-9 and below) may be missing
  }
  CHECK(ue4m3_value(40) == 0.25f);
  CHECK(ue4m3_value(71) == 3.75f);
  CHECK_THROWS_WITH_AS(find_distribution("easy"), doctest::Contains("task-dual"), Error);
}

TEST_CASE("a problem has one operand per tensor; only the dual GEMM has B2") {
  const Problem dual = make_problem(find_case("dual-c2"), Distribution::kTaskDual, 9);
  CHECK(dual.groups[0].b2.rows == 512);
  CHECK(dual.groups[0].b.codes != dual.groups[0].b2.codes);
  const Problem group = make_problem(find_case("group-c4"), Distribution::kTaskGroup, 9);
  CHECK(group.groups.size() == 3);
  CHECK(group.groups[2].a.rows == 256);
  CHECK(group.groups[2].b2.codes.empty());
}
