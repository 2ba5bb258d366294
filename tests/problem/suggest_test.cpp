#include "fp4lab/suggest.h"

#include <doctest/doctest.h>

using fp4lab::did_you_mean;

TEST_CASE("did you mean: near names, several where they are equally near, none where none is") {
  const std::vector<std::string> names{"stages", "split_k", "store_bytes", "mma_m", "mma_n"};
  CHECK(did_you_mean("stagse", names) == "; did you mean stages?");
  CHECK(did_you_mean("stage", names) == "; did you mean stages?");
  CHECK(did_you_mean("sto", names) == "; did you mean store_bytes?");
  CHECK(did_you_mean("mma_k", names) == "; did you mean mma_m or mma_n?");
  CHECK(did_you_mean("zebra", names).empty());
  CHECK(did_you_mean("", names).empty());
}
