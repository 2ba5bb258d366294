// The functions and variables that a kernel needs, and their places.
#include <algorithm>
#include <set>

#include "emulator/core/memory.h"
#include "emulator/ptx/image.h"
#include "emulator/ptx/lower.h"

namespace fp4lab::emu {

namespace {

// The limit of ptxas 13: for the architecture-specific targets (sm_90a, sm_100a) a CTA's maximum.
uint32_t max_static_shared(std::string_view target) {
  return !target.empty() && (target.back() == 'a' || target.back() == 'f') ? 227 << 10 : 48 << 10;
}
constexpr uint32_t kMaxParams = 32764;  // PTX ISA 5.1.6.1: of a kernel from sm_70 on
constexpr uint32_t kMinDynamicAlign = 16, kMinFrameAlign = 8;

// Functions of CUDA's device runtime, which a kernel may call without defining them. The call instruction has
// their bodies (op/).
constexpr std::string_view kBuiltin[] = {"__assertfail", "vprintf", "malloc", "free",
                                         "cudaGraphSetConditional"};

// The prefix of libcudadevrt's functions.
constexpr std::string_view kDeviceRuntime = "__cudaCDP2";

uint64_t align_up(uint64_t x, uint64_t align) { return (x + align - 1) & ~(align - 1); }

void reach(Image& image, const ast::Function& f, std::vector<const ast::Function*>& chain) {
  if (std::find(image.functions.begin(), image.functions.end(), &f) == image.functions.end())
    image.functions.push_back(&f);
  chain.push_back(&f);
  std::set<const ast::Function*> seen;
  for (const ast::Statement& s : f.statements) {
    if (!is_call(s)) continue;
    CallText call = read_call(image.out, image.tree, s);
    if (std::find(chain.begin(), chain.end(), call.function) !=
        chain.end())  // unroll_recursion() leaves none
      fail_at(image.out, *call.name->at, "'{}' calls itself", call.function->name);
    if (chain.size() > 200) fail_at(image.out, *s.at, "calls nested deeper than 200");
    bool known =
        std::find(image.functions.begin(), image.functions.end(), call.function) != image.functions.end();
    // A function visited outside this chain has already been checked for cycles.
    if (seen.insert(call.function).second && !known) reach(image, *call.function, chain);
  }
  chain.pop_back();
}

class Placer {
 public:
  Placer(Image& image, std::deque<Names>& names) : image_(image), names_(names) {}

  void run() {
    for (size_t i = 0; i < image_.functions.size(); ++i) mentioned(*image_.functions[i], names_[i]);
    for (const ast::Function* f : image_.functions) frame(*f);
    image_.frame_bytes = kLocalTop - image_.local_base;
    stack();
    parameters();
    for (size_t i = 0; i < image_.functions.size(); ++i) calls(*image_.functions[i], names_[i]);
    for (const ast::Variable& v : image_.tree.variables) place(v);
    for (const ast::Function* f : image_.functions)
      for (const ast::Variable& v : f->variables) place(v);
    shared();
  }

 private:
  // Lays out a function's .local variables as ptxas does (seen in its machine code): greatest alignment
  // first, of equal ones the last declared first; if any is used, all.
  void frame(const ast::Function& f) {
    std::vector<const ast::Variable*> variables;
    bool is_used = false;
    for (const ast::Variable& v : f.variables)
      if (v.space == Space::local) {
        variables.push_back(&v);
        is_used |= used_.contains(&v);
      }
    if (!is_used) return;
    std::reverse(variables.begin(), variables.end());
    std::ranges::stable_sort(variables, std::greater(), &ast::Variable::align);
    uint64_t bytes = 0;
    for (const ast::Variable* v : variables) {
      bytes = align_up(bytes, v->align);
      image_.addresses[v] = bytes;
      bytes += v->bytes();
    }
    const uint32_t align = std::max<uint32_t>(variables.front()->align, kMinFrameAlign);
    const uint32_t begin = image_.new_local(align_up(bytes, align), align, *variables.front()->at);
    for (const ast::Variable* v : variables) image_.addresses[v] += begin;
  }

  // alloca memory lies below the frames.
  void stack() {
    image_.has_stack = std::any_of(image_.functions.begin(), image_.functions.end(), needs_stack);
    if (image_.has_stack)
      image_.stack_base = image_.new_local(Function::kStackBytes, 128, *image_.functions[0]->at);
  }
  static bool needs_stack(const ast::Function* f) {
    return std::any_of(f->statements.begin(), f->statements.end(), [](const ast::Statement& s) {
      return s.opcode[0] == "alloca" || s.opcode[0].starts_with("stack");
    });
  }

  void parameters() {
    const ast::Function& entry = *image_.functions[0];
    uint64_t offset = 0;
    for (const ast::Variable& v : entry.params) {
      offset = align_up(offset, v.align);
      image_.addresses[&v] = offset;
      offset += v.bytes();
      if (v.bytes() > kMaxParams || offset > kMaxParams)
        fail_at(image_.out, *v.at, "more than {} bytes of parameters", kMaxParams);
    }
    for (size_t i = 1; i < image_.functions.size(); ++i)
      for (const auto* list : {&image_.functions[i]->params, &image_.functions[i]->results})
        for (const ast::Variable& v : *list)
          image_.addresses[&v] = kCallParam + image_.new_local(v.bytes(), v.align, *v.at);
  }

  // A variable passed in a call shares the place of the callee's parameter.
  void calls(const ast::Function& f, Names& names) {
    for (const ast::Statement& s : f.statements) {
      if (!is_call(s)) continue;
      CallText call = read_call(image_.out, image_.tree, s);
      hand_over(s, names, call, call.arguments, call.function->params, "argument");
      hand_over(s, names, call, call.results, call.function->results, "result");
    }
  }
  void hand_over(const ast::Statement& s, Names& names, const CallText& call, const ast::Node* given,
                 const std::vector<ast::Variable>& wanted, std::string_view what) {
    size_t n = given ? given->parts.size() : 0;
    if (n != wanted.size())
      fail_at(image_.out, *s.at, "'{}' has {} {}{}, the call gives {}", call.function->name, wanted.size(),
              what, wanted.size() == 1 ? "" : "s", n);
    for (size_t i = 0; i < n; ++i) {
      const ast::Node& node = given->parts[i];
      const Token& at = *node.at;
      if (node.kind != ast::Node::Kind::name)
        fail_at(image_.out, at, "only .param variables can be passed to a function here");
      const Meaning& m = names.find(node.name, s.scope);
      if (m.kind == Meaning::Kind::none) names.undeclared(at, node.name, s.scope);
      if (m.kind != Meaning::Kind::variable || m.variable->space != Space::param)
        fail_at(image_.out, at, "only .param variables can be passed to a function; '{}' is not one",
                node.name);
      if (m.variable->bytes() != wanted[i].bytes())
        fail_at(image_.out, at, "'{}' has {} bytes, the {} '{}' of '{}' has {}", node.name,
                m.variable->bytes(), what, wanted[i].name, call.function->name, wanted[i].bytes());
      uint64_t place = image_.addresses.at(&wanted[i]);
      auto [found, fresh] = image_.addresses.try_emplace(m.variable, place);
      if (!fresh && found->second != place)
        fail_at(image_.out, at,
                "'{}' is passed to more than one function; declare a .param variable for each call",
                node.name);
    }
  }

  void mentioned(const ast::Function& f, Names& names) {
    for (const ast::Statement& s : f.statements)
      for (const ast::Node& n : s.operands) mention(n, s.scope, names);
  }
  void mention(const ast::Node& n, uint32_t scope, Names& names) {
    if (!n.name.empty() && n.name != "_")
      if (const Meaning& m = names.find(n.name, scope); m.kind == Meaning::Kind::variable)
        used_.insert(m.variable);
    for (const ast::Node& part : n.parts) mention(part, scope, names);
  }

  void place(const ast::Variable& v) {
    if (!used_.contains(&v) || image_.addresses.contains(&v)) return;
    if (v.space == Space::param) {
      image_.addresses[&v] = kCallParam + image_.new_local(v.bytes(), v.align, *v.at);
    } else if (v.space == Space::shared) {
      if (!v.init.empty())
        fail_at(image_.out, *v.at, "'{}': .shared variables cannot be initialised", v.name);
      // An .extern array with a size that nothing defines is its own definition (seen on an H200: "ignoring
      // extern qualifier"; used by Taichi's arrays). One without a size is the dynamic shared memory.
      (v.unsized ? dynamic_ : static_).push_back(&v);
    }
  }

  // Dynamic shared memory begins after the static part, at the largest alignment of any .extern array. Seen
  // on an H200: with the first static variable at 0x400, a 1024-aligned dynamic array after it is at 0x800.
  // (A kernel without static variables finds it at 0x400, which is 1024-aligned.)
  void shared() {
    uint64_t at = kReservedShared;
    const uint32_t most = max_static_shared(image_.tree.target);
    for (const ast::Variable* v : static_) {
      at = align_up(at, v->align);
      image_.addresses[v] = at;
      at += v->bytes();
      if (v->bytes() > most || at - kReservedShared > most)
        fail_at(image_.out, *v->at, "more than {} bytes of static shared memory", most);
    }
    image_.static_shared_bytes = static_cast<uint32_t>(at - kReservedShared);
    uint32_t align = kMinDynamicAlign;
    for (const ast::Variable* v : dynamic_) align = std::max(align, v->align);
    image_.dynamic_shared_base = static_cast<uint32_t>(align_up(at, align));
    for (const ast::Variable* v : dynamic_) image_.addresses[v] = image_.dynamic_shared_base;
  }

  Image& image_;
  std::deque<Names>& names_;
  std::set<const ast::Variable*> used_;
  std::vector<const ast::Variable*> static_, dynamic_;
};

}  // namespace

bool is_call(const ast::Statement& s) { return s.opcode[0] == "call"; }

CallText read_call(const Module& module, const ast::Module& tree, const ast::Statement& s) {
  using K = ast::Node::Kind;
  CallText call;
  size_t i = 0, n = s.operands.size();
  if (i < n && s.operands[i].kind == K::list) call.results = &s.operands[i++];
  if (i == n || s.operands[i].kind != K::name) fail_at(module, *s.at, "call needs a function's name");
  call.name = &s.operands[i++];
  if (i < n && s.operands[i].kind == K::list) call.arguments = &s.operands[i++];
  std::string_view name = call.name->name;
  if (auto alias = tree.aliases.find(name); alias != tree.aliases.end()) name = alias->second;
  auto found = tree.function_by_name.find(name);
  if (found == tree.function_by_name.end()) {
    if (i < n || name.starts_with('%'))
      fail_at(module, *call.name->at, "indirect calls are not supported ('{}' is not a function)", name);
    fail_at(module, *call.name->at, "call of the undeclared function '{}'", name);
  }
  if (i < n) fail_at(module, *s.operands[i].at, "unexpected operand after the arguments of a call");
  call.function = found->second;
  if (call.function->entry) fail_at(module, *call.name->at, "a kernel cannot be called ('{}')", name);
  if (!call.function->has_body &&
      std::find(std::begin(kBuiltin), std::end(kBuiltin), name) == std::end(kBuiltin) &&
      !name.starts_with(kTooDeep)) {
    if (name.starts_with(kDeviceRuntime))
      fail_at(
          module, *call.name->at,
          "CUDA's runtime in kernels (dynamic parallelism: a kernel launches kernels) is not emulated ('{}')",
          name);
    fail_at(module, *call.name->at,
            "function '{}' has no body in this module, nor in the modules linked to it", name);
  }
  return call;
}

void collect_functions(Image& image, const ast::Function& entry) {
  std::vector<const ast::Function*> chain;
  reach(image, entry, chain);
}

void place_variables(Image& image, std::deque<Names>& names) { Placer(image, names).run(); }

}  // namespace fp4lab::emu
