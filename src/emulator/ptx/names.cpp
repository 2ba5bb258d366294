#include "emulator/ptx/image.h"
#include "emulator/ptx/special.h"

namespace fp4lab::emu {

namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

const ast::Registers* ast::range_of(std::string_view name, const RegisterMap& ranges) {
  if (ranges.empty()) return nullptr;
  size_t digits = name.size();
  while (digits > 0 && is_digit(name[digits - 1])) --digits;
  for (size_t cut = digits; cut < name.size(); ++cut) {  // the prefix itself may end in digits ("%r1<5>")
    if (name.size() - cut > 8 || (name[cut] == '0' && cut + 1 < name.size())) continue;
    const auto r = ranges.find(name.substr(0, cut));
    if (r == ranges.end()) continue;
    uint32_t number = 0;
    for (char c : name.substr(cut)) number = number * 10 + static_cast<uint32_t>(c - '0');
    if (number < r->second.count) return &r->second;
  }
  return nullptr;
}

Meaning Names::fresh_register(Type type, std::string_view name) {
  Meaning m;
  m.kind = Meaning::Kind::reg;
  m.reg.type = type;
  if (type == Type::pred) {
    m.reg.kind = Operand::Kind::predicate;
    m.reg.index = image_.new_predicate();
    image_.predicate_names.emplace_back(m.reg.index, name);
  } else {
    m.reg.kind = Operand::Kind::value;
    m.reg.offset = image_.new_rows(type);
    image_.register_names.emplace_back(m.reg.offset, name);
  }
  return m;
}

bool Names::in_block(std::string_view name, const ast::Scope& scope, Meaning& m) {
  if (auto r = scope.registers.find(name); r != scope.registers.end()) {
    m = fresh_register(r->second.type, name);
    return true;
  }
  if (const ast::Registers* r = ast::range_of(name, scope.ranges)) {
    m = fresh_register(r->type, name);
    return true;
  }
  if (auto v = scope.variables.find(name); v != scope.variables.end()) {
    m.kind = Meaning::Kind::variable;
    m.variable = &f_.variables[v->second];
    return true;
  }
  if (auto l = scope.labels.find(name); l != scope.labels.end()) {
    m.kind = Meaning::Kind::label;
    m.label = l->second;
    return true;
  }
  if (auto l = scope.lists.find(name); l != scope.lists.end()) {
    m.kind = Meaning::Kind::list;
    m.list = &l->second;
    return true;
  }
  return false;
}

Meaning Names::look_up(std::string_view name, uint32_t scope) {
  Meaning m;
  if (in_block(name, f_.scopes[scope], m)) return m;
  if (scope != 0) return find(name, f_.scopes[scope].parent);
  for (const auto* list : {&f_.params, &f_.results})
    for (const ast::Variable& v : *list)
      if (v.name == name) {
        m.kind = Meaning::Kind::variable;
        m.variable = &v;
        return m;
      }
  if (auto v = image_.tree.variable_by_name.find(name); v != image_.tree.variable_by_name.end()) {
    m.kind = Meaning::Kind::variable;
    m.variable = &image_.tree.variables[v->second];
  } else if (auto f = image_.tree.function_by_name.find(name); f != image_.tree.function_by_name.end()) {
    m.kind = Meaning::Kind::function;
    m.function = f->second;
  }
  return m;
}

const Meaning& Names::find(std::string_view name, uint32_t scope) {
  auto& known = known_[scope];
  if (auto at = known.find(name); at != known.end()) return at->second;
  Meaning m = look_up(name, scope);
  return known.emplace(name, m).first->second;
}

void Names::undeclared(const Token& at, std::string_view name, uint32_t scope) const {
  std::vector<std::string_view> names;
  std::string ranges;
  for (uint32_t s = scope;; s = f_.scopes[s].parent) {
    const ast::Scope& block = f_.scopes[s];
    for (const auto& [n, r] : block.registers) names.push_back(n);
    for (const auto& [n, v] : block.variables) names.push_back(n);
    for (const auto& [n, l] : block.labels) names.push_back(n);
    for (const auto& [n, r] : block.ranges)
      if (name.starts_with(n)) ranges += fmt::format("{}{}<{}>", ranges.empty() ? "" : ", ", n, r.count);
    if (s == 0) break;
  }
  for (const ast::Variable& v : f_.params) names.push_back(v.name);
  for (const auto& [n, v] : image_.tree.variable_by_name) names.push_back(n);
  for (std::string_view n : special_names()) names.push_back(n);
  if (!ranges.empty()) fail_at(image_.out, at, "undeclared '{}': the register range is {}", name, ranges);
  auto near = nearest(name, names);
  fail_at(image_.out, at, "undeclared '{}'{}", name,
          near.empty() ? "" : fmt::format("; did you mean {}?", joined(near, "")));
}

}  // namespace fp4lab::emu
