// Tensor maps: cuda.h's rules, the encoding, swizzles compared with the tables of PTX ISA 5.5.7, boxes at the
// edges.
#include "emulator/engine/tensor_map.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <set>

#include "emulator/engine/tma_box.h"

using namespace fp4lab::emu;

namespace {

TensorMap fp4_map() {  // 300 rows of 512 e2m1 values, boxes of 256 x 16
  TensorMap m;
  m.type = TensorType::u4_align8;
  m.swizzle = TensorSwizzle::b128;
  m.rank = 2;
  m.address = 0x10000;
  m.dim = {512, 300, 1, 1, 1};
  m.stride = {0, 256, 0, 0, 0};
  m.box = {256, 16, 1, 1, 1};
  m.element_stride = {1, 1, 1, 1, 1};
  return m;
}

}  // namespace

TEST_CASE("a map is encoded and decoded unchanged, and foreign bytes are recognised") {
  TensorMap m = fp4_map();
  m.dim[1] = uint64_t(1) << 32;
  m.stride[1] = (uint64_t(1) << 40) - 16;
  m.fill = 0, m.l2_promotion = 2;
  auto bytes = m.encode();
  bool ok;
  TensorMap n = decode_tensor_map(bytes.data(), ok);
  REQUIRE(ok);
  CHECK(n.type == m.type);
  CHECK(n.swizzle == m.swizzle);
  CHECK(n.rank == m.rank);
  CHECK(n.address == m.address);
  CHECK(n.l2_promotion == 2);
  for (int d = 0; d < 2; ++d) {
    CHECK(n.dim[d] == m.dim[d]);
    CHECK(n.box[d] == m.box[d]);
    CHECK(n.element_stride[d] == m.element_stride[d]);
  }
  CHECK(n.stride[1] == m.stride[1]);
  CHECK_FALSE(n.patched);
  for (unsigned i : {8u, 11u, 60u, 127u}) {  // the kind, bits common to all maps, our mark
    auto other = bytes;
    other[i] ^= std::byte{8};
    decode_tensor_map(other.data(), ok);
    CHECK_FALSE(ok);
  }
  for (unsigned i : {0u, 17u, 111u, 115u}) {  // bytes that a program may write
    auto other = bytes;
    other[i] ^= std::byte{8};
    const TensorMap torn = decode_tensor_map(other.data(), ok);
    CHECK((!ok || torn.patched));
  }
}

// gau-nernst's contest group GEMM (NVFP4) encodes its maps once. For each call it writes the address into the
// first eight bytes, and the extents less one into the words from the eighth on.
TEST_CASE("a map that a program wrote into is decoded from its current bytes, and marked as patched") {
  TensorMap m = fp4_map();
  m.address = 0;
  auto bytes = m.encode();
  const uint64_t address = 0x7f00'1234'5000;
  const uint32_t rows = 299;
  std::memcpy(bytes.data(), &address, sizeof address);
  std::memcpy(bytes.data() + 9 * 4, &rows, sizeof rows);
  bool ok;
  const TensorMap n = decode_tensor_map(bytes.data(), ok);
  REQUIRE(ok);
  CHECK(n.patched);
  m.address = address, m.dim[1] = 300;
  CHECK(n.encode() != m.encode());
  m.patched = true;
  CHECK(n.encode() == m.encode());
  CUtensorMap map;
  std::memcpy(&map, bytes.data(), sizeof map);
  REQUIRE(replace_address(&map, reinterpret_cast<void*>(0x9000)).empty());
  const TensorMap edited = decode_tensor_map(reinterpret_cast<std::byte*>(&map), ok);
  REQUIRE(ok);
  CHECK(edited.address == 0x9000);
  CHECK(edited.patched);
}

// CuTe DSL 4.8 makes its maps without the driver and copies only 64 bytes of them; here for a 512 x 256 NVFP4
// operand.
TEST_CASE("the 64 bytes that CuTe DSL writes are a tiled map, whatever follows them") {
  const std::array<uint32_t, 16> words = {0x1000, 0,   0x465a2, 8, 0x1000, 0,           0,    0,
                                          255,    511, 0,       0, 0,      0xff00'0000, 0x7f, 0};
  TensorMap want = fp4_map();
  want.address = 0x1000, want.rank = 3;
  want.dim = {256, 512, 1, 1, 1}, want.stride = {0, 128, 65536, 0, 0}, want.box = {256, 128, 1, 1, 1};
  std::array<std::byte, kTensorMapBytes> bytes;
  for (const int behind : {0x00, 0xcb, 0xff}) {
    bytes.fill(std::byte(behind));
    std::memcpy(bytes.data(), words.data(), sizeof words);
    bool ok;
    const TensorMap m = decode_tensor_map(bytes.data(), ok);
    CHECK(ok);
    CHECK(m.encode() == want.encode());
  }
  CHECK(std::memcmp(want.encode().data(), words.data(), sizeof words) == 0);
  for (const unsigned bit : {0u, 18u, 25u}) {  // its kind, and bits common to all maps
    std::array<std::byte, kTensorMapBytes> other = bytes;
    other[8 + bit / 8] ^= std::byte(1 << bit % 8);
    bool ok;
    decode_tensor_map(other.data(), ok);
    CHECK_FALSE(ok);
  }
}

TEST_CASE("cuTensorMapEncodeTiled's rules, each violated by itself") {
  CHECK(fp4_map().invalid(false).empty());
  auto why = [](auto&& change, bool hopper = false) {
    TensorMap m = fp4_map();
    change(m);
    return m.invalid(hopper);
  };
  auto has = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != text.npos);
  };
  has(why([](TensorMap&) {}, true), "needs sm_100");
  has(why([](TensorMap& m) { m.address += 8; }), "not a multiple of 16");
  has(why([](TensorMap& m) { m.dim[0] = 511; }), "multiple of 2");
  has(why([](TensorMap& m) { m.dim[1] = 0; }), "globalDim[1] is 0");
  has(why([](TensorMap& m) { m.stride[1] = 264; }), "globalStrides[0] is 264");
  has(why([](TensorMap& m) { m.stride[1] = uint64_t(1) << 40; }), "below 2^40");
  has(why([](TensorMap& m) { m.box[1] = 257; }), "boxDim[1] is 257");
  has(why([](TensorMap& m) { m.box[0] = 48; }), "not a multiple of 16 bytes");
  has(why([](TensorMap& m) { m.swizzle = TensorSwizzle::b64; }), "more than the 64 bytes");
  has(why([](TensorMap& m) { m.element_stride[1] = 9; }), "elementStrides[1] is 9");
  has(why([](TensorMap& m) { m.fill = 1; }), "floating-point");
  has(why([](TensorMap& m) { m.interleave = 1; }), "rank of at least 3");
  has(why([](TensorMap& m) {
        m.rank = 3, m.type = TensorType::u16, m.swizzle = TensorSwizzle::none, m.interleave = 1, m.box[0] = 4;
      }),
      "not a multiple of 16 bytes");
  has(why([](TensorMap& m) { m.type = TensorType::u4_align16; }), "exactly 128");
  has(why(
          [](TensorMap& m) {
            m.type = TensorType::u8, m.box[0] = 128, m.swizzle = TensorSwizzle::b128_atom64;
          },
          true),
      "needs sm_100");
}

// cuda.h requires SWIZZLE_32B. The driver (580.159, H200) does not.
TEST_CASE("an interleaved map of 32 bytes may have any swizzle") {
  cuuint64_t dims[] = {276, 91, 88}, strides[] = {256, 1536};
  cuuint32_t box[] = {64, 8, 8}, steps[] = {1, 1, 6};
  for (const unsigned swizzle : {0u, 1u, 2u, 3u}) {
    TensorMapArguments a{
        CU_TENSOR_MAP_DATA_TYPE_UINT16, 3, reinterpret_cast<void*>(0x7f00'1234'58e0), dims, strides, steps};
    a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B, a.swizzle = swizzle;
    CUtensorMap map;
    CHECK(encode_tiled(&map, a, box, 9) == "");
  }
}

TEST_CASE("encode_tiled takes the driver's arguments and names the wrong one") {
  CUtensorMap map;
  cuuint64_t dims[] = {7168 / 2, 300}, strides[] = {7168 / 2};
  cuuint32_t box[] = {128, 64}, steps[] = {1, 1};
  auto encode = [&](unsigned type, int major) {
    TensorMapArguments a{type, 2, reinterpret_cast<void*>(0x7000), dims, strides, steps};
    a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    return encode_tiled(&map, a, box, major);
  };
  CHECK(encode(CU_TENSOR_MAP_DATA_TYPE_UINT8, 9).empty());
  bool ok;
  TensorMap m = decode_tensor_map(reinterpret_cast<std::byte*>(&map), ok);
  REQUIRE(ok);
  CHECK(m.transaction_bytes() == 128 * 64);
  CHECK(encode(CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, 9).find("sm_100") != std::string::npos);
  CHECK_FALSE(encode(99, 10).empty());
  CHECK(replace_address(&map, reinterpret_cast<void*>(0x9000)).empty());
  CHECK(decode_tensor_map(reinterpret_cast<std::byte*>(&map), ok).address == 0x9000);
  CHECK_FALSE(replace_address(&map, reinterpret_cast<void*>(0x9008)).empty());
}

// As by the driver (580.159, H200).
TEST_CASE("encode_tiled requires strides for rank 1 too, though it reads none") {
  CUtensorMap map;
  cuuint64_t dims[] = {1024}, strides[] = {8};
  cuuint32_t box[] = {32}, steps[] = {1};
  for (const cuuint64_t* s : {strides, static_cast<cuuint64_t*>(nullptr)}) {
    const TensorMapArguments a{
        CU_TENSOR_MAP_DATA_TYPE_UINT32, 1, reinterpret_cast<void*>(0x7000), dims, s, steps};
    CHECK(encode_tiled(&map, a, box, 9).empty() == (s != nullptr));
  }
}

// cuda.h requires 64 bytes. The driver (580.159, H200) accepts any address, and CUDA Python's maps are at
// multiples of 16.
TEST_CASE("a tensor map may be made at any address") {
  cuuint64_t dims[] = {128, 64}, strides[] = {128};
  cuuint32_t box[] = {128, 64}, steps[] = {1, 1};
  const TensorMapArguments a{
      CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, reinterpret_cast<void*>(0x7000), dims, strides, steps};
  alignas(64) std::byte room[2 * sizeof(CUtensorMap)];
  for (const unsigned offset : {0u, 1u, 16u, 32u}) {
    CHECK(encode_tiled(reinterpret_cast<CUtensorMap*>(room + offset), a, box, 9).empty());
    bool ok;
    CHECK(decode_tensor_map(room + offset, ok).address == 0x7000);
    CHECK(ok);
    CHECK(replace_address(reinterpret_cast<CUtensorMap*>(room + offset), reinterpret_cast<void*>(0x9000))
              .empty());
  }
}

TEST_CASE("cuTensorMapEncodeIm2col's rules") {
  struct Call {
    uint32_t rank = 4, channels = 64, pixels = 128;
    int lower[3] = {-1, -1, 0}, upper[3] = {-1, -1, 0};
    cuuint64_t dims[5] = {64, 9, 14, 64, 1}, strides[4] = {128, 1152, 16128, 0};
    cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    std::string encode(CUtensorMap& map) const {
      TensorMapArguments a{
          CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, reinterpret_cast<void*>(0x7000), dims, strides, steps};
      a.swizzle = swizzle;
      return encode_im2col(&map, a, lower, upper, channels, pixels, 9);
    }
  };
  CUtensorMap map;
  CHECK(Call().encode(map).empty());
  bool ok;
  const TensorMap m = decode_tensor_map(reinterpret_cast<std::byte*>(&map), ok);
  REQUIRE(ok);
  CHECK(m.im2col);
  CHECK(m.pixels == 128);
  CHECK(m.lower[1] == -1);
  CHECK(m.upper[0] == -1);
  auto why = [&](auto&& change) {
    Call c;
    change(c);
    return c.encode(map);
  };
  auto has = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != text.npos);
  };
  has(why([](Call& c) { c.rank = 2; }), "tensorRank is 2");
  has(why([](Call& c) { c.pixels = 1025; }), "pixelsPerColumn is 1025");
  has(why([](Call& c) { c.pixels = 0; }), "pixelsPerColumn is 0");
  has(why([](Call& c) { c.channels = 257; }), "channelsPerPixel is 257");
  has(why([](Call& c) { c.channels = 128; }), "more than the 128 bytes");
  has(why([](Call& c) { c.lower[1] = -129; }), "pixelBoxLowerCorner[1] is -129, must be -128 to 127");
  has(why([](Call& c) { c.upper[0] = 128; }), "pixelBoxUpperCorner[0] is 128");
  has(why([](Call& c) { c.upper[0] = 40000; }), "more than 16 bits");
  has(why([](Call& c) { c.upper[0] = -9, c.lower[0] = 0; }), "the bounding box of dimension 1 is empty");
  has(why([](Call& c) { c.steps[2] = 9; }), "elementStrides[2] is 9");
  // Seen with an H200's driver: sums of 32 bits, and columns of at most 228 KB.
  has(why([](Call& c) { c.dims[1] = 0x7fffffff, c.upper[0] = 1; }),
      "the bounding box of dimension 1 is empty");
  CHECK(why([](Call& c) { c.dims[1] = uint64_t(1) << 32, c.upper[0] = 1; }).empty());
  has(why([](Call& c) { c.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE, c.channels = 128, c.pixels = 913; }),
      "more than 233472 bytes");
  CHECK(
      why([](Call& c) { c.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE, c.channels = 128, c.pixels = 912; }).empty());
}

// For each 16-byte chunk of the pattern the tables of PTX ISA 5.5.7 give its position: chunk ^ row for rows
// of 128 bytes, and so on. Independent of the bit formula.
TEST_CASE("swizzles are the manual's tables") {
  for (uint32_t row = 0; row < 8; ++row)
    for (uint32_t chunk = 0; chunk < 8; ++chunk) {
      const uint32_t linear = 4096 + row * 128 + chunk * 16;
      CHECK(swizzled(TensorSwizzle::b128, linear) == 4096 + row * 128 + (chunk ^ row) * 16);
      const uint32_t half = chunk / 4, in_half = chunk % 4;
      CHECK(swizzled(TensorSwizzle::b64, linear) ==
            4096 + row * 128 + half * 64 + (in_half ^ (row & 3)) * 16);
      CHECK(swizzled(TensorSwizzle::b32, linear) == 4096 + row * 128 + (chunk ^ (row & 1)) * 16);
      CHECK(swizzled(TensorSwizzle::b128_atom32, linear) ==
            4096 + row * 128 + ((chunk / 2 ^ (row & 3)) * 2 + chunk % 2) * 16);
      CHECK(swizzled(TensorSwizzle::b128_atom64, linear) ==
            4096 + row * 128 + ((chunk / 4 ^ (row & 1)) * 4 + chunk % 4) * 16);
    }
  for (int s = 0; s <= 6; ++s) {  // a permutation within the period
    const auto swizzle = static_cast<TensorSwizzle>(s);
    std::set<uint32_t> seen;
    for (uint32_t i = 0; i < 1024; ++i) seen.insert(swizzled(swizzle, 2048 + i));
    CHECK(seen.size() == 1024);
    CHECK(*seen.begin() == 2048);
    CHECK(*seen.rbegin() == 3071);
  }
}

TEST_CASE("runs of a box: inside, across an edge, outside") {
  TensorMap m = fp4_map();
  CHECK(m.runs() == 16);
  CHECK(m.run_bytes() == 128);
  CHECK(m.transaction_bytes() == 2048);
  int32_t inside[] = {256, 10};
  TensorRun r = tensor_run(m, inside, 3);
  CHECK(r.inside);
  CHECK(r.lo == 0);
  CHECK(r.hi == 128);
  CHECK(r.global == 0x10000 + 13 * 256 + 128);
  int32_t right[] = {384, 0};
  r = tensor_run(m, right, 0);
  CHECK(r.inside);
  CHECK(r.lo == 0);
  CHECK(r.hi == 64);
  int32_t left[] = {-64, 0};
  r = tensor_run(m, left, 0);
  CHECK(r.inside);
  CHECK(r.lo == 32);
  CHECK(r.hi == 128);
  CHECK(r.global == 0x10000);
  int32_t below[] = {0, 296};
  CHECK(tensor_run(m, below, 3).inside);
  CHECK_FALSE(tensor_run(m, below, 4).inside);
  int32_t above[] = {0, -2};
  CHECK_FALSE(tensor_run(m, above, 1).inside);
  CHECK(tensor_run(m, above, 2).inside);
  m.element_stride[1] = 3;  // every third row
  CHECK(m.runs() == 6);
  CHECK(tensor_run(m, inside, 2).global == 0x10000 + 16 * 256 + 128);
  m.type = TensorType::u4_align16, m.box[0] = 128;  // a byte per value in shared memory
  CHECK(m.pitch() == 128);
  CHECK(m.run_bytes() == 64);
  CHECK(m.shared_bytes() == 6 * 128);
  m.type = TensorType::u8, m.box[0] = 48, m.swizzle = TensorSwizzle::b64;  // rows take the swizzle's span
  CHECK(m.pitch() == 64);
  CHECK(m.shared_bytes() == 5 * 64 + 48);
  CHECK(m.transaction_bytes() == 6 * 48);
  m.swizzle = TensorSwizzle::none;
  CHECK(m.pitch() == 48);
  m.type = TensorType::u4_align16, m.box[0] = 128;
  CHECK(m.transaction_bytes() == 6 * 64);
}
