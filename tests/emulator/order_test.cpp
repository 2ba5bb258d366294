// The order checker on programs whose order is right, and on twins that lack one edge of it: tests/check.
#include "emulator/watch/order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "emulator/core/machine.h"
#include "emulator/ptx/load.h"
#include "emulator/ptx/parser.h"

using namespace fp4lab::emu;

namespace {

constexpr uint64_t kSeeds = 20;

struct Twin {
  std::string text, expected;
  size_t line = 0;
};

struct Program {
  std::string name, text;
  uint32_t block = 32, grid = 1, cluster = 1, shared = 0;
  std::vector<Twin> twins;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string after(const std::string& line, const std::string& mark) {
  const size_t at = line.find(mark);
  return at == line.npos ? "" : line.substr(at + mark.size());
}

Program read(const std::filesystem::path& path) {
  Program p;
  p.name = path.filename().string();
  std::ifstream in(path);
  std::ostringstream all;
  all << in.rdbuf();
  p.text = all.str();
  const auto lines = lines_of(p.text);
  for (size_t k = 0; k < lines.size(); ++k) {
    for (auto [key, value] : {std::pair{"// block ", &p.block},
                              {"// grid ", &p.grid},
                              {"// cluster ", &p.cluster},
                              {"// shared ", &p.shared}})
      if (lines[k].starts_with(key))
        *value = static_cast<uint32_t>(std::stoul(lines[k].substr(std::strlen(key))));
    std::string other, expected = after(lines[k], "// edge ");
    if (expected.empty()) {
      const std::string both = after(lines[k], "// else ");
      if (both.empty()) continue;
      other = both.substr(0, both.find(" // "));
      expected = after(both, " // ");
    }
    REQUIRE_FALSE(expected.empty());
    std::string text;
    for (size_t j = 0; j < lines.size(); ++j) text += (j == k ? other : lines[j]) + "\n";
    p.twins.push_back({text, expected, k + 1});
  }
  return p;
}

struct Outcome {
  LaunchResult result;
  std::string errors, notes;
};

Outcome run(const Program& p, const std::string& text, uint64_t seed) {
  GlobalMemory memory(1 << 20);
  const auto module = parse(text, p.name);
  load(*module, memory);
  const uint64_t buffers[] = {memory.allocate(4096), memory.allocate(4096)};
  for (const uint64_t b : buffers) std::memset(memory.host(b), 0, 4096);
  LaunchConfig config;
  config.grid.x = p.grid, config.block.x = p.block, config.cluster.x = p.cluster;
  config.dynamic_shared = p.shared;
  config.params.resize(16);
  std::memcpy(config.params.data(), buffers, 16);
  Schedule schedule;
  schedule.seed = seed;
  OrderChecker checker;
  const Function& f = module->functions[module->function_index.find("k")->second];
  Outcome o{launch(*module, f, config, *device_model("b200"), memory, schedule, &checker), {}, {}};
  o.errors = checker.report(true);
  o.notes = checker.report(false);
  return o;
}

std::vector<std::filesystem::path> programs() {
  std::vector<std::filesystem::path> paths;
  for (const auto& e : std::filesystem::directory_iterator(
           std::filesystem::path(__FILE__).parent_path().parent_path() / "check"))
    if (e.path().extension() == ".ptx") paths.push_back(e.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

TEST_CASE("order checker: right programs are silent, each missing edge is named") {
  const auto paths = programs();
  REQUIRE(paths.size() >= 8);
  for (const auto& path : paths) {
    const Program p = read(path);
    CAPTURE(p.name);
    CHECK_FALSE(p.twins.empty());
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const Outcome o = run(p, p.text, seed);
      CAPTURE(seed);
      CHECK_MESSAGE(o.result.ok, o.result.report);
      CHECK(o.errors == "");
      CHECK(o.notes == "");
    }
    for (const Twin& twin : p.twins) {
      CAPTURE(twin.line);
      const bool note = twin.expected.starts_with("note: ");
      const std::string expected = note ? twin.expected.substr(6) : twin.expected;
      std::string seen;
      bool found = false;
      for (uint64_t seed = 0; seed < kSeeds && !found; ++seed) {
        const Outcome o = run(p, twin.text, seed);
        seen = o.errors + o.notes + (o.result.ok ? "" : o.result.report);
        found = (note ? o.notes : o.errors + o.result.report).find(expected) != std::string::npos;
        if (note) CHECK_MESSAGE(o.errors == "", o.errors);
      }
      INFO("without the edge: " << seen);
      CHECK_MESSAGE(found, expected);
    }
  }
}
