#include "emulator/ptxas/packed_sum.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/known.h"
#include "emulator/ptxas/packed_types.h"
#include "emulator/ptxas/reaching_writes.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

namespace {

// Which 16 bits of a value are wanted: a bit for each.
using Parts = uint32_t;
constexpr Parts kLower = 1, kWord = 3, kAll = 15;
constexpr Parts kRegister = 16;  // of 16 bits: the register that holds them, as it is

bool is_packed_sum(const Source& s) {
  return s.tokens[0] == "add" && (s.type() == Type::u16x2 || s.type() == Type::s16x2);
}

bool is_packed_extreme(const Source& s) {
  return (s.tokens[0] == "min" || s.tokens[0] == "max") &&
         (s.type() == Type::u16x2 || s.type() == Type::s16x2);
}

// Each half of what it makes comes from the same halves of what it reads. The signs of f16x2 alone are logic
// on a word.
bool works_by_halves(const Source& s) {
  const bool is_sign = s.tokens[0] == "neg" || s.tokens[0] == "abs";
  return reads_pairs(s) && s.tokens[0] != "setp" && !(is_sign && s.type() == Type::f16x2);
}

// On 16 bits, of which the machine's instruction of 32 bits reads the register: what lies above changes
// nothing. Not where it negates an operand.
bool works_on_register(const Source& s) {
  static constexpr std::string_view kNames[] = {"and", "or", "xor", "not", "shl", "add", "sub", "selp"};
  if (bits_of(s.type()) != 16 || is_float(s.type())) return false;
  return std::ranges::find(kNames, s.tokens[0]) != std::end(kNames);
}

class PackedSums {
 public:
  PackedSums(Rewriter& w, const Dataflow& flow)
      : w_(w), f_(w.f), flow_(flow), writes_(w.f, flow), wanted_(w.f.code.size(), 0) {}

  void mistake() {
    find_wanted();
    const Known known(w_, flow_);
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      if (!is_packed_sum(f_.source[pc]) || f_.code[pc].guard >= 0 || flow_.is_dead(pc)) continue;
      if ((wanted_[pc] & kWord) == kWord || becomes_extreme(pc)) continue;
      const bool first = known.bits(pc, 1).has_value(), second = known.bits(pc, 2).has_value();
      if (!first && !second) continue;
      // Of two the second one, if it alone comes from elsewhere than this straight-line code.
      const bool loses_second =
          second && (!first || (known.comes_from_here(pc, 1) && !known.comes_from_here(pc, 2)));
      f_.code[pc].op[loses_second ? 2 : 1] = w_.constant(0);
    }
  }

 private:
  // Of each instruction the parts that others read, also where ways meet, or all where that is in a whole
  // register. Of one that takes a register apart: those of that register.
  void find_wanted() {
    std::vector<uint32_t> uses = writes_.uses();
    last_use_.assign(f_.code.size(), Dataflow::kNone);
    for (uint32_t pc = static_cast<uint32_t>(f_.code.size()); pc-- > 0;) {
      if (flow_.is_dead(pc)) continue;
      if (uses[pc] > 0 && is_value(f_.code[pc].op[0]) && bits_of(f_.code[pc].op[0].type) >= 32)
        wanted_[pc] = kAll;  // behind branches, or earlier in a loop
      for (const uint32_t reg : flow_.access(pc).reads) {
        const uint32_t from = writes_.maker(pc, reg);
        if (from == Dataflow::kNone || from >= pc) continue;
        --uses[from];
        last_use_[from] = last_use_[from] == Dataflow::kNone ? pc : kSeveral;
      }
    }
    const std::vector<Dataflow::Block>& blocks = flow_.blocks();
    std::vector<WantedRegisters> before(blocks.size(), WantedRegisters(flow_.registers(), 0));
    for (bool changes = true; changes;) {
      changes = false;
      for (size_t b = blocks.size(); b-- > 0;) {
        WantedRegisters wanted(flow_.registers(), 0);
        for (const uint32_t next : blocks[b].successors)
          std::ranges::transform(wanted, before[next], wanted.begin(), std::bit_or());
        for (uint32_t pc = blocks[b].end; pc-- > blocks[b].begin;)
          if (!flow_.is_dead(pc)) walk_back(pc, wanted);
        changes |= wanted != before[b];
        before[b] = std::move(wanted);
      }
    }
  }

  // Parts by register, and how one instruction changes them.
  using WantedRegisters = std::vector<uint8_t>;
  void walk_back(uint32_t pc, WantedRegisters& wanted) {
    for (const uint32_t reg : flow_.access(pc).writes) {
      if (wanted[reg] == 0) continue;
      wanted_[pc] |= part_of_unpacked(pc, reg, wanted[reg]);
      if (f_.code[pc].guard < 0) wanted[reg] = 0;
    }
    for (const uint32_t reg : flow_.access(pc).reads) wanted[reg] |= static_cast<uint8_t>(wanted_by(pc, reg));
  }

  // Which parts of a register an instruction wants.
  Parts wanted_by(uint32_t pc, uint32_t reg) const {
    const Instr& i = f_.code[pc];
    const Source& s = f_.source[pc];
    const std::string_view name = s.tokens[0];
    if (name == "st") return is_read_by_store(i, s, reg) ? kLower : kAll;
    if (name == "setp" && is_packed(s.type())) return kWord & wanted_[pc];
    const bool is_subtracted = name == "sub" && flow_.number_of(i.op[2]) == reg;
    if (works_on_register(s) && !is_subtracted) return kAll | kRegister;
    if (i.guard >= 0) return kAll;
    if (name == "mov") return wanted_by_move(i, s, reg, wanted_[pc]);
    if (name == "cvt") return wanted_by_conversion(s, wanted_[pc]);
    return works_by_halves(s) ? wanted_[pc] : kAll;
  }

  // As what is stored, 16 bits of it, and not as the address.
  bool is_read_by_store(const Instr& i, const Source& s, uint32_t reg) const {
    return bits_of(s.type()) == 16 && flow_.number_of_base(i.op[0]) != reg;
  }

  Parts wanted_by_move(const Instr& i, const Source& s, uint32_t reg, Parts wanted) const {
    const Operand& from = i.op[1];
    if (from.kind != Operand::Kind::vector) return wanted;
    const unsigned width = bits_of(s.type()) / from.count / 16;
    if (width == 0) return kAll;
    Parts parts = 0;
    for (uint32_t n = 0; n < from.count; ++n)
      if (flow_.number_of(f_.vectors[from.index + n]) == reg)
        parts |= wanted >> width * n & ((1u << width) - 1);
    return parts;
  }

  // From 16 bits, but to 8 of them, which is logic on a word; copies; and to 16 bits of any, which is none
  // itself.
  static Parts wanted_by_conversion(const Source& s, Parts wanted) {
    const Type to = s.type(0), from = s.type(1);
    if (s.has("pack") || is_packed(from) || is_packed(to)) return kAll;
    const bool plain = s.tokens.size() == 3;
    if (bits_of(from) == 16) return plain && bits_of(to) == 8 ? kAll : kLower;
    if (!plain || is_float(to) || is_float(from) || bits_of(from) < 16) return kAll;
    if (bits_of(to) == 16) return bits_of(from) == 32 && (wanted & kRegister) ? kAll : kLower;
    return bits_of(to) >= 32 ? wanted & kWord : kAll;
  }

  // By an element of what was taken apart; the value itself of any other instruction.
  Parts part_of_unpacked(uint32_t from, uint32_t reg, Parts wanted) const {
    const Operand& to = f_.code[from].op[0];
    if (f_.source[from].tokens[0] == "setp") return f_.code[from].op[1] && is_second(from, reg) ? 2 : kLower;
    if (f_.source[from].tokens[0] != "mov" || to.kind != Operand::Kind::vector) return wanted;
    const unsigned width = bits_of(f_.source[from].type()) / to.count / 16;
    if (width == 0) return kAll;
    for (uint32_t n = 0; n < to.count; ++n)
      if (flow_.number_of(f_.vectors[to.index + n]) == reg)
        return (wanted & ((1u << width) - 1)) << width * n;
    return kAll;
  }

  bool is_second(uint32_t setp, uint32_t predicate) const {
    return flow_.number_of(f_.code[setp].op[1]) == predicate;
  }

  // A sum that an extreme of the same block alone reads is one instruction with it, which is right.
  bool becomes_extreme(uint32_t pc) const {
    const uint32_t reader = last_use_[pc];
    if (reader >= f_.code.size() || !is_packed_extreme(f_.source[reader])) return false;
    const Instr& i = f_.code[reader];
    return flow_.block_of(reader) == flow_.block_of(pc) &&
           flow_.number_of(i.op[1]) != flow_.number_of(i.op[2]);
  }

  static constexpr uint32_t kSeveral = Dataflow::kNone - 1;

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const ReachingWrites writes_;
  std::vector<Parts> wanted_;
  std::vector<uint32_t> last_use_;  // kSeveral if there are others
};

}  // namespace

bool has_packed_sums(const Function& f) { return std::ranges::any_of(f.source, is_packed_sum); }

void mistake_packed_sums(Rewriter& w, const Dataflow& flow) { PackedSums(w, flow).mistake(); }

}  // namespace fp4lab::emu
