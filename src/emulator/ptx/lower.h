// Tree to module: what parse() does behind the syntax, with a table of the caller's choice (tests bring their
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

// Hands registers and constants over in .param variables.
void pass_by_value(Module&, ast::Module&);
// Gives functions their addresses and makes calls through pointers into calls by name.
void resolve_indirect_calls(Module&, ast::Module&);
// Gives each level of a recursion a function of its own, down to a last one that faults.
void unroll_recursion(Module&, ast::Module&);

}  // namespace fp4lab::emu
