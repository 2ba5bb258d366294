#include "emulator/ptxas/bank_half.h"

#include <algorithm>
#include <optional>

#include "emulator/ptxas/packed_types.h"
#include "emulator/ptxas/reaching_writes.h"

namespace fp4lab::emu {

namespace {

constexpr unsigned kDeepest = 8;  // instructions one after the other

bool is_unpacking(const Instr& i, const Source& s) {
  return s.tokens[0] == "mov" && is_vector(i.op[0]) && is_no_constant(i.op[1]);
}
// From 16 bits to 32, with zeros.
bool extends(const Source& s) {
  return is_integer_cvt(s) && bits_of(s.type(0)) == 32 && s.type(1) == Type::u16;
}

class BankHalves {
 public:
  BankHalves(Rewriter& w, const Dataflow& flow) : w_(w), f_(w.f), flow_(flow), writes_(w.f, flow) {}

  void mistake() {
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      if (flow_.is_dead(pc)) continue;
      if (is_unpacking(f_.code[pc], f_.source[pc]))
        mistake(pc, f_.code[pc].op[1]);
      else if (reads_pairs(f_.source[pc]))
        for (Operand* op = f_.code[pc].op + 1; op != std::end(f_.code[pc].op); ++op) mistake(pc, *op);
    }
    w_.rebuild();
  }

 private:
  // What an instruction reads as a pair.
  void mistake(uint32_t pc, Operand& read) {
    if (!is_no_constant(read) || bits_of(read.type) != 32) return;
    const auto lower = bank_half(pc, read);
    if (!lower || !is_upper_half_of_word(*lower)) return;
    Operand upper = *lower;
    upper.displacement += 2;
    const Operand both = w_.fresh(Type::b32);
    Operand halves;
    halves.kind = Operand::Kind::vector;
    halves.type = Type::b16;
    halves.index = static_cast<uint32_t>(f_.vectors.size());
    halves.count = 2;
    for (const Operand& at : {*lower, upper}) {
      f_.vectors.push_back(w_.fresh(Type::b16));
      w_.insert(pc, {"ld", at.has_base ? "const" : "param", "b16"}, {f_.vectors.back(), at});
    }
    w_.insert(pc, {"mov", "b32"}, {both, halves});
    read = both;
  }

  // Where the 16 bits lie of which a word is made by extending them.
  std::optional<Operand> bank_half(uint32_t pc, const Operand& read, unsigned depth = 0) const {
    const uint32_t from = writes_.maker(pc, flow_.number_of(read));
    if (from == Dataflow::kNone || depth >= kDeepest) return std::nullopt;
    const Instr& i = f_.code[from];
    const Source& s = f_.source[from];
    if (s.tokens[0] == "mov" && is_no_constant(i.op[1]) && !is_vector(i.op[0]))
      return bank_half(from, i.op[1], depth + 1);
    if (extends(s) && is_no_constant(i.op[1])) return place(from, i.op[1], depth + 1);
    const bool is_half = s.type() == Type::u16 || s.type() == Type::b16;
    return is_half && s.tokens[0] == "ld" ? place(pc, read, depth + 1) : std::nullopt;
  }

  // Where in a bank the bits of a register begin.
  std::optional<Operand> place(uint32_t pc, const Operand& read, unsigned depth) const {
    const uint32_t from = writes_.maker(pc, flow_.number_of(read));
    if (from == Dataflow::kNone || depth >= kDeepest) return std::nullopt;
    const Instr& i = f_.code[from];
    const Source& s = f_.source[from];
    const unsigned bits = bits_of(s.type());
    if (flow_.is_in_bank(from) && (bits == 16 || bits == bits_of(read.type)))
      return moved(i.op[1], part_of(i, read) * bits / 8);
    if (s.tokens[0] != "mov" || !is_no_constant(i.op[1])) return std::nullopt;
    const auto whole = place(from, i.op[1], depth + 1);
    const unsigned parts = is_vector(i.op[0]) ? i.op[0].count : 1;
    return whole ? std::optional(moved(*whole, part_of(i, read) * bits / parts / 8)) : std::nullopt;
  }

  static Operand moved(Operand address, unsigned bytes) {
    address.displacement += bytes;
    return address;
  }

  // Which element of what an instruction writes a register is.
  unsigned part_of(const Instr& i, const Operand& reg) const {
    unsigned n = 0;
    if (is_vector(i.op[0]))
      while (n + 1 < i.op[0].count && f_.vectors[i.op[0].index + n].offset != reg.offset) ++n;
    return n;
  }

  // And something known lies behind it: more of a variable that begins with a word, or of the parameters.
  bool is_upper_half_of_word(const Operand& address) const {
    if (!address.has_base) return is_upper_half(address.displacement, f_.param_bytes);
    const auto& rows = w_.image.constants;
    for (const Fixup& fixup : w_.image.fixups) {
      if (rows[fixup.row].offset != address.offset) continue;
      const Symbol& symbol = w_.image.out.symbols[fixup.symbol];
      const auto at = static_cast<int64_t>(rows[fixup.row].bits) + address.displacement;
      return symbol.align % 4 == 0 && is_upper_half(at, symbol.size);
    }
    return false;
  }

  static bool is_upper_half(int64_t at, uint64_t bytes) {
    return at >= 0 && at % 4 == 2 && static_cast<uint64_t>(at) + 4 <= bytes;
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const ReachingWrites writes_;
};

}  // namespace

bool may_mistake_bank_halves(const Function& f) {
  bool loads = false, pairs = false;
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    const Source& s = f.source[pc];
    const bool is_parameter = s.has("param") || s.has("param::entry");
    loads |= s.tokens[0] == "ld" && (s.has("const") || (is_parameter && bits_of(s.type()) == 16));
    pairs |= reads_pairs(s) || is_unpacking(f.code[pc], s);
  }
  return loads && pairs;
}

void mistake_bank_halves(Rewriter& w, const Dataflow& flow) { BankHalves(w, flow).mistake(); }

}  // namespace fp4lab::emu
