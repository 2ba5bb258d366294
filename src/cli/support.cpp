// fp4lab support: which PTX instructions the emulator executes, and how exactly.
#include <fmt/format.h>

#include "cli/command.h"
#include "fp4lab/driver.h"
#include "fp4lab/error.h"

namespace fp4lab::cli {
namespace {

const Command kCommand{
    "support", "list the PTX instructions that the emulator supports, as Markdown", [](Arguments& app) {
      app.examples({"fp4lab support > isa.md"});
      return [] {
        const auto emulator = Driver::emulator();
        const auto page =
            reinterpret_cast<decltype(&fp4lab_emulator_support)>(emulator->symbol("fp4lab_emulator_support"));
        if (!page) fail("{} has no support page", emulator->label);
        fmt::print("{}", page());
        return 0;
      };
    }};

}  // namespace
}  // namespace fp4lab::cli
