// What the passes behind the front end do to labels when they remove and insert instructions.
#include <doctest/doctest.h>

#include <vector>

#include "emulator/ptx/parser.h"

using namespace fp4lab::emu;

// A branch by a constant index leaves its list behind, which goes on being moved. Its last target goes with
// the code that nobody reaches any more, and so there is no instruction left where it pointed.
TEST_CASE("rewriter: a list of branch targets outlives the code that it names") {
  const auto module = parse(R"(
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out_p, .param .u64 in_p) {
  .reg .b64 %out, %in;
  .reg .b32 %r, %s;
  .reg .f32 %x, %y, %z;
  ld.param.u64 %out, [out_p];
  ld.param.u64 %in, [in_p];
  ld.global.f32 %x, [%in];
  mov.u32 %r, 0;
TARGETS: .branchtargets FIRST, SECOND, THIRD;
  brx.idx %r, TARGETS;
FIRST:
  ld.global.u32 %s, [%in+4];
  min.u32 %s, %s, %s;
  st.global.u32 [%out+12], %s;
  neg.f32 %y, %x;
  neg.f32 %y, %y;
  mul.f32 %y, %y, %x;
  add.f32 %z, %y, %x;
  st.global.f32 [%out], %z;
  ret;
SECOND:
  st.global.u32 [%out+4], %r;
  ret;
THIRD:
  st.global.u32 [%out+8], %r;
  ret;
}
)",
                            "k.ptx");
  const Function& f = module->functions.at(0);
  std::vector<uint32_t> labels;
  for (const Operand& element : f.vectors)
    if (element.kind == Operand::Kind::label) labels.push_back(element.index);
  REQUIRE(labels.size() == 3);
  CHECK(labels[0] < f.code.size());
  CHECK(labels[1] == f.code.size());  // the end
  CHECK(labels[2] == f.code.size());
}
