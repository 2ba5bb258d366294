#include "emulator/ptxas/whole_register.h"

#include <algorithm>
#include <unordered_set>

namespace fp4lab::emu {

namespace {

constexpr unsigned kDeepest = 8;  // instructions one after the other

bool is_of_16_bits(const Operand& op) { return is_value(op) && bits_of(op.type) == 16; }

// Those of 16 bits, and others that these may be the lower halves of.
std::vector<uint32_t> known_registers(const Function& f, const Dataflow& flow) {
  std::vector<uint32_t> registers = UnpackedWords::registers(f, flow);
  for (const Instr& i : f.code)
    if (is_of_16_bits(i.op[0])) registers.push_back(flow.number_of(i.op[0]));
  std::sort(registers.begin(), registers.end());
  registers.erase(std::unique(registers.begin(), registers.end()), registers.end());
  std::erase(registers, Dataflow::kNone);
  return registers;
}

// min and max of a value and itself, which is the value: with .ftz, what one instruction has made of it for
// 16 bits alone.
bool is_of_itself(const Instr& i, const Source& s) {
  return (s.tokens[0] == "min" || s.tokens[0] == "max") && s.type() == Type::f16 && !s.has("NaN") &&
         !s.has("xorsign") && is_no_constant(i.op[1]) && is_no_constant(i.op[2]) &&
         i.op[1].offset == i.op[2].offset && !is_value(i.op[3]);
}

// It is computed for two values at once, both of which are the same.
bool is_twice(const Instr& i, const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {"add", "sub", "mul", "fma", "min", "max"};
  const auto is_half = [](Type type) { return type == Type::f16 || type == Type::bf16; };
  if (s.tokens[0] == "set") return bits_of(s.type()) == 16 && is_half(s.type(1));
  if (!is_half(s.type()) || is_of_itself(i, s)) return false;
  if (s.tokens[0] == "cvt") return s.has("sat") && s.type(0) == Type::f16 && s.type(1) == Type::f16;
  return kNames.contains(s.tokens[0]);
}

// A load of 16 bits that puts their sign above them.
bool loads_sign(const Instr& i, const Source& s) {
  return s.tokens[0] == "ld" && s.type() == Type::s16 && is_value(i.op[0]);
}

bool is_move(const Instr& i, const Source& s) {
  return (s.tokens[0] == "mov" && is_of_16_bits(i.op[1])) || (is_of_itself(i, s) && !s.has("ftz"));
}

}  // namespace

WholeRegisters::WholeRegisters(Rewriter& w, const Dataflow& flow, const Known& known)
    : w_(w),
      f_(w.f),
      flow_(flow),
      known_(known),
      ssa_(w.f, flow, known_registers(w.f, flow)),
      words_(w, flow, ssa_, known) {
  for (const Ssa::Value& v : ssa_.values()) {
    if (v.kind == Ssa::Value::Kind::kept) old_[v.at] = v.operands[0];
    for (const uint32_t of : v.operands) readers_[of].push_back(v.at);
  }
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    if (flow.is_dead(pc)) continue;
    const bool stores = f_.source[pc].tokens[0] == "st" || f_.source[pc].tokens[0] == "cvt";
    for (const uint32_t reg : flow.access(pc).reads) {
      const uint32_t value = ssa_.read(pc, reg);
      if (value == Ssa::kNone) continue;
      if (stores)
        stored_.insert(value);
      else
        readers_[value].push_back(pc);
    }
  }
}

bool WholeRegisters::is_read_elsewhere(uint32_t value, uint32_t reader) const {
  const auto readers = readers_.find(value);
  return readers != readers_.end() && std::any_of(readers->second.begin(), readers->second.end(),
                                                  [&](uint32_t pc) { return pc != reader; });
}

std::optional<WholeRegisters::Found> WholeRegisters::found_by(uint32_t pc, bool copies, bool has_other_arm) {
  const auto old = old_.find(pc);
  if (old == old_.end()) return std::nullopt;
  uint32_t value = old->second, reader = pc;
  for (unsigned depth = 0; depth < kDeepest; ++depth) {
    const Ssa::Value& v = ssa_.values()[value];
    const bool is_guarded = v.kind == Ssa::Value::Kind::kept;
    if (v.kind != Ssa::Value::Kind::made && !is_guarded) return std::nullopt;
    if ((copies || is_guarded) && stored_.contains(value) && is_twice(f_.code[v.at], f_.source[v.at]))
      return std::nullopt;
    if (!is_move(f_.code[v.at], f_.source[v.at]) || f_.code[v.at].op[1].immediate) {
      if (!is_guarded && loads_sign(f_.code[v.at], f_.source[v.at])) {
        const Operand whole = w_.fresh(Type::b32);
        w_.insert_unguarded(pc, {"cvt", "s32", "s16"}, {whole, f_.code[pc].op[0]});
        return Found{whole, pc};
      }
      const bool is_arm = is_guarded && has_other_arm;
      const auto found = is_arm ? whole_of_guarded(value, reader, 0) : whole(value, reader, 0);
      return found ? std::optional(Found{*found, v.at, is_arm}) : std::nullopt;
    }
    if (is_guarded) return std::nullopt;
    reader = v.at;
    value = ssa_.read(v.at, flow_.number_of(f_.code[v.at].op[1]));
    if (value == Ssa::kNone) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Operand> WholeRegisters::whole(uint32_t value, uint32_t reader, unsigned depth) {
  const Ssa::Value& v = ssa_.values()[value];
  if (v.kind != Ssa::Value::Kind::kept) return whole_of_unguarded(value, reader, depth);
  const auto made = whole_of_guarded(value, reader, depth);
  if (!made) return std::nullopt;
  const Instr& i = f_.code[v.at];
  const Operand result = w_.fresh(Type::b32);
  if (const auto kept = whole(v.operands[0], v.at, depth + 1))
    w_.insert_unguarded(v.at, {"mov", "b32"}, {result, *kept});
  else
    w_.insert_unguarded(v.at, {"cvt", "u32", "u16"}, {result, i.op[0]});
  w_.insert_guarded(v.at, {"mov", "b32"}, {result, *made});
  return result;
}

// Where the guard is true.
std::optional<Operand> WholeRegisters::whole_of_guarded(uint32_t value, uint32_t reader, unsigned depth) {
  if (depth >= kDeepest || is_read_elsewhere(value, reader)) return std::nullopt;
  const uint32_t pc = ssa_.values()[value].at;
  if (f_.source[pc].tokens[0] == "set") return std::nullopt;  // or converted, too
  return is_twice(f_.code[pc], f_.source[pc]) ? twice(pc) : made_whole(pc, depth);
}

std::optional<Operand> WholeRegisters::whole_of_unguarded(uint32_t value, uint32_t reader, unsigned depth) {
  const Ssa::Value& v = ssa_.values()[value];
  if (v.kind != Ssa::Value::Kind::made || f_.code[v.at].guard >= 0 || depth >= kDeepest) return std::nullopt;
  if (const auto word = words_.word(value)) return word;
  if (!is_twice(f_.code[v.at], f_.source[v.at])) return made_whole(v.at, depth);
  if (is_read_elsewhere(value, reader)) return std::nullopt;
  return twice(v.at);
}

Operand WholeRegisters::twice(uint32_t pc) {
  const Operand one = repeated(pc), both = w_.fresh(Type::b32);
  Operand halves;
  halves.kind = Operand::Kind::vector;
  halves.type = Type::b16;
  halves.index = static_cast<uint32_t>(f_.vectors.size());
  halves.count = 2;
  f_.vectors.insert(f_.vectors.end(), 2, one);
  w_.insert(pc, {"mov", "b32"}, {both, halves});
  return both;
}

bool WholeRegisters::is_of_constants(uint32_t pc) const {
  for (unsigned slot = 1; slot < kMaxOperands && f_.code[pc].op[slot].kind != Operand::Kind::none; ++slot)
    if (!known_.bits(pc, slot)) return false;
  return true;
}

// What an integer instruction makes.
std::optional<Operand> WholeRegisters::made_whole(uint32_t pc, unsigned depth) {
  const Source& s = f_.source[pc];
  const std::string_view name = s.tokens[0];
  const Constant by_type = s.type() == Type::s16 ? Constant::extends_sign : Constant::extends_zeros;
  const auto of = [&](unsigned slot, Constant constant) { return operand(pc, slot, constant, depth + 1); };
  const size_t words = s.tokens.size();
  if (name == "cvt" && s.has("sat") && s.type(0) == Type::s16 &&
      (s.type(1) == Type::s32 || s.type(1) == Type::s64))
    return computed(pc, {"cvt", "s32", "s16"}, {repeated(pc)});
  if (name == "cvt") {
    const bool narrows = words == 3 && bits_of(s.type(0)) == 16 && bits_of(s.type(1)) == 32 &&
                         !is_float(s.type(0)) && !is_float(s.type(1)) && !known_.bits(pc, 1);
    if (!narrows) return std::nullopt;
    return computed(pc, {"mov", "b32"}, {f_.code[pc].op[1]});
  }
  if (is_float(s.type()) || bits_of(s.type()) != 16) return std::nullopt;
  if (s.type() == Type::s16 && is_of_constants(pc))
    return computed(pc, {"cvt", "s32", "s16"}, {repeated(pc)});
  if (name == "add" && words == 2) return computed(pc, {"add", "s32"}, {of(1, by_type), of(2, by_type)});
  if (name == "sub" && words == 2) return difference(pc, depth);
  const auto extended = [&](unsigned slot) { return this->extended(pc, slot); };
  if (name == "mul" && s.has("lo")) return computed(pc, {"mul", "lo", "s32"}, {extended(1), extended(2)});
  if (name == "mad" && s.has("lo"))
    return computed(pc, {"mad", "lo", "s32"}, {extended(1), extended(2), extended(3)});
  if (name == "shl") return computed(pc, {"shl", "b32"}, {of(1, by_type), f_.code[pc].op[2]});
  if ((name == "min" || name == "max") && words == 2)
    return computed(pc, {name, s.type() == Type::s16 ? "s16x2" : "u16x2"},
                    {of(1, Constant::stands_twice), of(2, Constant::stands_twice)});
  if (name == "not") return computed(pc, {"not", "b32"}, {of(1, Constant::extends_zeros)});
  if (name == "and" || name == "or" || name == "xor")
    return computed(pc, {name, "b32"}, {of(1, Constant::extends_zeros), of(2, Constant::extends_zeros)});
  if ((name == "shr" || (name == "mul" && s.has("hi"))) && s.type() == Type::s16)
    return computed(pc, {"cvt", "s32", "s16"}, {repeated(pc)});
  return std::nullopt;
}

// The sum with a negation, which has zeros above it if it is of no constant.
Operand WholeRegisters::difference(uint32_t pc, unsigned depth) {
  const bool is_signed = f_.source[pc].type() == Type::s16;
  const Constant by_type = is_signed ? Constant::extends_sign : Constant::extends_zeros;
  const Operand a = operand(pc, 1, by_type, depth + 1), &b = f_.code[pc].op[2];
  const Operand negated = w_.fresh(Type::b16);
  w_.insert(pc, {"neg", "s16"}, {negated, b});
  const bool extends_sign = b.immediate && is_signed;
  const Operand added = computed(pc, {"cvt", "s32", extends_sign ? "s16" : "u16"}, {negated});
  return computed(pc, {"add", "s32"}, {a, added});
}

// What a product reads: no more than 16 bits.
Operand WholeRegisters::extended(uint32_t pc, unsigned slot) {
  const Operand& op = f_.code[pc].op[slot];
  const bool is_signed = f_.source[pc].type() == Type::s16;
  if (op.immediate)
    return operand(pc, slot, is_signed ? Constant::extends_sign : Constant::extends_zeros, kDeepest);
  return is_signed ? computed(pc, {"cvt", "s32", "s16"}, {op}) : computed(pc, {"cvt", "u32", "u16"}, {op});
}

// What an integer instruction reads, through moves.
Operand WholeRegisters::operand(uint32_t pc, unsigned slot, Constant constant, unsigned depth) {
  const Operand& read = f_.code[pc].op[slot];
  const Operand* op = &read;
  uint32_t reader = pc;
  for (;; ++depth) {
    if (op->immediate) {
      const auto bits = static_cast<uint16_t>(op->displacement);
      if (constant == Constant::stands_twice) return w_.constant(bits * 0x10001u);
      const bool extends_sign = constant == Constant::extends_sign;
      return w_.constant(extends_sign ? static_cast<uint32_t>(static_cast<int16_t>(bits)) : bits);
    }
    const uint32_t value = ssa_.read(reader, flow_.number_of(*op));
    if (value == Ssa::kNone || depth >= kDeepest) break;
    const Ssa::Value& v = ssa_.values()[value];
    const bool is_moved = v.kind == Ssa::Value::Kind::made && f_.code[v.at].guard < 0 &&
                          is_move(f_.code[v.at], f_.source[v.at]);
    if (!is_moved) {
      if (v.kind == Ssa::Value::Kind::made && f_.code[v.at].guard < 0 &&
          loads_sign(f_.code[v.at], f_.source[v.at]))
        return computed(pc, {"cvt", "s32", "s16"}, {read});
      if (const auto found = whole(value, reader, depth)) return *found;
      break;
    }
    reader = v.at;
    op = &f_.code[v.at].op[1];
  }
  return computed(pc, {"cvt", "u32", "u16"}, {read});
}

Operand WholeRegisters::computed(uint32_t pc, Rewriter::Tokens tokens, std::vector<Operand> sources) {
  const Operand result = w_.fresh(Type::b32);
  sources.insert(sources.begin(), result);
  w_.insert(pc, std::move(tokens), std::move(sources));
  return result;
}

// The result of the instruction at pc, before it.
Operand WholeRegisters::repeated(uint32_t pc) {
  const Operand result = w_.fresh(f_.code[pc].op[0].type);
  std::vector<Operand> operands(f_.code[pc].op, f_.code[pc].op + kMaxOperands);
  operands[0] = result;
  w_.insert(pc, f_.source[pc].tokens, std::move(operands));
  return result;
}

}  // namespace fp4lab::emu
