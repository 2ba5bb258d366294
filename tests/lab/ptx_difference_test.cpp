// How two PTX texts differ, as far as it matters.
#include "lab/ptx_difference.h"

#include <doctest/doctest.h>

using fp4lab::ptx_difference;

namespace {

std::string kernel(const std::string& name, const std::string& body) {
  return ".version 9.0\n.target sm_100a\n.visible .entry " + name + "(.param .u64 " + name +
         "_param_0)\n{\n.reg .b32 %r<9>;\n" + body + "ret;\n}\n";
}

}  // namespace

TEST_CASE("PTX difference: names, comments and line information do not count") {
  const auto a = kernel(
      "one", "ld.param.u64 %rd1, [one_param_0];\n$L__BB0_1:\nadd.s32 %r1, %r2, %r3;\n@%p1 bra $L__BB0_1;\n");
  const auto b =
      kernel("two",
             ".loc 1 7 3\n  ld.param.u64  %rd7, [two_param_0]; // b\n$L__BB0_4:\nadd.s32 %r5, %r1, %r2;\n"
             "@%p3 bra $L__BB0_4;\n");
  const auto d = ptx_difference(a, b);
  CHECK(d.same);
  CHECK(d.only_a + d.only_b + d.renamed == 0);
  CHECK(d.hunks.empty());
  CHECK(d.opcodes.empty());
}

TEST_CASE("PTX difference: what is added, removed, or done with another register") {
  const auto a = kernel("k", "mov.u32 %r1, 1;\nmov.u32 %r2, 2;\nsub.s32 %r3, %r1, %r2;\nbar.sync 0;\n");
  SUBCASE("another operand") {
    const auto d = ptx_difference(
        a, kernel("k", "mov.u32 %r1, 1;\nmov.u32 %r2, 2;\nsub.s32 %r3, %r2, %r1;\nbar.sync 0;\n"));
    CHECK(!d.same);
    CHECK(d.renamed == 1);
    CHECK(d.hunks.empty());
  }
  SUBCASE("one instruction less, one more") {
    const auto d = ptx_difference(a, kernel("k",
                                            "mov.u32 %r1, 1;\nmov.u32 %r2, 2;\nsub.s32 %r3, %r1, "
                                            "%r2;\nfence.proxy.async;\nmov.u32 %r4, 2;\n"));
    CHECK(!d.same);
    CHECK(d.only_a == 1);
    CHECK(d.only_b == 2);
    REQUIRE(d.hunks.size() == 1);
    CHECK(d.hunks[0].a == std::vector<std::string>{"bar.sync 0;"});
    CHECK(d.hunks[0].b == std::vector<std::string>{"fence.proxy.async;", "mov.u32 %r4, 2;"});
    CHECK(d.hunks[0].line_a == 9);
    REQUIRE(d.opcodes.size() == 3);
    for (const auto& o : d.opcodes) CHECK(o.a + 1 == o.b + (o.name == "bar.sync" ? 2 : 0));
  }
  SUBCASE("another special register is no renaming") {
    const auto x = kernel("k", "mov.u32 %r1, %ctaid.x;\n"), y = kernel("k", "mov.u32 %r1, %ctaid.y;\n");
    CHECK(!ptx_difference(x, y).same);
    CHECK(ptx_difference(x, y).only_a == 1);
  }
}
