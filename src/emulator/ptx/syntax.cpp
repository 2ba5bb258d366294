// Module scope: directives, function heads, variables (PTX ISA 5.4, 11).
#include "emulator/ptx/syntax.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "emulator/isa/target.h"

namespace fp4lab::emu {

namespace {

// The first PTX ISA with this target (PTX ISA 11.1.2).
std::string_view least_version(std::string_view target) {
  constexpr std::pair<std::string_view, std::string_view> kLeast[] = {
      {"sm_80", "7.0"},  {"sm_86", "7.1"},   {"sm_89", "7.8"},   {"sm_90", "7.8"},
      {"sm_90a", "8.0"}, {"sm_100", "8.6"},  {"sm_100a", "8.6"}, {"sm_100f", "8.8"},
      {"sm_103", "8.8"}, {"sm_103a", "8.8"}, {"sm_103f", "8.8"}};
  for (const auto& [name, version] : kLeast)
    if (name == target) return version;
  return "0";
}

class ModuleReader {
 public:
  explicit ModuleReader(Cursor& c) : c_(c) {}

  ast::Module run() {
    header();
    while (!c_.ended()) item();
    for (const ast::Function& f : module_.functions)
      if (!f.has_body && !f.external && !f.entry && !module_.aliases.contains(f.name))
        fail_at(c_.module, *f.at, "function '{}' is declared but never defined; without .extern it must be",
                f.name);
    check_constant_size();
    return std::move(module_);
  }

 private:
  // .version and .target come first, in this order, then .address_size (PTX ISA 11.1).
  void header() {
    if (!c_.accept_dotted("version")) c_.fail("the module has no .version before everything else");
    module_.version = c_.next().text;
    if (!c_.accept_dotted("target")) c_.fail("the module has no .target after .version");
    const Token& target = c_.word("a target");
    module_.target = target.text;
    while (c_.accept(",")) module_.debug |= c_.word("a target option").text == "debug";
    if (const std::string_view least = least_version(module_.target); version_before(module_.version, least))
      fail_at(c_.module, target, "{} needs PTX ISA {}, the module's .version is {}", target.text, least,
              module_.version);
    const Token& size = c_.peek();
    if (c_.accept_dotted("address_size") && parse_size(c_, ".address_size", 32, 64) != 64)
      fail_at(c_.module, size, "only 64-bit addresses are supported");
  }

  // PTX ISA 5.1.3. Larger sizes needed banks of their own, by .const[N].
  void check_constant_size() const {
    constexpr uint64_t kMost = 65536;
    uint64_t bytes = 0;
    for (const ast::Variable& v : module_.variables)
      if (v.space == Space::constant && (bytes += v.bytes()) > kMost)
        fail_at(c_.module, *v.at, "more than {} bytes of .const variables", kMost);
  }

  void item() {
    const Token& t = c_.peek();
    if (t.mark("@")) return skip_line();  // @@DWARF
    if (t.kind != Token::Kind::dotted) c_.fail("expected a directive, found {}", Cursor::shown(t));
    c_.next();
    if (t.text == "target") {  // once more
      c_.word("a target");
      while (c_.accept(",")) c_.word("a target option");
    } else if (t.text == "file") {
      file();
    } else if (t.text == "section") {
      section(t);
    } else if (t.text == "alias") {
      std::string_view name = c_.word("a function").text;
      c_.expect(",", "in .alias");
      module_.aliases[name] = c_.word("a function").text;
      c_.expect(";", "after .alias");
    } else if (t.text == "pragma") {
      parse_pragma(c_, false);
    } else {
      declaration(t);
    }
  }

  void skip_line() { skip_line_of(c_.next()); }
  void skip_line_of(const Token& first) {
    while (!c_.ended() && c_.peek().line == first.line) c_.next();
  }

  void file() {
    auto index = static_cast<uint32_t>(parse_size(c_, "a file number", 0, INT32_MAX));
    if (c_.peek().kind != Token::Kind::string) c_.fail("expected the file's name");
    module_.files[index] = std::string(c_.next().text);
    for (int i = 0; i < 2 && c_.accept(","); ++i) parse_constant(c_);
  }

  // Debug information: nothing in it changes what the program does, but ptxas reads it.
  void section(const Token& at) {
    while (!c_.ended() && !c_.peek().mark("{")) c_.next();
    if (c_.ended()) fail_at(c_.module, at, ".section without a body");
    c_.next();
    while (!c_.accept("}")) {
      if (c_.ended()) fail_at(c_.module, at, ".section without end");
      const Token& t = c_.next();
      if (t.kind == Token::Kind::word && c_.accept(":")) {
        if (version_before(module_.version, "7.0"))
          fail_at(c_.module, t, "a label in .section needs PTX ISA 7.0, the module's .version is {}",
                  module_.version);
        continue;
      }
      const Type type = t.kind == Token::Kind::dotted ? type_named(t.text) : Type::none;
      if (type != Type::b8 && type != Type::b16 && type != Type::b32 && type != Type::b64)
        fail_at(c_.module, t, "expected .b8, .b16, .b32, .b64 or a label in .section, found {}",
                Cursor::shown(t));
      do section_item(type);
      while (c_.accept(","));
    }
  }

  // A number, or a label or section with a number or label added or taken off.
  void section_item(Type type) {
    if (c_.peek().kind == Token::Kind::word || c_.peek().kind == Token::Kind::dotted) {
      c_.next();
      if (!c_.accept("+") && !c_.accept("-")) return;
      if (c_.peek().kind == Token::Kind::word) return void(c_.next());
    }
    const Token& at = c_.peek();
    const int64_t value = static_cast<int64_t>(parse_constant(c_).bits);
    const unsigned bits = bits_of(type);
    if (bits < 32 && (value < -(int64_t(1) << (bits - 1)) || value >= int64_t(1) << bits))
      fail_at(c_.module, at, "{} is out of range for .{}", value, name_of(type));
  }

  // {.extern,.visible,.weak,.common} then .entry, .func or a state space.
  void declaration(const Token& first) {
    const Token* t = &first;
    const bool external = t->dotted("extern"), common = t->dotted("common");
    if (external || common || t->dotted("visible") || t->dotted("weak")) t = &c_.next();
    if (common && !t->dotted("global")) fail_at(c_.module, *t, ".common is for .global variables");
    Space space;
    if (t->dotted("entry") || t->dotted("func")) {
      function(*t, external);
    } else if (t->kind == Token::Kind::dotted && space_named(t->text, space) && space != Space::param) {
      for (ast::Variable& v : parse_variables(c_, space, false)) {
        v.external = external;
        if (v.unsized && v.init.empty() && !external)
          fail_at(c_.module, *v.at, "'{}' has no size: only .extern variables may omit it", v.name);
        add_variable(std::move(v));
      }
      c_.expect(";", "after a declaration");
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

  std::vector<ast::Variable> parameters(bool of_kernel) {
    std::vector<ast::Variable> params;
    if (c_.accept(")")) return params;
    do {
      const Token& t = c_.next();
      const bool in_register = !of_kernel && t.dotted("reg");
      if (!in_register && !t.dotted("param"))
        fail_at(c_.module, t, "expected .param{}, found {}", of_kernel ? "" : " or .reg", Cursor::shown(t));
      ast::Variable v = std::move(parse_variables(c_, Space::param, true).at(0));
      v.in_register = in_register;
      if (in_register && (v.is_array || v.is_pointer || bits_of(v.type) < 16))
        fail_at(c_.module, *v.at, "'{}' cannot be passed in a register", v.name);
      if (!in_register && v.type == Type::f16x2)
        fail_at(c_.module, *v.at, "'{}' cannot be .f16x2 in .param space", v.name);
      if (of_kernel && v.bytes() == 0) fail_at(c_.module, *v.at, "the parameter '{}' has no size", v.name);
      if (!of_kernel && v.is_pointer) fail_at(c_.module, *v.at, ".ptr is for the parameters of kernels");
      for (const ast::Variable& other : params)
        if (other.name == v.name) fail_at(c_.module, *v.at, "'{}' is declared twice", v.name);
      params.push_back(std::move(v));
    } while (c_.accept(","));
    c_.expect(")", "after the parameters");
    return params;
  }

  void function(const Token& kind, bool external) {
    ast::Function f;
    f.external = external;
    f.entry = kind.text == "entry";
    if (c_.peek().kind == Token::Kind::dotted && c_.peek().text == "attribute") {
      c_.next();
      while (!c_.ended() && !c_.accept(")")) c_.next();
    }
    if (!f.entry && c_.accept("(")) f.results = parameters(false);
    if (f.results.size() > 1 && !f.results[0].in_register)
      fail_at(c_.module, *f.results[1].at, "a function has one result in .param space");
    f.at = &new_name(c_, "the function's name");
    f.name = f.at->text;
    if (c_.accept("(")) f.params = parameters(f.entry);
    for (auto* list : {&f.params, &f.results})
      for (ast::Variable& v : *list)
        if (v.in_register) v.name = f.made_names.emplace_back(fmt::format("${}", v.name));
    directives(f);
    if (c_.peek().mark("{")) {
      f.has_body = true;
      parse_body(c_, f);
      adopt_variables(f);
    } else {
      c_.expect(";", "or a body after a function's head");
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

  // A function's .global and .const variables live as long as the module, under a name that no text can have.
  void adopt_variables(ast::Function& f) {
    for (ast::Variable& v : f.variables) {
      if (v.space != Space::global && v.space != Space::constant) continue;
      v.name = f.made_names.emplace_back(fmt::format("{}.{}.{}", f.name, v.name, module_.variables.size()));
      add_variable(v);
    }
  }

  uint32_t count(std::string_view what, int64_t least = 0) {
    return static_cast<uint32_t>(parse_size(c_, what, least, INT32_MAX));
  }
  void triple(uint32_t (&out)[3], std::string_view what, int64_t least = 0) {
    out[0] = count(what, least);
    out[1] = out[2] = 1;
    for (int i = 1; i < 3 && c_.accept(","); ++i) out[i] = count(what, least);
  }

  void directives(ast::Function& f) {
    while (c_.peek().kind == Token::Kind::dotted) {
      const Token& t = c_.next();
      const bool of_functions = t.text == "noreturn" || t.text.starts_with("abi_preserve");
      const bool of_both = t.text == "local_maxnreg";
      if (!of_both && of_functions == f.entry)
        fail_at(c_.module, t, "'.{}' is for {}", t.text,
                f.entry ? "functions, not for kernels" : "kernels only");
      if (t.text == "maxntid") {
        triple(f.max_ntid, ".maxntid", 1);
      } else if (t.text == "reqntid") {
        triple(f.req_ntid, ".reqntid", 1);
      } else if (t.text == "reqnctapercluster") {
        triple(f.req_cluster, ".reqnctapercluster");
      } else if (t.text == "minnctapersm") {
        f.min_ctapersm = count(".minnctapersm", 1);
      } else if (t.text == "maxnreg") {
        f.max_nreg = count(".maxnreg", 1);
      } else if (t.text == "local_maxnreg") {
        count(".local_maxnreg", 1);
      } else if (t.text == "maxclusterrank") {
        f.max_cluster_rank = count(".maxclusterrank");
      } else if (t.text == "explicitcluster") {
        f.explicit_cluster = true;
      } else if (t.text == "blocksareclusters") {
        f.blocks_are_clusters = true;
      } else if (t.text == "noreturn") {
        f.noreturn = true;
      } else if (t.text == "abi_preserve" || t.text == "abi_preserve_control") {
        count("a number of registers");
      } else if (t.text == "pragma") {
        parse_pragma(c_, false);
      } else {
        fail_at(c_.module, t, "unknown or unsupported performance directive '.{}'", t.text);
      }
      if (f.max_ntid[0] && f.req_ntid[0]) fail_at(c_.module, t, ".maxntid and .reqntid exclude each other");
      if (f.max_cluster_rank && f.req_cluster[0])
        fail_at(c_.module, t, ".maxclusterrank and .reqnctapercluster exclude each other");
    }
    if (f.blocks_are_clusters && (!f.req_ntid[0] || !f.req_cluster[0]))
      fail_at(c_.module, *f.at, ".blocksareclusters needs .reqntid and .reqnctapercluster");
  }

  Cursor& c_;
  ast::Module module_;
};

// A newly declared name.
bool may_be_declared(std::string_view name) { return name != "_" && name != "WARP_SZ"; }

}  // namespace

bool space_named(std::string_view word, Space& space) {
  if (word == "global") return space = Space::global, true;
  if (word == "const") return space = Space::constant, true;
  if (word == "shared" || word == "shared::cta") return space = Space::shared, true;
  if (word == "local") return space = Space::local, true;
  if (word == "param") return space = Space::param, true;
  return false;
}

const Token& new_name(Cursor& c, std::string_view what) {
  const Token& t = c.word(what);
  if (!may_be_declared(t.text)) fail_at(c.module, t, "'{}' cannot be declared", t.text);
  return t;
}

void check_declared_type(const Module& module, const Token& at, Type type) {
  constexpr Type kFundamental[] = {Type::pred, Type::b8,  Type::b16, Type::b32,   Type::b64, Type::b128,
                                   Type::u8,   Type::u16, Type::u32, Type::u64,   Type::s8,  Type::s16,
                                   Type::s32,  Type::s64, Type::f16, Type::f16x2, Type::f32, Type::f64};
  if (std::find(std::begin(kFundamental), std::end(kFundamental), type) == std::end(kFundamental))
    fail_at(module, at, ".{} is a type for instructions only", name_of(type));
}

void parse_pragma(Cursor& c, bool in_body) {
  do {
    if (c.peek().kind != Token::Kind::string) c.fail("expected the pragma's string");
    for (const std::string_view own : {"enable_smem_spilling", "frequency", "used_bytes_mask"})
      if (!in_body && c.peek().text.starts_with(own))
        c.fail("the pragma \"{}\" is allowed inside a function's body only", own);
    c.next();
  } while (c.accept(","));
  c.expect(";", "after .pragma");
}

ast::Module parse_syntax(const Module& module, std::span<const Token> tokens) {
  Cursor c(module, tokens);
  return ModuleReader(c).run();
}

}  // namespace fp4lab::emu
