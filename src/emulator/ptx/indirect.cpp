// Turns calls through pointers into calls by name, before the layout: the pointer is compared with every
// function that it may hold, which are those with the call's parameter sizes whose address is taken somewhere
// in the module. Lanes that call different functions diverge as at any branch.
//
//   call (r), %rd1, (a), prototype;      setp.eq.u64 $p, %rd1, <address of f>;
//                                        @!$p bra $next;
//                                        (a copied to $a)  call ($r), f, ($a);  ($r copied to r)
//                                        bra $end;
//                                     $next: ... the next function ...
//                                        trap;
//                                     $end:
#include <algorithm>
#include <set>

#include "emulator/core/memory.h"
#include "emulator/ptx/image.h"
#include "emulator/ptx/lower.h"
#include "emulator/ptx/tree_edit.h"

namespace fp4lab::emu {

namespace {

using Kind = ast::Node::Kind;
using Variables = std::vector<const ast::Variable*>;

// The expansion of one call: statements, registers and variables appended to the function.
class Expansion {
 public:
  Expansion(Module& out, ast::Module& tree, ast::Function& f, const ast::Statement& call, unsigned number)
      : out_(out), tree_(tree), f_(f), call_(call), scope_(f.scopes[call.scope]), number_(number) {
    add_register(matches_, Type::pred);
    if (!call.guard) return;
    ast::Statement& skip = emit("bra", {node(end_)});
    skip.guard = call.guard, skip.guard_negated = !call.guard_negated;
  }

  // Calls `target` if the pointer holds its address.
  void try_target(const ast::Function& target, const ast::Node& pointer, const Variables& given,
                  const Variables& wanted) {
    const std::string_view next = name("next", ++target_);
    emit("setp.ne.u64", {node(matches_), node(pointer.name), constant(target.address)});
    Token& guard = tree_.made_tokens.emplace_back(at_);
    guard.text = matches_, guard.kind = Token::Kind::word;
    emit("bra", {node(next)}).guard = &guard;
    const auto in = own_variables(given, "a"), out = own_variables(wanted, "r");
    for (size_t v = 0; v < given.size(); ++v) copy(in[v], given[v]->name, given[v]->bytes());
    std::vector<ast::Node> operands;
    if (!out.empty()) operands.push_back(list(out));
    operands.push_back(node(target.name));
    operands.push_back(list(in));
    emit("call", std::move(operands));
    for (size_t v = 0; v < wanted.size(); ++v) copy(wanted[v]->name, out[v], wanted[v]->bytes());
    emit("bra", {node(end_)});
    label(next);
  }

  void finish() {
    emit("trap", {});  // no function of this module
    label(end_);
  }

 private:
  using Names = std::vector<std::string_view>;

  std::string_view made(std::string text) { return out_.made_names.emplace_back(std::move(text)); }
  std::string_view name(const char* what, unsigned k) {
    return made(fmt::format("$made{}_{}{}", number_, what, k));
  }

  ast::Node node(std::string_view text) const { return ast::made_name(at_, text); }
  ast::Node constant(uint64_t bits) const {
    ast::Node n;
    n.at = &at_, n.kind = Kind::constant, n.value.bits = bits;
    return n;
  }
  ast::Node list(const Names& names) const {
    ast::Node n;
    n.at = &at_, n.kind = Kind::list;
    for (std::string_view part : names) n.parts.push_back(node(part));
    return n;
  }

  ast::Statement& emit(std::string_view opcode, std::vector<ast::Node> operands) {
    return f_.statements.emplace_back(ast::made_statement(call_, opcode, std::move(operands)));
  }
  void label(std::string_view text) { scope_.labels[text] = static_cast<uint32_t>(f_.statements.size()); }
  void add_register(std::string_view text, Type type) { scope_.registers[text] = {&at_, type, 0}; }

  // Variables of this call for one target's parameters or results.
  Names own_variables(const Variables& like, const char* what) {
    Names names;
    for (size_t v = 0; v < like.size(); ++v) {
      ast::Variable own = *like[v];
      own.name = made(fmt::format("$made{}_{}{}_{}", number_, what, target_, v));
      scope_.variables[own.name] = static_cast<uint32_t>(f_.variables.size());
      names.push_back(own.name);
      f_.variables.push_back(std::move(own));
    }
    return names;
  }

  // Bytes of one .param variable to another, in the largest pieces that fit.
  void copy(std::string_view to, std::string_view from, uint64_t bytes) {
    static constexpr struct {
      unsigned bytes;
      Type type;
      std::string_view load, store, reg;
    } kPieces[] = {{8, Type::b64, "ld.param.b64", "st.param.b64", "$made_b64"},
                   {4, Type::b32, "ld.param.b32", "st.param.b32", "$made_b32"},
                   {1, Type::b32, "ld.param.b8", "st.param.b8", "$made_b8"}};
    for (uint64_t done = 0; done < bytes;)
      for (const auto& piece : kPieces) {
        if (done % piece.bytes || bytes - done < piece.bytes) continue;
        add_register(piece.reg, piece.type);
        emit(piece.load, {node(piece.reg), ast::made_address(at_, from, done)});
        emit(piece.store, {ast::made_address(at_, to, done), node(piece.reg)});
        done += piece.bytes;
        break;
      }
  }

  Module& out_;
  ast::Module& tree_;
  ast::Function& f_;
  const ast::Statement& call_;
  const Token& at_ = *call_.at;
  ast::Scope& scope_;
  const unsigned number_;  // of the call in its module
  unsigned target_ = 0;    // number of targets so far
  const std::string_view end_ = name("end", 0), matches_ = name("p", 0);
};

class Resolver {
 public:
  Resolver(Module& out, ast::Module& tree) : out_(out), tree_(tree) {}

  void run() {
    uint64_t address = kCodeWindow;
    for (ast::Function& f : tree_.functions) f.address = address += 16;
    bool any = false;
    for (const ast::Function& f : tree_.functions)
      for (const ast::Statement& s : f.statements) any |= is_indirect(s);
    if (!any) return;
    find_taken();
    for (ast::Function& f : tree_.functions) rewrite(f);
  }

 private:
  ast::Function* function_named(std::string_view name) const {
    if (auto alias = tree_.aliases.find(name); alias != tree_.aliases.end()) name = alias->second;
    auto found = tree_.function_by_name.find(name);
    return found == tree_.function_by_name.end() ? nullptr : found->second;
  }
  // A call through a register instead of a function's name: a prototype or a list of targets follows.
  bool is_indirect(const ast::Statement& s) const {
    if (!is_call(s)) return false;
    const size_t i = ast::callee_at(s);
    if (i >= s.operands.size() || s.operands[i].kind != Kind::name || function_named(s.operands[i].name))
      return false;
    return s.operands[i].name.starts_with('%') ||
           (i + 1 < s.operands.size() && s.operands.back().kind == Kind::name);
  }

  void find_taken() {
    for (const ast::Variable& v : tree_.variables)
      for (const ast::Variable::Item& item : v.init)
        if (ast::Function* f = function_named(item.symbol)) take(f);
    for (const ast::Function& f : tree_.functions)
      for (const ast::Statement& s : f.statements)
        if (!is_call(s))
          for (const ast::Node& n : s.operands)
            if (n.kind == Kind::name)
              if (ast::Function* g = function_named(n.name)) take(g);
  }
  void take(ast::Function* f) {
    if (f->has_body && !f->entry && std::find(taken_.begin(), taken_.end(), f) == taken_.end())
      taken_.push_back(f);
  }

  // Variables that all levels of a recursion would share. unroll_recursion refuses them, so a function that
  // has some is no candidate for a call from below itself.
  static bool has_shared_variables(const ast::Function& f) {
    return std::any_of(f.variables.begin(), f.variables.end(), [](const ast::Variable& v) {
      return v.space != Space::local && v.space != Space::param;
    });
  }
  // Whether calls lead from one function to another, including the calls through pointers expanded so far.
  bool reaches(const ast::Function& from, const ast::Function& to, std::set<const ast::Function*>& seen,
               bool& shares) const {
    shares |= has_shared_variables(from);
    if (&from == &to) return true;
    if (!seen.insert(&from).second) return false;
    bool found = false;
    for (const ast::Statement& s : from.statements)
      if (is_call(s))
        if (const size_t i = ast::callee_at(s); i < s.operands.size())
          if (const ast::Function* next = function_named(s.operands[i].name))
            found |= reaches(*next, to, seen, shares);
    return found;
  }
  bool may_call(const ast::Function& target, const ast::Function& f) const {
    std::set<const ast::Function*> seen;
    bool shares = has_shared_variables(f);
    return !reaches(target, f, seen, shares) || !shares;
  }

  // The variables of a list of arguments or results, in the statement's scope.
  Variables variables(const ast::Function& f, const ast::Statement& s, const ast::Node* list) const {
    Variables out;
    if (!list) return out;
    for (const ast::Node& n : list->parts) {
      const ast::Variable* found = nullptr;
      for (uint32_t scope = s.scope;; scope = f.scopes[scope].parent) {
        auto v = f.scopes[scope].variables.find(n.name);
        if (v != f.scopes[scope].variables.end()) found = &f.variables[v->second];
        if (found || scope == 0) break;
      }
      if (!found || found->space != Space::param)
        fail_at(out_, *n.at, "only .param variables can be passed to a function; '{}' is not one", n.name);
      out.push_back(found);
    }
    return out;
  }

  // ptxas compares the arguments with the prototype that the call names.
  void check_prototype(const ast::Function& f, const ast::Statement& call, const ast::Node* arguments,
                       const Variables& given) const {
    const ast::Node& last = call.operands.back();
    if (last.kind != Kind::name || !arguments) return;
    for (uint32_t scope = call.scope;; scope = f.scopes[scope].parent) {
      if (const auto p = f.scopes[scope].prototypes.find(last.name); p != f.scopes[scope].prototypes.end()) {
        for (size_t i = 0; i < given.size() && i < p->second.size(); ++i)
          if (given[i]->align != p->second[i])
            fail_at(out_, *arguments->parts[i].at,
                    "'{}' is aligned to {} bytes, the parameter of the prototype '{}' to {}", given[i]->name,
                    given[i]->align, last.name, p->second[i]);
        return;
      }
      if (scope == 0) return;
    }
  }

  static bool fits(const Variables& given, const std::vector<ast::Variable>& wanted) {
    if (given.size() != wanted.size()) return false;
    for (size_t i = 0; i < given.size(); ++i)
      if (given[i]->bytes() != wanted[i].bytes()) return false;
    return true;
  }

  void rewrite(ast::Function& f) {
    ast::rewrite_statements(f, [&](ast::Statement& s) {
      if (is_indirect(s))
        expand(f, s);
      else
        f.statements.push_back(std::move(s));
    });
  }

  void expand(ast::Function& f, const ast::Statement& call) {
    const size_t i = ast::callee_at(call);
    const ast::Node* results = i ? &call.operands[0] : nullptr;
    const ast::Node* arguments = i + 1 < call.operands.size() && call.operands[i + 1].kind == Kind::list
                                     ? &call.operands[i + 1]
                                     : nullptr;
    const auto given = variables(f, call, arguments), wanted = variables(f, call, results);
    check_prototype(f, call, arguments, given);
    Expansion expansion(out_, tree_, f, call, count_++);
    for (const ast::Function* target : taken_)
      if (fits(given, target->params) && fits(wanted, target->results) && may_call(*target, f))
        expansion.try_target(*target, call.operands[i], given, wanted);
    expansion.finish();
  }

  Module& out_;
  ast::Module& tree_;
  std::vector<ast::Function*> taken_;
  unsigned count_ = 0;
};

}  // namespace

void resolve_indirect_calls(Module& out, ast::Module& tree) { Resolver(out, tree).run(); }

}  // namespace fp4lab::emu
