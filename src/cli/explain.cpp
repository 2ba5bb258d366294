// fp4lab explain: why a tile or a plan is legal or not, with the manual's section, and what is legal instead.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "fp4lab/error.h"
#include "fp4lab/legality.h"

namespace fp4lab::cli {
namespace {

const Command kCommand{
    "explain", "explain whether a tile is legal for NVFP4 on sm_100a, and why", [](Arguments& app) {
      auto tile = std::make_shared<std::string>();
      app.add_option("--tile", *tile, "MxNxK, e.g. 64x128x256").required();
      app.examples({"fp4lab explain --tile 64x128x256", "fp4lab explain --tile 256x128x256"});
      return [tile] {
        int m = 0, n = 0, k = 0, read = 0;
        if (std::sscanf(tile->c_str(), "%dx%dx%d%n", &m, &n, &k, &read) != 3 || read != int(tile->size()))
          fail("--tile {}: expected MxNxK, e.g. 64x128x256", *tile);
        const auto reasons = explain_tile(m, n, k);
        fmt::print("tile {}x{}x{}: {}\n", m, n, k, reasons.empty() ? "legal" : "not legal");
        for (const Reason& r : reasons) fmt::print("  {}: {}\n", r.rule, r.text);
        return reasons.empty() ? 0 : 1;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
