// Calls through pointers, made into calls by name before anything is laid out: the pointer is compared with
// every function that it may hold, which are those of the call's parameter sizes whose address is taken
// somewhere in the module. Lanes that call different functions diverge like at any branch.
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
  bool is_indirect(const ast::Statement& s) const {
    if (!is_call(s)) return false;
    const size_t i = ast::callee_at(s);
    return i < s.operands.size() && s.operands[i].kind == Kind::name && s.operands[i].name.starts_with('%') &&
           !function_named(s.operands[i].name);
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

  // Variables that all levels of a recursion would share: unroll_recursion refuses these, so a function that
  // has some is not called from below itself.
  static bool has_shared_variables(const ast::Function& f) {
    return std::any_of(f.variables.begin(), f.variables.end(), [](const ast::Variable& v) {
      return v.space != Space::local && v.space != Space::param;
    });
  }
  // Whether calls lead from one function to another, those through pointers made so far among them.
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

  std::string_view made(std::string text) { return out_.made_names.emplace_back(std::move(text)); }

  // The variables of a list of arguments or results, where the statement stands.
  std::vector<const ast::Variable*> variables(const ast::Function& f, const ast::Statement& s,
                                              const ast::Node* list) {
    std::vector<const ast::Variable*> out;
    if (!list) return out;
    for (const ast::Node& n : list->parts) {
      const ast::Variable* found = nullptr;
      for (uint32_t scope = s.scope;; scope = f.scopes[scope].parent) {
        auto v = f.scopes[scope].variables.find(n.name);
        if (v != f.scopes[scope].variables.end()) found = &f.variables[v->second];
        if (found || scope == 0) break;
      }
      if (!found || found->space != Space::param)
        fail_at(out_, *n.at, "only .param variables can be passed to a function; '{}' is none", n.name);
      out.push_back(found);
    }
    return out;
  }

  static bool fits(const std::vector<const ast::Variable*>& given, const std::vector<ast::Variable>& wanted) {
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
    const Token& at = *call.at;
    size_t i = ast::callee_at(call);
    const ast::Node* results = i ? &call.operands[0] : nullptr;
    const ast::Node& pointer = call.operands[i];
    const ast::Node* arguments = i + 1 < call.operands.size() && call.operands[i + 1].kind == Kind::list
                                     ? &call.operands[i + 1]
                                     : nullptr;
    const auto given = variables(f, call, arguments), wanted = variables(f, call, results);
    const unsigned number = count_++;
    ast::Scope& scope = f.scopes[call.scope];
    auto name = [&](const char* what, unsigned k) {
      return made(fmt::format("$made{}_{}{}", number, what, k));
    };
    auto node = [&](std::string_view text) { return ast::made_name(at, text); };
    auto constant = [&](uint64_t bits) {
      ast::Node n;
      n.at = &at, n.kind = Kind::constant, n.value.bits = bits;
      return n;
    };
    auto list = [&](std::vector<ast::Node> parts) {
      ast::Node n;
      n.at = &at, n.kind = Kind::list, n.parts = std::move(parts);
      return n;
    };
    auto address = [&](std::string_view text, uint64_t offset) {
      return ast::made_address(at, text, offset);
    };
    auto emit = [&](std::string_view opcode, std::vector<ast::Node> operands) -> ast::Statement& {
      return f.statements.emplace_back(ast::made_statement(call, opcode, std::move(operands)));
    };
    auto label = [&](std::string_view text) {
      scope.labels[text] = static_cast<uint32_t>(f.statements.size());
    };
    auto add_register = [&](std::string_view text, Type type) { scope.registers[text] = {&at, type, 0}; };
    auto copy = [&](std::string_view to, std::string_view from, uint64_t bytes) {
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
          emit(piece.load, {node(piece.reg), address(from, done)});
          emit(piece.store, {address(to, done), node(piece.reg)});
          done += piece.bytes;
          break;
        }
    };
    auto copies = [&](const std::vector<const ast::Variable*>& like, const char* what, unsigned k) {
      std::vector<std::string_view> names;
      for (size_t v = 0; v < like.size(); ++v) {
        ast::Variable own = *like[v];
        own.name = made(fmt::format("$made{}_{}{}_{}", number, what, k, v));
        scope.variables[own.name] = static_cast<uint32_t>(f.variables.size());
        names.push_back(own.name);
        f.variables.push_back(std::move(own));
      }
      return names;
    };
    auto nodes = [&](const std::vector<std::string_view>& names) {
      std::vector<ast::Node> out;
      for (std::string_view n : names) out.push_back(node(n));
      return out;
    };

    const std::string_view end = name("end", 0), matches = name("p", 0);
    add_register(matches, Type::pred);
    if (call.guard) {
      ast::Statement& skip = emit("bra", {node(end)});
      skip.guard = call.guard, skip.guard_negated = !call.guard_negated;
    }
    unsigned k = 0;
    for (ast::Function* target : taken_) {
      if (!fits(given, target->params) || !fits(wanted, target->results) || !may_call(*target, f)) continue;
      const std::string_view next = name("next", ++k);
      emit("setp.ne.u64", {node(matches), node(pointer.name), constant(target->address)});
      guard_names_.push_back(at);
      Token& token = guard_names_.back();
      token.text = matches, token.kind = Token::Kind::word;
      emit("bra", {node(next)}).guard = &token;
      const auto in = copies(given, "a", k), out = copies(wanted, "r", k);
      for (size_t v = 0; v < given.size(); ++v) copy(in[v], given[v]->name, given[v]->bytes());
      std::vector<ast::Node> operands;
      if (!out.empty()) operands.push_back(list(nodes(out)));
      operands.push_back(node(target->name));
      operands.push_back(list(nodes(in)));
      emit("call", std::move(operands));
      for (size_t v = 0; v < wanted.size(); ++v) copy(wanted[v]->name, out[v], wanted[v]->bytes());
      emit("bra", {node(end)});
      label(next);
    }
    emit("trap", {});  // no function of this module
    label(end);
  }

  Module& out_;
  ast::Module& tree_;
  std::vector<ast::Function*> taken_;
  std::deque<Token>& guard_names_ = tree_.made_tokens;
  unsigned count_ = 0;
};

}  // namespace

void resolve_indirect_calls(Module& out, ast::Module& tree) { Resolver(out, tree).run(); }

}  // namespace fp4lab::emu
