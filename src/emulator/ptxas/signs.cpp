#include "emulator/ptxas/signs.h"

#include <algorithm>
#include <unordered_set>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/behind_copies.h"
#include "emulator/ptxas/ssa.h"
#include "emulator/ptxas/summed_product.h"

namespace fp4lab::emu {

namespace {

constexpr unsigned kSigns = 8;  // one on the other that are followed
constexpr uint32_t kQuiet = 0x00400000;

bool is_sign_of_f32(const Instr& i, const Source& s) {
  const std::string_view name = i.opcode->name;
  return (name == "abs_float" || name == "neg_float") && s.type() == Type::f32;
}
bool is_sign_of(const Instr& i, const Source& s) { return is_sign_of_f32(i, s) && !s.has("ftz"); }

// An abs or neg of halves that an fma of the same type takes as its operand's sign (ptxas 13.0 has the form
// of each operand: -x and |x| of f16 and f16x2, -x of bf16).
bool is_sign_of_halves(const Instr& i, const Source& s) {
  if (is_negation(i, s)) return i.opcode->name == "neg_half";
  return i.opcode->name == "abs_half" && i.guard < 0 && !s.has("ftz") &&
         (s.type() == Type::f16 || s.type() == Type::f16x2);
}

// A guarded instruction of which ptxas makes code that executes all or nothing, not a selection: loads,
// approximations of several instructions, quotients that are rounded in a direction; or whose last machine
// instruction is guarded itself or is none of floats.
bool is_several(const Source& s) {
  static const std::unordered_set<std::string_view> kFunctions = {"rcp", "sqrt", "rsqrt", "ex2", "lg2"};
  const std::string_view name = s.tokens[0];
  if (name == "ld" || name == "ldu" || name == "set") return true;
  if (name == "cvt") return s.has("ftz") && s.type(1) == Type::f64;
  if (name == "div") return !s.has("rn");
  return kFunctions.contains(name) && s.has("approx") && !s.has("ftz");
}

bool is_selection(const Instr& i, const Source& s) {
  if (s.tokens[0] == "mov" && i.op[0].offset == i.op[1].offset) return false;
  if (s.tokens[0] == "copysign") return false;  // the bits of an integer
  return i.guard >= 0 && s.type() == Type::f32 && is_value(i.op[0]) && !is_several(s);
}

// The registers that selections leave as they are where their guards are false.
std::vector<uint32_t> selected_registers(const Function& f, const Dataflow& flow) {
  std::vector<uint32_t> registers;
  for (uint32_t pc = 0; pc < f.code.size(); ++pc)
    if (is_selection(f.code[pc], f.source[pc])) registers.push_back(flow.number_of(f.code[pc].op[0]));
  std::sort(registers.begin(), registers.end());
  registers.erase(std::unique(registers.begin(), registers.end()), registers.end());
  return registers;
}

}  // namespace

Signs::Signs(Rewriter& w, const Dataflow& flow, const Known& known)
    : w_(w), f_(w.f), flow_(flow), known_(known) {
  const Ssa ssa(w.f, flow, selected_registers(w.f, flow));
  for (const Ssa::Value& v : ssa.values()) {
    if (v.kind != Ssa::Value::Kind::kept) continue;
    const Ssa::Value& found = ssa.values()[v.operands[0]];
    if (found.kind == Ssa::Value::Kind::made && f_.code[found.at].guard < 0 && known.sees(v.at, found.at))
      found_[v.at] = found.at;
  }
}

void Signs::fold(uint32_t pc) {
  const std::string_view mnemonic = f_.source[pc].tokens[0];
  const Instr& i = f_.code[pc];
  if ((mnemonic == "selp" || mnemonic == "slct") && f_.source[pc].type() == Type::f32) {
    for (const unsigned slot : {1u, 2u})
      if (const auto bits = changed_sign(maker(pc, slot))) f_.code[pc].op[slot] = *bits;
  }
  if (mnemonic == "mov" && i.guard >= 0 && f_.source[pc].type() == Type::f32)  // a selection too
    if (const auto bits = changed_sign(maker(pc, 1))) f_.code[pc].op[1] = *bits;
  if (is_selection(i, f_.source[pc]) && flow_.is_pure(pc)) {
    const auto found = found_.find(pc);
    const uint32_t from = found != found_.end() ? maker(pc, 0, found->second) : Dataflow::kNone;
    if (are_equal_signs(from, mnemonic == "mov" ? maker(pc, 1) : pc))  // the guard leaves what was there
      return w_.replace(pc, {"mov", "b32"}, {i.op[0]});
    // A copy reads across blocks only what the compiler lets it (sign_closed_copy.ptx).
    const bool may_take = mnemonic != "mov" || (from != Dataflow::kNone && known_.may_read_for(pc, from));
    if (const auto bits = may_take ? changed_sign(from) : std::nullopt)
      w_.insert(pc, {"mov", "b32"}, {i.op[0], *bits});
  }
  if (f_.source[pc].has("oob"))
    for (const unsigned slot : {1u, 2u})
      if (const auto bits = changed_halves(pc, slot, f_.source[pc].type())) f_.code[pc].op[slot] = *bits;
  if (i.guard >= 0 && is_sign_of(i, f_.source[pc])) return make_bitwise(pc);
  if (i.guard >= 0 && fold_constant_nan(pc)) return;
  Instr unguarded = i;  // under a guard it is a guarded move
  unguarded.guard = -1;
  if (!is_negation(unguarded, f_.source[pc])) return;
  fold_two_negations(pc);
  fold_negated_halves(pc);
}

// The unguarded instruction that made an operand, if the compiler sees it from pc.
uint32_t Signs::maker(uint32_t pc, unsigned slot) const { return maker(pc, slot, known_.maker(pc, slot)); }
uint32_t Signs::maker(uint32_t pc, unsigned slot, uint32_t left_by) const {
  return behind_copies(f_, known_, pc, f_.code[pc].op[slot], left_by).value_or(Dataflow::kNone);
}

// Two signs of one value, changed by equal instructions.
bool Signs::are_equal_signs(uint32_t a, uint32_t b) const {
  if (a == Dataflow::kNone || b == Dataflow::kNone || a == b) return false;
  if (!is_sign_of_f32(f_.code[a], f_.source[a]) || f_.source[a].tokens != f_.source[b].tokens) return false;
  const uint32_t of = known_.only_maker(a, 1);
  return of != Dataflow::kNone && of == known_.only_maker(b, 1) &&
         f_.code[a].op[1].offset == f_.code[b].op[1].offset;
}

// Under a guard, too, the sign of a constant NaN is changed in the compiler, .ftz or not; it becomes quiet.
bool Signs::fold_constant_nan(uint32_t pc) {
  const auto constant = known_.bits(pc, 1);
  if (!constant || !is_nan(*constant, Type::f32) || !is_sign_of_f32(f_.code[pc], f_.source[pc])) return false;
  const bool abs = f_.code[pc].opcode->name == "abs_float";
  const uint32_t bits = uint32_t(*constant) | kQuiet, sign = 0x80000000;
  w_.replace(pc, {"mov", "b32"}, {w_.constant(abs ? bits & ~sign : bits ^ sign)});
  return true;
}

void Signs::make_bitwise(uint32_t pc) {
  const bool abs = f_.code[pc].opcode->name == "abs_float";
  const Operand& read = f_.code[pc].op[1];
  const Operand a = changed_sign(maker(pc, 1)).value_or(read);
  w_.replace(pc, {abs ? "and" : "xor", "b32"}, {a, w_.constant(abs ? 0x7fffffff : 0x80000000)});
}

// What an abs or neg made, also of another's value, without its way with NaNs.
std::optional<Operand> Signs::changed_sign(uint32_t made_at, unsigned depth) {
  if (made_at == Dataflow::kNone || !is_sign_of(f_.code[made_at], f_.source[made_at])) return std::nullopt;
  const bool abs = f_.code[made_at].opcode->name == "abs_float";
  const Operand& read = f_.code[made_at].op[1];
  const auto inner = depth < kSigns ? changed_sign(maker(made_at, 1), depth + 1) : std::nullopt;
  const Operand a = inner.value_or(read);
  const Operand bits = w_.fresh(f_.code[made_at].op[0].type);
  w_.insert(made_at, {abs ? "and" : "xor", "b32"}, {bits, a, w_.constant(abs ? 0x7fffffff : 0x80000000)});
  return bits;
}

// A factor of fma.oob without abs and neg, which would make a NaN of out-of-bounds elements another one.
std::optional<Operand> Signs::changed_halves(uint32_t pc, unsigned slot, Type type, unsigned depth) {
  const uint32_t from = maker(pc, slot);
  if (from == Dataflow::kNone || f_.source[from].type() != type ||
      !is_sign_of_halves(f_.code[from], f_.source[from]))
    return std::nullopt;
  const auto inner = depth < kSigns ? changed_halves(from, 1, type, depth + 1) : std::nullopt;
  const Operand a = inner.value_or(f_.code[from].op[1]);
  const bool abs = f_.code[from].opcode->name == "abs_half";
  const uint32_t signs = type == Type::f16x2 ? 0x80008000 : 0x8000;
  const Operand bits = w_.fresh(f_.code[from].op[0].type);
  w_.insert(from, {abs ? "and" : "xor", type == Type::f16x2 ? "b32" : "b16"},
            {bits, a, w_.constant(abs ? ~signs : signs)});
  return bits;
}

void Signs::fold_two_negations(uint32_t pc) {
  const Instr& i = f_.code[pc];
  const Type type = f_.source[pc].type();
  const uint32_t from = maker(pc, 1);
  if (from == Dataflow::kNone || f_.code[from].opcode != i.opcode || f_.source[from].type() != type ||
      f_.source[from].has("ftz") || !known_.may_read_for(pc, from))
    return;
  const std::string_view bits = name_of(bits_type(type));
  const Operand copy = w_.fresh(i.op[0].type);
  w_.insert(from, {"mov", bits}, {copy, f_.code[from].op[1]});
  undone_.emplace_back(pc, copy);
}

// What was under the negation of a half that stands in 16 bits of a negation's operand, of a pack or out of
// one: in the lower half of a register, if the half was negated and may be read there.
Operand Signs::negated_half(uint32_t pc, unsigned part) {
  const auto half = half_behind_packs(f_, known_, pc, part);
  if (!half || half->maker >= pc || !known_.may_read_for(pc, half->maker)) return {};
  const Instr& i = f_.code[half->maker];
  const Source& s = f_.source[half->maker];
  if (!is_negation(i, s) || (s.type() != Type::f16 && s.type() != Type::f16x2)) return {};
  const Operand left = w_.fresh(Type::b32);
  if (s.type() == Type::f16)
    w_.insert(half->maker, {"cvt", "u32", "u16"}, {left, i.op[1]});
  else
    w_.insert(half->maker, {"shr", "u32"}, {left, i.op[1], w_.constant(half->bit)});
  return left;
}

void Signs::fold_negated_halves(uint32_t pc) {
  const Type type = f_.source[pc].type();
  if ((type != Type::f16 && type != Type::f16x2) || (!undone_.empty() && undone_.back().first == pc)) return;
  Halves halves{pc, {negated_half(pc, 0), {}}};
  if (type == Type::f16x2) halves.left[1] = negated_half(pc, 1);
  if (halves.left[0] || halves.left[1]) undone_halves_.push_back(halves);
}

void Signs::apply() {
  for (const auto& [pc, copy] : undone_)
    w_.replace(pc, {"mov", name_of(bits_type(f_.source[pc].type()))}, {copy});
  for (const auto& [pc, left] : undone_halves_) {
    if (f_.source[pc].type() == Type::f16) {
      w_.replace(pc, {"cvt", "u16", "u32"}, {left[0]});
      continue;
    }
    const Operand once = w_.fresh(Type::b32);
    w_.insert(pc, {"neg", "f16x2"}, {once, f_.code[pc].op[1]});
    // Debian's clang captures structured bindings by a name of their own alone.
    const auto half = [&once, &parts = left](unsigned part) { return parts[part] ? parts[part] : once; };
    w_.replace(pc, {"prmt", "b32"}, {half(0), half(1), w_.constant(left[1] ? 0x5410 : 0x7610)});
  }
}

}  // namespace fp4lab::emu