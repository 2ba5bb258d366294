// Launches that programmatic dependent launch lets overlap: what the second one accesses before
// griddepcontrol.wait.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "emulator/watch/order.h"
#include "kernel.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::test;

namespace {

// `first` runs in a launch, `second` in the next one, each by its own thread for 4 bytes of its own, `b`
// behind them.
struct Two {
  Kernel k;
  OrderChecker checker;
  uint64_t data;

  Two(const std::string& first, const std::string& second)
      : k(module_text("sm_90a", ".param .u64 data, .param .u64 which",
                      fmt::format(R"(
      ld.param.u64 %rd0, [data]; ld.param.u64 %rd1, [which]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;
      add.u64 %rd0, %rd0, %rd2; setp.ne.u64 %p0, %rd1, 0; setp.eq.u32 %p1, %r1, 0; @%p0 bra SECOND;
      {} ret;
      SECOND: {})",
                                  first, second))) {
    data = k.buffer(8192);
    k.watcher = &checker;
    k.config.block.x = 64;
    k.config.may_overlap = true;
    k.config.stream = 7;
  }
  std::vector<OrderChecker::Finding> run(bool early = true, uint64_t stream = 7) {
    k.params.clear(), k.param(data), k.param(0);
    CHECK(k.run().ok);
    CHECK(checker.errors() == 0);
    k.params.clear(), k.param(data), k.param(1);
    k.config.early = early, k.config.stream = stream;
    CHECK(k.run().ok);
    const auto found = checker.findings();
    k.config.early = false, k.config.stream = 7;
    return found;
  }
};

constexpr const char* kStore = "griddepcontrol.launch_dependents; st.global.u32 [%rd0], %r1;";
constexpr const char* kLoad = "griddepcontrol.launch_dependents; ld.global.u32 %r2, [%rd0];";

}  // namespace

TEST_CASE("launch order: a read before griddepcontrol.wait of what the launch before writes") {
  const auto found = Two(kStore, "ld.global.u32 %r2, [%rd0]; griddepcontrol.wait;").run();
  REQUIRE(found.size() == 1);
  const OrderChecker::Finding& f = found[0];
  CHECK(f.error);
  CHECK(f.kind == "launch-order");
  CHECK(f.count == 64);
  INFO(f.text());
  CHECK(f.what.find("read before griddepcontrol.wait: kernel k, launched before it, writes it") !=
        f.what.npos);
  CHECK(f.first.does == "st.global.u32");
  CHECK(f.then.does == "ld.global.u32");
  CHECK(f.first.line != f.then.line);
}

TEST_CASE("launch order: behind griddepcontrol.wait, or without overlap, nothing is found") {
  CHECK(Two(kStore, "griddepcontrol.wait; ld.global.u32 %r2, [%rd0];").run().empty());
  CHECK(Two(kStore, "ld.global.u32 %r2, [%rd0]; griddepcontrol.wait;").run(false).empty());
  CHECK(Two(kStore, "ld.global.u32 %r2, [%rd0]; griddepcontrol.wait;").run(true, 8).empty());
  // One thread waits, the others behind a barrier.
  CHECK(Two(kStore, "@%p1 griddepcontrol.wait; bar.sync 0; ld.global.u32 %r2, [%rd0];").run().empty());
  CHECK_FALSE(Two(kStore, "@%p1 griddepcontrol.wait; ld.global.u32 %r2, [%rd0];").run().empty());
  // What the launch before does not write may be read early.
  CHECK(Two(kStore, "ld.global.u32 %r2, [%rd0+4096]; griddepcontrol.wait; st.global.u32 [%rd0], %r2;")
            .run()
            .empty());
}

TEST_CASE("launch order: a write before griddepcontrol.wait to what the launch before reads or writes") {
  const auto over = Two(kLoad, "st.global.u32 [%rd0], %r1; griddepcontrol.wait;").run();
  REQUIRE(over.size() == 1);
  CHECK(over[0].what.find("written before griddepcontrol.wait: kernel k, launched before it, reads it") !=
        std::string::npos);
  CHECK_FALSE(Two(kStore, "st.global.u32 [%rd0], %r1;").run().empty());
  CHECK(Two(kLoad, "ld.global.u32 %r2, [%rd0]; griddepcontrol.wait;").run().empty());
}

TEST_CASE("launch order: a launch two before may be running too, unless the one between has waited for it") {
  for (const bool waits : {false, true}) {
    // The launch between: `which` 1, the last one 2.
    Two two(kStore, fmt::format(R"(setp.eq.u64 %p2, %rd1, 2; @%p2 bra LAST;
        {} griddepcontrol.launch_dependents; griddepcontrol.wait; ret;
        LAST: st.global.u32 [%rd0], %r1; griddepcontrol.wait;)",
                                waits ? "griddepcontrol.wait;" : ""));
    for (const uint64_t which : {0, 1, 2}) {
      two.k.params.clear(), two.k.param(two.data), two.k.param(which);
      two.k.config.early = which > 0;
      CHECK(two.k.run().ok);
      CHECK(two.checker.findings().empty() == (which < 2 || waits));
    }
  }
}
