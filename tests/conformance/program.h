// Random PTX programs that a GPU and the emulator must run to the same bits. A seed names a program; the
// programs are self-contained modules.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fp4lab/driver.h"

namespace fp4lab::conformance {

enum class Kind : uint8_t {
  scalar,    // arithmetic, conversion, logic, branches, loops, warp exchange, shared and local memory
  matrix,    // the same with mma.sync, ldmatrix, stmatrix and movmatrix
  wgmma,     // warpgroup products of every kind, layout and shape
  mbarrier,  // one thread drives barriers through their phases
  tma,       // tensor-map loads, stores and reductions with boxes that leave the tensor
  products,  // mma.sp, and wmma with its loads and stores
  sparse,    // warpgroup products of a sparse A
  im2col,    // the same as tma with im2col maps
  calls,     // functions, called by name and through pointers, recursive ones too
  mixed,     // whole kernels with something of everything
  cuda,      // kernels in CUDA C++, compiled by NVRTC
};
inline constexpr std::array kKinds = {Kind::scalar, Kind::matrix,   Kind::wgmma,  Kind::mbarrier,
                                      Kind::tma,    Kind::products, Kind::sparse, Kind::im2col,
                                      Kind::calls,  Kind::mixed,    Kind::cuda};
const char* name_of(Kind);
Kind kind_named(std::string_view);

// A tensor map to encode over the program's third buffer and to pass as its first parameter.
struct Map {
  CUtensorMapDataType type{};
  uint32_t rank = 0;
  std::array<cuuint64_t, 5> dims{}, strides{};  // strides[0] belongs to dimension 1
  std::array<cuuint32_t, 5> box{}, element_strides{1, 1, 1, 1, 1};
  CUtensorMapSwizzle swizzle{};
  CUtensorMapFloatOOBfill fill{};
  uint32_t pixels = 0;  // of an im2col map, whose channels are box[0]; 0 = a tiled one
  std::array<int, 3> lower{}, upper{};
};

// The kernel `k` takes the addresses of `out`, zeroed, and `in`; with a map, `(map, out, in)`, and the
// tensor's bytes count as output too.
struct Program {
  Kind kind{};
  uint64_t seed = 0;
  std::string text, source;                      // the PTX, and what it was compiled from, if it was
  unsigned threads = 128, ctas = 1, shared = 0;  // the kernel asks for its clusters itself
  std::vector<std::byte> in, tensor;
  size_t out_bytes = 0;
  bool has_map = false;
  Map map;
  // The place of a result in `out`, and the line of the source or the text that computed it: [slot * threads
  // * ctas + thread] words of 8 bytes.
  std::vector<uint32_t> slot_lines;
};

Program generate(Kind, uint64_t seed);

// Runs it uncontracted (CU_JIT_OPTIMIZATION_LEVEL 0), since an optimising JIT may choose. Returns the bytes
// of `out`, then those of the tensor. On the emulator as an H200, with a schedule's seed.
std::vector<std::byte> run_on_driver(const Program&, Driver&);
std::vector<std::byte> run_on_emulator(const Program&, uint64_t schedule_seed);

// The first place where two results differ, as text; empty if they are equal.
std::string difference(const Program&, const std::vector<std::byte>& expected,
                       const std::vector<std::byte>& got);

// Shared parts of the generators.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) { state_ = bits(); }
  uint64_t bits() {  // splitmix64
    uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  unsigned below(unsigned n) { return static_cast<unsigned>(bits() % n); }
  bool one_in(unsigned n) { return below(n) == 0; }
  template <class C>
  const auto& pick(const C& list) {
    return list[below(static_cast<unsigned>(std::size(list)))];
  }

 private:
  uint64_t state_;
};
void fill_random(Random&, std::vector<std::byte>&);
uint64_t random_operand(Random&, unsigned bytes);  // special values, small numbers, floats, random bits

Program generate_scalar(uint64_t seed, bool matrices);
Program generate_wgmma(uint64_t seed, bool sparse = false);
Program generate_mbarrier(uint64_t seed);
Program generate_tma(uint64_t seed, bool im2col = false);
Program generate_products(uint64_t seed);
Program generate_calls(uint64_t seed);
Program generate_mixed(uint64_t seed);
Program generate_cuda(uint64_t seed);  // throws where there is no NVRTC

}  // namespace fp4lab::conformance
