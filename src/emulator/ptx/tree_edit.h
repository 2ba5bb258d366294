// Statements that are not in the text, for passes that change the tree before names are resolved. Texts
// passed in must live as long as the tree.
#pragma once

#include "emulator/ptx/ast.h"

namespace fp4lab::emu::ast {

Node made_name(const Token& at, std::string_view name);
Node made_address(const Token& at, std::string_view name, uint64_t offset = 0);

// At the place of another statement, without its guard. Opcode: "ld.param.b32".
Statement made_statement(const Statement& place, std::string_view opcode, std::vector<Node> operands);

// The first operand of a call: the list of its results or, without one, the callee.
inline size_t callee_at(const Statement& call) {
  return !call.operands.empty() && call.operands[0].kind == Node::Kind::list ? 1 : 0;
}

// Replaces every statement by those that `write` appends to f.statements for it. Labels move along, except
// those that `write` makes, whose names begin with "$made".
template <class Write>
void rewrite_statements(Function& f, Write write) {
  std::vector<Statement> old = std::move(f.statements);
  std::vector<uint32_t> moved;
  moved.reserve(old.size() + 1);
  f.statements.clear();
  for (Statement& s : old) {
    moved.push_back(static_cast<uint32_t>(f.statements.size()));
    write(s);
  }
  moved.push_back(static_cast<uint32_t>(f.statements.size()));
  for (Scope& scope : f.scopes)
    for (auto& [name, at] : scope.labels)
      if (!name.starts_with("$made")) at = moved[at];
}

}  // namespace fp4lab::emu::ast
