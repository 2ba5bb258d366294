#include "emulator/ptxas/repeated_wgmma.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "emulator/isa/wgmma_operands.h"

namespace fp4lab::emu {

namespace {

constexpr size_t kMostRegisters = 120;

bool is_product(const Source& s) { return s.tokens[0] == "wgmma" && s.has("mma_async"); }
bool is_commit(const Source& s) { return s.tokens[0] == "wgmma" && s.has("commit_group"); }

class Repeated {
 public:
  Repeated(Rewriter& w, const Dataflow& flow, const Known& known)
      : w_(w), f_(w.f), flow_(flow), known_(known) {}

  void forget() {
    if (has_branches() || !find_accumulators()) return;
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) visit(pc);
    end_stretch();
    w_.rebuild();
  }

 private:
  using Registers = std::vector<uint32_t>;
  // The opcode, and of each operand but D its bits, or its register and where that was written last.
  struct Key {
    std::vector<std::string_view> opcode;
    std::vector<std::tuple<bool, uint64_t, uint64_t>> operands;
    auto operator<=>(const Key&) const = default;
  };

  struct Made {  // by a wgmma of this stretch
    uint32_t pc;
    size_t before;  // what it added to, in made_
  };
  static constexpr size_t kFirst = size_t(0) - 1;  // what D held before the stretch

  struct Accumulator {
    size_t registers = 0;
    bool begins_as_zero = false;  // so that the first product adds to nothing
    std::map<Key, size_t> seen;   // in this stretch
    size_t now = kFirst;
  };

  Registers registers_of(uint32_t pc) const {
    Registers d;
    const Operand& op = f_.code[pc].op[0];
    for (uint32_t n = 0; n < op.count; ++n) d.push_back(flow_.number_of(f_.vectors[op.index + n]));
    return d;
  }

  bool starts_from_zero(uint32_t pc) const {
    const Operand& op = f_.code[pc].op[0];
    for (uint32_t n = 0; n < op.count; ++n)
      if (known_.bits_of_element(pc, op.index + n) != 0) return false;
    return true;
  }

  bool has_branches() const {
    if (flow_.blocks().size() != 1) return true;
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
      if (flow_.becomes_branch(pc)) return true;
    return false;
  }

  // False where nothing is forgotten: accumulators that share some registers are kept apart by copies.
  bool find_accumulators() {
    bool any_product = false;
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      if (is_commit(f_.source[pc]) && !std::exchange(any_product, false)) return false;
      if (!is_product(f_.source[pc])) continue;
      any_product = true;
      const auto [found, fresh] = number_.try_emplace(registers_of(pc), accumulators_.size());
      if (!fresh) continue;
      Accumulator of;
      for (const uint32_t reg : found->first)
        if (const auto [at, is_new] = owner_.try_emplace(reg, found->second); is_new)
          ++of.registers;
        else if (at->second != found->second)
          return false;
      of.begins_as_zero = starts_from_zero(pc);
      if (!of.begins_as_zero) written_ += of.registers;
      accumulators_.push_back(std::move(of));
    }
    return true;
  }

  void visit(uint32_t pc) {
    const Source& s = f_.source[pc];
    if (is_product(s)) return add(pc);
    const bool stays = flow_.is_pure(pc) || s.tokens[0] == "shfl" || s.tokens[0] == "vote";
    if (!stays) return end_stretch();
    for (const uint32_t reg : flow_.access(pc).writes) {
      if (owner_.contains(reg)) return end_stretch();
      last_write_[reg] = pc;
    }
  }

  void add(uint32_t pc) {
    Accumulator& of = accumulators_[number_.at(registers_of(pc))];
    written_ += of.registers;
    const bool may_repeat = written_ < kMostRegisters;
    Key key = key_of(pc, of);
    if (const auto seen = of.seen.find(key); may_repeat && seen != of.seen.end()) {
      gone_.push_back(pc);
      of.now = seen->second;
      return;
    }
    made_.push_back({pc, of.now});
    of.now = made_.size() - 1;
    of.seen[std::move(key)] = of.now;
  }

  Key key_of(uint32_t pc, Accumulator& of) const {
    const Instr& i = f_.code[pc];
    Key key{f_.source[pc].tokens, {}};
    const auto tell = [&](std::optional<uint64_t> bits, const Operand& op) {
      const uint32_t reg = flow_.number_of(op);
      const auto at = last_write_.find(reg);
      key.operands.emplace_back(bits.has_value(), bits.value_or(reg),
                                bits || at == last_write_.end() ? 0 : at->second);
    };
    const unsigned scale_d = wgmma_scale_d(f_.source[pc].has("sp"));
    for (unsigned slot = 1; slot < kMaxOperands && i.op[slot].kind != Operand::Kind::none; ++slot) {
      const Operand& op = i.op[slot];
      if (slot == scale_d && std::exchange(of.begins_as_zero, false))
        tell(0, op);
      else if (op.kind == Operand::Kind::vector)
        for (uint32_t n = op.index; n < op.index + op.count; ++n)
          tell(known_.bits_of_element(pc, n), f_.vectors[n]);
      else if (op.immediate || slot >= Known::kSlots)
        tell(static_cast<uint64_t>(op.displacement), op);
      else
        tell(known_.bits(pc, slot), op);
    }
    return key;
  }

  // What nobody adds to any more is gone, too.
  void end_stretch() {
    std::vector<char> is_wanted(made_.size(), 0);
    for (Accumulator& of : accumulators_) {
      for (size_t at = of.now; at != kFirst; at = made_[at].before) is_wanted[at] = 1;
      of.seen.clear();
      of.now = kFirst;
    }
    if (!gone_.empty())
      for (size_t at = 0; at < made_.size(); ++at)
        if (!is_wanted[at]) gone_.push_back(made_[at].pc);
    std::ranges::for_each(gone_, [&](uint32_t pc) { w_.remove(pc); });
    made_.clear(), gone_.clear(), last_write_.clear();
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const Known& known_;
  std::map<Registers, size_t> number_;       // of accumulators
  std::map<uint32_t, size_t> owner_;         // by a register of theirs
  std::map<uint32_t, uint32_t> last_write_;  // in this stretch, of other registers
  std::vector<Accumulator> accumulators_;
  size_t written_ = 0;      // registers of the values so far
  std::vector<Made> made_;  // in this stretch
  std::vector<uint32_t> gone_;
};

}  // namespace

bool may_repeat_wgmma(const Function& f) { return std::ranges::count_if(f.source, is_product) > 1; }

void forget_repeated_wgmma(Rewriter& w, const Dataflow& flow, const Known& known) {
  Repeated(w, flow, known).forget();
}

}  // namespace fp4lab::emu
