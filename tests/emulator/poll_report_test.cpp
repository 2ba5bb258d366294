// The report on threads that poll global memory for a value that only the host would write.
#include <doctest/doctest.h>

#include "kernel.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

TEST_CASE("a kernel that polls for the host: the report names the memory and the reason") {
  for (const char* poll : {"ld.volatile.global.u32 %r1, [%rd0+4];", "ld.acquire.sys.u32 %r1, [%rd0+4];",
                           "atom.global.add.u32 %r1, [%rd0+4], 0;"}) {
    Kernel k(module_text("sm_90a", ".param .u64 flag",
                         std::string("ld.param.u64 %rd0, [flag];\nSPIN: ") + poll + R"(
        setp.ne.u32 %p0, %r1, 1;
        @%p0 bra SPIN;)"));
    const uint64_t flag = k.buffer(8);
    k.param(flag);
    k.config.block.x = 1;
    k.schedule.poll_limit = 10000;
    const LaunchResult r = k.run();
    INFO(poll);
    INFO(r.report);
    CHECK_FALSE(r.ok);
    CHECK(r.kind == FaultKind::deadlock);
    const std::string memory = fmt::format("the 4 bytes at global address {:#x}, which hold 0x0", flag + 4);
    CHECK(r.report.find("look first at warp 0, lane 0 of CTA (0,0,0): it polls " + memory) != r.report.npos);
    CHECK(r.report.find("before the host's next call begins") != r.report.npos);
    CHECK(r.report.find("warp 0, lane 0: polls " + memory) != r.report.npos);
  }
}
