// Tree to module: the steps of parse() after the syntax, with a table chosen by the caller (tests bring their
// own).
#pragma once

#include "emulator/isa/table.h"
#include "emulator/ptx/ast.h"
#include "emulator/ptx/parser.h"

namespace fp4lab::emu {

void lower_module(Module& out, const ast::Module& tree, const Table& table,
                  Compilation = Compilation::optimised);

std::unique_ptr<Module> parse_with(const Table& table, std::string text, std::string_view file_name,
                                   Compilation = Compilation::optimised);

// Passes registers and constants in .param variables.
void pass_by_value(Module&, ast::Module&);
// Assigns addresses to functions and turns calls through pointers into calls by name.
void resolve_indirect_calls(Module&, ast::Module&);
// Expands recursion: each level becomes a function of its own, the last one faults.
void unroll_recursion(Module&, ast::Module&);

}  // namespace fp4lab::emu
