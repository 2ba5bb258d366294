// The bit arithmetic of lop3, shf and prmt as plain functions, so that tests can try all of their modes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fp4lab::emu::bits {

// Bit (4a + 2b + c) of `table` is the result for input bits a, b, c (PTX ISA 9.7.8.6). The table is looked up
// in parallel for all 32 bits: a choice between its halves for each input.
constexpr uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint8_t table) {
  const auto cell = [&](unsigned n) { return table >> n & 1 ? 0xffffffffu : 0u; };
  const auto by_c = [&](unsigned n) { return (cell(n) & ~c) | (cell(n + 1) & c); };
  const auto by_b = [&](unsigned n) { return (by_c(n) & ~b) | (by_c(n + 2) & b); };
  return (by_b(0) & ~a) | (by_b(4) & a);
}

// Funnel shifts of the 64 bits {b, a}: .l gives the high word of a left shift, .r the low word of a right
// shift; .clamp limits the amount to 32, .wrap takes it modulo 32 (PTX ISA 9.7.8.7).
template <bool kWrap>
constexpr uint32_t shf_l(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = kWrap ? c & 31 : std::min(c, 32u);
  return uint32_t(((uint64_t(b) << 32 | a) << n) >> 32);
}
template <bool kWrap>
constexpr uint32_t shf_r(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = kWrap ? c & 31 : std::min(c, 32u);
  return uint32_t((uint64_t(b) << 32 | a) >> n);
}

// Bytes of {b, a}, numbered 0 (low byte of a) to 7: nibble i of the selector picks byte i of the result; its
// msb replicates that byte's sign over the byte instead (PTX ISA 9.7.9.7).
constexpr uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t(b) << 32 | a;
  uint32_t d = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned pick = selector >> (4 * i) & 0xf;
    uint8_t v = uint8_t(bytes >> (8 * (pick & 7)));
    if (pick & 8) v = v & 0x80 ? 0xff : 0;
    d |= uint32_t(v) << (8 * i);
  }
  return d;
}

// The special modes are fixed selectors for each value of c's two low bits; most significant byte first in
// the manual's tables, so the nibbles read the same here.
enum class PrmtMode { f4e, b4e, rc8, ecl, ecr, rc16 };
constexpr uint32_t prmt_selector(PrmtMode mode, uint32_t c) {
  constexpr uint16_t table[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543},  // f4e: forward four-byte extract
      {0x5670, 0x6701, 0x7012, 0x0123},  // b4e: backward four-byte extract
      {0x0000, 0x1111, 0x2222, 0x3333},  // rc8: replicate a byte
      {0x3210, 0x3211, 0x3222, 0x3333},  // ecl: edge clamp left
      {0x0000, 0x1110, 0x2210, 0x3210},  // ecr: edge clamp right
      {0x1010, 0x3232, 0x1010, 0x3232},  // rc16: replicate a half
  };
  return table[static_cast<unsigned>(mode)][c & 3];
}

}  // namespace fp4lab::emu::bits
