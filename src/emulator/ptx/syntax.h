// Tokens to tree. The tree's string views and token pointers point into the text and the token vector.
#pragma once

#include "emulator/ptx/ast.h"

namespace fp4lab::emu {

ast::Module parse_syntax(const Module&, std::span<const Token>);

// A declaration from its state space up to, but not including, the ';' (several names are several variables).
// `parameter`: in a function's parameter list, with exactly one name.
std::vector<ast::Variable> parse_variables(Cursor&, Space, bool parameter);
// `{ ... }` of a function; the cursor is at the brace.
void parse_body(Cursor&, ast::Function&);

// A name that can be declared: not `_`, not WARP_SZ.
const Token& new_name(Cursor&, std::string_view what);
// Registers and variables only have fundamental types (PTX ISA 5.2.1).
void check_declared_type(const Module&, const Token& at, Type);

// The strings of .pragma up to and with the semicolon (PTX ISA 11.4.7); `in_body`: of a function.
void parse_pragma(Cursor&, bool in_body = true);

// The state space that a directive names; false if it names none.
bool space_named(std::string_view, Space&);

}  // namespace fp4lab::emu
