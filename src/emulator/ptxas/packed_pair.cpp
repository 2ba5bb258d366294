#include "emulator/ptxas/packed_pair.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "emulator/ptxas/packed_types.h"
#include "emulator/ptxas/reaching_writes.h"

namespace fp4lab::emu {

namespace {

bool is_conversion_to_pair(const Source& s) {
  return s.tokens[0] == "cvt" && (s.type() == Type::e4m3x2 || s.type() == Type::e5m2x2);
}

bool cuts_byte(const Source& s) {
  return s.tokens[0] == "cvt" && s.type() == Type::u8 &&
         (is_float(s.type(1)) || s.tokens.size() == 3 || s.has("sat"));
}

// Extremes, signs and signed conversions have an instruction of their own behind them that ends in 16 bits.
bool is_integer_in_whole_register(const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {
      "and", "or", "not", "xor", "shl", "shr", "add", "sub", "mul", "mad", "sad", "selp", "slct"};
  const Type to = s.type();
  if (s.tokens[0] == "cvt")
    return cuts_byte(s) || (s.tokens.size() == 3 && (to == Type::u16 || to == Type::s16) &&
                            !is_float(s.type(1)) && (s.type(1) == Type::u8 || bits_of(s.type(1)) == 32));
  return kNames.contains(s.tokens[0]) && (to == Type::u16 || to == Type::s16 || to == Type::b16);
}

// What takes the lower bits of a whole register is no instruction: both names are one register.
bool is_name_of_lower_bits(const Instr& i, const Source& s) {
  return is_integer_cvt(s) && i.guard < 0 && bits_of(s.type(0)) == 16 && bits_of(s.type(1)) == 32 &&
         bits_of(i.op[1].type) == 32 && !i.op[1].immediate;
}

class PackedPairs {
 public:
  PackedPairs(Rewriter& w, const Dataflow& flow, const Known& known)
      : w_(w), f_(w.f), flow_(flow), known_(known), writes_(w.f, flow) {}

  void mistake() {
    find_taken_apart();
    bool any = false;
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      if (flow_.is_dead(pc) || !packs_halves(f_, pc)) continue;
      for (uint32_t n = 0; n + 1 < f_.code[pc].op[1].count; n += 2) any |= mistake_pair(pc, n);
    }
    if (any) w_.rebuild();
  }

 private:
  static constexpr uint32_t kNone = Dataflow::kNone;
  static constexpr uint32_t kFar = 1024;  // nothing further away is looked at: a bound for hostile texts

  // One that stands in a uniform register: any but 0.
  bool reads_constant(uint32_t pc) const {
    return known_.bits(pc, 1).value_or(0) != 0 || known_.bits(pc, 2).value_or(0) != 0;
  }

  uint32_t maker_anywhere(uint32_t pc, const Operand& op) const {
    const uint32_t from = is_value(op) ? writes_.maker(pc, flow_.number_of(op)) : kNone;
    return from < pc ? from : kNone;
  }

  // The maker in the pack's block; `unbroken`: with no branch between.
  uint32_t maker(uint32_t pc, const Operand& op, bool unbroken) const {
    const uint32_t from = maker_anywhere(pc, op);
    if (from == kNone || flow_.block_of(from) != flow_.block_of(pc)) return kNone;
    if (unbroken && pc - from > kFar) return kNone;
    for (uint32_t between = from; unbroken && between < pc; ++between)
      if (flow_.becomes_branch(between)) return kNone;
    return from;
  }

  void find_taken_apart() {
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
      if (f_.source[pc].tokens[0] == "mov" && f_.code[pc].op[0].kind == Operand::Kind::vector &&
          f_.code[pc].guard < 0)
        taken_apart_[maker(pc, f_.code[pc].op[1], /*unbroken=*/false)].push_back(pc);
  }

  // Does something read the bytes before elements n and n + 1 of a pack do? Not to put them below others; and
  // who reads a copy reads them.
  bool is_read_before(uint32_t pair, uint32_t pc, uint32_t n) const {
    std::vector<std::pair<uint32_t, uint32_t>> holders = {{pair, flow_.number_of(f_.code[pair].op[0])}};
    for (uint32_t between = pair + 1; between <= pc; ++between) {
      if (flow_.is_dead(between)) continue;
      bool copies = false;
      for (const auto& [from, reg] : holders) {
        if (std::ranges::find(flow_.access(between).reads, reg) == flow_.access(between).reads.end() ||
            writes_.maker(between, reg) != from)
          continue;
        if (is_copy(between))
          copies = true;
        else if (!puts_below_others(between, reg, between == pc ? n : ~0u))
          return true;
      }
      if (copies) holders.emplace_back(between, flow_.number_of(f_.code[between].op[0]));
    }
    return false;
  }

  bool is_copy(uint32_t pc) const {
    const Instr& i = f_.code[pc];
    return f_.source[pc].tokens[0] == "mov" && i.guard < 0 && is_value(i.op[0]) && is_value(i.op[1]);
  }

  // A pack that has the register in its lower halves alone, of the elements before `end`.
  bool puts_below_others(uint32_t pc, uint32_t reg, uint32_t end) const {
    if (!packs_halves(f_, pc)) return false;
    const Operand& parts = f_.code[pc].op[1];
    for (uint32_t e = 1; e < std::min<uint32_t>(end, parts.count); e += 2)
      if (flow_.number_of(f_.vectors[parts.index + e]) == reg) return false;
    return true;
  }

  // What made an operand of the pack, and in which registers it still is: copies are one.
  std::pair<uint32_t, std::vector<Operand>> held_behind_copies(uint32_t pc, const Operand& op) const {
    std::vector<Operand> names{op};
    uint32_t from = maker_anywhere(pc, op);
    for (unsigned copies = 0; from != kNone && is_copy(from) && copies < kFar; ++copies) {
      const Operand& source = f_.code[from].op[1];
      const uint32_t made = maker_anywhere(from, source);
      if (made != kNone && writes_.maker(pc, flow_.number_of(source)) == made) names.push_back(source);
      from = made;
    }
    return {from, std::move(names)};
  }

  bool mistake_pair(uint32_t pc, uint32_t n) {
    const Operand parts = f_.code[pc].op[1];
    const Operand low = f_.vectors[parts.index + n], high = f_.vectors[parts.index + n + 1];
    const uint32_t pair = maker(pc, low, /*unbroken=*/true);
    const auto [other, names] = held_behind_copies(pc, high);
    if (pair == kNone || other == kNone) return false;
    if (const auto same = packed_.find({pair, other}); same != packed_.end())
      return read_in_place(pc, n + 1, same->second);
    if (!is_conversion_to_pair(f_.source[pair]) || reads_constant(pair) ||
        !is_integer_in_whole_register(f_.source[other]) || is_left_out(other) || is_read_before(pair, pc, n))
      return false;
    // Not the lower bits of a register that comes from another block.
    if (f_.source[other].tokens[0] == "cvt" && flow_.block_of(other) != flow_.block_of(pc)) return false;
    const Operand bytes = w_.fresh(low.type);
    const Operand kept = packed_[{pair, other}] = w_.fresh(high.type);
    w_.insert(pc, {"mov", "b16"}, {kept, high});
    w_.insert(pc, {"mov", "b16"}, {bytes, low});
    for (const Operand& name : names) w_.insert_behind(pc, {"mov", "b16"}, {name, bytes});
    if (is_name_of_lower_bits(f_.code[other], f_.source[other])) become_pack(pc, other, bytes);
    if (is_name_of_byte(other)) w_.insert_behind(pc, {"mov", "b16"}, {f_.code[other].op[1], bytes});
    replace_later(pc, n, bytes);
    // What takes the pack apart again reads the same.
    for (const uint32_t reader : taken_apart_[pc]) {
      const Operand& taken = f_.code[reader].op[0];
      if (taken.count != parts.count) continue;
      if (const Operand& part = f_.vectors[taken.index + n + 1]; is_value(part))
        w_.insert_behind(reader, {"mov", "b16"}, {part, bytes});
    }
    return true;
  }

  // Is it a constant, a copy or a negation, so that no instruction of its own is left of it?
  bool is_left_out(uint32_t pc) const {
    const auto is = [&](unsigned slot, uint16_t value) {
      const auto bits = known_.bits(pc, slot);
      return bits && static_cast<uint16_t>(*bits) == value;
    };
    const auto either_is = [&](uint16_t value) { return is(1, value) || is(2, value); };
    const Source& s = f_.source[pc];
    const std::string_view name = s.tokens[0];
    const bool has_sign = s.type() == Type::s16;
    if (known_.result(pc)) return true;
    if (name == "and")
      return either_is(0) || either_is(0xffff) || f_.code[pc].op[1].offset == f_.code[pc].op[2].offset;
    if (name == "or") return either_is(0xffff);
    if (name == "mul") return either_is(0) || (!has_sign && either_is(1));
    if (name == "mad") return either_is(0) || (!has_sign && either_is(1) && is(3, 0));
    if (name == "shl" || name == "shr")
      return is(1, 0) || (!has_sign && known_.bits(pc, 2) >= std::optional<uint64_t>(16));
    return name == "sub" && is(1, 0);
  }

  // Does it cut a byte again that the pack's register holds alone? Both names are one register then, too.
  bool is_name_of_byte(uint32_t other) const {
    const Instr& i = f_.code[other];
    const Source& s = f_.source[other];
    if (s.tokens[0] != "cvt" || s.tokens.size() != 3 || s.type(1) != Type::u8 || i.guard >= 0) return false;
    const uint32_t byte = bits_of(i.op[1].type) == 16 ? maker(other, i.op[1], /*unbroken=*/false) : kNone;
    return byte != kNone && cuts_byte(f_.source[byte]);
  }

  // The register whose lower bits were packed holds the pack behind it.
  void become_pack(uint32_t pc, uint32_t other, const Operand& bytes) {
    const Operand whole = f_.code[other].op[1];
    const uint32_t reg = flow_.number_of(whole);
    if (pc - other > kFar) return;
    for (uint32_t between = other + 1; between < pc; ++between)
      if (std::ranges::find(flow_.access(between).writes, reg) != flow_.access(between).writes.end()) return;
    const Operand below = w_.fresh(Type::b32), pack = w_.fresh(Type::b32);
    w_.insert(pc, {"cvt", "u32", "u16"}, {below, bytes});
    w_.insert(pc, {"prmt", "b32"}, {pack, below, whole, w_.constant(0x5410)});
    w_.insert_behind(pc, {"mov", "b32"}, {whole, pack});
  }

  // Elements of the same pack that are put together later read the bytes already, but for the same two again.
  void replace_later(uint32_t pc, uint32_t first, const Operand& bytes) {
    const uint32_t index = own_elements(f_, pc), count = f_.code[pc].op[1].count;
    const auto are_same = [&](uint32_t a, uint32_t b) {
      return flow_.number_of(f_.vectors[index + a]) == flow_.number_of(f_.vectors[index + b]);
    };
    for (uint32_t e = first + 2; e < count; ++e) {
      const bool is_again = e % 2 == 1 && are_same(e - 1, first);
      if (are_same(e, first + 1) && !is_again) f_.vectors[index + e] = bytes;
    }
  }

  bool read_in_place(uint32_t pc, uint32_t element, const Operand& other) {
    f_.vectors[own_elements(f_, pc) + element] = other;
    return true;
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  const Known& known_;
  const ReachingWrites writes_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> taken_apart_;  // by pack: where, in its block
  // By those that made the two halves: the upper one, which is one register in all that pack the same.
  std::map<std::pair<uint32_t, uint32_t>, Operand> packed_;
};

}  // namespace

bool has_pairs_of_bytes(const Function& f) { return std::ranges::any_of(f.source, is_conversion_to_pair); }

void mistake_packed_halves(Rewriter& w, const Dataflow& flow, const Known& known) {
  PackedPairs(w, flow, known).mistake();
}

}  // namespace fp4lab::emu
