// Module scope: directives, functions' heads, variables (PTX ISA 5.4, 11).
#include "emulator/ptx/syntax.h"

#include <algorithm>
#include <bit>

namespace fp4lab::emu {

namespace {

constexpr uint64_t kMaxVariableBytes = uint64_t(1) << 40;

class ModuleReader {
 public:
  explicit ModuleReader(Cursor& c) : c_(c) {}

  ast::Module run() {
    while (!c_.ended()) item();
    if (module_.version.empty()) c_.fail("the module has no .version");
    if (module_.target.empty()) c_.fail("the module has no .target");
    return std::move(module_);
  }

 private:
  void item() {
    const Token& t = c_.peek();
    if (t.mark(";")) {
      c_.next();
      return;
    }
    if (t.mark("@")) return skip_line();  // @@DWARF
    if (t.kind != Token::Kind::dotted) c_.fail("expected a directive, found {}", Cursor::shown(t));
    c_.next();
    if (t.text == "version") {
      module_.version = c_.next().text;
    } else if (t.text == "target") {
      module_.target = c_.word("a target").text;
      while (c_.accept(",")) c_.word("a target option");
    } else if (t.text == "address_size") {
      if (parse_integer(c_, ".address_size", 32, 64) != 64)
        fail_at(c_.module, t, "only 64-bit addresses are supported");
    } else if (t.text == "file") {
      file();
    } else if (t.text == "section") {
      section(t);
    } else if (t.text == "alias") {
      std::string_view name = c_.word("a function").text;
      c_.expect(",", "in .alias");
      module_.aliases[name] = c_.word("a function").text;
      c_.expect(";", "behind .alias");
    } else if (t.text == "pragma") {
      while (!c_.ended() && !c_.accept(";")) c_.next();
    } else if (t.text == "loc") {
      skip_line_of(t);
    } else {
      declaration(t);
    }
  }

  void skip_line() { skip_line_of(c_.next()); }
  void skip_line_of(const Token& first) {
    while (!c_.ended() && c_.peek().line == first.line) c_.next();
  }

  void file() {
    auto index = static_cast<uint32_t>(parse_integer(c_, "a file number", 0, INT32_MAX));
    if (c_.peek().kind != Token::Kind::string) c_.fail("expected the file's name");
    module_.files[index] = std::string(c_.next().text);
    for (int i = 0; i < 2 && c_.accept(","); ++i) parse_constant(c_);
  }

  // Debug information: nothing in it changes what the program does.
  void section(const Token& at) {
    while (!c_.ended() && !c_.peek().mark("{")) c_.next();
    if (c_.ended()) fail_at(c_.module, at, ".section without a body");
    int depth = 0;
    do {
      if (c_.ended()) fail_at(c_.module, at, ".section without end");
      if (c_.peek().mark("{")) ++depth;
      if (c_.peek().mark("}")) --depth;
      c_.next();
    } while (depth);
  }

  // {.extern,.visible,.weak,.common} then .entry, .func or a state space.
  void declaration(const Token& first) {
    const Token* t = &first;
    bool external = false;
    while (t->dotted("extern") || t->dotted("visible") || t->dotted("weak") || t->dotted("common")) {
      external |= t->text == "extern";
      t = &c_.next();
    }
    Space space;
    if (t->dotted("entry") || t->dotted("func")) {
      function(*t);
    } else if (t->kind == Token::Kind::dotted && space_named(t->text, space) && space != Space::param) {
      for (ast::Variable& v : parse_variables(c_, space, false)) {
        v.external = external;
        add_variable(std::move(v));
      }
      c_.expect(";", "behind a declaration");
    } else {
      fail_at(c_.module, *t, "unknown directive {}", Cursor::shown(*t));
    }
  }

  void add_variable(ast::Variable v) {
    if (v.space == Space::local)
      fail_at(c_.module, *v.at, "'{}': .local variables belong inside a function", v.name);
    if (module_.variable_by_name.contains(v.name)) {
      ast::Variable& old = module_.variables[module_.variable_by_name[v.name]];
      if (!old.external && !v.external) fail_at(c_.module, *v.at, "'{}' is declared twice", v.name);
      if (old.external && !v.external) old = std::move(v);
      return;
    }
    module_.variable_by_name[v.name] = static_cast<uint32_t>(module_.variables.size());
    module_.variables.push_back(std::move(v));
  }

  std::vector<ast::Variable> parameters() {
    std::vector<ast::Variable> params;
    if (c_.accept(")")) return params;
    do {
      const Token& t = c_.next();
      if (t.dotted("reg")) fail_at(c_.module, t, "parameters in .reg space are not supported, only .param");
      if (!t.dotted("param")) fail_at(c_.module, t, "expected .param, found {}", Cursor::shown(t));
      params.push_back(std::move(parse_variables(c_, Space::param, true).at(0)));
    } while (c_.accept(","));
    c_.expect(")", "behind the parameters");
    return params;
  }

  void function(const Token& kind) {
    ast::Function f;
    f.entry = kind.text == "entry";
    if (c_.peek().kind == Token::Kind::dotted && c_.peek().text == "attribute") {
      c_.next();
      while (!c_.ended() && !c_.accept(")")) c_.next();
    }
    if (!f.entry && c_.accept("(")) f.results = parameters();
    f.at = &c_.word("the function's name");
    f.name = f.at->text;
    if (c_.accept("(")) f.params = parameters();
    directives(f);
    if (c_.peek().mark("{")) {
      f.has_body = true;
      parse_body(c_, f);
    } else {
      c_.expect(";", "or a body behind a function's head");
    }
    auto [found, fresh] = module_.function_by_name.try_emplace(f.name, nullptr);
    if (fresh) {
      module_.functions.push_back(std::move(f));
      found->second = &module_.functions.back();
    } else if (!found->second->has_body) {
      *found->second = std::move(f);
    } else if (f.has_body) {
      fail_at(c_.module, *f.at, "function '{}' is defined twice", f.name);
    }
  }

  uint32_t count(std::string_view what) {
    return static_cast<uint32_t>(parse_integer(c_, what, 0, INT32_MAX));
  }
  void triple(uint32_t (&out)[3], std::string_view what) {
    out[0] = count(what);
    out[1] = out[2] = 1;
    for (int i = 1; i < 3 && c_.accept(","); ++i) out[i] = count(what);
  }

  void directives(ast::Function& f) {
    while (c_.peek().kind == Token::Kind::dotted) {
      const Token& t = c_.next();
      if (t.text == "maxntid") {
        triple(f.max_ntid, ".maxntid");
      } else if (t.text == "reqntid") {
        triple(f.req_ntid, ".reqntid");
      } else if (t.text == "reqnctapercluster") {
        triple(f.req_cluster, ".reqnctapercluster");
      } else if (t.text == "minnctapersm") {
        f.min_ctapersm = count(".minnctapersm");
      } else if (t.text == "maxnctapersm") {
        count(".maxnctapersm");
      } else if (t.text == "maxnreg") {
        f.max_nreg = count(".maxnreg");
      } else if (t.text == "maxclusterrank") {
        f.max_cluster_rank = count(".maxclusterrank");
      } else if (t.text == "explicitcluster") {
        f.explicit_cluster = true;
      } else if (t.text == "noreturn") {
        f.noreturn = true;
      } else if (t.text == "pragma") {
        if (c_.peek().kind != Token::Kind::string) c_.fail("expected the pragma's string");
        c_.next();
        c_.expect(";", "behind .pragma");
      } else {
        fail_at(c_.module, t, "unknown or unsupported performance directive '.{}'", t.text);
      }
    }
  }

  Cursor& c_;
  ast::Module module_;
};

uint32_t alignment(Cursor& c) {
  const Token& at = c.peek();
  auto align = static_cast<uint32_t>(parse_integer(c, "an alignment", 1, 1 << 20));
  if (!std::has_single_bit(align)) fail_at(c.module, at, "the alignment {} is not a power of two", align);
  return align;
}

ast::Variable::Item initialiser(Cursor& c) {
  ast::Variable::Item item{&c.peek(), {}, {}};
  if (c.peek().kind == Token::Kind::number &&
      c.peek(1).mark("(")) {  // 0xff00(symbol): one byte of an address
    item.mask = parse_signed_literal(c).bits;
    c.expect("(", "behind a mask");
    auto inner = initialiser(c);
    inner.mask = item.mask;
    c.expect(")", "behind a masked address");
    return inner;
  }
  if (c.peek().kind != Token::Kind::word || constant_begins(c)) {
    item.value = parse_constant(c);
    return item;
  }
  bool generic = c.peek().text == "generic" && c.peek(1).mark("(");  // global addresses are generic addresses
  if (generic) c.next(), c.next();
  item.symbol = c.word("a symbol").text;
  if (generic) c.expect(")", "behind generic(");
  if (c.peek().mark("+") || c.peek().mark("-")) item.value = parse_signed_literal(c);
  return item;
}

void initialisers(Cursor& c, ast::Variable& v, int depth) {
  if (depth > 16) c.fail("initialiser nested too deeply");
  if (!c.accept("{")) {
    v.init.push_back(initialiser(c));
    return;
  }
  if (c.accept("}")) return;
  do initialisers(c, v, depth + 1);
  while (c.accept(","));
  c.expect("}", "behind an initialiser");
}

}  // namespace

bool space_named(std::string_view word, Space& space) {
  if (word == "global") return space = Space::global, true;
  if (word == "const") return space = Space::constant, true;
  if (word == "shared" || word == "shared::cta") return space = Space::shared, true;
  if (word == "local") return space = Space::local, true;
  if (word == "param") return space = Space::param, true;
  return false;
}

std::vector<ast::Variable> parse_variables(Cursor& c, Space space, bool parameter) {
  ast::Variable like;
  like.space = space;
  uint64_t vector = 1;
  uint32_t align = 0;
  bool typed = false;
  while (c.peek().kind == Token::Kind::dotted) {
    const Token& t = c.next();
    if (t.text == "align") {
      align = alignment(c);
    } else if (t.text == "ptr") {  // .ptr{.space} .align N: what the pointer points to, a hint
      Space ignored;
      if (c.peek().kind == Token::Kind::dotted && space_named(c.peek().text, ignored)) c.next();
      if (c.accept_dotted("align")) alignment(c);
    } else if (t.text == "v2" || t.text == "v4" || t.text == "v8") {
      vector = static_cast<uint64_t>(t.text[1] - '0');
    } else if (t.text == "attribute") {
      while (!c.ended() && !c.accept(")")) c.next();
    } else if (Type type = type_named(t.text); type != Type::none && type != Type::pred) {
      like.type = type;
      typed = true;
    } else {
      fail_at(c.module, t, "unknown type or attribute '.{}' in a declaration", t.text);
    }
  }
  if (!typed) c.fail("the declaration has no type");
  std::vector<ast::Variable> out;
  do {
    ast::Variable v = like;
    v.at = &c.word("a variable's name");
    v.name = v.at->text;
    v.elements = vector;
    while (c.accept("[")) {
      v.is_array = true;
      if (c.accept("]")) {
        v.unsized = true;
        continue;
      }
      auto n = static_cast<uint64_t>(parse_integer(c, "an array's size", 0, int64_t(1) << 40));
      if (n && v.elements > kMaxVariableBytes / n / 16)
        c.fail("'{}' is larger than {} bytes", v.name, kMaxVariableBytes);
      v.elements *= n;
      c.expect("]", "behind an array's size");
    }
    v.align = std::max<uint32_t>(align, static_cast<uint32_t>(vector * (bits_of(v.type) / 8)));
    if (align) v.align = align;
    if (c.accept("=")) initialisers(c, v, 0);
    if (v.unsized) v.elements = v.init.size();
    if (v.init.size() > v.elements)
      fail_at(c.module, *v.at, "'{}' has {} elements and {} initial values", v.name, v.elements,
              v.init.size());
    out.push_back(std::move(v));
  } while (!parameter && c.accept(","));
  return out;
}

ast::Module parse_syntax(const Module& module, std::span<const Token> tokens) {
  Cursor c(module, tokens);
  return ModuleReader(c).run();
}

}  // namespace fp4lab::emu
