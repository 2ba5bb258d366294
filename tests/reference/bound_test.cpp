#include <doctest/doctest.h>

#include "fp4lab/compare.h"
#include "fp4lab/reference.h"

using namespace fp4lab;

// The tensor core's own rounding loses something on wide scales, but never more than the bound; and the bound
// is no blanket: one wrong element along K is outside it.
TEST_CASE("accumulation bound: holds the tensor core's rounding, not a wrong product") {
  const Problem p = make_problem(find_case("group:64/1024/2048"), Distribution::kFull, 3);
  const auto want = reference(p)[0];
  const auto bound = accumulation_bound(Operation::kGroup, p.groups[0]);
  const auto tensor_core = reference(p, {.rounding = Rounding::kTensorCore})[0];
  const Comparison plain = compare_half(tensor_core, want, 64, 1024);
  const Comparison slack = compare_half(tensor_core, want, 64, 1024, {}, bound);
  CHECK(plain.outside > 0);
  CHECK(slack.passed());
  CHECK(slack.by_slack == plain.outside);

  Problem wrong = p;
  for (int row = 0; row < 64; ++row)
    wrong.groups[0].a.codes[std::size_t(row) * 1024 + 17] ^= 0x07;  // one code in each row
  CHECK_FALSE(compare_half(reference(wrong)[0], want, 64, 1024, {}, bound).passed());
}
