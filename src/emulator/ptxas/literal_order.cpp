#include "emulator/ptxas/literal_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

namespace {

bool is_ordered(const Source& s) {
  const std::string_view name = s.tokens[0];
  return s.type() == Type::f64 &&
         (name == "add" || name == "sub" || name == "mul" || name == "fma" || name == "mad");
}

std::optional<double> literal(const Operand& op) {
  if (!op.immediate) return std::nullopt;
  return std::bit_cast<double>(op.displacement);
}

void order(Rewriter& w, uint32_t pc) {
  Instr& i = w.f.code[pc];
  const auto first = literal(i.op[1]), second = literal(i.op[2]);
  const bool subtracts = w.f.source[pc].tokens[0] == "sub";
  if (!subtracts) {
    if (first && !second) std::swap(i.op[1], i.op[2]);
    return;
  }
  Rewriter::Tokens sum = w.f.source[pc].tokens;
  sum[0] = "add";
  if (second && std::isnan(*second))
    w.replace(pc, sum, {i.op[1], w.constant(std::bit_cast<uint64_t>(-*second), Type::f64)});
  else if (first && !second)
    w.replace(pc, sum, {w.negated(i.op[2], pc), i.op[1]});
}

}  // namespace

void order_literals(Image& image, Function& f, std::vector<const Entry*>& rows) {
  if (std::ranges::none_of(f.source, is_ordered)) return;
  Rewriter w(image, f, std::move(rows));
  for (uint32_t pc = 0; pc < f.code.size(); ++pc)
    if (is_ordered(f.source[pc])) order(w, pc);
  w.rebuild();
  rows = std::move(w.rows);
}

}  // namespace fp4lab::emu
