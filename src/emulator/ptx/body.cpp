// A function's body: blocks, register declarations, labels, statements, operands (PTX ISA 4.3, 6).
#include <cstdlib>

#include "emulator/ptx/syntax.h"

namespace fp4lab::emu {

namespace {

constexpr int kMaxNesting = 256;
constexpr uint32_t kMaxRange = 1u << 24;
constexpr size_t kMaxModifiers = 60;

class BodyReader {
 public:
  BodyReader(Cursor& c, ast::Function& f) : c_(c), f_(f) {}

  void run() {
    c_.expect("{", "before a function's body");
    f_.scopes.push_back({});
    scope_ = 0;
    for (const auto* list : {&f_.params, &f_.results})
      for (const ast::Variable& v : *list)
        if (v.in_register) scope().registers[v.at->text] = {v.at, v.type, 0};
    block(0);
  }

 private:
  ast::Scope& scope() { return f_.scopes[scope_]; }

  // Everything up to and including the closing brace.
  void block(int depth) {
    if (depth > kMaxNesting) c_.fail("blocks nested deeper than {}", kMaxNesting);
    while (!c_.accept("}")) {
      if (c_.ended()) c_.fail("function '{}' has no closing brace", f_.name);
      if (c_.accept("{")) {
        uint32_t outer = scope_;
        f_.scopes.push_back({});
        scope_ = static_cast<uint32_t>(f_.scopes.size() - 1);
        scope().parent = outer;
        block(depth + 1);
        scope_ = outer;
      } else {
        item();
      }
    }
  }

  void item() {
    const Token& t = c_.peek();
    if (t.kind == Token::Kind::dotted) return directive();
    if (t.kind == Token::Kind::word && c_.peek(1).mark(":")) return label();
    statement();
  }

  void label() {
    const Token& t = c_.next();
    c_.next();
    if (c_.peek().kind == Token::Kind::dotted) {
      std::string_view word = c_.peek().text;
      if (word == "branchtargets" || word == "calltargets") {
        c_.next();
        ast::LabelList list;
        do list.labels.push_back(&c_.word("a label"));
        while (c_.accept(","));
        c_.expect(";", "after the list of targets");
        scope().lists[t.text] = std::move(list);
        return;
      }
      if (word == "callprototype") {  // only indirect calls need it
        scope().prototypes[t.text] = prototype();
        return;
      }
    }
    auto [_, fresh] = scope().labels.try_emplace(t.text, static_cast<uint32_t>(f_.statements.size()));
    if (!fresh) fail_at(c_.module, t, "label '{}' is defined twice in this block", t.text);
  }

  // The alignments of the parameters in `(results) _ (parameters) directives;`.
  std::vector<uint32_t> prototype() {
    std::vector<uint32_t> alignments;
    while (!c_.ended() && !c_.accept(";")) {
      const bool is_name = c_.peek().text == "_";
      if (!is_name && c_.accept("("))
        skip_list();
      else
        c_.next();
      if (!is_name) continue;
      if (!c_.accept("(") || c_.accept(")")) continue;
      do alignments.push_back(parameter_alignment());
      while (c_.accept(","));
      c_.expect(")", "after the parameters");
    }
    return alignments;
  }
  void skip_list() {
    while (!c_.ended() && !c_.accept(")")) c_.next();
  }
  // Of `.param .align 8 .b8 _[16]`; without .align that of the type.
  uint32_t parameter_alignment() {
    uint32_t align = 0;
    for (; !c_.ended() && !c_.peek().mark(",") && !c_.peek().mark(")") && !c_.peek().mark(";"); c_.next()) {
      const Token& t = c_.peek();
      if (t.dotted("align"))
        align = static_cast<uint32_t>(std::strtoul(std::string(c_.peek(1).text).c_str(), nullptr, 0));
      else if (const Type type = t.kind == Token::Kind::dotted ? type_named(t.text) : Type::none;
               type != Type::none && !align)
        align = bits_of(type) / 8;
    }
    return align;
  }

  void directive() {
    const Token& t = c_.next();
    Space space;
    if (t.text == "reg") {
      registers();
    } else if (t.text == "loc") {
      location(t);
    } else if (t.text == "pragma") {
      parse_pragma(c_);
    } else if (space_named(t.text, space)) {
      for (ast::Variable& v : parse_variables(c_, space, false)) add_variable(std::move(v));
      c_.expect(";", "after a declaration");
    } else {
      fail_at(c_.module, t, "unknown or unsupported directive '.{}' inside a function", t.text);
    }
  }

  void add_variable(ast::Variable v) {
    declared(v.at);
    if (v.unsized) fail_at(c_.module, *v.at, "'{}' has no size", v.name);
    scope().variables[v.name] = static_cast<uint32_t>(f_.variables.size());
    f_.variables.push_back(std::move(v));
  }

  void declared(const Token* at) {
    if (scope().registers.contains(at->text) || scope().vectors.contains(at->text) ||
        scope().variables.contains(at->text))
      fail_at(c_.module, *at, "'{}' is declared twice in this block", at->text);
  }

  void registers() {
    const uint32_t width = c_.peek().dotted("v2") ? 2 : c_.peek().dotted("v4") ? 4 : 1;
    if (width > 1) c_.next(), has_vectors_ = true;
    const Token& t = c_.next();
    Type type = t.kind == Token::Kind::dotted ? type_named(t.text) : Type::none;
    if (type == Type::none) fail_at(c_.module, t, "expected a register type, found {}", Cursor::shown(t));
    check_declared_type(c_.module, t, type);
    if (type == Type::pred && width > 1) fail_at(c_.module, t, "vectors of predicates do not exist");
    do {
      const Token& name = new_name(c_, "a register's name");
      ast::Registers r{&name, type, 0, width};
      if (c_.accept("<")) {  // %r<4> is %r0 to %r3; %r may be declared as well
        if (scope().ranges.contains(name.text) || scope().vector_ranges.contains(name.text))
          fail_at(c_.module, name, "'{}<>' is declared twice in this block", name.text);
        r.count = static_cast<uint32_t>(parse_size(c_, "the number of registers", 0, kMaxRange));
        c_.expect(">", "after the number of registers");
        (width > 1 ? scope().vector_ranges : scope().ranges)[name.text] = r;
      } else {
        declared(&name);
        (width > 1 ? scope().vectors : scope().registers)[name.text] = r;
      }
    } while (c_.accept(","));
    c_.expect(";", "after a register declaration");
  }
  // .loc file line column {, function_name L {+n}, inlined_at file line column}
  void location(const Token& at) {
    Location here = place();
    while (!c_.ended() && c_.peek().line == at.line) {
      if (c_.next().text != "inlined_at") continue;
      const Location call = place();
      // The latest location with the same text is the call site: compilers emit it before the inlined code.
      for (size_t i = f_.locations.size(); --i > 0 && !here.caller;)
        if (f_.locations[i].file == call.file && f_.locations[i].line == call.line &&
            f_.locations[i].column == call.column)
          here.caller = static_cast<uint32_t>(i);
    }
    location_ = static_cast<uint32_t>(f_.locations.size());
    f_.locations.push_back(here);
  }
  Location place() {
    Location l;
    l.file = static_cast<uint32_t>(parse_size(c_, "a file number", 0, INT32_MAX));
    l.line = static_cast<uint32_t>(parse_size(c_, "a line", 0, INT32_MAX));
    l.column = static_cast<uint32_t>(parse_size(c_, "a column", 0, INT32_MAX));
    return l;
  }

  void statement() {
    ast::Statement s;
    s.scope = scope_;
    s.location = location_;
    if (c_.accept("@")) {
      s.guard_negated = c_.accept("!");
      s.guard = &c_.word("a predicate after '@'");
    }
    if (c_.peek().kind != Token::Kind::word)
      c_.fail("expected an instruction, found {}", Cursor::shown(c_.peek()));
    s.at = &c_.next();
    s.opcode.push_back(s.at->text);
    s.opcode_at.push_back(s.at);
    while (c_.peek().kind == Token::Kind::dotted) {
      s.opcode_at.push_back(&c_.peek());
      s.opcode.push_back(c_.next().text);
      if (s.opcode.size() > kMaxModifiers) c_.fail("more than {} modifiers", kMaxModifiers);
    }
    in_call_ = s.opcode[0] == "call";
    if (!c_.peek().mark(";")) {
      do s.operands.push_back(operand(0));
      while (c_.accept(","));
    }
    c_.expect(";", "or ',' after an operand");
    f_.statements.push_back(std::move(s));
  }

  ast::Node operand(int depth) {
    if (depth > 8) c_.fail("operand nested too deeply");
    ast::Node first = simple(depth);
    if (!c_.peek().mark("|")) return first;
    ast::Node pair;
    pair.kind = ast::Node::Kind::pair;
    pair.at = first.at;
    c_.next();
    pair.parts.push_back(std::move(first));
    pair.parts.push_back(simple(depth));
    return pair;
  }

  ast::Node simple(int depth) {
    ast::Node n;
    n.at = &c_.peek();
    if (n.at->mark("!") && !constant_begins(c_)) {
      c_.next();
      n.negated = true;
      n.name = c_.word("a predicate after '!'").text;
    } else if (n.at->mark("-") && c_.peek(1).kind == Token::Kind::word && c_.peek(1).text != "WARP_SZ") {
      c_.next();
      n.negated = true;
      name(n);
    } else if (c_.accept("[")) {
      address(n, depth);
    } else if (c_.accept("{")) {
      n.kind = ast::Node::Kind::vector;
      elements(n, "}", depth);
    } else if (n.at->mark("(") && ((in_call_ && depth == 0) || !constant_in_parentheses())) {
      c_.next();
      n.kind = ast::Node::Kind::list;
      elements(n, ")", depth);
    } else if (constant_begins(c_)) {
      n.kind = ast::Node::Kind::constant;
      n.value = parse_constant(c_);
    } else {
      name(n);
    }
    return n;
  }

  // `(1+2)` is a constant, `(param0, param1)` the arguments of a call.
  bool constant_in_parentheses() const {
    size_t i = 1;
    while (c_.peek(i).mark("(") || c_.peek(i).mark("-") || c_.peek(i).mark("~") || c_.peek(i).mark("!")) ++i;
    const Token& t = c_.peek(i);
    return t.kind == Token::Kind::number || t.text == "WARP_SZ" || t.dotted("s64") || t.dotted("u64");
  }

  void elements(ast::Node& n, std::string_view closing, int depth) {
    if (c_.accept(closing)) return;
    do n.parts.push_back(operand(depth + 1));
    while (c_.accept(","));
    c_.expect(closing, "or ',' in a list of operands");
  }

  void name(ast::Node& n) {
    n.name = c_.word("an operand").text;
    if (c_.peek().kind == Token::Kind::dotted) n.component = c_.next().text;
    if (c_.peek().mark("+") || c_.peek().mark("-")) {
      n.displaced = true;
      n.value.bits = static_cast<uint64_t>(parse_displacement(c_));
    }
    element_or_all(n);
  }

  // The vector register in scope with this name, and the block that declares it.
  std::pair<const ast::Registers*, ast::Scope*> vector_named(std::string_view name) {
    for (uint32_t at = scope_;; at = f_.scopes[at].parent) {
      ast::Scope& s = f_.scopes[at];
      if (const auto v = s.vectors.find(name); v != s.vectors.end()) return {&v->second, &s};
      if (s.registers.contains(name) || s.variables.contains(name)) return {};
      if (const ast::Registers* v = ast::range_of(name, s.vector_ranges)) return {v, &s};
      if (s.parent == at) return {};
    }
  }

  // An element of a vector register is a register of its own, named "m.x"; the whole vector is a { }.
  void element_or_all(ast::Node& n) {
    if (!has_vectors_ || n.kind != ast::Node::Kind::name) return;
    const auto [vector, owner] = vector_named(n.name);
    if (!vector) return;
    auto element = [&, vector = vector, owner = owner](size_t i) {
      const std::string full = fmt::format("{}.{}", n.name, "xyzw"[i]);
      auto known = owner->registers.find(full);
      if (known == owner->registers.end())
        known = owner->registers.try_emplace(f_.made_names.emplace_back(full), *vector).first;
      return known->first;
    };
    if (n.component.empty()) {
      if (n.displaced || n.negated) return;  // refused later: no scalar has this name
      n.kind = ast::Node::Kind::vector;
      for (size_t i = 0; i < vector->width; ++i) {
        ast::Node part;
        part.at = n.at;
        part.name = element(i);
        n.parts.push_back(std::move(part));
      }
      return;
    }
    const size_t i = n.component.size() == 1 ? std::string_view("xyzwrgba").find(n.component) : 8;
    if (i > 7 || i % 4 >= vector->width)
      fail_at(c_.module, *n.at, "'{}' is a vector of {}: it has no element .{}", n.name, vector->width,
              n.component);
    n.name = element(i % 4);
    n.component = {};
  }

  void address(ast::Node& n, int depth) {
    n.kind = ast::Node::Kind::address;
    if (constant_begins(c_)) {
      n.value = parse_constant(c_);
      n.displaced = true;
    } else {
      name(n);
    }
    while (c_.accept(",")) n.parts.push_back(operand(depth + 1));
    c_.expect("]", "after an address");
  }

  Cursor& c_;
  ast::Function& f_;
  uint32_t scope_ = 0;
  uint32_t location_ = 0;
  bool has_vectors_ = false;
  bool in_call_ = false;  // operands in ( ) are lists
};

}  // namespace

void parse_body(Cursor& c, ast::Function& f) { BodyReader(c, f).run(); }

}  // namespace fp4lab::emu
