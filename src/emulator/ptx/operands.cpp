// Converts a written operand to an executable one, in the form that its row of the opcode table demands.
#include "emulator/ptx/image.h"
#include "emulator/ptx/operand_types.h"
#include "emulator/ptx/special.h"

namespace fp4lab::emu {

namespace {

using Form = OperandSpec::Form;
using NodeKind = ast::Node::Kind;
using Kind = Operand::Kind;

}  // namespace

void Operands::convert(const OperandSpec& spec, const ast::Node& n, Operand* op) {
  Type type = spec.type_in(*source_);
  spec_ = &spec;
  second_ = false;
  if (spec.selected && n.kind == NodeKind::name && (n.negated || !n.component.empty())) {
    ast::Node plain = n;
    plain.component = {}, plain.negated = false;
    if (n.component.size() > 5) fail_at(image_.out, *n.at, "unknown selector .{}", n.component);
    *op = value(plain, type, false, spec.is_target());
    op->negated = n.negated;
    n.component.copy(reinterpret_cast<char*>(&op->displacement), sizeof op->displacement);
    return;
  }
  switch (spec.form) {
    case Form::value:
      *op = value(n, type, spec.relaxed, false);
      return;
    case Form::immediate:
      *op = constant(n, type);
      return;
    case Form::destination:
      *op = value(n, type, spec.relaxed, true);
      return;
    case Form::destination_pair:
      if (n.kind == NodeKind::pair) {
        op[0] = value(n.parts[0], type, spec.relaxed, true);
        second_ = true;
        op[1] = predicate(n.parts[1], true);
        check_pair(n, op);
      } else {
        op[0] = value(n, type, spec.relaxed, true);
      }
      return;
    case Form::predicate:
      *op = predicate(n, false);
      return;
    case Form::predicate_target:
      *op = predicate(n, true);
      return;
    case Form::predicate_pair:
      if (n.kind == NodeKind::pair) {
        op[0] = predicate(n.parts[0], true);
        second_ = true;
        op[1] = predicate(n.parts[1], true);
        check_pair(n, op);
      } else {
        op[0] = predicate(n, true);
      }
      return;
    case Form::address:
      *op = address(n);
      return;
    case Form::tensor:
      op[0] = address(n);
      op[1] = vector(n.parts[0], type, false, false);
      return;
    case Form::vector:
    case Form::vector_target:
      if (n.kind == NodeKind::vector) {
        *op = vector(n, type, spec.relaxed, spec.is_target());
      } else if (n.kind == NodeKind::name && n.component.empty() && special_is_vector(n.name) &&
                 meaning(n).kind == Meaning::Kind::none) {
        *op = vector(all_of(n), type, spec.relaxed, spec.is_target());
      } else {
        if (spec.braced) fail_at(image_.out, *n.at, "expected a vector {{ }} of one element");
        if (spec.rule == OperandSpec::Rule::automatic)
          type = spec.is_target() || source_->type(1) == Type::none ? source_->type(0) : source_->type(1);
        second_ = true;
        *op = value(n, type, spec.relaxed, spec.is_target());
      }
      return;
    case Form::value_or_address:
      *op = n.kind == NodeKind::address ? address(n) : value(n, type, spec.relaxed, false);
      return;
    case Form::label:
      op->kind = Kind::label;
      op->index = label(n, n.name);
      return;
    case Form::labels:
      *op = labels(n);
      return;
    case Form::function:
      return;
  }
}

// %tid as { %tid.x, %tid.y, %tid.z, %tid.w }.
ast::Node Operands::all_of(const ast::Node& special) {
  ast::Node all;
  all.kind = NodeKind::vector;
  all.at = special.at;
  for (std::string_view component : {"x", "y", "z", "w"}) {
    all.parts.push_back(special);
    all.parts.back().component = component;
  }
  return all;
}

// A constant among registers that are wider than the stored elements has the registers' width: st.v2.b8
// {%rs0, 0}.
Type Operands::as_wide_as_registers(const ast::Node& vector, Type constant) {
  for (const ast::Node& part : vector.parts) {
    if (part.kind != NodeKind::name || !part.component.empty()) continue;
    const Meaning& m = meaning(part);
    if (m.kind == Meaning::Kind::reg && bits_of(m.reg.type) > bits_of(constant))
      return bits_type(bits_of(m.reg.type));
  }
  return constant;
}

// How the registers of a vector must agree, according to ptxas 13.0: registers of several types in one vector
// count as untyped; integer registers of the same width hold f64 everywhere, and f32 in memory accesses;
// mma.sp only checks the types of f16 fragments.
Type Operands::element_of_registers(const ast::Node& vector, Type element) {
  if (element == Type::none || bits_type(bits_of(element)) == Type::none) return element;
  Type common = Type::none;
  for (const ast::Node& part : vector.parts) {
    if (part.kind != NodeKind::name || !part.component.empty()) continue;
    const Meaning& m = meaning(part);
    if (m.kind != Meaning::Kind::reg || m.reg.kind == Kind::predicate) continue;
    if (common != Type::none && common != m.reg.type) return bits_type(bits_of(element));
    common = m.reg.type;
  }
  const std::vector<std::string_view>& opcode = statement_->opcode;
  const std::string_view op = opcode[0];
  const bool memory = op == "ld" || op == "st" || op == "atom" || op == "red";
  const bool sparse = op == "mma" && opcode[1].starts_with("sp");
  if (sparse && element != Type::f16x2) return bits_type(bits_of(element));
  const bool untyped = element == Type::f64 || (element == Type::f32 && memory);
  return untyped && is_plain_integer(common) && bits_of(common) == bits_of(element)
             ? bits_type(bits_of(element))
             : element;
}

Operand Operands::vector(const ast::Node& n, Type element, bool relaxed, bool target) {
  if (n.kind != NodeKind::vector) fail_at(image_.out, *n.at, "expected a vector {{ }}");
  if (n.parts.empty() || n.parts.size() > 256)
    fail_at(image_.out, *n.at, "a vector has 1 to 256 elements, not {}", n.parts.size());
  Operand op;
  op.kind = Kind::vector;
  op.count = static_cast<uint16_t>(n.parts.size());
  std::vector<Operand> elements;
  // In mov.b64 {..} the elements divide the bits of the whole.
  Type whole = source_->type(0);
  Type constant_type =
      element != Type::none ? element : bits_type(bits_of(whole) / static_cast<unsigned>(n.parts.size()));
  if (relaxed) constant_type = as_wide_as_registers(n, constant_type);
  const Type registers = element_of_registers(n, element);
  bool first = true;
  Type before = Type::none;
  for (const ast::Node& part : n.parts) {
    if (target && part.kind == NodeKind::constant)
      fail_at(image_.out, *part.at, "a constant cannot be written");
    const bool reg = part.kind == NodeKind::name && meaning(part).kind == Meaning::Kind::reg;
    Type type = part.kind == NodeKind::constant ? constant_type : reg ? registers : element;
    elements.push_back(value(part, type, relaxed, target));
    if (elements.back().kind == Kind::sink) continue;
    const Type have = elements.back().type;
    if (!first && bits_of(op.type) != bits_of(have))
      fail_at(image_.out, *part.at, "the elements of a vector have one width; '{}' has {} bits", part.name,
              bits_of(have));
    // As in ptxas, each is compared with the one before it; untyped ones agree with any.
    if (!first &&
        (is_floating(before) ? is_plain_integer(have) : is_plain_integer(before) && is_floating(have)))
      fail_at(image_.out, *part.at,
              "the elements of a vector are integers or floating-point values, not both");
    if (!first && is_floating(before) && is_floating(have) && before != have)
      fail_at(image_.out, *part.at, "the elements of a vector are .{} and .{}", name_of(before),
              name_of(have));
    if (first || is_bits(op.type)) op.type = have;
    first = false;
    before = have;
  }
  if (first) fail_at(image_.out, *n.at, "at least one element of the vector must be kept");
  op.index = static_cast<uint32_t>(out_.vectors.size());
  out_.vectors.insert(out_.vectors.end(), elements.begin(), elements.end());
  return op;
}

uint32_t Operands::label(const ast::Node& n, std::string_view name) {
  const Meaning& m = names_.find(name, statement_->scope);
  if (m.kind == Meaning::Kind::none) names_.undeclared(*n.at, name, statement_->scope);
  if (m.kind != Meaning::Kind::label) fail_at(image_.out, *n.at, "'{}' is not a label", name);
  return m.label;
}

Operand Operands::labels(const ast::Node& n) {
  const Meaning& m = meaning(n);
  if (m.kind == Meaning::Kind::none) names_.undeclared(*n.at, n.name, statement_->scope);
  if (m.kind != Meaning::Kind::list) fail_at(image_.out, *n.at, "'{}' is not a .branchtargets list", n.name);
  Operand op;
  op.kind = Kind::vector;
  op.index = static_cast<uint32_t>(out_.vectors.size());
  op.count = static_cast<uint16_t>(m.list->labels.size());
  if (m.list->labels.size() > UINT16_MAX)
    fail_at(image_.out, *n.at, "more than {} branch targets", UINT16_MAX);
  for (const Token* t : m.list->labels) {
    ast::Node at = n;
    at.at = t;
    Operand element;
    element.kind = Kind::label;
    element.index = label(at, t->text);
    out_.vectors.push_back(element);
  }
  return op;
}

}  // namespace fp4lab::emu
