// Tensor maps: what cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col make, tensormap.replace edits and
// cp.async.bulk.tensor reads.
//
// The hardware's 128 bytes are not documented; nobody but tensor_map.cpp knows ours. The first half is laid
// out as CuTe DSL writes it, which makes maps without the driver; the second carries a checksum, which tells
// when a program wrote into a map by itself, or bytes that are no map are read through a wrong pointer.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fp4lab::emu {

constexpr unsigned kTensorMapBytes = 128, kTensorMapMaxRank = 5;

// Numbers as in cuda.h 13.0: CUtensorMapDataType, Interleave, Swizzle, L2promotion, FloatOOBfill.
enum class TensorType : uint8_t {
  u8,
  u16,
  u32,
  s32,
  u64,
  s64,
  f16,
  f32,
  f64,
  bf16,
  f32_ftz,
  tf32,
  tf32_ftz,
  u4_align8,
  u4_align16,
  u6_align16
};
enum class TensorSwizzle : uint8_t { none, b32, b64, b128, b128_atom32, b128_atom32_flip8, b128_atom64 };
// Bytes of a row of the pattern; without a swizzle rows have no limit.
constexpr uint32_t swizzle_span(TensorSwizzle s) {
  constexpr uint32_t span[] = {~0u, 32, 64, 128, 128, 128, 128};
  return span[static_cast<int>(s)];
}

struct TensorMap {
  TensorType type = TensorType::u8;
  TensorSwizzle swizzle = TensorSwizzle::none;
  uint8_t interleave = 0, l2_promotion = 0, fill = 0;  // fill: 0 zeros, 1 NaN
  // It was of type TFLOAT32 once, from the driver or by tensormap.replace: no other type takes that away.
  // Loads of the types of f32 round on, and those of all others trap (seen on an H200).
  bool made_tf32 = false;
  // The program itself wrote over bytes of it since it was made here; it is what they say now, and stays
  // known as such when it is edited (decode_tensor_map).
  bool patched = false;
  uint8_t rank = 0;
  uint64_t address = 0;
  // One more than the rank may be: see split_units.
  std::array<uint64_t, 6> dim{};     // elements, dim[0] innermost
  std::array<uint64_t, 6> stride{};  // bytes; stride[0] is the element's own, implied
  std::array<uint32_t, 6> box{};     // elements
  std::array<uint32_t, 6> element_stride{};
  // im2col (PTX ISA 5.5.4): box[0] is the channels of a pixel, the other dimensions are walked pixel by pixel
  // within [lower, dim - 1 + upper], `pixels` of them. Corners by dimension: lower[0] belongs to dim[1].
  bool im2col = false;
  std::array<int16_t, 3> lower{}, upper{};
  uint32_t pixels = 0;

  // Bits of one element in global memory.
  unsigned element_bits() const;
  bool padded() const { return type == TensorType::u4_align16 || type == TensorType::u6_align16; }
  bool sub_byte() const { return type >= TensorType::u4_align8; }
  // Loads make f32 of these types tf32; stores leave them as they are (seen on an H200).
  bool rounds() const { return made_tf32 || is_tf32(); }
  bool is_tf32() const { return type == TensorType::tf32 || type == TensorType::tf32_ftz; }
  bool is_f32() const { return is_tf32() || type == TensorType::f32 || type == TensorType::f32_ftz; }

  // Of one box: elements that are copied in dimension d (element strides skip some), bytes of one innermost
  // run in global memory and in shared memory (where the padded types take a byte per element), number of
  // runs, and bytes that an mbarrier is told.
  uint32_t extent(unsigned d) const {
    return d == 0 ? box[0] : (box[d] + element_stride[d] - 1) / element_stride[d];
  }
  uint32_t run_bytes() const { return box[0] * element_bits() / 8; }
  uint32_t line() const { return padded() ? box[0] : run_bytes(); }
  // From one run to the next in shared memory: a swizzled row takes the whole span of its swizzle, also where
  // the box is narrower (seen on an H200; the bytes behind it are left alone).
  // Units of an interleaved map follow each other.
  uint32_t pitch() const {
    return interleave || swizzle == TensorSwizzle::none ? line() : swizzle_span(swizzle);
  }
  uint32_t runs() const;
  uint32_t shared_bytes() const { return (runs() - 1) * pitch() + line(); }
  uint32_t transaction_bytes() const { return runs() * run_bytes(); }

  // An interleaved map counts units of 16 or 32 bytes in dimension 0 (its size, box, coordinate and element
  // stride), and takes one slice of channels, whatever the box says of the last dimension but one (seen on an
  // H200). This makes the units' bytes a dimension of their own, in front of the others.
  void split_units();

  // The reason why the hardware would not take this map, by cuda.h's rules for cuTensorMapEncodeTiled; empty
  // when it is valid. `hopper`: sm_90 has neither the sub-byte types nor the swizzles with larger atoms (seen
  // on an H200: CUDA_ERROR_INVALID_VALUE). `edited`: what tensormap.replace made of it, where the hardware
  // does not ask for all that the driver does.
  std::string invalid(bool hopper, bool edited = false) const;

  std::array<std::byte, kTensorMapBytes> encode() const;
};

// The map in 128 bytes; `ok` false when they hold none. Maps are ours (with our mark and the checksum), made
// without the driver in the hardware's form (CuTe DSL), or ours and patched: gau-nernst's contest group GEMM
// encodes its maps once and then writes addresses and extents into them.
TensorMap decode_tensor_map(const std::byte* bytes, bool& ok);

// What cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col are both told, as cuda.h has it. Its enumerators
// are plain numbers here: programs may pass others, and that is for encode_tiled to say.
struct TensorMapArguments {
  unsigned type = 0;
  uint32_t rank = 0;
  void* address = nullptr;
  const cuuint64_t *dims = nullptr, *strides = nullptr;  // elements; bytes, strides[0] of dimension 1
  const cuuint32_t* element_strides = nullptr;
  unsigned interleave = CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  unsigned promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE, fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

// cuTensorMapEncodeTiled: checks every rule of cuda.h's and fills the map. Returns an empty string, or what
// is wrong with which value. `major` is the device's compute capability.
std::string encode_tiled(CUtensorMap* map, const TensorMapArguments&, const cuuint32_t* box, int major);
// cuTensorMapEncodeIm2col. The corners stand in the order of the dimensions, W first (as CUTLASS passes them
// in cute/atom/copy_traits_sm90_im2col.hpp; cuda.h's text lists them the other way round).
std::string encode_im2col(CUtensorMap* map, const TensorMapArguments&, const int* lower, const int* upper,
                          uint32_t channels, uint32_t pixels, int major);
// cuTensorMapReplaceAddress.
std::string replace_address(CUtensorMap* map, void* address);

// Where a byte of the linear image of a box lies: the swizzle is an XOR on bits of the shared address itself.
inline uint32_t swizzled(TensorSwizzle s, uint32_t address) {
  switch (s) {
    case TensorSwizzle::none:
      return address;
    case TensorSwizzle::b32:
      return address ^ ((address >> 3) & 0x10);
    case TensorSwizzle::b64:
      return address ^ ((address >> 3) & 0x30);
    case TensorSwizzle::b128:
      return address ^ ((address >> 3) & 0x70);
    case TensorSwizzle::b128_atom32:
      return address ^ ((address >> 2) & 0x60);
    case TensorSwizzle::b128_atom32_flip8:
      return address ^ ((address >> 2) & 0x60) ^ ((address >> 4) & 0x08);
    case TensorSwizzle::b128_atom64:
      return address ^ ((address >> 1) & 0x40);
  }
  return address;
}
// Bytes after which the pattern repeats, and bytes that stay together.
uint32_t swizzle_period(TensorSwizzle);
uint32_t swizzle_atom(TensorSwizzle);
const char* name_of(TensorSwizzle);
const char* name_of(TensorType);

}  // namespace fp4lab::emu
