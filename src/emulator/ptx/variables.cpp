// Declarations of variables, with their initial values (PTX ISA 5.4).
#include <algorithm>
#include <bit>

#include "emulator/ptx/syntax.h"

namespace fp4lab::emu {

namespace {

constexpr uint64_t kMaxVariableBytes = uint64_t(1) << 40;

uint32_t alignment(Cursor& c) {
  const Token& at = c.peek();
  auto align = static_cast<uint32_t>(parse_size(c, "an alignment", 1, 1 << 20));
  if (!std::has_single_bit(align)) fail_at(c.module, at, "the alignment {} is not a power of two", align);
  return align;
}

ast::Variable::Item initialiser(Cursor& c) {
  ast::Variable::Item item{&c.peek(), {}, {}};
  if (c.peek().kind == Token::Kind::number &&
      c.peek(1).mark("(")) {  // 0xff00(symbol): one byte of an address
    const Token& at = c.peek();
    item.mask = static_cast<uint64_t>(parse_size(c, "a mask", INT64_MIN, INT64_MAX));
    if (!item.mask || item.mask >> std::countr_zero(item.mask) != 0xff || std::countr_zero(item.mask) % 8)
      fail_at(c.module, at, "a mask covers one byte: 0xff, 0xff00, ...");
    c.expect("(", "after a mask");
    auto inner = initialiser(c);
    if (inner.mask != ~uint64_t(0)) fail_at(c.module, *inner.at, "one mask is enough");
    inner.mask = item.mask;
    c.expect(")", "after a masked address");
    return inner;
  }
  if (c.peek().kind != Token::Kind::word || constant_begins(c)) {
    item.value = parse_constant(c);
    return item;
  }
  item.generic = c.peek().text == "generic" && c.peek(1).mark("(");  // global addresses are generic addresses
  if (item.generic) c.next(), c.next();
  item.symbol = c.word("a symbol").text;
  if (item.generic) c.expect(")", "after generic(");
  if (c.peek().mark("+") || c.peek().mark("-"))
    item.value.bits = static_cast<uint64_t>(parse_displacement(c));
  return item;
}

// The sizes in [ ] after a name, 0 for an omitted first one.
std::vector<uint64_t> array_sizes(Cursor& c, ast::Variable& v) {
  std::vector<uint64_t> sizes;
  while (c.accept("[")) {
    v.is_array = true;
    if (c.peek().mark("]")) {
      if (!sizes.empty()) c.fail("only the first size may be omitted");
      v.unsized = true;
      sizes.push_back(0);
    } else {
      const Token& at = c.peek();
      sizes.push_back(static_cast<uint64_t>(parse_size(c, "an array's size", 0, int64_t(1) << 40)));
      if (!sizes.back()) fail_at(c.module, at, "'{}' has no elements", v.name);
      if (v.elements > kMaxVariableBytes / sizes.back() / 16)
        c.fail("'{}' is larger than {} bytes", v.name, kMaxVariableBytes);
      v.elements *= sizes.back();
    }
    c.expect("]", "after an array's size");
  }
  if (v.unsized) v.elements = 0;
  return sizes;
}

// The values of one dimension, in braces of its own. `sizes` are those of the dimensions from here on, 0 for
// an omitted first one. Values are contiguous in memory, as in ptxas 13.0 and on an H100: if inner braces
// omit some, the following ones move up, and the zeros come after the last value.
void initialisers(Cursor& c, ast::Variable& v, std::span<const uint64_t> sizes) {
  if (sizes.empty()) {
    if (c.peek().mark("{")) c.fail("one value is needed here, without braces");
    v.init.push_back(initialiser(c));
    return;
  }
  c.expect("{", "before the values of an array");
  uint64_t inner = 1, n = 0;
  for (uint64_t size : sizes.subspan(1)) inner *= size;
  if (!c.accept("}")) {
    do {
      if (sizes[0] && n == sizes[0]) c.fail("'{}' has more initial values than elements", v.name);
      initialisers(c, v, sizes.subspan(1));
      ++n;
    } while (c.accept(","));
    c.expect("}", "after an initialiser");
  }
  if (!sizes[0]) v.elements = n * inner;
}

}  // namespace

std::vector<ast::Variable> parse_variables(Cursor& c, Space space, bool parameter) {
  ast::Variable like;
  like.space = space;
  uint64_t vector = 1;
  uint32_t align = 0;
  bool typed = false;
  while (c.peek().kind == Token::Kind::dotted) {
    const Token& t = c.next();
    if (t.text == "align") {
      if (typed) fail_at(c.module, t, ".align must precede the type");
      align = alignment(c);
    } else if (t.text == "ptr") {  // .ptr{.space} .align N: what the pointer points to, a hint
      like.is_pointer = true;
      Space to;
      if (c.peek().kind == Token::Kind::dotted && !c.peek().dotted("param") &&
          space_named(c.peek().text, to)) {
        like.points_to_shared = to == Space::shared;
        c.next();
      }
      if (c.accept_dotted("align")) alignment(c);
    } else if ((t.text == "v2" || t.text == "v4") && !parameter) {
      vector = static_cast<uint64_t>(t.text[1] - '0');
    } else if (t.text == "attribute") {
      while (!c.ended() && !c.accept(")")) like.managed |= c.next().dotted("managed");
    } else if (Type type = type_named(t.text); type != Type::none && type != Type::pred) {
      check_declared_type(c.module, t, type);
      like.type = type;
      typed = true;
      if (vector * bits_of(type) > 128) fail_at(c.module, t, "a vector has at most 128 bits");
    } else {
      fail_at(c.module, t, "unknown type or attribute '.{}' in a declaration", t.text);
    }
  }
  if (!typed) c.fail("the declaration has no type");
  std::vector<ast::Variable> out;
  do {
    ast::Variable v = like;
    v.at = &new_name(c, "a variable's name");
    v.name = v.at->text;
    v.elements = vector;
    std::vector<uint64_t> sizes = array_sizes(c, v);
    v.align = std::max<uint32_t>(align, static_cast<uint32_t>(vector * (bits_of(v.type) / 8)));
    if (align) v.align = align;
    if (vector > 1) sizes.push_back(vector);
    if (c.peek().mark("=")) {
      if (space != Space::global && space != Space::constant)
        c.fail("variables of this state space cannot be initialised");
      c.next();
      initialisers(c, v, sizes);
    }
    out.push_back(std::move(v));
  } while (!parameter && c.accept(","));
  return out;
}

}  // namespace fp4lab::emu
