#include "emulator/ptxas/approximate.h"

#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "emulator/ptxas/fold.h"

namespace fp4lab::emu {

namespace {

Rewriter::Tokens rounded_product(const Source& s) {
  return s.has("ftz") ? Rewriter::Tokens{"mul", "rn", "ftz", "f32"} : Rewriter::Tokens{"mul", "rn", "f32"};
}

class Folding {
 public:
  Folding(Rewriter& w, const Known& known) : w_(w), f_(w.f), known_(known) {}

  void fold(uint32_t pc) {
    const Source& s = f_.source[pc];
    const bool approximate = s.has("approx") || s.has("full");
    if (approximate && s.tokens[0] == "div") return fold_quotient(pc);
    if (loses_flush(pc) || known_.leaves_sign(pc)) return;
    if (const auto result = folded(pc)) return replace(pc, {"mov", "b32"}, {w_.constant(*result)});
    if (approximate && s.tokens[0] == "rcp" && s.has("ftz"))
      if (const auto inverse = inverse_of(pc, 1)) replace(pc, {"mov", "b32"}, {*inverse});
  }
  bool has_changed() const { return changed_; }

 private:
  void replace(uint32_t pc, Rewriter::Tokens tokens, std::vector<Operand> sources) {
    w_.replace(pc, std::move(tokens), std::move(sources));
    changed_ = true;
  }

  std::optional<uint32_t> folded(uint32_t pc) const {
    std::array<uint32_t, 2> operands{};
    for (unsigned slot = 1; f_.code[pc].op[slot]; ++slot) {
      if (slot > operands.size()) return std::nullopt;
      const auto bits = known_.bits(pc, slot);
      if (!bits) return std::nullopt;
      operands[slot - 1] = static_cast<uint32_t>(*bits);
    }
    const Source& s = f_.source[pc];
    return s.has("approx") ? folded_function(s, operands[0]) : folded_arithmetic(s, operands);
  }

  void fold_quotient(uint32_t pc) {
    const Source& s = f_.source[pc];
    const auto divisor = known_.bits(pc, 2);
    if (!divisor) {
      if (!s.has("approx") || !s.has("ftz")) return;
      if (const auto inverse = inverse_of(pc, 2))
        replace(pc, {"mul", "ftz", "f32"}, {f_.code[pc].op[1], *inverse});
      return;
    }
    if (std::isnan(std::bit_cast<float>(static_cast<uint32_t>(*divisor)))) return;
    const FoldedDivisor by = folded_divisor(s, static_cast<uint32_t>(*divisor));
    Operand a = f_.code[pc].op[1];
    if (by.before != 1) {
      const Operand scaled = w_.fresh(a.type);
      w_.insert(pc, rounded_product(s), {scaled, a, w_.constant(std::bit_cast<uint32_t>(by.before))});
      a = scaled;
    }
    if (by.factor == 1 && !s.has("ftz")) return replace(pc, {"mov", "b32"}, {a});
    replace(pc, s.has("ftz") ? Rewriter::Tokens{"mul", "ftz", "f32"} : Rewriter::Tokens{"mul", "f32"},
            {a, w_.constant(std::bit_cast<uint32_t>(by.factor))});
    if (by.before != 1) return;
    if (loses_flush(pc)) return;
    if (const auto result = folded(pc)) replace(pc, {"mov", "b32"}, {w_.constant(*result)});
  }

  // The product of an infinite and a subnormal constant, which .ftz would make a NaN of: ptxas drops the
  // .ftz.
  bool loses_flush(uint32_t pc) {
    const Source& s = f_.source[pc];
    if (s.tokens[0] != "mul" || !s.has("ftz") || says_rounding(s)) return false;
    const auto a = known_.bits(pc, 1), b = known_.bits(pc, 2);
    if (!a || !b) return false;
    const auto is = [](uint64_t bits, int kind) {
      return std::fpclassify(std::bit_cast<float>(static_cast<uint32_t>(bits))) == kind;
    };
    if (!(is(*a, FP_INFINITE) && is(*b, FP_SUBNORMAL)) && !(is(*a, FP_SUBNORMAL) && is(*b, FP_INFINITE)))
      return false;
    Rewriter::Tokens tokens{"mul", "rn"};
    if (s.has("sat")) tokens.push_back("sat");
    tokens.push_back("f32");
    replace(pc, std::move(tokens), {f_.code[pc].op[1], f_.code[pc].op[2]});
    return true;
  }

  // 1 / operand where the compiler has it otherwise: a reciprocal's operand, and 2^-x of a 2^x that nothing
  // else reads.
  std::optional<Operand> inverse_of(uint32_t pc, unsigned slot) {
    const uint32_t from = known_.maker(pc, slot);
    if (from == Dataflow::kNone || from >= pc || !known_.may_read_for(pc, from)) return std::nullopt;
    const Source s = f_.source[from];
    const std::string_view name = s.tokens[0];
    if (!s.has("approx") || !s.has("ftz") || s.type() != Type::f32) return std::nullopt;
    const Operand argument = f_.code[from].op[1];
    const Operand inverse = w_.fresh(f_.code[from].op[0].type);
    if (name == "rcp") {
      w_.insert(from, {"mov", "b32"}, {inverse, argument});
    } else if (name == "ex2" && known_.uses(from) == 1) {
      const Operand negative = w_.fresh(inverse.type);
      w_.insert(from, {"neg", "f32"}, {negative, argument});
      w_.insert(from, s.tokens, {inverse, negative});
    } else {
      return std::nullopt;
    }
    return inverse;
  }

  Rewriter& w_;
  Function& f_;
  const Known& known_;
  bool changed_ = false;
};

}  // namespace

bool fold_approximate(Rewriter& w, const Dataflow& flow, const Known& known) {
  Folding folding(w, known);
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc)
    if (!flow.is_dead(pc) && w.f.source[pc].type() == Type::f32) folding.fold(pc);
  return folding.has_changed();
}

bool ends_in_product(const Source& s) {
  if (s.type() != Type::f32 || !(s.has("approx") || s.has("full"))) return false;
  return s.tokens[0] == "div" || (s.tokens[0] == "rcp" && !s.has("ftz"));
}

std::pair<Operand, Operand> expand_quotient(Rewriter& w, uint32_t pc) {
  const Source s = w.f.source[pc];
  const bool ftz = s.has("ftz"), reciprocal = s.tokens[0] == "rcp";
  const Operand divisor = w.f.code[pc].op[reciprocal ? 1 : 2];
  const auto made = [&](std::vector<std::string_view> tokens, std::vector<Operand> sources) {
    const Operand d = w.fresh(w.f.code[pc].op[0].type);
    sources.insert(sources.begin(), d);
    w.insert(pc, std::move(tokens), std::move(sources));
    return d;
  };
  const auto value = [&](float v) { return w.constant(std::bit_cast<uint32_t>(v)); };
  const Operand size = made({"abs", "f32"}, {divisor});
  Operand scale = value(1);
  if (!ftz) {
    const Operand subnormal = made({"set", "lt", "f32", "f32"}, {size, value(0x1p-126f)});
    scale = made({"fma", "rn", "f32"}, {subnormal, value(0x1p24f - 1), scale});
  }
  if (reciprocal || s.has("full")) {
    const Operand huge = made({"set", "gt", "f32", "f32"}, {size, value(0x1p126f)});
    scale = made({"fma", "rn", "f32"}, {huge, value(0.25f - 1), scale});
  }
  const Operand inverse = made({"rcp", "approx", "ftz", "f32"}, {made(rounded_product(s), {divisor, scale})});
  const Operand other = reciprocal ? scale : made(rounded_product(s), {w.f.code[pc].op[1], scale});
  return {other, inverse};
}

}  // namespace fp4lab::emu
