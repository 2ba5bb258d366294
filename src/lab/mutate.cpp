#include "fp4lab/mutate.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <vector>

#include "lab/mutation_rules.h"
#include "lab/ptx_statements.h"

namespace fp4lab {
namespace {

// As the rules expect it: single blanks.
std::string squeezed(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (!is_space(c))
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  if (out.size() > 1 && out[out.size() - 2] == ' ') out.erase(out.size() - 2, 1);  // "p ;"
  return out;
}

// The guard belongs in front of every instruction of the replacement but those that prepare its own register
// m.
std::string guarded(const std::string& guard, const std::string& text) {
  static const std::regex own(R"(^(\.reg .*|\S+ m, .*))");
  if (guard.empty() || text.empty()) return text;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '{' || text[at] == '}' || text[at] == ' ') {
      // A brace within an instruction is not met here: instructions are taken whole.
      out += text[at++];
      continue;
    }
    const size_t end = std::min(text.find(';', at), text.size() - 1) + 1;
    const std::string one = text.substr(at, end - at);
    out += (std::regex_match(one, own) ? "" : guard) + one;
    at = end;
  }
  return out;
}

}  // namespace

std::string Mutant::applied(std::string_view ptx) const {
  std::string text(ptx.substr(0, begin));
  text += after;
  text.append(static_cast<size_t>(std::count(ptx.begin() + static_cast<ptrdiff_t>(begin),
                                             ptx.begin() + static_cast<ptrdiff_t>(end), '\n')),
              '\n');
  return text.append(ptx.substr(end));
}

namespace {

struct Rule {
  const MutationRule* rule;
  std::regex pattern;
};

const std::vector<Rule>& rules() {
  static const auto all = [] {
    std::vector<Rule> list;
    for (const MutationRule& r : mutation_rules())
      list.push_back({&r, std::regex(fmt::format("^{}$", r.pattern))});
    return list;
  }();
  return all;
}

// A phase that a loop carries is toggled far from the waits.
bool toggles(std::string_view text) { return text.starts_with("xor.b32") && text.ends_with(", 1;"); }

}  // namespace

std::vector<Mutant> mutants(std::string_view ptx) {
  std::vector<Mutant> result;
  const std::vector<Statement> all = statements_of(ptx);
  for (size_t k = 0; k < all.size(); ++k) {
    const Statement& s = all[k];
    const std::string text = squeezed(s.text), guard = squeezed(ptx.substr(s.guard, s.begin - s.guard));
    if (!synchronises(text) && !toggles(text)) continue;
    const auto add = [&](const char* rule, std::string after, size_t end) {
      result.push_back({rule, s.line, guard + text, std::move(after), s.guard, end});
    };
    for (const auto& [rule, pattern] : rules())
      if (std::smatch match; std::regex_match(text, match, pattern))
        add(rule->name, guarded(guard, match.format(rule->replacement)), s.end);
    if (!guard.empty()) add("guard removed", text, s.end);
    if (text.starts_with("barrier.cluster.arrive") && k + 1 < all.size() &&
        all[k + 1].text.starts_with("barrier.cluster.wait"))
      add("cluster barrier removed", "", all[k + 1].end);
  }
  return result;
}

}  // namespace fp4lab
