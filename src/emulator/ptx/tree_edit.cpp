#include "emulator/ptx/tree_edit.h"

namespace fp4lab::emu::ast {

Node made_name(const Token& at, std::string_view name) {
  Node n;
  n.at = &at, n.name = name;
  return n;
}

Node made_address(const Token& at, std::string_view name, uint64_t offset) {
  Node n = made_name(at, name);
  n.kind = Node::Kind::address, n.displaced = true, n.value.bits = offset;
  return n;
}

Statement made_statement(const Statement& place, std::string_view opcode, std::vector<Node> operands) {
  Statement s;
  s.at = place.at, s.scope = place.scope, s.location = place.location;
  for (std::string_view rest = opcode;;) {
    const size_t dot = rest.find('.');
    s.opcode.push_back(rest.substr(0, dot));
    s.opcode_at.push_back(s.at);
    if (dot == rest.npos) break;
    rest.remove_prefix(dot + 1);
  }
  s.operands = std::move(operands);
  return s;
}

}  // namespace fp4lab::emu::ast
