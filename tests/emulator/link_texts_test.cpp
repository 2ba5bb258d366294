// Several PTX texts are linked to one text.
#include "emulator/ptx/link_texts.h"

#include <doctest/doctest.h>

#include "../message.h"
#include "emulator/ptx/parser.h"

using namespace fp4lab;
using namespace fp4lab::emu;

namespace {

std::string text(const char* version, const char* target, const std::string& body) {
  return fmt::format(".version {}\n.target {}\n.address_size 64\n{}", version, target, body);
}

std::string link(const std::vector<std::string>& bodies) {
  std::vector<PtxText> texts;
  for (const std::string& b : bodies)
    texts.push_back({fmt::format("t{}", texts.size()), text("8.0", "sm_90", b)});
  return link_texts(texts);
}

const Symbol* symbol(const Module& m, std::string_view name) {
  for (const Symbol& s : m.symbols)
    if (s.name == name) return &s;
  return nullptr;
}

constexpr const char* kCaller =
    ".extern .func (.param .b32 r) f;\n.extern .global .u32 shared_one;\n.global .u32 own[2] = {1, 2};\n"
    ".visible .entry k(.param .u64 p) { .reg .b64 %d<3>; mov.u64 %d1, own; mov.u64 %d2, shared_one;\n"
    " { .param .b32 x; call (x), f; } ret; }\n";
constexpr const char* kCallee =
    ".visible .global .u32 shared_one = 5;\n.global .u32 own = 3;\n"
    ".visible .func (.param .b32 r) f { .reg .b32 %r1; .reg .b64 %d1; mov.u64 %d1, own;\n"
    " ld.global.u32 %r1, [%d1]; st.param.b32 [r], %r1; ret; }\n";

}  // namespace

TEST_CASE("linked texts: symbols without a linking directive stay local to their text") {
  const auto module = parse(link({kCaller, kCallee}), "m");
  CHECK(module->functions.size() == 2);
  REQUIRE(symbol(*module, "own"));
  CHECK(symbol(*module, "own")->size == 8);
  REQUIRE(symbol(*module, "own$1"));
  CHECK(symbol(*module, "own$1")->init[0] == std::byte{3});
  REQUIRE(symbol(*module, "shared_one"));
  CHECK(parse(link({kCallee, kCaller}), "m")->functions.size() == 2);
  // A local symbol does not resolve another text's .extern.
  const std::string hidden = ".global .u32 shared_one = 1;\n.visible .func (.param .b32 r) f { ret; }\n";
  CHECK_THROWS_WITH(parse(link({kCaller, hidden}), "m"), doctest::Contains("no linked module defines it"));
}

TEST_CASE("linked texts: one of several weak definitions is taken, a strong one first") {
  const std::string weak =
      ".weak .global .u32 w = 1;\n.weak .func f() { ret; }\n.weak .entry e() { call f; ret; }\n";
  const std::string strong = ".visible .global .u32 w = 2;\n";
  for (const auto& texts : {std::vector{weak, weak, strong}, std::vector{strong, weak, weak}}) {
    const auto module = parse(link(texts), "m");
    CHECK(module->functions.size() == 2);
    CHECK(symbol(*module, "w")->init[0] == std::byte{2});
  }
  CHECK(message_of([&] { link({strong, "", strong}); }) == "'w' is defined in t0 and in t2");
}

TEST_CASE("linked texts: the newest version and target; files are renumbered") {
  const std::string body =
      ".file 1 \"a.cu\"\n.entry {}() {\n.loc 1 5 3\nret;\n}\n.section .debug_str { .b8 0 }\n";
  const auto named = [&](const char* kernel) {
    return std::string(body).replace(body.find("{}"), 2, kernel);
  };
  const PtxText texts[] = {{"a", text("8.10", "sm_90", named("k1"))},
                           {"b", text("8.9", "sm_90a", named("k2"))}};
  const auto module = parse(link_texts(texts), "m");
  CHECK(module->version == "8.10");
  CHECK(module->target == "sm_90a");
  REQUIRE(module->functions.size() == 2);
  const auto line = [&](size_t f) { return module->locations[module->functions[f].source[0].location]; };
  CHECK(line(0).file == 1);
  CHECK(line(1).file == 3);
  CHECK(line(1).line == 5);
  CHECK(module->files[line(1).file] == "a.cu");
  CHECK_THROWS(link({"garbage", ""}));
  CHECK_THROWS(link({"", ".visible .func f() {"}));
}
