// The emulator against a GPU, on random programs, bit by bit. `make conformance` runs many
// (FP4LAB_CONFORMANCE of each kind, from seed FP4LAB_CONFORMANCE_SEED on). Without a GPU the programs still
// run on the emulator; those in data/conformance_h200.txt must give the hash that an H200 gave.
#include <doctest/doctest.h>
#include <xxhash.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "../gpu.h"
#include "../skip.h"
#include "program.h"

using namespace fp4lab;
using namespace fp4lab::conformance;

namespace {

uint64_t number(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

uint64_t hash_of(const std::vector<std::byte>& bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::filesystem::path data() {
  return std::filesystem::path(__FILE__).parent_path() / "../emulator/data/conformance_h200.txt";
}

}  // namespace

TEST_CASE("conformance: recorded programs give the H200's bits") {
  std::ifstream in(data());
  REQUIRE(in);
  unsigned count = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string kind, hash;
    uint64_t seed;
    words >> kind >> seed >> hash;
    CAPTURE(line);
    std::vector<std::byte> bits;
    REQUIRE_NOTHROW(bits = run_on_emulator(generate(kind_named(kind), seed), seed));
    CHECK(fmt::format("{:016x}", hash_of(bits)) == hash);
    ++count;
  }
  CHECK(count >= 100);
}

TEST_CASE("conformance: a GPU and the emulator give the same bits") {
  const std::shared_ptr<Driver> gpu = open_gpu();
  if (!gpu) FP4LAB_SKIP("no GPU");
  const uint64_t count = number("FP4LAB_CONFORMANCE", 10), first = number("FP4LAB_CONFORMANCE_SEED", 1);
  std::ofstream record;
  if (const char* path = std::getenv("FP4LAB_CONFORMANCE_RECORD")) record.open(path);
  for (Kind kind : kKinds) {
    uint64_t different = 0;
    for (uint64_t seed = first; seed < first + count; ++seed) {
      const Program p = generate(kind, seed);
      std::vector<std::byte> expected, got;
      try {
        expected = run_on_driver(p, *gpu);
        got = run_on_emulator(p, seed);
      } catch (const Error& e) {
        FAIL_CHECK(fmt::format("{} {}: {}", name_of(kind), seed, e.what()));
        ++different;
        continue;
      }
      if (record.is_open())
        record << name_of(kind) << ' ' << seed << fmt::format(" {:016x}\n", hash_of(expected));
      if (const std::string text = difference(p, expected, got); !text.empty()) {
        FAIL_CHECK(text);
        ++different;
      }
    }
    MESSAGE(fmt::format("{}: {} programs, {} of them with different bits", name_of(kind), count, different));
  }
}
