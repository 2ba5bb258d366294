#include "emulator/ptxas/unpacked_word.h"

#include <algorithm>

namespace fp4lab::emu {

namespace {

constexpr unsigned kDeepest = 8;  // instructions one after the other
constexpr uint32_t kNone = Dataflow::kNone;

bool is_copy(const Instr& i, const Source& s) {
  return s.tokens[0] == "mov" && is_value(i.op[0]) && is_no_constant(i.op[1]);
}
bool unpacks(const Instr& i, const Source& s) {
  return s.tokens[0] == "mov" && is_vector(i.op[0]) && is_no_constant(i.op[1]);
}
bool is_load(const Source& s) { return s.tokens[0] == "ld" || s.tokens[0] == "ldu"; }
bool extends_sign(const Source& s) { return s.type() == Type::s8 || s.type() == Type::s16; }

// The lower 16 bits of a 64-bit integer.
bool narrows(const Instr& i, const Source& s) {
  return is_integer_cvt(s) && bits_of(s.type(0)) == 16 && bits_of(s.type(1)) == 64 && is_no_constant(i.op[1]);
}

unsigned part_bits(const Instr& i) { return bits_of(i.op[1].type) / i.op[0].count; }

bool is_pair(Type type) { return type == Type::f16x2 || type == Type::bf16x2; }

}  // namespace

std::vector<uint32_t> UnpackedWords::registers(const Function& f, const Dataflow& flow) {
  std::vector<uint32_t> found;
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    const Instr& i = f.code[pc];
    const Source& s = f.source[pc];
    if (s.tokens[0] != "mov" && !is_load(s) && !narrows(i, s)) continue;
    if (is_vector(i.op[0]))
      for (unsigned n = 0; n < i.op[0].count; ++n)
        found.push_back(flow.number_of(f.vectors[i.op[0].index + n]));
    for (unsigned k : {0, 1})
      if (is_no_constant(i.op[k])) found.push_back(flow.number_of(i.op[k]));
  }
  return found;
}

UnpackedWords::UnpackedWords(Rewriter& w, const Dataflow& flow, const Ssa& ssa, const Known& known)
    : w_(w), f_(w.f), flow_(flow), ssa_(ssa), known_(known) {
  for (uint32_t n = 0; n < ssa.values().size(); ++n) {
    const Ssa::Value& v = ssa.values()[n];
    if (v.kind == Ssa::Value::Kind::made) made_[{v.at, v.reg}] = n;
    for (const uint32_t of : v.operands) readers_[of].push_back(kNone);
  }
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    if (!flow.is_dead(pc))
      for (const uint32_t reg : flow.access(pc).reads)
        if (const uint32_t value = ssa.read(pc, reg); value != Ssa::kNone) readers_[value].push_back(pc);
}

std::optional<Operand> UnpackedWords::word(uint32_t value) {
  const Ssa::Value& v = ssa_.values()[value];
  const Instr& i = f_.code[v.at];
  const Source& s = f_.source[v.at];
  if (is_load(s)) return loaded(v);
  const bool is_part = unpacks(i, s) && part_bits(i) == 16;
  if ((!is_part && !narrows(i, s)) || known_.bits(v.at, 1)) return std::nullopt;
  const unsigned n = is_part ? part_of(v.at, v.reg) : 0;
  if (n == 1 && i.op[0].count == 2) return mistaken(v);
  if (n % 2 != 0 || may_be_half(read(v.at), 16 * n, 0)) return std::nullopt;
  return taken(v.at, i.op[1], n / 2);
}

// What a load that need not be repeated has put there.
std::optional<Operand> UnpackedWords::loaded(const Ssa::Value& v) {
  const Instr& i = f_.code[v.at];
  const Source& s = f_.source[v.at];
  const unsigned n = is_vector(i.op[0]) ? part_of(v.at, v.reg) : 0;
  const bool is_byte = s.type() == Type::s8;
  if (!is_byte && (!is_vector(i.op[0]) || bits_of(s.type()) != 16 || n % 2 != 0 || !brings_more(v.at, v.reg)))
    return std::nullopt;
  Rewriter::Tokens tokens = s.tokens;
  std::erase_if(tokens, [](std::string_view token) { return token == "v2" || token == "v4"; });
  if (!is_byte) tokens.back() = "b32";
  Operand address = i.op[1];
  address.displacement += n * (bits_of(s.type()) / 8);
  const Operand result = w_.fresh(Type::b32);
  w_.insert(v.at, std::move(tokens), {result, address});
  return result;
}

// Of a load that extends 8 or 16 bits, and of which the upper half alone is read, ptxas takes bits 0 to 15
// for that half (narrow_load.h): they stay in the word, below the sign.
std::optional<Operand> UnpackedWords::mistaken(const Ssa::Value& upper) {
  const uint32_t word = read(upper.at);
  if (word == kNone || ssa_.values()[word].kind != Ssa::Value::Kind::made) return std::nullopt;
  const uint32_t load = ssa_.values()[word].at;
  const Source& s = f_.source[load];
  if (!is_load(s) || !is_value(f_.code[load].op[0]) || !extends_sign(s) || f_.code[load].guard >= 0 ||
      flow_.is_in_bank(load))
    return std::nullopt;
  const auto is_upper = [&](uint32_t pc) { return pc == upper.at; };
  const Operand& lower = f_.vectors[f_.code[upper.at].op[0].index];
  if (is_used(upper.at, lower) || !std::ranges::all_of(readers_[word], is_upper)) return std::nullopt;
  const Operand result = w_.fresh(Type::b32);
  w_.insert(load, s.tokens, {result, f_.code[load].op[1]});
  return result;
}

// The nth word of a register, before the instruction at pc.
Operand UnpackedWords::taken(uint32_t pc, const Operand& from, unsigned n) {
  const Operand result = w_.fresh(Type::b32);
  if (bits_of(from.type) == 32) {
    w_.insert(pc, {"mov", "b32"}, {result, from});
    return result;
  }
  Operand shifted = from;
  if (n > 0) {
    shifted = w_.fresh(Type::b64);
    w_.insert(pc, {"shr", "b64"}, {shifted, from, w_.constant(32, Type::u32)});
  }
  w_.insert(pc, {"cvt", "u32", "u64"}, {result, shifted});
  return result;
}

// Whether only the 16 bits from `low` on may be in a register, or what is above them is not known.
bool UnpackedWords::may_be_half(uint32_t value, unsigned low, unsigned depth) const {
  if (value == kNone || depth >= kDeepest) return true;
  const Ssa::Value& v = ssa_.values()[value];
  if (v.kind != Ssa::Value::Kind::made) return true;
  const Instr& i = f_.code[v.at];
  const Source& s = f_.source[v.at];
  if (is_copy(i, s)) return may_be_half(read(v.at), low, depth + 1);
  if (unpacks(i, s)) return may_be_half(read(v.at), low + part_of(v.at, v.reg) * part_bits(i), depth + 1);
  if (is_load(s)) {
    if (extends_sign(s)) return false;
    return !brings_more(v.at, v.reg) && is_only_read(value, low, depth + 1);
  }
  const bool packs = s.tokens[0] == "mov" && is_vector(i.op[1]);
  return packs || is_pair(s.type(0)) || is_pair(s.type(1));
}

// What a load brings besides one register of a vector. Constant banks are read once for each, and volatile
// vectors of more than 32 bits as the text says.
bool UnpackedWords::brings_more(uint32_t pc, uint32_t reg) const {
  const Operand& parts = f_.code[pc].op[0];
  const Source& s = f_.source[pc];
  if (!is_vector(parts) || s.has("const") || s.has("param") || s.has("param::entry")) return false;
  if (s.has("volatile") && bits_of(s.type()) * parts.count > 32) return true;
  for (unsigned n = 0; n < parts.count; ++n) {
    const Operand& part = f_.vectors[parts.index + n];
    if (flow_.number_of(part) != reg && is_used(pc, part)) return true;
  }
  return false;
}

bool UnpackedWords::is_only_read(uint32_t value, unsigned low, unsigned depth) const {
  const auto readers = readers_.find(value);
  return readers == readers_.end() ||
         std::ranges::all_of(readers->second, [&](uint32_t pc) { return is_only_read_by(pc, low, depth); });
}

bool UnpackedWords::is_only_read_by(uint32_t pc, unsigned low, unsigned depth) const {
  if (pc == kNone || f_.code[pc].guard >= 0 || depth >= kDeepest) return false;
  const Instr& i = f_.code[pc];
  const Source& s = f_.source[pc];
  if (narrows(i, s)) return low == 0;
  if (is_copy(i, s)) return is_only_read(made(pc, i.op[0]), low, depth + 1);
  if (!unpacks(i, s)) return false;
  const unsigned bits = part_bits(i);
  for (unsigned n = 0; n < i.op[0].count; ++n) {
    const Operand& part = f_.vectors[i.op[0].index + n];
    if (!is_used(pc, part)) continue;
    if (low < n * bits || low + 16 > (n + 1) * bits) return false;
    if (bits > 16 && !is_only_read(made(pc, part), low - n * bits, depth + 1)) return false;
  }
  return true;
}

bool UnpackedWords::is_used(uint32_t pc, const Operand& element) const {
  const uint32_t value = is_value(element) ? made(pc, element) : kNone;
  return value != kNone && readers_.contains(value);
}

uint32_t UnpackedWords::made(uint32_t pc, const Operand& op) const {
  const auto found = made_.find({pc, flow_.number_of(op)});
  return found == made_.end() ? kNone : found->second;
}

// Which element of what the instruction at pc writes the register is.
unsigned UnpackedWords::part_of(uint32_t pc, uint32_t reg) const {
  const Operand& parts = f_.code[pc].op[0];
  unsigned n = 0;
  while (n + 1 < parts.count && flow_.number_of(f_.vectors[parts.index + n]) != reg) ++n;
  return n;
}

}  // namespace fp4lab::emu
