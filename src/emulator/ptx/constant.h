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

// True if a constant (not a register or symbol) begins here.
bool constant_begins(const Cursor&);
// A constant expression, with C's operators and precedence and the casts (.s64) and (.u64).
Constant parse_constant(Cursor&);
// One number without operators in [low, high], as in sizes and directives.
int64_t parse_size(Cursor&, std::string_view what, int64_t low, int64_t high);
// The displacement after a name: `+` and a constant expression.
int64_t parse_displacement(Cursor&);

}  // namespace fp4lab::emu
