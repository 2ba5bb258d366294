// Classes of types for checking operands (PTX ISA 9.4, relaxed where ptxas 13.0 is).
#pragma once

#include "emulator/core/ir.h"

namespace fp4lab::emu {

inline bool is_floating(Type t) {
  return t == Type::f16 || t == Type::bf16 || t == Type::f32 || t == Type::f64 || t == Type::f16x2 ||
         t == Type::bf16x2 || t == Type::f32x2 || t == Type::tf32;
}
inline bool is_signed(Type t) { return t == Type::s8 || t == Type::s16 || t == Type::s32 || t == Type::s64; }
inline bool is_plain_integer(Type t) {
  return is_signed(t) || t == Type::u8 || t == Type::u16 || t == Type::u32 || t == Type::u64;
}
inline bool is_bits(Type t) {
  return t == Type::b8 || t == Type::b16 || t == Type::b32 || t == Type::b64 || t == Type::b128;
}

inline Type bits_type(unsigned bits) {
  switch (bits) {
    case 8:
      return Type::b8;
    case 16:
      return Type::b16;
    case 32:
      return Type::b32;
    case 64:
      return Type::b64;
    default:
      return Type::none;
  }
}

// .u32 and .s32 registers are interchangeable; untyped registers fit all types of their size; floating-point
// types only fit themselves. bf16 and formats of 8 bits and less use untyped registers.
inline bool classes_agree(Type have, Type want) {
  if (is_bits(have) || is_bits(want) || have == want) return true;
  return is_plain_integer(want) && is_plain_integer(have);
}
}  // namespace fp4lab::emu
