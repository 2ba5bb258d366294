#include "emulator/engine/tensor_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace fp4lab::emu {

namespace {

constexpr struct {
  const char* name;
  uint8_t bits;
} kTypes[] = {{"UINT8", 8},         {"UINT16", 16},      {"UINT32", 32},       {"INT32", 32},
              {"UINT64", 64},       {"INT64", 64},       {"FLOAT16", 16},      {"FLOAT32", 32},
              {"FLOAT64", 64},      {"BFLOAT16", 16},    {"FLOAT32_FTZ", 32},  {"TFLOAT32", 32},
              {"TFLOAT32_FTZ", 32}, {"16U4_ALIGN8B", 4}, {"16U4_ALIGN16B", 4}, {"16U6_ALIGN16B", 6}};
constexpr const char* kSwizzles[] = {
    "NONE", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"};

bool is_float(TensorType t) { return (t >= TensorType::f16 && t <= TensorType::tf32_ftz); }

// The first 64 bytes are as CuTe DSL 4.8 makes them by itself, without the driver; its kernels also copy no
// more than those. Behind them stands what they have no room for (im2col, values that are not valid but may
// be replaced yet), and the mark by which our own are known. Sizes are exact so that the struct has no holes.
struct Encoded {
  uint64_t address;
  uint32_t flags;        // see kTiled and the fields behind it
  uint32_t stride[4];    // bits 35:4
  uint32_t stride_high;  // bits 39:36 of each
  uint32_t dim_minus_1[5];
  uint8_t element_stride_minus_1[3];  // three bits each
  uint8_t box_minus_1[5];
  uint32_t zero;
  uint32_t stride_rest[4];  // offset 64: bits 63:40 and 3:0
  int16_t lower[3], upper[3];
  uint16_t pixels;
  uint8_t made_tf32;
  uint8_t unused[17];
  uint64_t check;  // offset 112: of everything before it
  uint64_t magic;
};
static_assert(sizeof(Encoded) == kTensorMapBytes && offsetof(Encoded, stride_rest) == 64 &&
              offsetof(Encoded, check) == 112);
constexpr uint64_t kMagic = 0x70616d34706634ull;

struct Bits {
  unsigned first, count;
  uint32_t of(uint32_t flags) const { return flags >> first & ((1u << count) - 1); }
  uint32_t put(uint32_t value) const { return (value & ((1u << count) - 1)) << first; }
};
constexpr uint32_t kTiled = 0x4'0002, kIm2col = 0x4'0003;  // of flags; the latter and kFill are ours
constexpr Bits kKind{0, 4}, kRankMinus1{4, 3}, kType{7, 4}, kInterleave{11, 2}, kSwizzle{13, 3}, kFill{17, 1},
    kMark{18, 1}, kAtomicity{19, 2}, kPromotion{21, 2}, kNothing{23, 9};
// The hardware's numbers of the types, as numbers of cuda.h.
constexpr uint8_t kHardwareTypes[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 13, 14, 15, 11, 12};

uint32_t flags_of(const TensorMap& m) {
  const auto swizzle = static_cast<uint32_t>(m.swizzle);
  const auto* type =
      std::find(std::begin(kHardwareTypes), std::end(kHardwareTypes), static_cast<uint8_t>(m.type));
  return (m.im2col ? kIm2col : kTiled) | kRankMinus1.put(m.rank - 1u) |
         kType.put(static_cast<uint32_t>(type - kHardwareTypes)) | kInterleave.put(m.interleave) |
         kSwizzle.put(std::min(swizzle, 3u)) | kAtomicity.put(swizzle > 3 ? swizzle - 3 : 0) |
         kFill.put(m.fill) | kPromotion.put(m.l2_promotion);
}

// Bytes without our mark, or patched: may they be a map of this kind?
bool hardware_form(const Encoded& e, uint32_t kind) {
  return kKind.of(e.flags) == kKind.of(kind) && kMark.of(e.flags) && !kNothing.of(e.flags) && !e.zero &&
         kSwizzle.of(e.flags) <= 3 && (!kAtomicity.of(e.flags) || kSwizzle.of(e.flags) == 3);
}

uint64_t checksum(const Encoded& e) {
  uint64_t words[14], h = 0x9e3779b97f4a7c15ull;
  std::memcpy(words, &e, sizeof words);
  for (uint64_t w : words) h = (h ^ w) * 0xff51afd7ed558ccdull, h ^= h >> 32;
  return h;
}

}  // namespace

const char* name_of(TensorSwizzle s) { return kSwizzles[static_cast<int>(s)]; }
const char* name_of(TensorType t) { return kTypes[static_cast<int>(t)].name; }

uint32_t swizzle_period(TensorSwizzle s) {
  constexpr uint32_t period[] = {16, 256, 512, 1024, 512, 512, 256};
  return period[static_cast<int>(s)];
}

uint32_t swizzle_atom(TensorSwizzle s) {
  constexpr uint32_t atom[] = {16, 16, 16, 16, 32, 8, 64};
  return atom[static_cast<int>(s)];
}

unsigned TensorMap::element_bits() const { return kTypes[static_cast<int>(type)].bits; }

uint32_t TensorMap::runs() const {
  uint32_t n = 1;
  for (unsigned d = 1; d < rank; ++d) n *= extent(d);
  return n;
}

namespace {

// What im2col asks for besides.
std::string invalid_pixels(const TensorMap& m) {
  if (m.rank < 3) return fmt::format("tensorRank is {}, must be 3 to 5", m.rank);
  if (m.pixels < 1 || m.pixels > 1024)
    return fmt::format("pixelsPerColumn is {}, must be 1 to 1024", m.pixels);
  constexpr int kLimit[] = {32768, 128, 16};  // by rank: 3, 4, 5
  const int limit = kLimit[m.rank - 3];
  for (unsigned d = 0; d + 2 < m.rank; ++d) {
    for (auto [name, value] :
         {std::pair{"pixelBoxLowerCorner", m.lower[d]}, {"pixelBoxUpperCorner", m.upper[d]}})
      if (value < -limit || value >= limit)
        return fmt::format("{}[{}] is {}, must be {} to {} with rank {}", name, d, value, -limit, limit - 1,
                           m.rank);
    // In 32 bits, as an H200's driver (580.159.04) reckons. An interleaved map has no dimension of channels
    // in front of those of the picture.
    const unsigned of = m.interleave ? d : d + 1;
    const auto end =
        static_cast<int32_t>(static_cast<uint32_t>(m.dim[of]) + static_cast<uint32_t>(m.upper[d]));
    if (end <= m.lower[d])
      return fmt::format("the bounding box of dimension {} is empty: from {} to {} - 1 + {}", of, m.lower[d],
                         m.dim[of], m.upper[d]);
  }
  // That driver's limit: as much as an SM's shared memory.
  constexpr uint64_t kMaxColumn = 228 << 10;
  if (const uint64_t bytes = uint64_t(m.pixels) * m.run_bytes(); bytes > kMaxColumn)
    return fmt::format("{} pixels of {} bytes are more than {} bytes", m.pixels, m.run_bytes(), kMaxColumn);
  return {};
}

}  // namespace

std::string TensorMap::invalid(bool hopper, bool edited) const {
  const bool wide = type == TensorType::u4_align16 || type == TensorType::u6_align16;
  if (rank < 1 || rank > 5) return fmt::format("tensorRank is {}, must be 1 to 5", rank);
  if (im2col)
    if (std::string why = invalid_pixels(*this); !why.empty()) return why;
  if (hopper && sub_byte()) return fmt::format("type {} needs sm_100", name_of(type));
  if (hopper && swizzle > TensorSwizzle::b128)
    return fmt::format("swizzle {} needs sm_100", name_of(swizzle));
  if (interleave > 2) return fmt::format("interleave is {}, must be 0 to 2", interleave);
  if (interleave && rank < 3)
    return fmt::format("interleave {} needs a rank of at least 3, not {}", interleave, rank);
  const unsigned align = interleave == 2 || wide ? 32 : 16;
  if (address % align) return fmt::format("globalAddress {:#x} is not a multiple of {}", address, align);
  // A null address is encoded: CUTLASS 75_blackwell_grouped_gemm replaces it on the device before the map is
  // used.
  for (unsigned d = 0; d < rank; ++d) {
    if (dim[d] < 1 || dim[d] > uint64_t(1) << 32)
      return fmt::format("globalDim[{}] is {}, must be 1 to 2^32", d, dim[d]);
    if (box[d] < 1 || box[d] > 256)
      return im2col ? fmt::format("channelsPerPixel is {}, must be 1 to 256", box[d])
                    : fmt::format("boxDim[{}] is {}, must be 1 to 256", d, box[d]);
    if (element_stride[d] < 1 || element_stride[d] > 8)
      return fmt::format("elementStrides[{}] is {}, must be 1 to 8", d, element_stride[d]);
  }
  if (type == TensorType::u4_align8 && dim[0] % 2)
    return fmt::format("globalDim[0] is {}: type 16U4_ALIGN8B needs a multiple of 2", dim[0]);
  if (wide && dim[0] % 128)
    return fmt::format("globalDim[0] is {}: type {} needs a multiple of 128", dim[0], name_of(type));
  for (unsigned d = 1; d < rank; ++d) {
    if (stride[d] % align)
      return fmt::format("globalStrides[{}] is {} bytes, not a multiple of {}", d - 1, stride[d], align);
    if (stride[d] >= uint64_t(1) << 40)
      return fmt::format("globalStrides[{}] is {} bytes, must be below 2^40", d - 1, stride[d]);
  }
  if (wide && box[0] != 128)
    return fmt::format("{} is {}: type {} needs exactly 128", im2col ? "channelsPerPixel" : "boxDim[0]",
                       box[0], name_of(type));
  if (!(edited && interleave) && (box[0] * element_bits()) % 128)
    return fmt::format("the inner box of {} {} elements is {} bits, not a multiple of 16 bytes", box[0],
                       name_of(type), box[0] * element_bits());
  if (wide && (swizzle == TensorSwizzle::b32 || swizzle == TensorSwizzle::b64))
    return fmt::format("type {} takes swizzle NONE or a 128B one, not {}", name_of(type), name_of(swizzle));
  if (!interleave && line() > swizzle_span(swizzle))
    return fmt::format("the inner box is {} bytes, more than the {} bytes of swizzle {}", line(),
                       swizzle_span(swizzle), name_of(swizzle));
  if (fill > 1) return fmt::format("oobFill is {}, must be 0 or 1", fill);
  if (fill == 1 && !is_float(type))
    return fmt::format("oobFill NAN_REQUEST_ZERO_FMA needs a floating-point type, not {}", name_of(type));
  if (l2_promotion > 3) return fmt::format("l2Promotion is {}, must be 0 to 3", l2_promotion);
  return {};
}

void TensorMap::split_units() {
  const uint64_t unit = interleave == 1 ? 16 : 32;
  box[rank - 2u] = 1, element_stride[rank - 2u] = 1;
  stride[0] = unit;
  for (auto* dimensions : {&dim, &stride}) std::shift_right(dimensions->begin(), dimensions->end(), 1);
  for (auto* extents : {&box, &element_stride}) std::shift_right(extents->begin(), extents->end(), 1);
  dim[0] = unit * 8 / element_bits();
  box[0] = static_cast<uint32_t>(dim[0]);
  element_stride[0] = 1;
  ++rank;
}

std::array<std::byte, kTensorMapBytes> TensorMap::encode() const {
  Encoded e{};
  e.address = address, e.flags = flags_of(*this);
  uint32_t element_strides = 0;
  for (unsigned d = 0; d < 4; ++d) {
    e.stride[d] = static_cast<uint32_t>(stride[d + 1] >> 4);
    e.stride_high |= static_cast<uint32_t>(stride[d + 1] >> 36 & 0xf) << 4 * d;
    e.stride_rest[d] = static_cast<uint32_t>(stride[d + 1] >> 40 << 4 | (stride[d + 1] & 0xf));
  }
  for (unsigned d = 0; d < 5; ++d) {
    e.dim_minus_1[d] = static_cast<uint32_t>(dim[d] - 1);
    e.box_minus_1[d] = static_cast<uint8_t>(box[d] - 1);
    element_strides |= ((element_stride[d] - 1) & 7) << 3 * d;
  }
  std::memcpy(e.element_stride_minus_1, &element_strides, sizeof e.element_stride_minus_1);
  e.pixels = static_cast<uint16_t>(pixels), e.made_tf32 = made_tf32;
  for (unsigned d = 0; d < 3; ++d) e.lower[d] = lower[d], e.upper[d] = upper[d];
  e.magic = kMagic;
  e.check = patched ? ~checksum(e) : checksum(e);
  std::array<std::byte, kTensorMapBytes> bytes;
  std::memcpy(bytes.data(), &e, sizeof e);
  return bytes;
}

TensorMap decode_tensor_map(const std::byte* bytes, bool& ok) {
  Encoded e;
  std::memcpy(&e, bytes, sizeof e);
  const bool marked = e.magic == kMagic, sound = e.check == checksum(e), ours = marked && sound;
  TensorMap m;
  m.patched = marked && !sound && (hardware_form(e, kTiled) || hardware_form(e, kIm2col));
  ok = ours || m.patched || (!marked && !sound && hardware_form(e, kTiled));
  if (!ok) return m;
  uint32_t element_strides = 0;
  std::memcpy(&element_strides, e.element_stride_minus_1, sizeof e.element_stride_minus_1);
  m.address = e.address;
  m.type = static_cast<TensorType>(kHardwareTypes[kType.of(e.flags)]);
  m.swizzle = static_cast<TensorSwizzle>(kSwizzle.of(e.flags) + kAtomicity.of(e.flags));
  m.interleave = static_cast<uint8_t>(kInterleave.of(e.flags)),
  m.fill = static_cast<uint8_t>(kFill.of(e.flags));
  m.l2_promotion = static_cast<uint8_t>(kPromotion.of(e.flags));
  m.rank = static_cast<uint8_t>(kRankMinus1.of(e.flags) + 1);
  for (unsigned d = 0; d < 5; ++d) {
    m.dim[d] = uint64_t(e.dim_minus_1[d]) + 1;
    m.box[d] = uint32_t(e.box_minus_1[d]) + 1;
    m.element_stride[d] = (element_strides >> 3 * d & 7) + 1;
    if (d) m.stride[d] = uint64_t(e.stride_high >> 4 * (d - 1) & 0xf) << 36 | uint64_t(e.stride[d - 1]) << 4;
  }
  if (!ours && !m.patched) {
    ok = m.invalid(false).empty();
    return m;
  }
  for (unsigned d = 0; d < 4; ++d)
    m.stride[d + 1] |= uint64_t(e.stride_rest[d] >> 4) << 40 | (e.stride_rest[d] & 0xf);
  m.im2col = kKind.of(e.flags) == kKind.of(kIm2col), m.pixels = e.pixels;
  m.made_tf32 = e.made_tf32;
  for (unsigned d = 0; d < 3; ++d) m.lower[d] = e.lower[d], m.upper[d] = e.upper[d];
  return m;
}

namespace {

// What both kinds of maps share; the reason why not, or nothing and the map's common fields.
std::string encode_common(TensorMap& m, CUtensorMap* map, const TensorMapArguments& a) {
  if (!map) return "tensorMap is null";  // cuda.h wants 64-byte alignment, and the driver does not ask
  if (a.type >= std::size(kTypes))
    return fmt::format("tensorDataType is {}, must be 0 to 15", static_cast<int>(a.type));
  if (a.swizzle >= std::size(kSwizzles))
    return fmt::format("swizzle is {}, must be 0 to 6", static_cast<int>(a.swizzle));
  if (a.interleave >= 3)
    return fmt::format("interleave is {}, must be 0 to 2", static_cast<int>(a.interleave));
  if (a.promotion >= 4)
    return fmt::format("l2Promotion is {}, must be 0 to 3", static_cast<int>(a.promotion));
  if (a.fill >= 2) return fmt::format("oobFill is {}, must be 0 or 1", static_cast<int>(a.fill));
  if (a.rank < 1 || a.rank > kTensorMapMaxRank)
    return fmt::format("tensorRank is {}, must be 1 to 5", a.rank);
  // The driver (580.159, H200) asks for strides with rank 1 too, which has none.
  if (!a.dims || !a.element_strides || !a.strides)
    return "globalDim, globalStrides or elementStrides is null";
  m.type = static_cast<TensorType>(a.type);
  m.swizzle = static_cast<TensorSwizzle>(a.swizzle);
  m.rank = static_cast<uint8_t>(a.rank);
  m.address = reinterpret_cast<uint64_t>(a.address);
  m.interleave = static_cast<uint8_t>(a.interleave), m.l2_promotion = static_cast<uint8_t>(a.promotion);
  m.fill = static_cast<uint8_t>(a.fill), m.made_tf32 = m.is_tf32();
  m.dim.fill(1), m.box.fill(1), m.element_stride.fill(1);
  for (unsigned d = 0; d < a.rank; ++d) {
    m.dim[d] = a.dims[d], m.element_stride[d] = a.element_strides[d];
    if (d) m.stride[d] = a.strides[d - 1];
  }
  return {};
}

std::string encode_valid(const TensorMap& m, CUtensorMap* map, int major) {
  std::string reason = m.invalid(major < 10);
  if (reason.empty()) std::memcpy(map, m.encode().data(), kTensorMapBytes);
  return reason;
}

}  // namespace

std::string encode_tiled(CUtensorMap* map, const TensorMapArguments& a, const cuuint32_t* box, int major) {
  TensorMap m;
  if (std::string why = encode_common(m, map, a); !why.empty()) return why;
  if (!box) return "boxDim is null";
  for (unsigned d = 0; d < a.rank; ++d) m.box[d] = box[d];
  return encode_valid(m, map, major);
}

std::string encode_im2col(CUtensorMap* map, const TensorMapArguments& a, const int* lower, const int* upper,
                          uint32_t channels, uint32_t pixels, int major) {
  TensorMap m;
  if (std::string why = encode_common(m, map, a); !why.empty()) return why;
  if (!lower || !upper) return "pixelBoxLowerCorner or pixelBoxUpperCorner is null";
  m.im2col = true, m.box[0] = channels, m.pixels = pixels;
  for (unsigned d = 0; d + 2 < a.rank; ++d) {
    auto clamped = [](int v) { return static_cast<int16_t>(std::clamp(v, -32768, 32767)); };
    if (lower[d] != clamped(lower[d]) || upper[d] != clamped(upper[d]))
      return fmt::format("the corners {} and {} of dimension {} have more than 16 bits", lower[d], upper[d],
                         d + 1);
    m.lower[d] = clamped(lower[d]), m.upper[d] = clamped(upper[d]);
  }
  return encode_valid(m, map, major);
}

std::string replace_address(CUtensorMap* map, void* address) {
  if (!map) return "tensorMap is null";
  bool ok;
  TensorMap m = decode_tensor_map(reinterpret_cast<const std::byte*>(map), ok);
  if (!ok) return "these 128 bytes are not a tensor map";
  m.address = reinterpret_cast<uint64_t>(address);
  std::string reason = m.invalid(false);
  if (reason.empty()) std::memcpy(map, m.encode().data(), kTensorMapBytes);
  return reason;
}

}  // namespace fp4lab::emu
