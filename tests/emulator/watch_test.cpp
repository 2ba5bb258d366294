#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "emulator/watch/trace.h"
#include "emulator/watch/watchers.h"
#include "fp4lab/json_text.h"
#include "hand.h"

using namespace fp4lab::emu;
using hand::Kernel;

namespace {

struct Counter : Watcher {
  uint64_t steps = 0, reads = 0, writes = 0, starts = 0, exits = 0, issued = 0, completed = 0;
  void step(Warp&, const Instr&, uint32_t) override { ++steps; }
  void access(const Access& a) override { ++(a.kind == AccessKind::read ? reads : writes); }
  void cta_start(Cta&) override { ++starts; }
  void cta_exit(Cta&) override { ++exits; }
  void issue(Warp&, const AsyncOp&) override { ++issued; }
  void complete(const AsyncOp&) override { ++completed; }
};

struct Nothing : AsyncOp {
  bool run(Cluster&) override { return true; }
  const char* name() const override { return "test.nothing"; }
  bool holds_exit() const override { return false; }
};

struct Small : Kernel {
  Small() {
    f().static_shared_bytes = 64;
    f().dynamic_shared_base = 0x440;
    Operand v = reg("%r1");
    add("st.shared.u32 [x], 1;", hand::store<Space::shared>, {Kernel::at(0x400), imm(1)});
    add("ld.shared.u32 %r1, [x];", hand::load_all<Space::shared>, {v, Kernel::at(0x400)});
    add("issue;",
        [](Warp& w, const Instr& i) { w.cta.cluster.submit(std::make_unique<Nothing>(), w, i, 3); });
    add("exit;", hand::exit);
  }
};

}  // namespace

TEST_CASE("several watchers get the same events, and every lane's access") {
  Counter a, b;
  Watchers all;
  CHECK(all.front() == nullptr);
  all.add(a);
  CHECK(all.front() == &a);
  all.add(b);
  Small k;
  LaunchConfig c;
  c.grid.x = 3;
  c.block.x = 64;
  LaunchResult r = k.run(c, {}, nullptr, all.front());
  REQUIRE_MESSAGE(r.ok, r.report);
  for (const Counter& n : {a, b}) {
    CHECK(n.steps == 3 * 2 * 4);
    CHECK(n.reads == 3 * 64);
    CHECK(n.writes == 3 * 64);
    CHECK(n.starts == 3);
    CHECK(n.exits == 3);
    CHECK(n.issued == 6);
    CHECK(n.completed == 6);
  }
}

TEST_CASE("a trace is valid JSON after every launch, with each operation's begin and end") {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("fp4lab_trace_{}.json", getpid())).string();
  Trace t(path, 2);
  for (int launch = 1; launch <= 2; ++launch) {
    Small k;
    LaunchConfig c;
    c.grid.x = 3;
    c.block.x = 32;
    LaunchResult r = k.run(c, {}, nullptr, &t);
    REQUIRE_MESSAGE(r.ok, r.report);
    std::ifstream in(path);
    auto events = fp4lab::parse_json(std::string{std::istreambuf_iterator<char>(in), {}});
    int begin = 0, end = 0;
    for (const auto& e : events) {
      begin += e["ph"] == "b";
      end += e["ph"] == "e";
      CHECK(e["pid"] < 2);
    }
    CHECK(begin == 2 * launch);
    CHECK(end == 2 * launch);
  }
  std::filesystem::remove(path);
  CHECK_THROWS_WITH(Trace("/nowhere/trace.json"), doctest::Contains("/nowhere/trace.json"));
}
