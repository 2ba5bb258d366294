#include "emulator/ptxas/unroll.h"

#include <algorithm>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/counted_loop.h"
#include "emulator/ptxas/known.h"
#include "emulator/ptxas/routine.h"
#include "emulator/ptxas/summed_product.h"

namespace fp4lab::emu {

bool sums_f64(const Function& f) {
  return std::any_of(f.source.begin(), f.source.end(), [](const Source& s) {
    const std::string_view name = s.tokens[0];
    return (name == "add" || name == "sub" || name == "mul" || name == "fma" || name == "mad") &&
           s.type() == Type::f64;
  });
}

bool has_products(const Function& f) {
  for (size_t pc = 0; pc < f.code.size(); ++pc)
    if (shape_of(f.code[pc], f.source[pc]) == Shape::product) return true;
  return false;
}

bool makes_pairs(const Source& s) {
  const std::string_view name = s.tokens[0];
  if (name == "neg" || name == "abs") return s.has("ftz") && s.type() == Type::f16;
  if (name == "cvt") return s.type() == Type::tf32 && !s.has("rna");
  if (name == "rcp") return s.has("approx") && s.has("ftz") && s.type() == Type::f32;
  if (name == "mad") return s.has("hi") && bits_of(s.type()) == 32 && s.tokens.size() == 3;
  return (name == "min" || name == "max") && (s.type() == Type::s32 || s.type() == Type::s16);
}

bool has_pairs(const Function& f) { return std::any_of(f.source.begin(), f.source.end(), makes_pairs); }

bool makes_truth(const Source& s) {
  return s.tokens[0] == "set" && is_float(s.type()) && !s.tokens.back().ends_with("x2");
}

bool may_take_truths(const Function& f) {
  return std::ranges::any_of(f.source, makes_truth) && std::ranges::any_of(f.source, is_folded_behind);
}

bool has_signs(const Function& f) {
  return std::any_of(f.source.begin(), f.source.end(),
                     [](const Source& s) { return s.tokens[0] == "neg" || s.tokens[0] == "abs"; });
}

bool has_saturated_sums(const Function& f) {
  return std::any_of(f.source.begin(), f.source.end(), [](const Source& s) {
    return (s.tokens[0] == "add" || s.tokens[0] == "sub") && s.has("sat") && s.type() == Type::s32;
  });
}

bool has_tables(const Function& f) {
  return std::any_of(f.source.begin(), f.source.end(), [](const Source& s) { return s.tokens[0] == "lop3"; });
}

bool gives_back_operands(const Function& f) {
  return std::any_of(f.source.begin(), f.source.end(), [](const Source& s) {
    const std::string_view name = s.tokens[0];
    return (name == "mul" || name == "min" || name == "max") && is_float(s.type());
  });
}

namespace {

// Beside its test, and those that the compiler makes of other instructions: of what is guarded and does more
// than compute. A branch of which constants say whether it is taken is none by then.
bool has_branches_inside(const Rewriter& w, const Dataflow& flow, const CountedLoop& loop) {
  std::vector<uint32_t> branches;
  for (uint32_t pc = loop.begin; pc < loop.back; ++pc) {
    if (pc == loop.test || flow.is_dead(pc)) continue;
    const Instr& i = w.f.code[pc];
    const bool does_more = i.guard >= 0 && (!flow.is_pure(pc) || flow.branches_under_guard(pc));
    if (does_more && i.opcode->name != "bra") return true;
    if (flow.becomes_branch(pc) && w.f.source[pc].tokens[0] == "bfind") return true;
    if (i.opcode->name == "bra") branches.push_back(pc);
  }
  if (branches.empty()) return false;
  const Known known(w, flow);
  return std::ranges::any_of(branches, [&](uint32_t pc) { return !known.guard(pc); });
}

}  // namespace

Unrolled unroll(Rewriter& w, const Dataflow& flow, const std::vector<const Token*>& nounroll) {
  Unrolled unrolled;
  size_t size = w.f.code.size();
  std::vector<Rewriter::Repetition> repetitions;
  for (const CountedLoop& loop : counted_loops(w.f, flow, nounroll)) {
    if (!becomes_straight(loop) || size + size_t(*loop.rounds) * loop.length() > kMostUnrolled) continue;
    size += size_t(*loop.rounds) * loop.length();
    unrolled.with_branches |= !unrolled.with_branches && has_branches_inside(w, flow, loop);
    repetitions.push_back({loop.begin, loop.back, loop.test, *loop.rounds});
  }
  if (!repetitions.empty()) w.repeat(repetitions);
  unrolled.any = !repetitions.empty();
  return unrolled;
}

}  // namespace fp4lab::emu
