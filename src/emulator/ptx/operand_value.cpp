// Operands that are values: registers, constants, special registers, taken addresses, and predicates, with
// type checks (PTX ISA 6, 9.4, relaxed where ptxas 13.0 is).
#include <algorithm>
#include <bit>

#include "emulator/ptx/image.h"
#include "emulator/ptx/operand_types.h"
#include "emulator/ptx/special.h"

namespace fp4lab::emu {

namespace {

using Form = OperandSpec::Form;
using NodeKind = ast::Node::Kind;
using Kind = Operand::Kind;

// The fourth component of a vector is always 0 (PTX ISA 10.1); it is looked up as the first.
bool is_fourth(const ast::Node& n) { return n.component == "w" && special_is_vector(n.name); }
const SpecialName* special_of(const ast::Node& n) {
  return special_named(n.name, is_fourth(n) ? "x" : n.component);
}

bool is_idle(const SpecialName& s) { return s.fixed && s.id == static_cast<uint8_t>(FixedSpecial::nothing); }

// ptxas 13.0 converts no constants here: of an f64 constant it takes the lower half, which is 0 for 2.0.
bool is_set_to_bf16(const ast::Statement& s) {
  const auto& words = s.opcode;
  return words[0] == "set" && std::find(words.begin(), words.end(), "bf16") != words.end();
}

}  // namespace

const Meaning& Operands::meaning(const ast::Node& n) { return names_.find(n.name, statement_->scope); }

Operand Operands::value(const ast::Node& n, Type type, bool relaxed, bool target) {
  if (n.kind == NodeKind::constant) return type == Type::pred ? predicate(n, target) : constant(n, type);
  if (n.kind != NodeKind::name)
    fail_at(image_.out, *n.at, "expected a register{}", target ? "" : " or a constant");
  if (type == Type::pred) return predicate(n, target);
  if (n.negated) fail_at(image_.out, *n.at, "only a predicate can be negated with '!'");
  return name(n, type, relaxed, target);
}

// The bits of a constant operand of a type. As in ptxas, integers that are too large are truncated and
// floating-point constants are converted from f64 to f32. 0f gives its bits in .b32, and zero-extended in
// .f64.
Operand Operands::constant(const ast::Node& n, Type type) {
  using F = Constant::Form;
  const Constant& c = n.value;
  if (type == Type::none)
    type = c.form == F::f32       ? Type::f32
           : c.form != F::integer ? Type::f64
           : static_cast<int64_t>(c.bits) >= INT32_MIN && static_cast<int64_t>(c.bits) <= UINT32_MAX &&
                   !(c.is_unsigned && c.bits > UINT32_MAX)
               ? Type::u32
               : Type::u64;
  const bool packed = type == Type::f16x2 || type == Type::bf16x2 || type == Type::tf32;
  if (packed && spec_->rule == OperandSpec::Rule::registers) type = Type::b32;
  auto wrong = [&](std::string_view what) {
    fail_at(image_.out, *n.at, "{} cannot be an operand of type .{}", what, name_of(type));
  };
  uint64_t bits = c.bits;
  Operand op;
  op.kind = Kind::value;
  op.type = type;
  op.immediate = true;
  if (type == Type::f32 || type == Type::f64) {
    if (c.form == F::integer) wrong("an integer constant");
    if (type == Type::f32 && c.form != F::f32)
      bits = is_set_to_bf16(*statement_)
                 ? bits & 0xffffffff
                 : std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    op.displacement = static_cast<int64_t>(bits);
  } else if (c.form != F::integer) {
    if (!(c.form == F::f32 && type == Type::b32) && !(c.form == F::f64 && type == Type::b64))
      wrong("a floating-point constant");
    op.displacement = static_cast<int64_t>(bits);
  } else {
    if (is_floating(type) || type == Type::b128 || type == Type::pred) wrong("an integer constant");
    unsigned shift = 64 - std::max(8u, bits_of(type));
    bits = bits << shift >> shift;
    op.displacement =
        is_signed(type) ? static_cast<int64_t>(bits << shift) >> shift : static_cast<int64_t>(bits);
  }
  op.offset = image_.constant_row(bits_of(type) > 32 ? Row::What::bits64 : Row::What::bits32, bits);
  return op;
}

// Results can be discarded where ptxas 13.0 allows it.
Operand Operands::sink(const ast::Node& n, bool target) {
  if (!target) fail_at(image_.out, *n.at, "'_' has no value: it can only be written to");
  if (!(second_ ? spec_->second_discarded : spec_->discarded))
    fail_at(image_.out, *n.at, "the result of {} cannot be discarded", statement_->opcode[0]);
  Operand op;
  op.kind = Kind::sink;
  op.offset = image_.sink_row();
  return op;
}

void Operands::check_pair(const ast::Node& n, const Operand* op) const {
  if (op[0].kind == Kind::sink && op[1].kind == Kind::sink)
    fail_at(image_.out, *n.at, "at least one result must be kept");
}

Operand Operands::name(const ast::Node& n, Type type, bool relaxed, bool target) {
  if (n.name == "_") return sink(n, target);
  const Meaning& m = meaning(n);
  if (m.kind == Meaning::Kind::reg) {
    if (!n.component.empty()) fail_at(image_.out, *n.at, "'{}' is not a vector", n.name);
    if (m.reg.kind == Kind::predicate)
      fail_at(image_.out, *n.at, "'{}' is a predicate; a register of type .{} is needed", n.name,
              name_of(type));
    check_width(n, m.reg, type, relaxed);
    return n.displaced ? sum(n, m.reg, target) : m.reg;
  }
  if (target) {
    if (m.kind == Meaning::Kind::none && !special_of(n)) names_.undeclared(*n.at, n.name, statement_->scope);
    fail_at(image_.out, *n.at, "'{}' cannot be written", n.name);
  }
  if (m.kind == Meaning::Kind::variable) return symbol_address(n, *m.variable, type);
  if (m.kind == Meaning::Kind::function) return function_address(n, *m.function, type);
  if (m.kind != Meaning::Kind::none) fail_at(image_.out, *n.at, "'{}' is a label", n.name);
  return special_value(n, type);
}

Operand Operands::special_value(const ast::Node& n, Type type) {
  const SpecialName* special = special_of(n);
  if (!special) names_.undeclared(*n.at, n.name, statement_->scope);
  if (statement_->opcode[0] != "mov" && statement_->opcode[0] != "cvt")
    fail_at(image_.out, *n.at, "special register {} can only be read with mov and cvt", n.name);
  if (n.displaced) fail_at(image_.out, *n.at, "a special register plus a constant is not supported");
  Operand op;
  op.type = special->type;
  const bool has_halves = special->component == "x" || special->component == "y" || special->component == "z";
  // It had 32 bits before PTX ISA 3.0.
  const bool low = n.name == "%gridid" && bits_of(type) <= 32;
  if (low) op.type = Type::u32;
  if (type != Type::none && bits_of(type) != bits_of(op.type) && !(bits_of(type) == 16 && has_halves))
    fail_at(image_.out, *n.at, "special register {} is .{}, the instruction needs .{}", n.name,
            name_of(op.type), name_of(type));
  op.kind = special->fixed ? Kind::value : Kind::special;
  if (is_fourth(n) || is_idle(*special))
    op.offset = image_.constant_row(bits_of(op.type) == 64 ? Row::What::bits64 : Row::What::bits32, 0);
  else if (special->fixed)
    op.offset = image_.constant_row(Row::What::special,
                                    low ? static_cast<uint8_t>(FixedSpecial::gridid_low) : special->id);
  else
    op.index = special->id;
  return op;
}

// A value computed before the instruction, whatever its guard.
Operand Operands::computed_before(Type type, std::vector<std::string_view> opcode,
                                  std::vector<Operand> sources) {
  const Operand result = image_.fresh_register(type);
  sources.insert(sources.begin(), result);
  insertions_.push_back({static_cast<uint32_t>(out_.code.size()), std::move(opcode), std::move(sources)});
  return result;
}

// A register plus a constant as a value: ptxas 13.0 accepts it wherever it accepts a register.
Operand Operands::sum(const ast::Node& n, const Operand& reg, bool target) {
  const unsigned bits = bits_of(reg.type);
  if (target) fail_at(image_.out, *n.at, "'{}' plus a constant cannot be written", n.name);
  if (is_floating(reg.type) || bits < 16 || bits > 64)
    fail_at(image_.out, *n.at, "a constant cannot be added to the .{} register '{}'", name_of(reg.type),
            n.name);
  ast::Node addend = n;
  addend.kind = NodeKind::constant;
  const Type type = bits == 64 ? Type::u64 : bits == 32 ? Type::u32 : Type::u16;
  return computed_before(type, {"add", name_of(type)}, {reg, constant(addend, type)});
}

void Operands::check_width(const ast::Node& n, const Operand& reg, Type type, bool relaxed) const {
  if (type == Type::none) return;
  unsigned have = bits_of(reg.type), want = bits_of(type);
  bool width = relaxed ? have >= want : have == want;
  // If the instruction names a type, .f16x2 registers count as integers too.
  const bool named = spec_->rule == OperandSpec::Rule::automatic || spec_->rule == OperandSpec::Rule::nth;
  const bool pair = reg.type == Type::f16x2 && named && is_plain_integer(type);
  if (!width || !(pair || classes_agree(reg.type, type)))
    fail_at(image_.out, *n.at, "register '{}' is .{}, the instruction needs .{}{}", n.name, name_of(reg.type),
            name_of(type), relaxed && !width ? " or wider" : "");
}

Operand Operands::function_address(const ast::Node& n, const ast::Function& f, Type type) {
  if (statement_->opcode[0] != "mov")
    fail_at(image_.out, *n.at, "the address of a function can only be taken with mov");
  if (bits_of(type) != 64 || n.displaced)
    fail_at(image_.out, *n.at, "the address of '{}' needs a 64-bit register", n.name);
  Operand op;
  op.kind = Kind::value, op.type = Type::b64;
  op.offset = image_.constant_row(Row::What::bits64, f.address);
  return op;
}

// An address as a value: mov.u64 %rd, symbol+4.
Operand Operands::symbol_address(const ast::Node& n, const ast::Variable& v, Type type) {
  if (!spec_->symbol)
    fail_at(image_.out, *n.at, "{} takes no address of a variable here: move it to a register first",
            statement_->opcode[0]);
  if (statement_->opcode[0] != "mov") check_space(n, v.space, false);
  Operand op;
  op.kind = Kind::value;
  unsigned bits = type == Type::none ? 64 : bits_of(type);
  op.type = bits_type(bits);
  if (bits < 32)
    fail_at(image_.out, *n.at, "the address of '{}' does not fit into .{}", n.name, name_of(type));
  auto addend = n.displaced ? static_cast<int64_t>(n.value.bits) : 0;
  if (v.space == Space::global || v.space == Space::constant) {
    if (bits != 64 && v.space == Space::global)
      fail_at(image_.out, *n.at, "'{}' needs a 64-bit register for its address", n.name);
    op.offset = image_.symbol_row(image_.symbol_of(v), addend, op.type);
    return op;
  }
  uint64_t at = image_.addresses.at(&v) + static_cast<uint64_t>(addend);
  bool shared = v.space == Space::shared, wide = bits == 64;
  op.offset = image_.constant_row(shared ? wide ? Row::What::shared64 : Row::What::shared32
                                  : wide ? Row::What::bits64
                                         : Row::What::bits32,
                                  wide ? at : static_cast<uint32_t>(at));
  return op;
}

Operand Operands::predicate(const ast::Node& n, bool target) {
  Operand op;
  if (n.kind == NodeKind::constant && !target) {
    if (n.value.form != Constant::Form::integer) fail_at(image_.out, *n.at, "a predicate constant is 0 or 1");
    op.kind = Kind::predicate;
    op.type = Type::pred;
    op.index = 0;  // the predicate that is always true
    op.negated = n.value.bits == 0;
    op.immediate = true;
    op.displacement = n.value.bits != 0;
    return op;
  }
  if (n.kind != NodeKind::name) fail_at(image_.out, *n.at, "expected a predicate");
  if (n.name == "_") return sink(n, target);
  const Meaning& m = meaning(n);
  if (m.kind == Meaning::Kind::none) {
    if (const SpecialName* s = special_named(n.name, n.component); s && s->fixed) {
      if (statement_->opcode[0] != "mov" || n.negated)
        fail_at(image_.out, *n.at, "special register {} can only be read with mov", s->name);
      op.kind = Kind::value;
      op.offset = image_.constant_row(Row::What::special, s->id);
      return op;
    }
    names_.undeclared(*n.at, n.name, statement_->scope);
  }
  if (m.kind != Meaning::Kind::reg || m.reg.kind != Kind::predicate)
    fail_at(image_.out, *n.at, "'{}' is not a predicate", n.name);
  if (target && n.negated) fail_at(image_.out, *n.at, "a destination cannot be negated");
  op = m.reg;
  op.negated = n.negated;
  return op;
}
}  // namespace fp4lab::emu
