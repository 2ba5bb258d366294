#include "emulator/ptxas/masked_half.h"

#include <algorithm>
#include <vector>

#include "emulator/ptxas/packed_types.h"
#include "emulator/ptxas/reaching_writes.h"

namespace fp4lab::emu {

namespace {

// In one instruction that puts a 0 above. With other roundings, and from other types but for pairs of bytes,
// it is another one; .sat takes a second one.
bool is_packing_conversion(const Source& s) {
  if (s.tokens[0] != "cvt") return false;
  const Type to = s.type(0), from = s.type(1);
  if (to == Type::e4m3x2 || to == Type::e5m2x2) return from == Type::f32 || from == Type::f16x2;
  return (to == Type::f16 || to == Type::bf16) && from == Type::f32 && (s.has("rn") || s.has("rz")) &&
         !s.has("sat");
}

class MaskedHalves {
 public:
  MaskedHalves(Rewriter& w, const Dataflow& flow, const Known& known)
      : w_(w), f_(w.f), flow_(flow), known_(known), writes_(w.f, flow), uses_(writes_.uses()) {}

  void lose() {
    bool any = false;
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      if (flow_.is_dead(pc) || !packs_halves(f_, pc)) continue;
      for (uint32_t n = 0; n + 1 < f_.code[pc].op[1].count; n += 2) any |= lose(pc, n);
    }
    if (any) w_.rebuild();
  }

 private:
  static constexpr uint32_t kNone = Dataflow::kNone;

  // The mask on the way to an element.
  bool lose(uint32_t pc, uint32_t element) {
    uint32_t reader = pc, from = only_read_of(reader, f_.vectors[f_.code[pc].op[1].index + element]);
    bool masks = false;
    for (; from != kNone && !is_packing_conversion(f_.source[from]);
         from = only_read_of(reader, *read_by(reader))) {
      const Operand* of = read_by(from);
      if (!of) return false;
      masks |= f_.source[from].tokens[0] != "mov";
      reader = from;
    }
    if (from == kNone || !masks || is_constant(from) || is_repeated(from)) return false;
    const Operand made = w_.fresh(Type::b16);
    w_.insert_behind(from, {"mov", "b16"}, {made, f_.code[from].op[0]});
    f_.vectors[own_elements(f_, pc) + element] = made;
    return true;
  }

  // Computed by the compiler.
  bool is_constant(uint32_t cvt) const {
    const bool is_of_two = bool(f_.code[cvt].op[2]);
    return known_.bits(cvt, 1) && (!is_of_two || known_.bits(cvt, 2));
  }

  // Another one makes the same, and so somebody else reads the one that is left of them.
  bool is_repeated(uint32_t cvt) const {
    for (uint32_t other = 0; other < f_.code.size(); ++other)
      if (other != cvt && !flow_.is_dead(other) && f_.source[other].tokens == f_.source[cvt].tokens &&
          reads_same(cvt, other, 1) && reads_same(cvt, other, 2))
        return true;
    return false;
  }

  bool reads_same(uint32_t cvt, uint32_t other, unsigned slot) const {
    const Operand &a = f_.code[cvt].op[slot], &b = f_.code[other].op[slot];
    return a.kind == b.kind && a.offset == b.offset &&
           known_.only_maker(cvt, slot) == known_.only_maker(other, slot);
  }

  // The maker of what an instruction reads, if nobody else reads that.
  uint32_t only_read_of(uint32_t pc, const Operand& op) const {
    const uint32_t from = is_value(op) ? writes_.maker(pc, flow_.number_of(op)) : kNone;
    return from < pc && uses_[from] == 1 && f_.code[from].guard < 0 ? from : kNone;
  }

  // What a copy or a mask reads of which it lets bits through.
  const Operand* read_by(uint32_t pc) const {
    const Instr& i = f_.code[pc];
    const Source& s = f_.source[pc];
    if (s.tokens[0] == "mov") return is_value(i.op[0]) && is_value(i.op[1]) ? &i.op[1] : nullptr;
    const bool cuts_byte = s.tokens[0] == "cvt" && s.tokens.size() == 3 && !is_float(s.type(0)) &&
                           !is_float(s.type(1)) && bits_of(s.type(0)) <= 16 && bits_of(s.type(1)) <= 16 &&
                           (s.type(0) == Type::u8 || s.type(1) == Type::u8);
    if (cuts_byte) return &i.op[1];
    if (s.tokens[0] != "and" || s.type() != Type::b16) return nullptr;
    for (const unsigned slot : {1u, 2u})
      if (known_.bits(pc, 3 - slot) && !known_.bits(pc, slot)) return &i.op[slot];
    return nullptr;
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const Known& known_;
  const ReachingWrites writes_;
  const std::vector<uint32_t> uses_;
};

}  // namespace

bool may_lose_masks(const Function& f) { return std::ranges::any_of(f.source, is_packing_conversion); }

void lose_masks(Rewriter& w, const Dataflow& flow, const Known& known) {
  MaskedHalves(w, flow, known).lose();
}

}  // namespace fp4lab::emu
