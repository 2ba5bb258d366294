#include "emulator/engine/descriptors.h"

#include "emulator/core/error.h"

namespace fp4lab::emu {

namespace {

uint64_t field(uint64_t bits, unsigned high, unsigned low) {
  return bits >> low & ((uint64_t(2) << (high - low)) - 1);
}

// A bit range that must have one value.
void require(const std::string& what, uint64_t bits, unsigned high, unsigned low, uint64_t value,
             const char* name) {
  if (field(bits, high, low) != value)
    fault(FaultKind::descriptor, 0, "{} {:#x}: {} (bits {}:{}) is {}, must be {}", what, bits, name, high,
          low, field(bits, high, low), value);
}

}  // namespace

const char* name_of(MmaKind k) {
  constexpr const char* names[] = {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"};
  return names[static_cast<int>(k)];
}

uint32_t SharedMatrix::mn_major_address(uint32_t mn, uint32_t k, uint32_t bytes) const {
  // Canonical layouts of PTX ISA 9.7.16.3.3, with T elements in 16 bytes: an atom is one span of mn by 8 rows
  // of k, with 32-byte atoms of the swizzle by 4 (table 55 there; ((T,8,m),(4,k)) in CUTLASS's
  // cute/arch/mma_sm100_desc.hpp); LBO steps along mn and SBO along k, without a swizzle the other way round.
  const uint32_t width = span() / bytes;  // elements of mn in an atom
  const uint32_t depth = swizzle == Swizzle::b128_atom32 ? 4 : 8;
  const uint32_t inside = k % depth * span() + mn % width * bytes;
  if (swizzle == Swizzle::none) return start + mn / width * sbo + k / depth * lbo + inside;
  return permuted(start + mn / width * lbo + k / depth * sbo + inside);
}

SharedMatrix decode_tcgen05_descriptor(uint64_t bits, const std::string& what) {
  require(what, bits, 15, 14, 0, "reserved field");
  require(what, bits, 31, 30, 0, "reserved field");
  require(what, bits, 48, 46, 1, "constant field (a wgmma descriptor has 0 there)");
  require(what, bits, 60, 53, 0, "reserved field");
  if (field(bits, 52, 52))
    fault(FaultKind::absent, 0, "{} {:#x}: absolute leading offsets (bit 52) exist on sm_103a only", what,
          bits);
  SharedMatrix d;
  switch (field(bits, 63, 61)) {
    case 0:
      d.swizzle = SharedMatrix::Swizzle::none;
      break;
    case 1:
      d.swizzle = SharedMatrix::Swizzle::b128_atom32;
      break;
    case 2:
      d.swizzle = SharedMatrix::Swizzle::b128;
      break;
    case 4:
      d.swizzle = SharedMatrix::Swizzle::b64;
      break;
    case 6:
      d.swizzle = SharedMatrix::Swizzle::b32;
      break;
    default:
      fault(FaultKind::descriptor, 0,
            "{} {:#x}: swizzle (bits 63:61) is {}; valid are 0 none, 1 128B with 32B "
            "atoms, 2 128B, 4 64B, 6 32B",
            what, bits, field(bits, 63, 61));
  }
  d.start = static_cast<uint32_t>(field(bits, 13, 0)) << 4;
  d.lbo = static_cast<uint32_t>(field(bits, 29, 16)) << 4;
  d.sbo = static_cast<uint32_t>(field(bits, 45, 32)) << 4;
  d.base = static_cast<uint32_t>(field(bits, 51, 49));
  return d;
}

SharedMatrix decode_wgmma_descriptor(uint64_t bits, const std::string& what) {
  require(what, bits, 15, 14, 0, "reserved field");
  require(what, bits, 31, 30, 0, "reserved field");
  require(what, bits, 48, 46, 0, "reserved field (a tcgen05 descriptor has 1 there)");
  require(what, bits, 61, 52, 0, "reserved field");
  constexpr SharedMatrix::Swizzle codes[] = {SharedMatrix::Swizzle::none, SharedMatrix::Swizzle::b128,
                                             SharedMatrix::Swizzle::b64, SharedMatrix::Swizzle::b32};
  SharedMatrix d;
  d.swizzle = codes[field(bits, 63, 62)];
  d.start = static_cast<uint32_t>(field(bits, 13, 0)) << 4;
  d.lbo = static_cast<uint32_t>(field(bits, 29, 16)) << 4;
  d.sbo = static_cast<uint32_t>(field(bits, 45, 32)) << 4;
  d.base = static_cast<uint32_t>(field(bits, 51, 49));
  return d;
}

namespace {

void check_format(uint32_t bits, MmaKind kind, const char* operand, unsigned high, unsigned low,
                  unsigned value) {
  const std::string what = fmt::format("tcgen05.mma.kind::{}: instruction descriptor", name_of(kind));
  auto bad = [&](const char* valid) {
    fault(FaultKind::descriptor, 0, "{} {:#010x}: {} type (bits {}:{}) is {}, valid for this kind: {}", what,
          bits, operand, high, low, value, valid);
  };
  switch (kind) {
    case MmaKind::f16:
      if (value > 1) bad("0 f16, 1 bf16");
      break;
    case MmaKind::tf32:
      if (value != 2) bad("2 tf32");
      break;
    case MmaKind::f8f6f4:
    case MmaKind::mxf8f6f4:
      if (value == 2 || value > 5) bad("0 e4m3, 1 e5m2, 3 e2m3, 4 e3m2, 5 e2m1");
      break;
    case MmaKind::i8:
      if (value > 1) bad("0 u8, 1 s8");
      break;
    case MmaKind::mxf4:
    case MmaKind::mxf4nvf4:
      if (value != 1) bad("1 e2m1");
      break;
  }
}

std::string illegal_stationary_shape(uint32_t m, uint32_t n, bool sparse) {
  if (m != 32 && m != 64 && m != 128) return fmt::format("M = {}: must be 32, 64 or 128 with .ws", m);
  if (sparse && n != 64 && n != 128) return fmt::format("N = {}: must be 64 or 128 with .ws.sp", n);
  if (n != 64 && n != 128 && n != 256) return fmt::format("N = {}: must be 64, 128 or 256 with .ws", n);
  return {};
}

// PTX ISA 9.7.16.2.1, table of shapes.
std::string illegal_shape(MmaKind kind, unsigned group, uint32_t m, uint32_t n, bool sparse) {
  const bool mx = kind >= MmaKind::mxf8f6f4;
  if (group == 2 && mx && sparse && m != 256)
    return fmt::format("M = {}: must be 256 with .cta_group::2, block scaling and a sparse A", m);
  if (group == 1 && !(m == 128 || (m == 64 && !mx)))
    return mx ? fmt::format("M = {}: must be 128 with .cta_group::1", m)
              : fmt::format("M = {}: must be 64 or 128 with .cta_group::1", m);
  if (group == 2 && m != 128 && m != 256)
    return fmt::format("M = {}: must be 128 or 256 with .cta_group::2", m);
  if (kind == MmaKind::i8) {
    if (group == 1 && !(n == 8 || n == 24 || (n % 16 == 0 && n >= 16 && n <= 256)))
      return fmt::format("N = {}: must be 8, 16, 24 or a multiple of 16 from 32 to 256", n);
    if (group == 2 && (n % 32 || n < 32 || n > 256))
      return fmt::format("N = {}: must be a multiple of 32 to 256", n);
    return {};
  }
  const uint32_t step = group == 2 ? 16 : 8;
  if (n < step || n > 256 || n % step)
    return fmt::format("N = {}: must be a multiple of {} from {} to 256 with .cta_group::{}", n, step, step,
                       group);
  return {};
}

}  // namespace

InstructionDescriptor decode_instruction_descriptor(uint32_t bits, MmaKind kind, unsigned scale_vec,
                                                    unsigned group, bool a_in_tmem, bool weight_stationary,
                                                    bool sparse) {
  const std::string what = fmt::format("tcgen05.mma.kind::{}: instruction descriptor", name_of(kind));
  const bool mx = kind >= MmaKind::mxf8f6f4, fp4 = kind >= MmaKind::mxf4;
  InstructionDescriptor d;
  d.kind = kind;
  require(what, bits, 2, 2, sparse,
          sparse ? "sparse flag (the instruction is .sp)" : "sparse flag (the instruction is dense)");
  d.sparsity_selector = static_cast<uint8_t>(field(bits, 1, 0));
  if (!sparse)
    require(what, bits, 1, 0, 0, "sparsity selector (the instruction is dense)");
  else if (kind != MmaKind::f16 && kind != MmaKind::tf32)
    require(what, bits, 1, 0, 0, "sparsity selector (this kind's metadata fills both columns)");
  else
    require(what, bits, 1, 1, 0, "upper bit of the sparsity selector (there are two columns)");
  require(what, bits, 6, 6, 0, "reserved bit");
  d.a_format = static_cast<uint8_t>(field(bits, 9, 7));
  d.b_format = static_cast<uint8_t>(field(bits, 12, 10));
  check_format(bits, kind, "A", 9, 7, d.a_format);
  check_format(bits, kind, "B", 12, 10, d.b_format);
  d.negate_a = field(bits, 13, 13), d.negate_b = field(bits, 14, 14);
  d.transpose_a = field(bits, 15, 15), d.transpose_b = field(bits, 16, 16);
  d.n = static_cast<uint32_t>(field(bits, 22, 17)) << 3;
  if (mx) {
    require(what, bits, 3, 3, 0, "reserved bit");
    require(what, bits, 26, 24, 0, "reserved field");
    require(what, bits, 31, 31, 0, "K size (1 exists on sm_103a only)");
    d.m = static_cast<uint32_t>(field(bits, 28, 27)) << 7;
    d.sfb_id = static_cast<uint8_t>(field(bits, 5, 4));
    d.sfa_id = static_cast<uint8_t>(field(bits, 30, 29));
    d.scale_ue8m0 = field(bits, 23, 23);
    if (kind != MmaKind::mxf4nvf4 && !d.scale_ue8m0)
      fault(FaultKind::descriptor, 0,
            "{} {:#010x}: scale type (bit 23) is 0 (ue4m3), this kind takes 1 (ue8m0)", what, bits);
    if (kind == MmaKind::mxf4nvf4 && scale_vec == 2 && !d.scale_ue8m0)
      fault(FaultKind::descriptor, 0,
            "{} {:#010x}: scale type (bit 23) is 0 (ue4m3), which needs .block16 / .scale_vec::4X", what,
            bits);
    for (auto [name, id, high, low] : {std::tuple{"A", d.sfa_id, 30, 29}, std::tuple{"B", d.sfb_id, 5, 4}}) {
      const bool ok = scale_vec == 4 ? id == 0 : scale_vec == 2 ? id % 2 == 0 : true;
      if (!ok)
        fault(FaultKind::descriptor, 0,
              "{} {:#010x}: scale factor id of {} (bits {}:{}) is {}, with {} scales per row it must be {}",
              what, bits, name, high, low, id, scale_vec, scale_vec == 4 ? "0" : "0 or 2");
    }
  } else {
    require(what, bits, 23, 23, 0, "reserved bit");
    require(what, bits, 29, 29, 0, "reserved bit");
    if (!weight_stationary) require(what, bits, 31, 30, 0, "maximum shift (for .ws only)");
    constexpr uint8_t kShifts[] = {0, 8, 16, 32};
    d.maximum_shift = kShifts[field(bits, 31, 30)];
    d.m = static_cast<uint32_t>(field(bits, 28, 24)) << 4;
    d.saturate = field(bits, 3, 3);
    d.d_format = static_cast<uint8_t>(field(bits, 5, 4));
    if (d.saturate && kind != MmaKind::i8) require(what, bits, 3, 3, 0, "saturate (for kind::i8 only)");
    if (kind == MmaKind::i8) {
      require(what, bits, 5, 4, 2, "D type (s32)");
      require(what, bits, 14, 13, 0, "negate A and B (not for kind::i8)");
    } else if (kind == MmaKind::tf32) {
      require(what, bits, 5, 4, 1, "D type (f32)");
    } else if (d.d_format > 1) {
      fault(FaultKind::descriptor, 0, "{} {:#010x}: D type (bits 5:4) is {}, must be 0 f16 or 1 f32", what,
            bits, d.d_format);
    } else if (kind == MmaKind::f16 && d.d_format == 0 && (d.a_format || d.b_format)) {
      fault(FaultKind::descriptor, 0,
            "{} {:#010x}: D type (bits 5:4) is 0 f16, which takes f16 operands only; {} is bf16", what, bits,
            d.a_format ? "A" : "B");
    } else if (kind == MmaKind::f16 && d.a_format != d.b_format) {
      // An illegal instruction on a B200 (sf-tensor/tcgen05 6f19f227, hardware_validation/mma_probe).
      fault(FaultKind::descriptor, 0,
            "{} {:#010x}: A type (bits 9:7) is {}, B type (bits 12:10) is {}: kind::f16 takes two f16 or two "
            "bf16 operands",
            what, bits, d.a_format ? "bf16" : "f16", d.b_format ? "bf16" : "f16");
    }
    // The zero-column mask of M = 32 shifts by 16 at most (PTX ISA 9.7.16.4.3); a B200 traps (the same
    // source).
    if (d.m == 32 && d.maximum_shift == 32)
      fault(FaultKind::descriptor, 0,
            "{} {:#010x}: maximum shift (bits 31:30) is 3, 32 columns: with M = 32 it must be 0, 1 or 2",
            what, bits);
  }
  if (std::string why = weight_stationary ? illegal_stationary_shape(d.m, d.n, sparse)
                                          : illegal_shape(kind, group, d.m, d.n, sparse);
      !why.empty())
    fault(FaultKind::descriptor, 0, "{} {:#010x}: {} (M in bits {}, N in bits 22:17)", what, bits, why,
          mx ? "28:27" : "28:24");
  const bool bytes = kind == MmaKind::f8f6f4 || kind == MmaKind::mxf8f6f4 || kind == MmaKind::i8;
  if (const uint32_t step = 16 * group; bytes && d.transpose_b && d.n % step)  // PTX ISA 9.7.16.10.1
    fault(FaultKind::descriptor, 0,
          "{} {:#010x}: N = {}: must be a multiple of {} where B is transposed (bit 16) and its elements "
          "have 8 bits, with .cta_group::{}",
          what, bits, d.n, step, group);
  if (fp4 && (d.transpose_a || d.transpose_b))
    fault(FaultKind::descriptor, 0,
          "{} {:#010x}: transpose A/B (bits 15, 16) is set, but e2m1 operands of "
          "this kind are K-major only",
          what, bits);
  if (a_in_tmem && d.transpose_a)
    fault(FaultKind::descriptor, 0, "{} {:#010x}: transpose A (bit 15) is set, but A in TMEM is K-major only",
          what, bits);
  return d;
}

std::vector<uint8_t> zero_column_mask(uint64_t bits, uint32_t m, uint32_t n) {
  if (!(bits >> 39 & 1)) return {};
  std::vector<uint8_t> mask(n);
  const uint32_t skip = (bits >> 40 & 255) + 1, used = (bits >> 48 & 255) + 1, parts = 128 / m,
                 size = n / parts;
  for (uint32_t part = 0; part < parts; ++part) {
    bool zero = bits >> (32 + part) & 1;
    uint32_t left = zero ? skip : used;
    for (uint32_t i = 0, at = bits >> (8 * part) & 255; i < at + size; ++i) {
      if (i >= at) mask[part * size + i - at] = zero;
      if (--left == 0) zero = !zero, left = zero ? skip : used;
    }
  }
  return mask;
}

}  // namespace fp4lab::emu
