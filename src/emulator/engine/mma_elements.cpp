// The elements of a product's operands: their formats, and operands taken apart for the arithmetic.
#include <array>
#include <cmath>
#include <cstring>

#include "emulator/engine/mma_float.h"
#include "emulator/engine/mma_float_detail.h"

namespace fp4lab::emu {

using detail::bytes_of, detail::kZeroExponent;

namespace {

struct FloatLayout {
  int exponent_bits, mantissa_bits, bias;
  bool infinities;  // IEEE style: the top exponent is Inf and NaN
};
constexpr FloatLayout kLayouts[] = {
    {5, 10, 15, true},   // f16
    {8, 7, 127, true},   // bf16
    {8, 10, 127, true},  // tf32: the upper 19 bits of a word
    {4, 3, 7, false},    // e4m3: only 0x7f is NaN
    {5, 2, 15, true},    // e5m2
    {2, 3, 1, false},    // e2m3
    {3, 2, 3, false},    // e3m2
    {2, 1, 1, false},    // e2m1
};

bool is_special(ElementFormat f, uint32_t bits) {
  const FloatLayout& l = kLayouts[static_cast<int>(f)];
  if (f == ElementFormat::e4m3) return (bits & 0x7f) == 0x7f;
  if (!l.infinities) return false;
  return (bits >> l.mantissa_bits & ((1u << l.exponent_bits) - 1)) == (1u << l.exponent_bits) - 1;
}

struct Decoded {
  int32_t significand, exponent;
};

Decoded decode_bits(const FloatLayout& l, uint32_t bits) {
  const uint32_t e = bits >> l.mantissa_bits & ((1u << l.exponent_bits) - 1),
                 m = bits & ((1u << l.mantissa_bits) - 1);
  const int32_t magnitude = static_cast<int32_t>(e ? m | 1u << l.mantissa_bits : m);
  return {bits >> (l.mantissa_bits + l.exponent_bits) & 1 ? -magnitude : magnitude,
          magnitude == 0 ? kZeroExponent : static_cast<int32_t>(e ? e : 1) - l.bias};
}

// All codes of a format of up to 8 bits.
const std::array<Decoded, 256>& narrow_table(ElementFormat f) {
  static const auto tables = [] {
    std::array<std::array<Decoded, 256>, 8> t{};
    for (int i = 3; i < 8; ++i)
      for (uint32_t b = 0; b < 256; ++b) {
        const FloatLayout& l = kLayouts[i];
        t[i][b] = decode_bits(l, b & ((2u << (l.mantissa_bits + l.exponent_bits)) - 1));
      }
    return t;
  }();
  return tables[static_cast<size_t>(f)];
}

// Contiguous in and out, so that it becomes vector code. True when some element is Inf or NaN.
template <class Word, int kDrop>
__attribute__((always_inline)) inline bool decode_row(const FloatLayout& l, const std::byte* bytes,
                                                      uint32_t count, int32_t* significand,
                                                      int32_t* exponent) {
  const uint32_t e_mask = (1u << l.exponent_bits) - 1, m_mask = (1u << l.mantissa_bits) - 1;
  const int sign = l.mantissa_bits + l.exponent_bits, m_bits = l.mantissa_bits, bias = l.bias;
  uint32_t special = 0;
  for (uint32_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, bytes + i * sizeof(Word), sizeof(Word));
    const uint32_t bits = static_cast<uint32_t>(word) >> kDrop;
    const uint32_t e = bits >> m_bits & e_mask, m = bits & m_mask;
    const int32_t magnitude = static_cast<int32_t>(m | (e ? m_mask + 1 : 0));
    const int32_t negative = -static_cast<int32_t>(bits >> sign & 1);
    significand[i] = (magnitude ^ negative) - negative;
    exponent[i] = magnitude == 0 ? kZeroExponent : static_cast<int32_t>(e ? e : 1) - bias;
    special |= e == e_mask;
  }
  return special;
}
__attribute__((target_clones("arch=x86-64-v4", "avx2", "default"))) bool decode_row_16(
    const FloatLayout& l, const std::byte* bytes, uint32_t count, int32_t* significand, int32_t* exponent) {
  return decode_row<uint16_t, 0>(l, bytes, count, significand, exponent);
}
// tf32: the low 13 bits of a word do not take part.
__attribute__((target_clones("arch=x86-64-v4", "avx2", "default"))) bool decode_row_32(
    const FloatLayout& l, const std::byte* bytes, uint32_t count, int32_t* significand, int32_t* exponent) {
  return decode_row<uint32_t, 13>(l, bytes, count, significand, exponent);
}

}  // namespace

ElementFormat element_format(Type t) {
  switch (t) {
    case Type::f16:
      return ElementFormat::f16;
    case Type::bf16:
      return ElementFormat::bf16;
    case Type::tf32:
      return ElementFormat::tf32;
    case Type::e4m3:
      return ElementFormat::e4m3;
    case Type::e5m2:
      return ElementFormat::e5m2;
    case Type::s8:
      return ElementFormat::s8;
    default:
      return ElementFormat::u8;
  }
}

float element_value(ElementFormat f, uint32_t bits) {
  if (f == ElementFormat::u8) return static_cast<uint8_t>(bits);
  if (f == ElementFormat::s8) return static_cast<int8_t>(bits);
  const FloatLayout& l = kLayouts[static_cast<int>(f)];
  const uint32_t e = bits >> l.mantissa_bits & ((1u << l.exponent_bits) - 1),
                 m = bits & ((1u << l.mantissa_bits) - 1);
  const float sign = bits >> (l.mantissa_bits + l.exponent_bits) & 1 ? -1.0f : 1.0f;
  if (is_special(f, bits))
    return m && f != ElementFormat::e4m3 ? NAN : f == ElementFormat::e4m3 ? NAN : sign * INFINITY;
  if (e == 0) return sign * std::ldexp(static_cast<float>(m), 1 - l.bias - l.mantissa_bits);
  return sign * std::ldexp(static_cast<float>(m | 1u << l.mantissa_bits),
                           static_cast<int>(e) - l.bias - l.mantissa_bits);
}

void MmaElements::decode(ElementFormat f, const std::byte* bytes, uint32_t row_count, uint32_t k_count,
                         bool negate) {
  rows = row_count, k = k_count, negated = negate;
  significand.resize(size_t(rows) * k);
  exponent.resize(size_t(rows) * k);
  special.assign(rows, 0);
  raw.assign(bytes, bytes + size_t(rows) * k * bytes_of(f));
  any_special = false;
  absent.clear();
  const size_t count = size_t(rows) * k;
  if (f == ElementFormat::u8 || f == ElementFormat::s8) {
    for (size_t i = 0; i < count; ++i) {
      const uint8_t b = static_cast<uint8_t>(bytes[i]);
      significand[i] = f == ElementFormat::u8 ? b : static_cast<int8_t>(b);
    }
    return;
  }
  const FloatLayout& l = kLayouts[static_cast<int>(f)];
  fraction = l.mantissa_bits;
  const unsigned size = bytes_of(f);
  if (size > 1) {
    const auto decode_all = size == 4 ? decode_row_32 : decode_row_16;
    // All at once; which row has the special values is looked for only when there are some.
    if (decode_all(l, bytes, static_cast<uint32_t>(count), significand.data(), exponent.data()))
      for (uint32_t r = 0; r < rows; ++r)
        special[r] = decode_all(l, bytes + size_t(r) * k * size, k, &significand[size_t(r) * k],
                                &exponent[size_t(r) * k]);
  } else {
    const auto& table = narrow_table(f);
    for (uint32_t r = 0; r < rows; ++r)
      for (size_t i = size_t(r) * k; i < size_t(r + 1) * k; ++i) {
        const uint8_t b = static_cast<uint8_t>(bytes[i]);
        significand[i] = table[b].significand, exponent[i] = table[b].exponent;
        if (is_special(f, b)) special[r] = 1;
      }
  }
  if (negate)
    for (int32_t& s : significand) s = -s;
  for (uint8_t s : special) any_special |= s != 0;
}

}  // namespace fp4lab::emu
