#include "emulator/ptxas/narrow_load.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/ptxas/reaching_writes.h"
#include "emulator/ptxas/read_behind.h"

namespace fp4lab::emu {

namespace {

// Of one element that goes into a wider register.
bool is_narrow_load(const Instr& i, const Source& s) {
  return s.tokens[0] == "ld" && is_value(i.op[0]) && bits_of(s.type()) <= 16 && bits_of(i.op[0].type) >= 32;
}

bool compares_pairs(const Source& s) {
  return s.tokens[0] == "setp" && (s.type() == Type::f16x2 || s.type() == Type::bf16x2);
}

class NarrowLoads {
 public:
  NarrowLoads(Rewriter& w, const Dataflow& flow) : w_(w), f_(w.f), flow_(flow) {}

  void mistake() {
    const ReachingWrites writes(f_, flow_);
    uses_ = writes.uses();
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      if (flow_.is_dead(pc)) continue;
      if (f_.source[pc].tokens[0] == "mov") note_reader(writes, pc, 1);
      if (compares_pairs(f_.source[pc]))
        for (const unsigned slot : {kFirstCompared, kFirstCompared + 1}) note_reader(writes, pc, slot);
    }
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      // What lies in a constant bank is no load in machine code.
      if (!is_narrow_load(f_.code[pc], f_.source[pc]) || f_.code[pc].guard >= 0 || flow_.is_in_bank(pc))
        continue;
      // The upper half of 64 bits comes from the lower one where a sign is extended.
      const bool extends_sign = name_of(f_.source[pc].type())[0] == 's';
      const std::vector<Reader> readers = readers_of(pc);
      if (std::ranges::all_of(readers, [&](const Reader& r) { return takes_upper_half(r.pc, extends_sign); }))
        for (const Reader& reader : readers) give_lower_half(reader);
    }
    w_.rebuild();
  }

 private:
  static constexpr unsigned kFirstCompared = 2;  // operand of a `setp`, behind its two predicates

  struct Reader {
    uint32_t pc;
    unsigned slot;
  };

  void note_reader(const ReachingWrites& writes, uint32_t pc, unsigned slot) {
    const Operand& op = f_.code[pc].op[slot];
    if (!is_value(op)) return;
    if (const uint32_t from = writes.maker(pc, flow_.number_of(op)); from != Dataflow::kNone)
      readers_[from].push_back({pc, slot});
  }

  // What takes apart, or compares as a pair, what one makes, copies of it too; none if it is read in any
  // other way.
  std::vector<Reader> readers_of(uint32_t load) const {
    constexpr size_t kMostCopies = 256;  // the compiler counts none
    std::vector<Reader> found;
    std::vector<uint32_t> makers{load};
    for (size_t n = 0; n < makers.size(); ++n) {
      const auto readers = readers_.find(makers[n]);
      if (readers == readers_.end() || readers->second.size() != uses_[makers[n]] || n > kMostCopies)
        return {};
      for (const Reader& reader : readers->second) {
        const Instr& i = f_.code[reader.pc];
        if (!is_value(i.op[0])) {
          found.push_back(reader);
          continue;
        }
        if (i.guard >= 0 || reader.pc <= makers[n]) return {};
        makers.push_back(reader.pc);
      }
    }
    return found;
  }

  // Nothing but bits 16 to 31, or, if not `alone`, those above them too.
  bool takes_upper_half(uint32_t pc, bool alone) const {
    if (compares_pairs(f_.source[pc]))
      return !is_read_behind(f_, flow_, pc, flow_.number_of(f_.code[pc].op[0]));
    const Operand& parts = f_.code[pc].op[0];
    if (parts.kind != Operand::Kind::vector || bits_of(f_.source[pc].type()) != parts.count * 16u)
      return false;
    for (uint32_t n = 0; n < parts.count; ++n)
      if ((n == 0 || (n > 1 && alone)) &&
          is_read_behind(f_, flow_, pc, flow_.number_of(f_.vectors[parts.index + n])))
        return false;
    return true;
  }

  void give_lower_half(const Reader& reader) {
    Operand& op = f_.code[reader.pc].op[reader.slot];
    if (compares_pairs(f_.source[reader.pc])) {
      constexpr uint64_t kLowerHalfTwice = 0x1010;
      const Operand halves = w_.fresh(Type::b32);
      w_.insert(reader.pc, {"prmt", "b32"}, {halves, op, w_.constant(0), w_.constant(kLowerHalfTwice)});
      op = halves;
      return;
    }
    const Operand& parts = f_.code[reader.pc].op[0];
    std::swap(f_.vectors[parts.index], f_.vectors[parts.index + 1]);
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  std::vector<uint32_t> uses_;
  std::unordered_map<uint32_t, std::vector<Reader>> readers_;  // by maker: those that somebody wants
};

}  // namespace

bool has_narrow_loads(const Function& f) {
  bool takes_apart = false, loads = false;
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    loads |= is_narrow_load(f.code[pc], f.source[pc]);
    takes_apart |= compares_pairs(f.source[pc]) ||
                   (f.source[pc].tokens[0] == "mov" && f.code[pc].op[0].kind == Operand::Kind::vector);
  }
  return loads && takes_apart;
}

void mistake_narrow_loads(Rewriter& w, const Dataflow& flow) { NarrowLoads(w, flow).mistake(); }

}  // namespace fp4lab::emu
