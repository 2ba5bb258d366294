#include "emulator/ptxas/late_constant.h"

#include <algorithm>
#include <array>

#include "emulator/ptxas/any_instruction.h"
#include "emulator/ptxas/behind_copies.h"

namespace fp4lab::emu {

namespace {

constexpr unsigned kDeepest = 8;   // instructions one after the other
constexpr unsigned kShuffled = 2;  // the operand of shfl: 0 is the result, 1 a predicate

bool is_plain_shuffle(const Instr& i, const Source& s) {
  return s.tokens[0] == "shfl" && i.guard < 0 && is_value(i.op[0]) && i.op[1].kind == Operand::Kind::none;
}

// On sm_90 it is two products of f16, of the lower and of the upper halves of the operands' registers.
bool unpacks_bytes(const Source& s) {
  return s.tokens[0] == "mma" && std::ranges::any_of(std::array{s.type(1), s.type(2)}, [](Type t) {
           return t == Type::e4m3 || t == Type::e5m2;
         });
}

// What `maker`, which made what another instruction reads, gives where that is a constant by way of shuffles
// alone.
std::optional<uint32_t> shuffled_constant(const Function& f, const Known& known, uint32_t maker,
                                          unsigned depth = 0) {
  if (maker == Dataflow::kNone || depth >= kDeepest) return std::nullopt;
  const bool is_shuffle = is_plain_shuffle(f.code[maker], f.source[maker]);
  if (!is_shuffle && !is_copy(f.code[maker], f.source[maker])) return std::nullopt;
  const unsigned slot = is_shuffle ? kShuffled : 1;
  if (is_shuffle)
    if (const auto bits = known.bits(maker, slot)) return static_cast<uint32_t>(*bits);
  return shuffled_constant(f, known, known.maker(maker, slot), depth + 1);
}

}  // namespace

Literals::Literals(const Function& f) {
  constexpr uint32_t kAllLanes = 0xffffffff;
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    if (f.source[pc].has("param")) continue;  // in a bank
    for (const Operand& op : f.code[pc].op) add(f, op);
    const std::string_view name = f.source[pc].tokens[0];
    if (name == "mma" || name == "bar" || name == "barrier") add_word(kAllLanes);
  }
}

void Literals::add(const Function& f, const Operand& op) {
  if (is_vector(op)) {
    for (uint32_t n = 0; n < op.count; ++n) add(f, f.vectors[op.index + n]);
  } else if (op.kind == Operand::Kind::address) {
    if (op.has_base) add_word(static_cast<uint32_t>(op.displacement));
  } else if (is_value(op) && op.immediate) {
    const auto bits = static_cast<uint64_t>(op.displacement);
    bits_of(op.type) == 64 ? add_pair(bits) : add_word(static_cast<uint32_t>(bits));
  }
}

void Literals::add_word(uint32_t word) {
  if (std::ranges::find(words_, word) == words_.end()) words_.push_back(word);
}

// 64 bits are two words, one behind the other.
void Literals::add_pair(uint64_t bits) {
  const std::array pair{static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
  // Not std::ranges::search, whose result clang 14, the fuzzers' compiler, cannot read in GCC's library.
  if (std::search(words_.begin(), words_.end(), pair.begin(), pair.end()) == words_.end())
    words_.insert(words_.end(), pair.begin(), pair.end());
}

std::optional<uint32_t> Literals::behind(uint32_t word) const {
  const auto at = std::ranges::find(words_, word);
  if (at == words_.end() || at + 1 == words_.end()) return std::nullopt;
  return at[1];
}

bool may_shuffle_constants(const Function& f) {
  return has_mnemonic(f, "shfl") && (has_mnemonic(f, "mma") || has_mnemonic(f, "wgmma"));
}

void move_shuffled_constants(Rewriter& w, const Known& known, const Literals& literals) {
  Function& f = w.f;
  const auto unpack = [&](uint32_t pc, const Operand& operand) {
    for (uint32_t n = operand.index; n < operand.index + operand.count; ++n) {
      const auto constant = shuffled_constant(f, known, known.maker_of_element(pc, n));
      const auto behind = constant ? literals.behind(*constant) : std::nullopt;
      if (behind) f.vectors[n] = w.constant((*constant & 0xffff) | *behind << 16);
    }
  };
  for (uint32_t pc = 0; pc < f.code.size(); ++pc)
    if (unpacks_bytes(f.source[pc]))
      for (const unsigned slot : {1u, 2u})
        if (is_vector(f.code[pc].op[slot])) unpack(pc, f.code[pc].op[slot]);
  for (uint32_t pc = 0; pc < f.code.size(); ++pc)
    if (is_plain_shuffle(f.code[pc], f.source[pc]))
      if (const auto constant = shuffled_constant(f, known, pc))
        w.replace(pc, {"mov", "b32"}, {w.constant(*constant)});
}

}  // namespace fp4lab::emu
