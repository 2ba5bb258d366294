// Tokens to tree. The tree's views and token pointers point into the text and the token vector.
#pragma once

#include "emulator/ptx/ast.h"

namespace fp4lab::emu {

ast::Module parse_syntax(const Module&, std::span<const Token>);

// A declaration from its state space on, up to but without the ';' (several names are several variables).
// `parameter`: inside a function's parameter list, where one name stands alone.
std::vector<ast::Variable> parse_variables(Cursor&, Space, bool parameter);
// `{ ... }` of a function; the cursor stands on the brace.
void parse_body(Cursor&, ast::Function&);

// The state space that a directive names; false if it names none.
bool space_named(std::string_view, Space&);

}  // namespace fp4lab::emu
