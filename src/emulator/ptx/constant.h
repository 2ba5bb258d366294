// Constants and constant expressions (PTX ISA 4.5).
#pragma once

#include "emulator/ptx/token.h"

namespace fp4lab::emu {

struct Constant {
  enum class Form : uint8_t {
    integer,  // `bits` as a 64-bit integer, signed or unsigned
    decimal,  // 1.5: `bits` are those of a double
    f32,      // 0fXXXXXXXX
    f64,      // 0dXXXXXXXXXXXXXXXX
  };
  Form form = Form::integer;
  bool is_unsigned = false;
  uint64_t bits = 0;
};

// True when a constant (and not a register or symbol) begins here.
bool constant_begins(const Cursor&);
// A whole constant expression, with the operators and the precedence of C; casts (.s64) and (.u64).
Constant parse_constant(Cursor&);
// One number without operators in [low, high], which is all that sizes and directives take.
int64_t parse_size(Cursor&, std::string_view what, int64_t low, int64_t high);
// What stands behind a name, `+` and a constant expression.
int64_t parse_displacement(Cursor&);

}  // namespace fp4lab::emu
