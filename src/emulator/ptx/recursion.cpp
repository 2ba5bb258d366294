// Recursion, direct or mutual. Every function has its registers, parameters and local memory at static
// places, so each level of a recursion becomes a function of its own: level n of f calls level n + 1, and the
// last level calls a builtin that faults. So a pointer to local memory is valid on all deeper levels, as with
// a stack.
#include <algorithm>

#include "emulator/ptx/image.h"
#include "emulator/ptx/lower.h"
#include "emulator/ptx/tree_edit.h"

namespace fp4lab::emu {

namespace {

constexpr size_t kLevels = 64;         // at most; fewer for large functions
constexpr size_t kStatements = 60000;  // of all levels together
constexpr size_t kLocalBytes = 128 << 10;

class Unroller {
 public:
  Unroller(Module& out, ast::Module& tree) : out_(out), tree_(tree) {}

  void run() {
    std::vector<ast::Function*> all;
    for (ast::Function& f : tree_.functions) all.push_back(&f);
    for (ast::Function* f : all)
      if (!node_.contains(f)) visit(f);
    for (const auto& circle : circles_) unroll(circle);
  }

 private:
  using Circle = std::vector<ast::Function*>;

  // The callee's node of a call by name, and the function; null for other statements.
  ast::Node* callee(ast::Statement& s, ast::Function*& f) const {
    if (!is_call(s)) return nullptr;
    const size_t i = ast::callee_at(s);
    if (i >= s.operands.size() || s.operands[i].kind != ast::Node::Kind::name) return nullptr;
    std::string_view name = s.operands[i].name;
    if (auto alias = tree_.aliases.find(name); alias != tree_.aliases.end()) name = alias->second;
    auto found = tree_.function_by_name.find(name);
    if (found == tree_.function_by_name.end()) return nullptr;
    f = found->second;
    return &s.operands[i];
  }

  // Tarjan's strongly connected components; `circles_` gets the recursive ones.
  struct Place {
    unsigned index = 0, low = 0;
    bool open = true;
  };
  void visit(ast::Function* f) {
    if (++depth_ > 2000) fail_at(out_, *f->at, "calls nested deeper than 2000");
    Place& place = node_[f];
    place.index = place.low = static_cast<unsigned>(node_.size());
    open_.push_back(f);
    bool itself = false;
    for (ast::Statement& s : f->statements) {
      ast::Function* g = nullptr;
      if (!callee(s, g)) continue;
      itself |= g == f;
      if (!node_.contains(g)) {
        visit(g);
        place.low = std::min(place.low, node_[g].low);
      } else if (node_[g].open) {
        place.low = std::min(place.low, node_[g].index);
      }
    }
    --depth_;
    if (place.low != place.index) return;
    Circle circle;
    ast::Function* g;
    do {
      g = open_.back();
      open_.pop_back();
      node_[g].open = false;
      circle.push_back(g);
    } while (g != f);
    if (circle.size() > 1 || itself) circles_.push_back(std::move(circle));
  }

  void unroll(const Circle& circle) {
    size_t statements = 1, local = 1;
    for (const ast::Function* f : circle) {
      statements += f->statements.size();
      for (const ast::Variable& v : f->variables) {
        local += v.bytes();
        if (v.space != Space::local && v.space != Space::param)
          fail_at(out_, *v.at,
                  "'{}': a function that calls itself cannot have .shared or .global variables inside",
                  v.name);
      }
    }
    const size_t levels =
        std::max<size_t>(2, std::min({kLevels, kStatements / statements, kLocalBytes / local}));
    std::vector<std::vector<ast::Function*>> level(levels + 1);  // by position in the circle
    level[0] = circle;
    auto add = [&](ast::Function f, std::string name) {
      f.name = out_.made_names.emplace_back(std::move(name));
      tree_.functions.push_back(std::move(f));
      ast::Function* made = &tree_.functions.back();
      tree_.function_by_name[made->name] = made;
      return made;
    };
    for (size_t n = 1; n < levels; ++n)
      for (const ast::Function* f : circle)
        level[n].push_back(add(*f, fmt::format("{} (level {})", f->name, n)));
    for (const ast::Function* f : circle) {
      ast::Function end;
      end.at = f->at, end.params = f->params, end.results = f->results, end.noreturn = f->noreturn;
      level[levels].push_back(
          add(std::move(end), fmt::format("{}{} levels of '{}'", kTooDeep, levels, f->name)));
    }
    for (size_t n = 0; n < levels; ++n)
      for (ast::Function* f : level[n])
        for (ast::Statement& s : f->statements) {
          ast::Function* g = nullptr;
          ast::Node* node = callee(s, g);
          if (!node) continue;
          const auto at = std::find(circle.begin(), circle.end(), g);
          if (at != circle.end()) node->name = level[n + 1][static_cast<size_t>(at - circle.begin())]->name;
        }
  }

  Module& out_;
  ast::Module& tree_;
  std::map<const ast::Function*, Place> node_;
  std::vector<ast::Function*> open_;
  std::vector<Circle> circles_;
  unsigned depth_ = 0;
};

}  // namespace

void unroll_recursion(Module& out, ast::Module& tree) { Unroller(out, tree).run(); }

}  // namespace fp4lab::emu
