// Addresses [ ]: their base, its width and its state space (PTX ISA 5.1, 6.4; as ptxas 13.0 sees them).
#include <algorithm>

#include "emulator/core/memory.h"
#include "emulator/ptx/image.h"
#include "emulator/ptx/operand_types.h"
#include "emulator/ptx/syntax.h"

namespace fp4lab::emu {

namespace {

using Kind = Operand::Kind;

constexpr std::string_view kSpaceNames[] = {"generic", "const",  "global", "local",
                                            "param",   "shared", "shared"};

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Instructions with one address, whose space is given by a modifier, or generic.
bool has_one_space(const ast::Statement& s) {
  return is_one_of(s.opcode[0], {"ld", "ldu", "st", "atom", "red", "mbarrier"}) &&
         std::none_of(s.opcode.begin(), s.opcode.end(),
                      [](std::string_view w) { return w == "async" || w == "bulk"; });
}

// The operand [ ] of these is a tensor-memory address, which belongs to no state space.
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

// The spaces of an instruction's addresses in their order, as ptxas 13.0 reads them: copies name one for
// each; an mbarrier after them is in shared memory.
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

// Generic and global addresses have 64 bits and tensor-memory addresses 32 (ptxas 13.0 demands it); the
// others may have either.
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

// A variable in [ ] must lie in the space of that address. A variable whose address is taken must lie in the
// space that the instruction names, or in shared memory if it names none (mapa).
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

// A base of less than 32 bits is zero-extended, as by ptxas 13.0.
Operand Operands::base_register(const ast::Node& n, const Operand& reg) {
  const unsigned bits = bits_of(reg.type);
  if (reg.kind != Kind::value || bits > 64 || is_floating(reg.type))
    fail_at(image_.out, *n.at, "'{}' is a .{} register; an address needs up to 64 integer bits", n.name,
            name_of(reg.type));
  if (bits < 32) {
    const Type type = has_tensor_memory(*statement_) ? Type::u32 : Type::u64;
    return computed_before(type, {"cvt", name_of(type), bits == 8 ? "u8" : "u16"}, {reg});
  }
  check_base_width(n, bits);
  return reg;
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
    const Operand base = base_register(n, m.reg);
    op.has_base = true;
    op.type = bits_type(bits_of(base.type));
    op.offset = base.offset;
    return op;
  }
  if (m.kind == Meaning::Kind::none) names_.undeclared(*n.at, n.name, statement_->scope);
  if (m.kind != Meaning::Kind::variable) fail_at(image_.out, *n.at, "'{}' is not a variable", n.name);
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
}  // namespace fp4lab::emu
