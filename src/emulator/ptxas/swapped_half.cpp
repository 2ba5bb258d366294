#include "emulator/ptxas/swapped_half.h"

#include <optional>
#include <unordered_set>

#include "emulator/ptxas/any_instruction.h"
#include "emulator/ptxas/behind_copies.h"
#include "emulator/ptxas/part.h"

namespace fp4lab::emu {

namespace {

constexpr unsigned kSigns = 8;  // one on the other that are followed

bool is_sign_of_pair(const Instr& i, const Source& s) {
  return (s.tokens[0] == "neg" || s.tokens[0] == "abs") && s.type() == Type::f16x2 && !s.has("ftz") &&
         i.guard < 0;
}

bool computes_pairs(const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {"add", "sub", "mul", "fma",
                                                              "min", "max", "set"};
  return kNames.contains(s.tokens[0]) && s.type(s.tokens[0] == "set" ? 1 : 0) == Type::f16x2;
}

class SwappedHalves {
 public:
  SwappedHalves(Rewriter& w, const Known& known) : w_(w), f_(w.f), known_(known) {}

  void mistake() {
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      if (!computes_pairs(f_.source[pc])) continue;
      for (unsigned slot = 1; slot < Known::kSlots; ++slot)
        if (const auto sign = innermost_sign(pc, slot); sign && meets_swap(pc, slot, pack(*sign, 1)))
          forget_signs(pc, slot, *sign);
    }
    w_.rebuild();
  }

 private:
  // A half of a word that a mov has taken apart: the mov, and which one.
  struct Part {
    uint32_t mov;
    uint32_t nth;
  };

  std::optional<uint32_t> maker(uint32_t pc, unsigned slot) const {
    const auto from = behind_copies(f_, known_, pc, f_.code[pc].op[slot], known_.maker(pc, slot));
    return from && *from < pc ? from : std::nullopt;
  }
  std::optional<uint32_t> pack(uint32_t pc, unsigned slot) const {
    const auto from = maker(pc, slot);
    const bool packs = from && f_.source[*from].tokens[0] == "mov" && f_.code[*from].guard < 0 &&
                       f_.code[*from].op[1].kind == Operand::Kind::vector &&
                       f_.code[*from].op[1].count == 2 && bits_of(f_.source[*from].type()) == 32;
    return packs ? from : std::nullopt;
  }

  // Of signs one on the other.
  std::optional<uint32_t> innermost_sign(uint32_t pc, unsigned slot) const {
    std::optional<uint32_t> sign;
    for (unsigned n = 0; n < kSigns; ++n, pc = *sign, slot = 1) {
      const auto from = maker(pc, slot);
      if (!from || !is_sign_of_pair(f_.code[*from], f_.source[*from])) break;
      sign = from;
    }
    return sign;
  }

  void forget_signs(uint32_t pc, unsigned slot, uint32_t sign) {
    const Operand& pair = f_.code[sign].op[1];
    const Operand kept = w_.fresh(pair.type);
    w_.insert(sign, {"mov", "b32"}, {kept, pair});
    f_.code[pc].op[slot] = kept;
  }

  std::optional<Part> part(uint32_t pack, uint32_t nth) const {
    const uint32_t index = f_.code[pack].op[1].index + nth, from = known_.maker_of_element(pack, index);
    if (from >= pack) return std::nullopt;
    const auto which = nth_part(f_, from, f_.vectors[index]);
    const bool halves = which && f_.code[from].op[0].count == 2 && bits_of(f_.source[from].type()) == 32;
    return halves ? std::optional(Part{from, *which}) : std::nullopt;
  }

  // Whether a later operand is the word, its halves exchanged, of which one half of the pack is a part.
  bool meets_swap(uint32_t pc, unsigned slot, std::optional<uint32_t> pair) const {
    if (!pair) return false;
    const auto low = part(*pair, 0), high = part(*pair, 1);
    if (low.has_value() == high.has_value()) return false;
    const uint32_t mov = low ? low->mov : high->mov;
    for (unsigned later = slot + 1; later < Known::kSlots; ++later) {
      const auto other = f_.code[pc].op[later] ? pack(pc, later) : std::nullopt;
      const auto first = other ? part(*other, 0) : std::nullopt,
                 second = other ? part(*other, 1) : std::nullopt;
      if (first && second && first->mov == mov && second->mov == mov && first->nth == 1 && second->nth == 0)
        return true;
    }
    return false;
  }

  Rewriter& w_;
  Function& f_;
  const Known& known_;
};

}  // namespace

bool may_swap_halves(const Function& f) {
  return any_instruction(f, is_sign_of_pair) &&
         any_instruction(f, [](const Instr& i, const Source& s) { return takes_apart(i, s); });
}

void mistake_swapped_halves(Rewriter& w, const Known& known) { SwappedHalves(w, known).mistake(); }

}  // namespace fp4lab::emu
