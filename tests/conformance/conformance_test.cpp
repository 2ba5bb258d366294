// The emulator against a GPU on random programs, uncontracted, bit by bit. `make conformance` runs
// FP4LAB_CONFORMANCE programs of each kind, or of FP4LAB_CONFORMANCE_KIND alone, from seed
// FP4LAB_CONFORMANCE_SEED on; the GPU's hashes are written to FP4LAB_CONFORMANCE_RECORD. Without a GPU the
// programs only run on the emulator; those in data/conformance_h200.txt must give the recorded hash of an
// H200.
#include <doctest/doctest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "../gpu.h"
#include "../skip.h"
#include "emulator/engine/tensor_map.h"
#include "fp4lab/jit.h"
#include "program.h"

using namespace fp4lab;
using namespace fp4lab::conformance;

namespace {

uint64_t number(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::string hash_text(const std::vector<std::byte>& bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

std::filesystem::path data() {
  return std::filesystem::path(__FILE__).parent_path() / "../emulator/data/conformance_h200.txt";
}

// Writes a differing program and its input to build/conformance; returns the path, or that it failed.
std::string keep(const Program& p) {
  const auto stem = jit::project_root() / "build/conformance" / fmt::format("{}_{}", name_of(p.kind), p.seed);
  std::error_code ignored;
  std::filesystem::create_directories(stem.parent_path(), ignored);
  bool kept = bool(std::ofstream(stem.string() + ".ptx") << p.text);
  if (!p.source.empty()) kept &= bool(std::ofstream(stem.string() + ".cu") << p.source);
  kept &= bool(std::ofstream(stem.string() + ".in")
                   .write(reinterpret_cast<const char*>(p.in.data()), static_cast<long>(p.in.size())));
  return fmt::format("{}.{}{}", stem.string(), p.source.empty() ? "{ptx,in}" : "{cu,ptx,in}",
                     kept ? "" : " could not be written");
}

// Whether an error ends the process's GPU context, so that everything after it would fail.
bool is_lost(const std::exception& e) {
  const std::string_view text = e.what();
  for (std::string_view error :
       {"_ILLEGAL_", "_MISALIGNED_ADDRESS", "_LAUNCH_FAILED", "_HARDWARE_STACK_ERROR"})
    if (text.find(error) != std::string_view::npos) return true;
  return false;
}

// Printed before the first work on a GPU.
std::ofstream new_record(const char* path) {
  std::ofstream out(path);
  if (!out) fail("{} cannot be written", path);
  return out;
}

}  // namespace

TEST_CASE("conformance: recorded programs give the H200's bits") {
  std::ifstream in(data());
  REQUIRE(in);
  unsigned count = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string kind, hash, differs;
    uint64_t seed;
    words >> kind >> seed >> hash >> differs;
    CAPTURE(line);
    std::vector<std::byte> bits;
    REQUIRE_NOTHROW(bits = run_on_emulator(generate(kind_named(kind), seed), seed));
    const std::string ours = hash_text(bits);
    if (differs == "differs:")
      CHECK_MESSAGE(ours != hash, "the program gives the H200's bits: remove the cause from its line");
    else
      CHECK(ours == hash);
    ++count;
  }
  CHECK(count >= 100);
}

TEST_CASE("conformance: a GPU and the emulator give the same bits") {
  const std::shared_ptr<Driver> gpu = open_gpu();
  if (!gpu) FP4LAB_SKIP("no GPU");
  const uint64_t count = number("FP4LAB_CONFORMANCE", 10), first = number("FP4LAB_CONFORMANCE_SEED", 1);
  const char* record_path = std::getenv("FP4LAB_CONFORMANCE_RECORD");
  std::ofstream record;
  if (record_path) record = new_record(record_path);
  const char* only = std::getenv("FP4LAB_CONFORMANCE_KIND");
  for (Kind kind : kKinds) {
    if (only && kind != kind_named(only)) continue;
    uint64_t different = 0;
    for (uint64_t seed = first; seed < first + count; ++seed) {
      const Program p = generate(kind, seed);
      std::vector<std::byte> expected, got;
      try {
        expected = run_on_driver(p, *gpu);
        if (record.is_open()) record << fmt::format("{} {} {}\n", name_of(kind), seed, hash_text(expected));
        got = run_on_emulator(p, seed);
      } catch (const std::exception& e) {
        FAIL_CHECK(fmt::format("{} {}: {}", name_of(kind), seed, e.what()));
        REQUIRE_MESSAGE(!is_lost(e), "the GPU's context is lost; the rest was not compared");
        ++different;
        continue;
      }
      if (const std::string text = difference(p, expected, got); !text.empty()) {
        FAIL_CHECK(fmt::format("{}\n  the program: {}", text, keep(p)));
        ++different;
      }
    }
    MESSAGE(fmt::format("{}: {} programs, {} of them with different bits", name_of(kind), count, different));
  }
}

TEST_CASE("conformance: kernels from CUDA C++ give the same bits under every schedule") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Program p = generate(Kind::cuda, seed);
    CAPTURE(p.source);
    const auto bits = run_on_emulator(p, 0);
    CHECK(std::set<std::byte>(bits.begin(), bits.end()).size() > 16);
    for (uint64_t schedule = 1; schedule <= 3; ++schedule)
      CHECK(difference(p, bits, run_on_emulator(p, schedule)).empty());
  }
}

TEST_CASE("conformance: a GPU's driver accepts and refuses the same im2col maps") {
  const std::shared_ptr<Driver> gpu = open_gpu();
  if (!gpu) FP4LAB_SKIP("no GPU");
  Random r(1);
  unsigned different = 0, taken = 0;
  for (unsigned i = 0; i < 20000; ++i) {
    auto pick = [&](std::initializer_list<int64_t> values) {
      return values.begin()[r.below(unsigned(values.size()))];
    };
    const auto type = static_cast<CUtensorMapDataType>(r.below(13));
    const unsigned rank = r.one_in(20) ? unsigned(pick({0, 1, 2, 6})) : 3 + r.below(3);
    cuuint64_t dims[6], strides[6];
    cuuint32_t steps[6];
    int lower[4], upper[4];
    uint64_t stride = 16 << r.below(4);
    for (unsigned d = 0; d < 6; ++d) {
      dims[d] = r.one_in(30) ? cuuint64_t(pick({0, 1l << 32, (1l << 32) + 1})) : 1 + r.below(40);
      strides[d] =
          r.one_in(40) ? stride + cuuint64_t(pick({8, 1l << 40, (1l << 40) - 16 - int64_t(stride)})) : stride;
      stride = stride * (1 + r.below(40));
      if (stride >= 1ull << 40) stride = 16;
      steps[d] = r.one_in(30) ? cuuint32_t(pick({0, 8, 9})) : 1 + r.below(3);
    }
    for (unsigned d = 0; d < 4; ++d) {
      auto corner = [&] {
        return r.one_in(10)
                   ? int(pick({-16, -17, 15, 16, -128, -129, 127, 128, -32768, -32769, 32767, 32768}))
                   : int(r.below(9)) - 4;
      };
      lower[d] = corner(), upper[d] = corner();
    }
    const auto channels = r.one_in(10) ? cuuint32_t(pick({0, 1, 3, 256, 257, 512})) : 8u << r.below(4);
    const auto pixels = r.one_in(10) ? cuuint32_t(pick({0, 1024, 1025})) : 1 + r.below(300);
    const auto swizzle = static_cast<CUtensorMapSwizzle>(r.below(r.one_in(10) ? 7 : 4));
    const auto fill = static_cast<CUtensorMapFloatOOBfill>(r.below(2));
    void* const at = reinterpret_cast<void*>(0x7f0000000000 + (r.one_in(20) ? 8 : 0));
    alignas(64) CUtensorMap map;
    emu::TensorMapArguments arguments{type, rank, at, dims, strides, steps};
    arguments.swizzle = swizzle, arguments.fill = fill;
    const bool ours = emu::encode_im2col(&map, arguments, lower, upper, channels, pixels, 9).empty();
    bool theirs = true;
    try {
      gpu->cuTensorMapEncodeIm2col(&map, type, rank, at, dims, strides, lower, upper, channels, pixels, steps,
                                   CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                   fill);
    } catch (const Error&) {
      theirs = false;
    }
    taken += theirs;
    if (ours == theirs || ++different > 12) continue;
    std::string text = fmt::format(
        "the GPU's driver {} it: type {}, rank {}, channels {}, pixels {}, swizzle {}, fill {}, address {};",
        theirs ? "takes" : "refuses", int(type), rank, channels, pixels, int(swizzle), int(fill), at);
    for (unsigned d = 0; d < std::min(rank, 5u); ++d)
      text += fmt::format(" dim {} stride {} step {} corners {} {};", dims[d], strides[d], steps[d],
                          lower[std::min(d, 3u)], upper[std::min(d, 3u)]);
    FAIL_CHECK(text);
  }
  MESSAGE(fmt::format("{} of 20000 maps are valid, {} judged differently", taken, different));
}
