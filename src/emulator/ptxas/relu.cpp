#include "emulator/ptxas/relu.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "emulator/ptxas/behind_copies.h"

namespace fp4lab::emu {

namespace {

bool is_pair(Type t) { return t == Type::f16x2 || t == Type::bf16x2; }

bool is_of_halves(Type t) { return t == Type::f16 || t == Type::bf16 || is_pair(t); }

// A maximum that a NaN goes through, whatever it does with signs and subnormals.
bool is_extreme(const Source& s) { return s.tokens[0] == "max" && s.has("NaN") && is_of_halves(s.type()); }

// What is an fma in machine code; of bf16x2 neg is one, too.
bool is_fma(const Source& s) {
  const std::string_view name = s.tokens[0];
  if (name == "neg") return s.type() == Type::bf16x2;
  return (name == "add" || name == "sub" || name == "mul" || name == "fma") && is_of_halves(s.type());
}

class Rectified {
 public:
  Rectified(Rewriter& w, const Dataflow& flow, const Known& known)
      : w_(w), f_(w.f), flow_(flow), known_(known) {}

  void run() {
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      if (flow_.is_dead(pc) || !is_extreme(f_.source[pc])) continue;
      if (const auto fma = rectified(pc)) make_one(pc, *fma);
    }
    w_.rebuild();
  }

 private:
  // The instruction whose result, or +0 where that is less, an extreme is. Halves of f16 may meet in one of
  // bf16.
  std::optional<uint32_t> rectified(uint32_t pc) const {
    const bool pair = is_pair(f_.source[pc].type());
    for (const unsigned slot : {1u, 2u}) {
      const auto zero = known_.bits(pc, 3 - slot);
      if (!zero || (*zero & (pair ? 0xffffffff : 0xffff)) != 0) continue;
      const auto from = behind_copies(f_, known_, pc, f_.code[pc].op[slot], known_.maker(pc, slot));
      if (from && is_fma(f_.source[*from]) && is_pair(f_.source[*from].type()) == pair) return from;
    }
    return std::nullopt;
  }

  // What else reads the fma keeps one of its own.
  void make_one(uint32_t pc, uint32_t fma) {
    const Source& s = f_.source[fma];
    const Type type = s.type();
    const bool brain = type == Type::bf16 || type == Type::bf16x2;
    Rewriter::Tokens tokens{"fma", "rn"};
    if (s.has("oob"))
      tokens.push_back("oob");
    else if (f_.source[pc].has("ftz") && !brain)
      tokens.push_back("ftz");
    tokens.push_back("relu");
    tokens.push_back(name_of(type));
    w_.replace(pc, std::move(tokens), factors_and_sum(fma, brain ? 0x3f803f80 : 0x3c003c00));
  }

  std::vector<Operand> factors_and_sum(uint32_t fma, uint64_t one) {
    constexpr uint64_t kSigns = 0x80008000;
    const std::string_view name = f_.source[fma].tokens[0];
    const auto constant = [&](uint64_t pair) {
      const bool is_one = !is_pair(f_.source[fma].type());
      return w_.constant(is_one ? pair & 0xffff : pair, is_one ? Type::b16 : Type::b32);
    };
    const Operand a = kept(fma, 1);
    if (name == "neg") return {a, constant(one ^ kSigns), constant(kSigns)};
    const Operand b = kept(fma, 2);
    if (name == "fma") return {a, b, kept(fma, 3)};
    if (name == "mul") return {a, b, constant(0)};
    return name == "sub" ? std::vector{b, constant(one ^ kSigns), a} : std::vector{a, constant(one), b};
  }

  // What an operand holds at pc.
  Operand kept(uint32_t pc, unsigned slot) {
    const Operand copy = w_.fresh(f_.code[pc].op[slot].type);
    w_.insert(pc, {"mov", name_of(bits_type(copy.type))}, {copy, f_.code[pc].op[slot]});
    return copy;
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const Known& known_;
};

}  // namespace

bool may_rectify(const Function& f) { return std::ranges::any_of(f.source, is_extreme); }

void rectify(Rewriter& w, const Dataflow& flow, const Known& known) { Rectified(w, flow, known).run(); }

}  // namespace fp4lab::emu
