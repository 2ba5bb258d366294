// Matches written operands with those of a row of the opcode table, and explains what is wrong if no row fits
// (PTX ISA 6, 9.5).
#include <algorithm>

#include "emulator/ptx/image.h"
#include "emulator/ptx/special.h"
#include "emulator/ptx/syntax.h"

namespace fp4lab::emu {

namespace {

using Form = OperandSpec::Form;
using NodeKind = ast::Node::Kind;
using Kind = Operand::Kind;

std::string_view kind_text(Form form) {
  switch (form) {
    case Form::destination:
      return "a register";
    case Form::destination_pair:
      return "a register and a predicate, register|predicate";
    case Form::predicate:
    case Form::predicate_target:
      return "a predicate";
    case Form::predicate_pair:
      return "a predicate, or predicate|predicate";
    case Form::address:
      return "an address [ ]";
    case Form::tensor:
      return "a tensor address [map, {coordinates}]";
    case Form::vector:
    case Form::vector_target:
      return "a vector { } or a register";
    case Form::label:
      return "a label";
    case Form::labels:
      return "a .branchtargets list";
    case Form::function:
      return "a function";
    case Form::immediate:
      return "a constant";
    case Form::value_or_address:
      return "a value or an address [ ]";
    case Form::value:
      break;
  }
  return "a register or a constant";
}

// An operand that belongs to a modifier requires that modifier.
bool is_there(const OperandSpec& spec, const Source& source) {
  return spec.only_with.empty() || source.has(spec.only_with);
}

}  // namespace

bool Operands::fits(const OperandSpec& spec, const ast::Node& n, const ast::Statement& s,
                    const Source& source) {
  bool is_predicate = false, is_sink = n.kind == NodeKind::name && n.name == "_";
  if (n.kind == NodeKind::name && !is_sink) {
    const Meaning& m = names_.find(n.name, s.scope);
    is_predicate = m.kind == Meaning::Kind::reg && m.reg.kind == Kind::predicate;
    if (m.kind == Meaning::Kind::none && spec.form == Form::value)
      if (const SpecialName* special = special_named(n.name, n.component))
        is_predicate = special->type == Type::pred;
  }
  switch (spec.form) {
    case Form::value:
    case Form::value_or_address:
      if (spec.form == Form::value_or_address && n.kind == NodeKind::address) return n.parts.empty();
      if (n.kind == NodeKind::constant) return true;
      return n.kind == NodeKind::name && is_predicate == (spec.type_in(source) == Type::pred);
    case Form::immediate:
      return n.kind == NodeKind::constant;
    case Form::destination:
      return n.kind == NodeKind::name && (is_sink || is_predicate == (spec.type_in(source) == Type::pred));
    case Form::destination_pair:
      return (n.kind == NodeKind::name && !is_predicate && !spec.pair_required) || n.kind == NodeKind::pair;
    case Form::predicate:
      return is_predicate || n.kind == NodeKind::constant;
    case Form::predicate_target:
      return is_predicate || is_sink;
    case Form::predicate_pair:
      return is_predicate || is_sink || n.kind == NodeKind::pair;
    case Form::address:
      return n.kind == NodeKind::address && n.parts.empty();
    case Form::tensor:
      return n.kind == NodeKind::address && n.parts.size() == 1;
    case Form::vector:
      return n.kind == NodeKind::vector || n.kind == NodeKind::constant || n.kind == NodeKind::name;
    case Form::vector_target:
      return n.kind == NodeKind::vector || n.kind == NodeKind::name;
    case Form::label:
    case Form::labels:
    case Form::function:
      return n.kind == NodeKind::name;
  }
  return false;
}

bool Operands::assign(const ast::Statement& s, const Specs& specs, const Source& source, size_t spec,
                      size_t node, std::vector<const ast::Node*>& out, size_t& farthest) {
  farthest = std::max(farthest, node);
  if (spec == specs.size()) return node == s.operands.size();
  const OperandSpec& want = specs[spec];
  bool may_be_absent = want.optional, may_be_there = true;
  if (!want.only_with.empty()) {
    may_be_there = source.has(want.only_with);
    may_be_absent = !may_be_there;
  }
  if (may_be_there && node < s.operands.size() && fits(want, s.operands[node], s, source)) {
    out[spec] = &s.operands[node];
    if (assign(s, specs, source, spec + 1, node + 1, out, farthest)) return true;
  }
  if (!may_be_absent) return false;
  out[spec] = nullptr;
  return assign(s, specs, source, spec + 1, node, out, farthest);
}

// The operand at which the only candidate row failed: what it must be, and what it is.
void Operands::misfit(const ast::Node& n, const OperandSpec& spec, const Source& source,
                      const std::string& which, const std::string& tail) {
  if (n.kind == NodeKind::name && n.name != "_") {
    const Meaning& m = meaning(n);
    if (m.kind == Meaning::Kind::none && !special_named(n.name, n.component))
      names_.undeclared(*n.at, n.name, statement_->scope);
    if (m.kind == Meaning::Kind::reg)
      fail_at(image_.out, *n.at, "{} must be {} of type .{}, '{}' is a .{} register{}", which,
              kind_text(spec.form), name_of(spec.type_in(source)), n.name, name_of(m.reg.type), tail);
  }
  fail_at(image_.out, *n.at, "{} must be {}{}", which, kind_text(spec.form), tail);
}

void Operands::mismatch(const ast::Statement& s, std::span<const Entry* const> rows, const Source& source,
                        size_t farthest) {
  std::string forms;
  size_t least = SIZE_MAX, most = 0;
  for (const Entry* row : rows) {
    size_t low = 0, high = 0;
    for (const OperandSpec& spec : row->operands) {
      high += is_there(spec, source);
      low += is_there(spec, source) && (!spec.optional || !spec.only_with.empty());
    }
    least = std::min(least, low);
    most = std::max(most, high);
    forms += fmt::format("{}{}", forms.empty() ? "" : "  or  ", row->opcode->operands);
  }
  std::string opcode = joined(s.opcode, "");
  for (char& c : opcode) c = c == ',' ? '.' : c;
  std::erase(opcode, ' ');
  const size_t n = s.operands.size();
  const Token& at = farthest < n ? *s.operands[farthest].at : *s.at;
  const std::string tail = fmt::format(" (operands: {}; PTX ISA {})", forms, rows[0]->opcode->section);
  if (n < least || n > most) {
    std::string count = least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
    fail_at(image_.out, at, "{} takes {} operand{}, found {}{}", opcode, count, most == 1 ? "" : "s", n,
            tail);
  }
  const std::string which = fmt::format("{}: operand {}", opcode, farthest + 1);
  if (rows.size() == 1 && farthest < n) {
    size_t i = 0;
    for (const OperandSpec& spec : rows[0]->operands)
      if (is_there(spec, source) && i++ == farthest) misfit(s.operands[farthest], spec, source, which, tail);
  }
  fail_at(image_.out, at, "{} does not fit{}", which, tail);
}

const Entry& Operands::lower(const ast::Statement& s, std::span<const Entry* const> rows, Instr& instr,
                             const Source& source) {
  statement_ = &s;
  source_ = &source;
  addresses_ = 0;
  size_t farthest = 0;
  for (const Entry* row : rows) {
    if (!row->operands.empty() && row->operands[0].form == Form::function) {
      instr.op[0].kind = Kind::function;
      instr.op[0].index = image_.index_of(*read_call(image_.out, image_.tree, s).function);
      return *row;
    }
    std::vector<const ast::Node*> chosen(row->operands.size());
    if (!assign(s, row->operands, source, 0, 0, chosen, farthest)) continue;
    for (size_t i = 0; i < chosen.size(); ++i)
      if (chosen[i]) convert(row->operands[i], *chosen[i], instr.op + row->operands[i].slot);
    return *row;
  }
  mismatch(s, rows, source, farthest);
}
}  // namespace fp4lab::emu
