// Turns registers and constants that are passed to functions, and parameters declared as registers (PTX ISA
// 7.1, 9.7.12.5), into .param variables before the layout:
//
//   .func (.reg .f32 %o) f(.reg .b32 %a) {       .func (.param .f32 $o) f(.param .b32 $a) {
//                                                  ld.param.b32 %a, [$a];
//     ... ret;                                     ... st.param.f32 [$o], %o; ret;
//   call (%f1), f, (5);                          st.param.b32 [$made0], 5;
//                                                call ($made1), f, ($made0);
//                                                ld.param.f32 %f1, [$made1];
#include <algorithm>
#include <utility>

#include "emulator/ptx/image.h"
#include "emulator/ptx/lower.h"
#include "emulator/ptx/operand_types.h"
#include "emulator/ptx/tree_edit.h"

namespace fp4lab::emu {

namespace {

using Kind = ast::Node::Kind;

class Passer {
 public:
  Passer(Module& out, ast::Module& tree) : out_(out), tree_(tree) {}

  void run() {
    for (ast::Function& f : tree_.functions) {
      const bool called_with_registers =
          std::any_of(f.statements.begin(), f.statements.end(),
                      [&](const auto& s) { return is_call(s) && by_value(f, s); });
      if (in_registers(f.params) || in_registers(f.results) || called_with_registers) rewrite(f);
    }
  }

 private:
  static bool in_registers(const std::vector<ast::Variable>& list) {
    return std::any_of(list.begin(), list.end(), [](const ast::Variable& v) { return v.in_register; });
  }

  // The register that a name denotes in a scope, or null.
  static const ast::Registers* register_named(const ast::Function& f, uint32_t scope, std::string_view name) {
    for (;; scope = f.scopes[scope].parent) {
      const ast::Scope& block = f.scopes[scope];
      if (block.variables.contains(name)) return nullptr;
      if (auto r = block.registers.find(name); r != block.registers.end()) return &r->second;
      if (const ast::Registers* r = ast::range_of(name, block.ranges)) return r;
      if (scope == 0) return nullptr;
    }
  }
  static bool by_value(const ast::Function& f, const ast::Statement& s, const ast::Node& n) {
    return n.kind == Kind::constant || (n.kind == Kind::name && register_named(f, s.scope, n.name));
  }
  static bool by_value(const ast::Function& f, const ast::Statement& call) {
    for (const ast::Node& list : call.operands)
      if (list.kind == Kind::list)
        for (const ast::Node& n : list.parts)
          if (by_value(f, call, n)) return true;
    return false;
  }

  std::string_view made(std::string text) { return out_.made_names.emplace_back(std::move(text)); }

  // ld.param and st.param have no types .f16 and .f16x2.
  std::string_view opcode(std::string_view what, Type type) {
    const bool is_half = type == Type::f16 || type == Type::f16x2;
    return made(fmt::format("{}.param.{}", what, name_of(is_half ? bits_type(bits_of(type)) : type)));
  }
  ast::Statement load(const ast::Statement& place, const ast::Node& reg, const ast::Variable& from) {
    return ast::made_statement(place, opcode("ld", from.type),
                               {reg, ast::made_address(*place.at, from.name)});
  }
  ast::Statement store(const ast::Statement& place, const ast::Variable& to, const ast::Node& value) {
    return ast::made_statement(place, opcode("st", to.type), {ast::made_address(*place.at, to.name), value});
  }

  void rewrite(ast::Function& f) {
    ast::Statement outermost;  // the place of statements before and after the text's own
    outermost.at = f.at;
    bool first = true;
    ast::rewrite_statements(f, [&](ast::Statement& s) {
      if (std::exchange(first, false)) enter(f, outermost);
      if (s.opcode[0] == "ret") leave(f, s);
      if (is_call(s) && by_value(f, s))
        call(f, std::move(s));
      else
        f.statements.push_back(std::move(s));
    });
    if (f.has_body) leave(f, outermost);  // for control that reaches the closing brace
  }

  void enter(ast::Function& f, const ast::Statement& place) {
    for (const ast::Variable& v : f.params)
      if (v.in_register) f.statements.push_back(load(place, ast::made_name(*v.at, v.at->text), v));
  }
  void leave(ast::Function& f, const ast::Statement& place) {
    for (const ast::Variable& v : f.results)
      if (v.in_register)
        guarded(f, place, store(outside(f, place, v.at->text), v, ast::made_name(*v.at, v.at->text)));
  }
  // A place where the name denotes the function's own register, although an enclosing block declares another.
  ast::Statement outside(const ast::Function& f, const ast::Statement& place, std::string_view name) const {
    ast::Statement outer = place;
    if (register_named(f, place.scope, name) == register_named(f, 0, name)) return outer;
    outer.scope = 0;
    if (place.guard &&
        register_named(f, place.scope, place.guard->text) != register_named(f, 0, place.guard->text))
      fail_at(out_, *place.guard,
              "'{}' and the guard of this ret are both declared in blocks: a guarded ret cannot "
              "return the function's own '{}' from here",
              name, name);
    return outer;
  }
  static void guarded(ast::Function& f, const ast::Statement& like, ast::Statement s) {
    s.guard = like.guard, s.guard_negated = like.guard_negated;
    f.statements.push_back(std::move(s));
  }

  void call(ast::Function& f, ast::Statement s) {
    const size_t callee = ast::callee_at(s);
    const ast::Function* target = nullptr;
    if (callee < s.operands.size())
      if (auto found = tree_.function_by_name.find(s.operands[callee].name);
          found != tree_.function_by_name.end())
        target = found->second;
    std::vector<ast::Statement> behind;
    for (size_t i = 0; i < s.operands.size(); ++i) {
      if (s.operands[i].kind != Kind::list) continue;
      const bool result = i < callee;
      const auto* wanted = !target ? nullptr : result ? &target->results : &target->params;
      for (size_t k = 0; k < s.operands[i].parts.size(); ++k) {
        ast::Node& n = s.operands[i].parts[k];
        if (!by_value(f, s, n)) continue;
        const ast::Variable& v = variable(f, s, n, wanted && k < wanted->size() ? &(*wanted)[k] : nullptr);
        if (result)
          behind.push_back(load(s, n, v));
        else
          guarded(f, s, store(s, v, n));
        n = ast::made_name(*n.at, v.name);
      }
    }
    const ast::Statement place = s;
    f.statements.push_back(std::move(s));
    for (ast::Statement& load : behind) guarded(f, place, std::move(load));
  }

  // A variable for one argument or result, as the callee declares it. For a call through a pointer only the
  // register gives its type.
  const ast::Variable& variable(ast::Function& f, const ast::Statement& s, const ast::Node& n,
                                const ast::Variable* wanted) {
    if (wanted && wanted->is_array)
      fail_at(out_, *n.at, "'{}' is an array: only .param variables can be passed to it", wanted->at->text);
    ast::Variable v;
    v.at = n.at, v.space = Space::param;
    if (wanted)
      v.type = wanted->type;
    else if (const ast::Registers* r = n.kind == Kind::name ? register_named(f, s.scope, n.name) : nullptr)
      v.type = r->type;
    else
      fail_at(out_, *n.at, "a constant cannot be passed through a pointer to a function");
    v.align = bits_of(v.type) / 8;
    v.name = made(fmt::format("$made_value{}", count_++));
    f.scopes[s.scope].variables[v.name] = static_cast<uint32_t>(f.variables.size());
    return f.variables.emplace_back(std::move(v));
  }

  Module& out_;
  ast::Module& tree_;
  unsigned count_ = 0;
};

}  // namespace

void pass_by_value(Module& out, ast::Module& tree) { Passer(out, tree).run(); }

}  // namespace fp4lab::emu
