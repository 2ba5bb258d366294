#include "emulator/ptxas/narrow_load.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/ptxas/reaching_writes.h"

namespace fp4lab::emu {

namespace {

// Of one element that goes into a wider register.
bool is_narrow_load(const Instr& i, const Source& s) {
  return s.tokens[0] == "ld" && is_value(i.op[0]) && bits_of(s.type()) <= 16 && bits_of(i.op[0].type) >= 32;
}

class NarrowLoads {
 public:
  NarrowLoads(Function& f, const Dataflow& flow) : f_(f), flow_(flow) {}

  void mistake() {
    const ReachingWrites writes(f_, flow_);
    uses_ = writes.uses();
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
      if (f_.source[pc].tokens[0] == "mov" && is_value(f_.code[pc].op[1]) && !flow_.is_dead(pc))
        if (const uint32_t from = writes.maker(pc, flow_.number_of(f_.code[pc].op[1]));
            from != Dataflow::kNone)
          moves_[from].push_back(pc);
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      // What lies in a constant bank is no load in machine code.
      if (!is_narrow_load(f_.code[pc], f_.source[pc]) || f_.code[pc].guard >= 0 || flow_.is_in_bank(pc))
        continue;
      // The upper half of 64 bits comes from the lower one where a sign is extended.
      const bool extends_sign = name_of(f_.source[pc].type())[0] == 's';
      const std::vector<uint32_t> unpackings = unpackings_of(pc);
      if (std::ranges::all_of(unpackings,
                              [&](uint32_t move) { return takes_upper_half(move, extends_sign); }))
        for (const uint32_t move : unpackings) exchange_halves(f_.code[move].op[0]);
    }
  }

 private:
  // The instructions that take apart what one makes, copies of it too; none if it is read in any other way.
  std::vector<uint32_t> unpackings_of(uint32_t load) const {
    constexpr size_t kMostCopies = 256;  // the compiler counts none
    std::vector<uint32_t> found, makers{load};
    for (size_t n = 0; n < makers.size(); ++n) {
      const auto moves = moves_.find(makers[n]);
      if (moves == moves_.end() || moves->second.size() != uses_[makers[n]] || n > kMostCopies) return {};
      for (const uint32_t move : moves->second) {
        const bool is_copy = is_value(f_.code[move].op[0]);
        if (is_copy && (f_.code[move].guard >= 0 || move <= makers[n])) return {};
        (is_copy ? makers : found).push_back(move);
      }
    }
    return found;
  }

  // Nothing but bits 16 to 31, or, if not `alone`, those above them too.
  bool takes_upper_half(uint32_t pc, bool alone) const {
    const Operand& parts = f_.code[pc].op[0];
    if (parts.kind != Operand::Kind::vector || bits_of(f_.source[pc].type()) != parts.count * 16u)
      return false;
    for (uint32_t n = 0; n < parts.count; ++n)
      if ((n == 0 || (n > 1 && alone)) && is_read(pc, flow_.number_of(f_.vectors[parts.index + n])))
        return false;
    return true;
  }

  // Whether a register is read behind an instruction that writes it.
  bool is_read(uint32_t pc, uint32_t reg) const {
    if (reg == Dataflow::kNone) return false;
    const uint32_t block = flow_.block_of(pc);
    while (++pc < flow_.blocks()[block].end) {
      const Dataflow::Access& access = flow_.access(pc);
      if (!flow_.is_dead(pc) && std::ranges::find(access.reads, reg) != access.reads.end()) return true;
      const bool writes = std::ranges::find(access.writes, reg) != access.writes.end();
      if (writes && f_.code[pc].guard < 0) return false;
    }
    return flow_.lives_behind(block, reg);
  }

  void exchange_halves(const Operand& parts) {
    std::swap(f_.vectors[parts.index], f_.vectors[parts.index + 1]);
  }

  Function& f_;
  const Dataflow& flow_;
  std::vector<uint32_t> uses_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> moves_;  // by maker: those that somebody wants
};

}  // namespace

bool has_narrow_loads(const Function& f) {
  bool takes_apart = false, loads = false;
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    loads |= is_narrow_load(f.code[pc], f.source[pc]);
    takes_apart |= f.source[pc].tokens[0] == "mov" && f.code[pc].op[0].kind == Operand::Kind::vector;
  }
  return loads && takes_apart;
}

void mistake_narrow_loads(Rewriter& w, const Dataflow& flow) { NarrowLoads(w.f, flow).mistake(); }

}  // namespace fp4lab::emu
