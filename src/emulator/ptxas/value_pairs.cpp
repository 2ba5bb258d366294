// Which loads ptxas 13.0 makes one of: two of 64 bits that lie beside one another in 16 bytes, so aligned for
// all that the text shows. That is seen where stores are forwarded, behind the joining of what is equal: the
// second of the two becomes a part of the first one's vector, and its operand comes where a stored word's
// does, if it does not become part of a variable.
//
// An address is so aligned if it is a multiple by itself, of a variable in shared or local memory or of what
// ends in zeros, or if the block that makes its register loads or stores a whole vector of 16 bytes by it.
#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/memory_states.h"
#include "emulator/ptxas/rewrite.h"
#include "emulator/ptxas/value_order.h"

namespace fp4lab::emu {

namespace {

using Kind = Ssa::Value::Kind;

constexpr unsigned kVectorBytes = 16, kWordBytes = kVectorBytes / 2;
constexpr unsigned kAllZeros = 64;

unsigned zeros_at_end(uint64_t bits) { return static_cast<unsigned>(std::countr_zero(bits)); }

// A constant, or a variable's place.
std::optional<uint64_t> number_at(const Function& f, const Known& known, uint32_t pc, unsigned slot) {
  const auto bits = known.bits(pc, slot);
  return bits ? bits : known.shared_address(f.code[pc].op[slot]);
}

bool is_integer_step(const Instr& i, const Source& s) {
  return i.guard < 0 && !is_float(s.type()) && !s.has("cc") && !reads_carry(s) && !s.has("sat");
}

// What it loads or stores, unguarded; 0 for others.
unsigned bytes_accessed(const Instr& i, const Source& s) {
  const bool loads = s.tokens[0] == "ld";
  if (i.guard >= 0 || (!loads && s.tokens[0] != "st")) return 0;
  const Operand& data = i.op[loads ? 0 : 1];
  const unsigned words = data.kind == Operand::Kind::vector ? data.count : 1;
  return words * bits_of(s.type()) / 8;
}

// A function's local memory is as aligned as the most aligned of its variables.
bool has_aligned_frame(const Function& f) {
  return std::ranges::any_of(f.variables, [](const Symbol& variable) {
    return variable.space == Space::local && variable.align >= kVectorBytes;
  });
}

// One word, which nothing else says more about than where it may be cached.
bool may_be_paired(const Instr& i, const Source& s) {
  return s.tokens[0] == "ld" && i.guard < 0 && bits_of(s.type()) == 64 && !s.has("volatile") &&
         !s.has("relaxed") && !s.has("acquire") && !s.has("mmio") && !s.has("param") && !s.has("param::func");
}

}  // namespace

// How many zeros a value ends in for sure, as sums, products, shifts and logic show it, on all ways.
unsigned ValueOrder::zeros_of(uint32_t v, const Known& known, Walk& walk) {
  constexpr unsigned kMostSteps = 256;
  if (v == Ssa::kNone || ++walk.steps > kMostSteps) return 0;
  if (std::ranges::find(walk.path, v) != walk.path.end()) return kAllZeros;  // a loop's own
  const Ssa::Value& value = ssa_.values()[v];
  walk.path.push_back(v);
  unsigned zeros = 0;
  if (value.kind == Kind::made) {
    zeros = zeros_made_by(value.at, known, walk);
  } else if (!value.operands.empty()) {
    zeros = kAllZeros;
    for (const uint32_t from : value.operands) zeros = std::min(zeros, zeros_of(from, known, walk));
  }
  walk.path.pop_back();
  return zeros;
}

unsigned ValueOrder::zeros_made_by(uint32_t pc, const Known& known, Walk& walk) {
  const Instr& i = f_.code[pc];
  const Source& s = f_.source[pc];
  const std::string_view name = s.tokens[0];
  const auto zeros = [&](unsigned slot) {
    if (const auto bits = number_at(f_, known, pc, slot)) return zeros_at_end(*bits);
    const uint32_t reg = is_value(i.op[slot]) ? flow_.number_of(i.op[slot]) : Dataflow::kNone;
    return reg != Dataflow::kNone && ssa_.knows(reg) ? zeros_of(ssa_.read(pc, reg), known, walk) : 0;
  };
  if (name == "cvta") return s.has("local") ? 0 : zeros(1);
  if (s.has("cc") || reads_carry(s) || s.has("sat") || s.has("hi") || is_float(s.type())) return 0;
  if (name == "mov" || (name == "cvt" && !is_float(s.type(1)))) return zeros(1);
  if (name == "add" || name == "sub" || name == "or" || name == "xor") return std::min(zeros(1), zeros(2));
  if (name == "selp") return std::min(zeros(1), zeros(2));
  if (name == "and") return std::max(zeros(1), zeros(2));
  if (name == "mul") return zeros(1) + zeros(2);
  if (name == "mad") return std::min(zeros(1) + zeros(2), zeros(3));
  if (name != "shl") return 0;
  const auto by = known.bits(pc, 2);
  return by && *by < kAllZeros ? zeros(1) + static_cast<unsigned>(*by) : zeros(1);
}

// An address' register or none, behind copies and sums with constants, and how far behind that.
ValueOrder::Address ValueOrder::address_behind_sums(uint32_t pc, const Operand& op, const Known& known) {
  Address at{Ssa::kNone, static_cast<uint64_t>(op.displacement)};
  uint32_t reg = op.has_base ? flow_.number_of_base(op) : Dataflow::kNone;
  while (reg != Dataflow::kNone && ssa_.knows(reg)) {
    at.base = ssa_.read(pc, reg);
    if (at.base == Ssa::kNone) break;
    const Ssa::Value& value = ssa_.values()[at.base];
    if (value.kind != Kind::made) break;
    pc = value.at;
    const Instr& i = f_.code[pc];
    const Source& s = f_.source[pc];
    unsigned from = 0;  // the operand that the address is on with
    if (is_copy(pc)) {
      from = 1;
    } else if (is_integer_step(i, s) && (s.tokens[0] == "add" || s.tokens[0] == "sub")) {
      for (const unsigned slot : {1u, 2u}) {
        const auto bits = known.bits(pc, slot);
        if (!bits || (slot == 1 && s.tokens[0] == "sub")) continue;
        at.offset += s.tokens[0] == "sub" ? -*bits : *bits;
        from = 3 - slot;
        break;
      }
    }
    if (from == 0) break;
    reg = is_value(i.op[from]) ? flow_.number_of(i.op[from]) : Dataflow::kNone;
    if (reg != Dataflow::kNone) continue;
    at.base = Ssa::kNone;
    at.offset += number_at(f_, known, pc, from).value_or(1);  // or not aligned at all
  }
  return at;
}

// What reaches anything that does more than compute, by ways that comparisons leave open.
std::vector<char> ValueOrder::wanted_values(const Known& known) {
  const std::vector<Ssa::Value>& values = ssa_.values();
  std::vector<char> wanted(values.size(), 0);
  std::vector<uint32_t> more;
  const auto want = [&](uint32_t v) {
    if (v != Ssa::kNone && !std::exchange(wanted[v], 1)) more.push_back(v);
  };
  const auto want_operands = [&](uint32_t pc) {
    if (known.outcome(pc)) return;
    const Operand* unwanted = nullptr;  // of a selection
    if (f_.source[pc].tokens[0] == "selp") {
      const uint32_t by = known.maker(pc, 3);
      const Operand& predicate = f_.code[pc].op[3];
      if (const auto holds = by == Dataflow::kNone ? std::nullopt : known.outcome(by)) {
        const bool is_first = flow_.number_of(f_.code[by].op[0]) == flow_.number_of(predicate);
        unwanted = &f_.code[pc].op[(*holds == is_first) != predicate.negated ? 2 : 1];
      }
    }
    const uint32_t left =
        unwanted != nullptr && is_value(*unwanted) ? flow_.number_of(*unwanted) : Ssa::kNone;
    for (const uint32_t reg : flow_.access(pc).reads)
      if (ssa_.knows(reg) && reg != left) want(ssa_.read(pc, reg));
  };
  std::vector<uint32_t> kept;  // what local memory keeps for loads that are wanted
  const auto stores_own = [&](uint32_t pc) {
    return f_.source[pc].tokens[0] == "st" && f_.source[pc].has("local");
  };
  const bool any_generic = std::ranges::any_of(f_.source, may_be_generic);
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    if (flow_.is_dead(pc) || flow_.is_pure(pc)) continue;
    if (stores_own(pc) && !any_generic)
      kept.push_back(pc);
    else
      want_operands(pc);
  }
  while (!more.empty()) {
    const Ssa::Value& value = values[more.back()];
    more.pop_back();
    for (const uint32_t from : value.operands) want(from);
    if (value.kind != Kind::made && value.kind != Kind::kept) continue;
    want_operands(value.at);
    if (f_.source[value.at].tokens[0] == "ld" && f_.source[value.at].has("local"))
      for (const uint32_t pc : std::exchange(kept, {})) want_operands(pc);
  }
  return wanted;
}

// Those that show how a register is aligned.
std::vector<ValueOrder::Access> ValueOrder::vector_accesses(const Known& known,
                                                            const std::vector<char>& wanted) {
  std::vector<char> is_read(f_.code.size(), 0);
  for (uint32_t v = 0; v < wanted.size(); ++v)
    if (ssa_.values()[v].kind == Kind::made && wanted[v]) is_read[ssa_.values()[v].at] = 1;
  std::vector<Access> all;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const Source& s = f_.source[pc];
    const bool loads = s.tokens[0] == "ld";
    const unsigned bytes = bytes_accessed(f_.code[pc], s);
    if (bytes < kWordBytes || (loads && !is_read[pc])) continue;
    const Address at = address_behind_sums(pc, f_.code[pc].op[loads ? 1 : 0], known);
    if (at.base == Ssa::kNone || is_bank(at.base)) continue;
    if (block_of(ssa_.values()[at.base]) == blocks_.reads[pc]) all.push_back({at, bytes});
  }
  return all;
}

ValueOrder::Vectors ValueOrder::vectors_in_memory(const Known& known) {
  const bool loads_any = std::ranges::any_of(f_.source, [](const Source& s) { return s.tokens[0] == "ld"; });
  if (!loads_any) return {};
  Vectors vectors{wanted_values(known), {}};
  vectors.at = vector_accesses(known, vectors.wanted);
  return vectors;
}

bool ValueOrder::is_aligned(const Address& at, unsigned bytes, const Vectors& vectors, const Known& known) {
  if (at.base == Ssa::kNone) return at.offset % bytes == 0;
  Walk walk;
  if (at.offset % bytes == 0 && zeros_of(at.base, known, walk) >= zeros_at_end(bytes)) return true;
  return std::ranges::any_of(vectors.at, [&](const Access& vector) {
    return vector.bytes >= bytes && vector.at.base == at.base && (at.offset - vector.at.offset) % bytes == 0;
  });
}

// Where a vector is known to be aligned, its words are what loads and stores of one word are.
bool ValueOrder::is_vector_of_words(uint32_t pc, const Operand& data, const Operand& at,
                                    const Vectors& vectors, const Known& known) {
  const unsigned bytes = bytes_accessed(f_.code[pc], f_.source[pc]);
  return data.kind == Operand::Kind::vector && bits_of(f_.source[pc].type()) >= 32 && bytes <= kVectorBytes &&
         bytes > 0 && is_aligned(address_behind_sums(pc, at, known), bytes, vectors, known);
}

// `loads`: those that no other one came before, in the text's order.
void ValueOrder::find_pairs(const std::vector<Load>& loads, const Vectors& vectors, const Known& known) {
  if (loads.size() < 2) return;
  const bool is_frame_aligned = has_aligned_frame(f_);
  std::map<std::tuple<std::vector<std::string_view>, uint32_t, uint32_t, uint64_t>, std::vector<uint32_t>>
      words;  // the values, by operation, state, and address
  for (const Load& load : loads) {
    const uint32_t pc = ssa_.values()[load.value].at;
    const Source& s = f_.source[pc];
    if (!vectors.wanted[load.value] || !may_be_paired(f_.code[pc], s)) continue;
    if (s.has("local") && !is_frame_aligned) continue;
    Address at = address_behind_sums(pc, f_.code[pc].op[1], known);
    if (f_.code[pc].op[0].kind == Operand::Kind::vector) at.offset += nth_result(load.value) * kWordBytes;
    const auto is_beside = [&](uint64_t offset) {
      const auto found = words.find({load.operation, load.state, at.base, offset});
      if (found == words.end() ||
          !is_aligned({at.base, std::min(offset, at.offset)}, kVectorBytes, vectors, known))
        return false;
      return std::ranges::any_of(found->second, [&](uint32_t first) {
        return ssa_.dominates(blocks_.flow[ssa_.values()[first].at], blocks_.flow[pc]);
      });
    };
    const bool is_second = is_beside(at.offset + kWordBytes) || is_beside(at.offset - kWordBytes);
    if (is_second && !meets_[load.value])
      forwarded_.emplace(load.value, Stored{pc, 0, nullptr});
    else
      words[{load.operation, load.state, at.base, at.offset}].push_back(load.value);
  }
}

}  // namespace fp4lab::emu
