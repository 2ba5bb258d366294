// Operands as written become operands as executed: rows, constants, addresses; with every type checked
// against the row of the opcode table (PTX ISA 6, 9.4, 9.5; leniencies as ptxas 13.0 shows them).
#include <algorithm>
#include <bit>

#include "emulator/core/memory.h"
#include "emulator/ptx/image.h"
#include "emulator/ptx/special.h"
#include "emulator/ptx/syntax.h"

namespace fp4lab::emu {

namespace {

using Form = OperandSpec::Form;
using NodeKind = ast::Node::Kind;
using Kind = Operand::Kind;

bool is_float(Type t) {
  return t == Type::f16 || t == Type::f16x2 || t == Type::bf16 || t == Type::bf16x2 || t == Type::f32 ||
         t == Type::f32x2 || t == Type::f64 || t == Type::tf32;
}
bool is_signed(Type t) { return t == Type::s8 || t == Type::s16 || t == Type::s32 || t == Type::s64; }
bool is_plain_integer(Type t) {
  return is_signed(t) || t == Type::u8 || t == Type::u16 || t == Type::u32 || t == Type::u64;
}
bool is_bits(Type t) {
  return t == Type::b8 || t == Type::b16 || t == Type::b32 || t == Type::b64 || t == Type::b128;
}

Type bits_type(unsigned bits) {
  switch (bits) {
    case 8:
      return Type::b8;
    case 16:
      return Type::b16;
    case 32:
      return Type::b32;
    case 64:
      return Type::b64;
    default:
      return Type::none;
  }
}

// .u32 and .s32 registers stand for each other; untyped ones for everything of their size; floating-point
// types for themselves. bf16 and the formats of 8 bits and less live in untyped registers.
bool classes_agree(Type have, Type want) {
  if (is_bits(have) || is_bits(want) || have == want) return true;
  return is_plain_integer(want) && is_plain_integer(have);
}

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

}  // namespace

const Meaning& Operands::meaning(const ast::Node& n) { return names_.find(n.name, statement_->scope); }

// --- which operand of the row a written operand is

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

void Operands::mismatch(const ast::Statement& s, std::span<const Entry* const> rows, const Source& source,
                        size_t farthest) {
  std::string forms;
  size_t least = SIZE_MAX, most = 0;
  for (const Entry* row : rows) {
    size_t low = 0, high = 0;
    for (const OperandSpec& spec : row->operands) {
      bool there = spec.only_with.empty() || source.has(spec.only_with);
      high += there;
      low += there && (!spec.optional || !spec.only_with.empty());
    }
    least = std::min(least, low);
    most = std::max(most, high);
    forms += fmt::format("{}{}", forms.empty() ? "" : "  or  ", row->opcode->operands);
  }
  std::string opcode = joined(s.opcode, "");
  for (char& c : opcode) c = c == ',' ? '.' : c;
  std::erase(opcode, ' ');
  size_t n = s.operands.size();
  const Token& at = farthest < n ? *s.operands[farthest].at : *s.at;
  std::string tail = fmt::format(" (operands: {}; PTX ISA {})", forms, rows[0]->opcode->section);
  if (n < least || n > most) {
    std::string count = least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
    fail_at(image_.out, at, "{} takes {} operand{}, found {}{}", opcode, count, most == 1 ? "" : "s", n,
            tail);
  }
  if (rows.size() == 1 && farthest < n) {
    size_t i = 0;
    for (const OperandSpec& spec : rows[0]->operands) {
      if (!spec.only_with.empty() && !source.has(spec.only_with)) continue;
      if (i++ == farthest) {
        if (s.operands[farthest].kind == NodeKind::name && s.operands[farthest].name != "_") {
          const Meaning& m = names_.find(s.operands[farthest].name, s.scope);
          if (m.kind == Meaning::Kind::none &&
              !special_named(s.operands[farthest].name, s.operands[farthest].component))
            names_.undeclared(at, s.operands[farthest].name, s.scope);
          if (m.kind == Meaning::Kind::reg)
            fail_at(image_.out, at, "{}: operand {} must be {} of type .{}, '{}' is a .{} register{}", opcode,
                    farthest + 1, kind_text(spec.form), name_of(spec.type_in(source)),
                    s.operands[farthest].name, name_of(m.reg.type), tail);
        }
        fail_at(image_.out, at, "{}: operand {} must be {}{}", opcode, farthest + 1, kind_text(spec.form),
                tail);
      }
    }
  }
  fail_at(image_.out, at, "{}: operand {} does not fit{}", opcode, farthest + 1, tail);
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

// --- conversion

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
      } else {
        if (spec.braced) fail_at(image_.out, *n.at, "expected a vector {{ }}, though it has one element");
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

Operand Operands::value(const ast::Node& n, Type type, bool relaxed, bool target) {
  if (n.kind == NodeKind::constant) return type == Type::pred ? predicate(n, target) : constant(n, type);
  if (n.kind != NodeKind::name)
    fail_at(image_.out, *n.at, "expected a register{}", target ? "" : " or a constant");
  if (type == Type::pred) return predicate(n, target);
  if (n.negated) fail_at(image_.out, *n.at, "only a predicate can be negated with '!'");
  return name(n, type, relaxed, target);
}

// The bits of a constant in an operand of a type. As ptxas does, integers that are too large are cut off,
// floating-point constants are converted between f32 and f64, and 0f stands for its bits in .b32.
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
    fail_at(image_.out, *n.at, "{} cannot stand for an operand of type .{}", what, name_of(type));
  };
  uint64_t bits = c.bits;
  Operand op;
  op.kind = Kind::value;
  op.type = type;
  op.immediate = true;
  if (type == Type::f32 || type == Type::f64) {
    if (c.form == F::integer) wrong("an integer constant");
    bool single = c.form == F::f32;
    if (type == Type::f32 && !single)
      bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    if (type == Type::f64 && single)
      bits = std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
    op.displacement = static_cast<int64_t>(bits);
  } else if (c.form != F::integer) {
    if (!(c.form == F::f32 && type == Type::b32) && !(c.form == F::f64 && type == Type::b64))
      wrong("a floating-point constant");
    op.displacement = static_cast<int64_t>(bits);
  } else {
    if (is_float(type) || type == Type::b128 || type == Type::pred) wrong("an integer constant");
    unsigned shift = 64 - std::max(8u, bits_of(type));
    bits = bits << shift >> shift;
    op.displacement =
        is_signed(type) ? static_cast<int64_t>(bits << shift) >> shift : static_cast<int64_t>(bits);
  }
  op.offset = image_.constant_row(bits_of(type) > 32 ? Row::What::bits64 : Row::What::bits32, bits);
  return op;
}

// Results can be thrown away where ptxas 13.0 allows it.
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
    fail_at(image_.out, *n.at, "one result at least must be kept");
}

Operand Operands::name(const ast::Node& n, Type type, bool relaxed, bool target) {
  if (n.name == "_") {
    return sink(n, target);
  }
  const Meaning& m = meaning(n);
  if (m.kind == Meaning::Kind::reg) {
    if (!n.component.empty()) fail_at(image_.out, *n.at, "'{}' is no vector", n.name);
    if (n.displaced) fail_at(image_.out, *n.at, "a register plus a constant is an address: [{}+...]", n.name);
    if (m.reg.kind == Kind::predicate)
      fail_at(image_.out, *n.at, "'{}' is a predicate; a register of type .{} is needed", n.name,
              name_of(type));
    check_width(n, m.reg, type, relaxed);
    return m.reg;
  }
  const SpecialName* special = special_named(n.name, n.component);
  // The fourth component of a vector is always 0 (PTX ISA 10.1).
  const bool fourth = n.component == "w" && special_named(n.name, "x");
  if (fourth) special = special_named(n.name, "x");
  if (target) {
    if (m.kind == Meaning::Kind::none && !special) names_.undeclared(*n.at, n.name, statement_->scope);
    fail_at(image_.out, *n.at, "'{}' cannot be written", n.name);
  }
  if (m.kind == Meaning::Kind::variable) return symbol_address(n, *m.variable, type);
  if (m.kind == Meaning::Kind::function) return function_address(n, *m.function, type);
  if (m.kind != Meaning::Kind::none) fail_at(image_.out, *n.at, "'{}' is a label", n.name);
  if (!special) {
    if (special_missing(n.name))
      fail_at(image_.out, *n.at, "special register {} is not implemented (PTX ISA 10)", n.name);
    names_.undeclared(*n.at, n.name, statement_->scope);
  }
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
  if (special->fixed) {
    op.kind = Kind::value;
    const uint8_t id = low ? static_cast<uint8_t>(FixedSpecial::gridid_low) : special->id;
    op.offset =
        fourth ? image_.constant_row(Row::What::bits32, 0) : image_.constant_row(Row::What::special, id);
  } else {
    op.kind = Kind::special;
    op.index = special->id;
  }
  return op;
}

void Operands::check_width(const ast::Node& n, const Operand& reg, Type type, bool relaxed) const {
  if (type == Type::none) return;
  unsigned have = bits_of(reg.type), want = bits_of(type);
  bool width = relaxed ? have >= want : have == want;
  // Of the type that the instruction names, .f16x2 registers are integers too.
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
    if (bits != 64) fail_at(image_.out, *n.at, "'{}' needs a 64-bit register for its address", n.name);
    op.offset = image_.symbol_row(image_.symbol_of(v), addend);
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
    op.index = 0;  // the predicate that always holds
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
    fail_at(image_.out, *n.at, "'{}' is no predicate", n.name);
  if (target && n.negated) fail_at(image_.out, *n.at, "a destination cannot be negated");
  op = m.reg;
  op.negated = n.negated;
  return op;
}

namespace {

constexpr std::string_view kSpaceNames[] = {"generic", "const",  "global", "local",
                                            "param",   "shared", "shared"};

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Instructions with one address, whose space is the one among their modifiers, or generic.
bool has_one_space(const ast::Statement& s) {
  return is_one_of(s.opcode[0], {"ld", "ldu", "st", "atom", "red", "mbarrier"}) &&
         std::none_of(s.opcode.begin(), s.opcode.end(),
                      [](std::string_view w) { return w == "async" || w == "bulk"; });
}

// The operand [ ] of these holds a tensor-memory address, which is no address of a state space.
bool has_tensor_memory(const ast::Statement& s) {
  return s.opcode[0] == "tcgen05" && s.opcode.size() > 1 &&
         is_one_of(s.opcode[1], {"ld", "st", "mma", "cp", "shift"});
}

std::vector<Space> named_spaces(const ast::Statement& s) {
  std::vector<Space> spaces;
  for (size_t i = 1; i < s.opcode.size(); ++i)
    if (Space space; space_named(s.opcode[i].substr(0, s.opcode[i].find(':')), space))
      spaces.push_back(space);
  return spaces;
}

bool named_space(const ast::Statement& s, Space& space) {
  const std::vector<Space> spaces = named_spaces(s);
  if (!spaces.empty()) space = spaces[0];
  return !spaces.empty();
}

bool is_generic(const ast::Statement& s) { return has_one_space(s) && named_spaces(s).empty(); }

// The space of an instruction's addresses in their order, as ptxas 13.0 sees it: copies name one for each; an
// mbarrier behind them is in shared memory.
Space space_of_address(const ast::Statement& s, size_t number) {
  if (s.opcode[0] == "mbarrier") return Space::shared;
  if (s.opcode[0] == "prefetchu") return Space::global;
  const std::vector<Space> spaces = named_spaces(s);
  if (number < spaces.size()) return spaces[number];
  if (spaces.empty()) return Space::generic;
  const bool completes =
      std::find(s.opcode.begin(), s.opcode.end(), "mbarrier::complete_tx::bytes") != s.opcode.end();
  return completes ? Space::shared : spaces.back();
}

}  // namespace

// Generic and global addresses have 64 bits, tensor-memory addresses 32 (as ptxas 13.0 demands); the others
// may have either.
void Operands::check_base_width(const ast::Node& n, unsigned bits) const {
  const ast::Statement& s = *statement_;
  Space space = Space::global;
  const bool hint = is_one_of(s.opcode[0], {"prefetch", "prefetchu", "discard", "applypriority"});
  if (bits == 32 && (has_one_space(s) || hint) && (!named_space(s, space) || space == Space::global))
    fail_at(image_.out, *n.at, "'{}' has 32 bits, a {} address needs 64", n.name,
            named_space(s, space) ? "global" : "generic");
  if (bits == 64 && has_tensor_memory(s))
    fail_at(image_.out, *n.at, "'{}' has 64 bits, a tensor-memory address needs 32", n.name);
}

// A variable in [ ] must lie in the space of that address; one whose address is taken, in the space that the
// instruction names, in shared memory if it names none (mapa).
void Operands::check_space(const ast::Node& n, Space of_symbol, bool is_address) const {
  if (has_tensor_memory(*statement_) || statement_->opcode[0] == "fence") return;
  Space want = space_of_address(*statement_, is_address ? addresses_ : 0);
  if (!is_address && want == Space::generic) want = Space::shared;
  const bool fits =
      want == Space::generic ? of_symbol != Space::constant && of_symbol != Space::param : want == of_symbol;
  if (!fits)
    fail_at(image_.out, *n.at, "'{}' is a .{} variable, the instruction accesses {} memory", n.name,
            kSpaceNames[static_cast<size_t>(of_symbol)], kSpaceNames[static_cast<size_t>(want)]);
}

Operand Operands::address(const ast::Node& n) {
  Operand op;
  op.kind = Kind::address;
  op.displacement = n.displaced ? static_cast<int64_t>(n.value.bits) : 0;
  op.type = Type::b64;
  if (n.name.empty()) {
    if (space_of_address(*statement_, addresses_) != Space::local && statement_->opcode[0] != "fence")
      fail_at(image_.out, *n.at, "a constant address is for .local memory only");
    ++addresses_;
    return op;
  }
  const Meaning& m = meaning(n);
  if (m.kind == Meaning::Kind::reg) {
    ++addresses_;
    unsigned bits = bits_of(m.reg.type);
    if (m.reg.kind != Kind::value || (bits != 32 && bits != 64) || is_float(m.reg.type))
      fail_at(image_.out, *n.at, "'{}' is a .{} register; an address needs 32 or 64 integer bits", n.name,
              name_of(m.reg.type));
    op.has_base = true;
    op.type = bits_type(bits);
    op.offset = m.reg.offset;
    check_base_width(n, bits);
    return op;
  }
  if (m.kind == Meaning::Kind::none) names_.undeclared(*n.at, n.name, statement_->scope);
  if (m.kind != Meaning::Kind::variable) fail_at(image_.out, *n.at, "'{}' is no variable", n.name);
  const ast::Variable& v = *m.variable;
  check_space(n, v.space, true);
  if (statement_->opcode[0] == "st" && names_.is_input(v))
    fail_at(image_.out, *n.at, "'{}' is a parameter, which cannot be written", n.name);
  if (statement_->opcode[0] == "ld" && names_.is_result(v))
    fail_at(image_.out, *n.at, "'{}' is a result, which cannot be read", n.name);
  ++addresses_;
  if (v.space == Space::global || v.space == Space::constant) {
    op.has_base = true;
    op.offset = image_.symbol_row(image_.symbol_of(v), 0);
  } else if (v.space == Space::shared) {
    op.has_base = true;
    if (is_generic(*statement_)) {
      op.offset = image_.constant_row(Row::What::shared64, image_.addresses.at(&v));
      op.displacement += static_cast<int64_t>(kSharedWindow);
    } else {
      op.type = Type::b32;
      op.offset = image_.constant_row(Row::What::shared32, image_.addresses.at(&v));
    }
  } else {
    op.displacement += static_cast<int64_t>(image_.addresses.at(&v));
    if (v.space == Space::local && is_generic(*statement_))
      op.displacement += static_cast<int64_t>(kLocalWindow);
  }
  return op;
}

Operand Operands::vector(const ast::Node& n, Type element, bool relaxed, bool target) {
  if (n.kind != NodeKind::vector) fail_at(image_.out, *n.at, "expected a vector {{ }}");
  if (n.parts.empty() || n.parts.size() > 256)
    fail_at(image_.out, *n.at, "a vector has 1 to 256 elements, not {}", n.parts.size());
  Operand op;
  op.kind = Kind::vector;
  op.count = static_cast<uint16_t>(n.parts.size());
  std::vector<Operand> elements;
  // In mov.b64 {..} the elements share the bits of the whole.
  Type whole = source_->type(0);
  Type constant_type =
      element != Type::none ? element : bits_type(bits_of(whole) / static_cast<unsigned>(n.parts.size()));
  bool first = true;
  for (const ast::Node& part : n.parts) {
    if (target && part.kind == NodeKind::constant)
      fail_at(image_.out, *part.at, "a constant cannot be written");
    Type type = part.kind == NodeKind::constant ? constant_type : element;
    elements.push_back(value(part, type, relaxed, target));
    if (elements.back().kind == Kind::sink) continue;
    const Type have = elements.back().type;
    if (!first && bits_of(op.type) != bits_of(have))
      fail_at(image_.out, *part.at, "the elements of a vector have one width; '{}' has {} bits", part.name,
              bits_of(have));
    if (!first && (is_float(op.type) ? is_plain_integer(have) : is_plain_integer(op.type) && is_float(have)))
      fail_at(image_.out, *part.at,
              "the elements of a vector are integers or floating-point values, not both");
    if (first || is_bits(op.type)) op.type = have;
    first = false;
  }
  if (first) fail_at(image_.out, *n.at, "one element of the vector at least must be kept");
  op.index = static_cast<uint32_t>(out_.vectors.size());
  out_.vectors.insert(out_.vectors.end(), elements.begin(), elements.end());
  return op;
}

uint32_t Operands::label(const ast::Node& n, std::string_view name) {
  const Meaning& m = names_.find(name, statement_->scope);
  if (m.kind == Meaning::Kind::none) names_.undeclared(*n.at, name, statement_->scope);
  if (m.kind != Meaning::Kind::label) fail_at(image_.out, *n.at, "'{}' is no label", name);
  return m.label;
}

Operand Operands::labels(const ast::Node& n) {
  const Meaning& m = meaning(n);
  if (m.kind == Meaning::Kind::none) names_.undeclared(*n.at, n.name, statement_->scope);
  if (m.kind != Meaning::Kind::list) fail_at(image_.out, *n.at, "'{}' is no .branchtargets list", n.name);
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
