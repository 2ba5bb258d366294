#include "emulator/ptx/known.h"

#include <algorithm>
#include <unordered_set>

#include "emulator/ptx/foldable.h"

namespace fp4lab::emu {

namespace {

// Exact division and roots of floats are code of their own, which nothing folds.
bool is_subroutine(const Source& s) {
  const std::string_view name = s.tokens[0];
  if (s.has("approx") || s.has("full")) return false;
  const bool is_float = name_of(s.type())[0] == 'f';
  return name == "sqrt" || name == "rcp" || name == "rsqrt" || (name == "div" && is_float);
}

// What comes of comparing a value with itself, if it does not depend on whether it is a NaN.
std::optional<bool> of_itself(std::string_view how, bool may_be_nan) {
  if (how == "equ" || how == "leu" || how == "geu") return true;
  if (how == "ne" || how == "lt" || how == "gt") return false;
  if (may_be_nan) return std::nullopt;
  if (how == "eq" || how == "le" || how == "ge" || how == "ls" || how == "hs") return true;
  return how == "lo" || how == "hi" ? std::optional(false) : std::nullopt;
}

Operand predicate_of(const Instr& i) {
  Operand op;
  op.kind = Operand::Kind::predicate;
  op.index = static_cast<uint32_t>(i.guard);
  return op;
}

bool is_nan(uint64_t bits, Type type) {
  const auto exceeds = [](uint64_t value, unsigned width, uint64_t infinity) {
    return (value & ((uint64_t(1) << (width - 1)) - 1)) > infinity;
  };
  switch (type) {
    case Type::f64:
      return exceeds(bits, 64, 0x7ff0000000000000);
    case Type::f32:
      return exceeds(bits, 32, 0x7f800000);
    case Type::f16:
    case Type::f16x2:
      return exceeds(bits, 16, 0x7c00) || exceeds(bits >> 16, 16, 0x7c00);
    case Type::bf16:
    case Type::bf16x2:
      return exceeds(bits, 16, 0x7f80) || exceeds(bits >> 16, 16, 0x7f80);
    default:
      return false;
  }
}

bool is_register(const Operand& op) { return is_value(op) || op.kind == Operand::Kind::predicate; }

}  // namespace

bool ends_stretch(const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {"bar",    "barrier", "activemask", "nanosleep",
                                                              "membar", "fence",   "rem"};
  const std::string_view name = s.tokens[0];
  if (name == "div") return !s.has("approx") && !s.has("full");
  return is_subroutine(s) || kNames.contains(name) || (s.has("sync") && name != "elect");
}

Known::Known(const Rewriter& w, const Dataflow& flow)
    : f_(w.f),
      makers_(w.f.code.size()),
      element_makers_(w.f.vectors.size(), Dataflow::kNone),
      guard_makers_(w.f.code.size(), Dataflow::kNone),
      uses_(w.f.code.size(), 0),
      stretch_(w.f.code.size(), 0),
      constant_(w.f.code.size(), 0) {
  for (const Row& row : w.image.constants)
    if (row.what == Row::What::bits32 || row.what == Row::What::bits64) rows_[row.offset] = row.bits;
  for (const Fixup& address : w.image.fixups)
    if (address.row < w.image.constants.size()) rows_.erase(w.image.constants[address.row].offset);
  find_makers(flow);
  find_stretches(flow);
  find_constants(flow);
  find_values(w, flow);
}

void Known::find_makers(const Dataflow& flow) {
  const auto written = [&](uint32_t pc) { return f_.code[pc].guard < 0 ? pc : Dataflow::kNone; };
  constexpr uint32_t kNever = Dataflow::kNone - 1;
  std::vector<uint32_t> only(flow.registers(), kNever);  // the writer of a register that has one
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    for (const uint32_t reg : flow.access(pc).writes)
      only[reg] = only[reg] == kNever ? written(pc) : Dataflow::kNone;
  std::vector<uint32_t> last = only;
  for (uint32_t block = 0; block < flow.blocks().size(); ++block) {
    const Dataflow::Block& b = flow.blocks()[block];
    const auto maker = [&](const Operand& op) {
      const uint32_t reg = is_register(op) ? flow.number_of(op) : Dataflow::kNone;
      return reg == Dataflow::kNone || last[reg] == kNever ? Dataflow::kNone : last[reg];
    };
    for (uint32_t pc = b.begin; pc < b.end; ++pc) {
      const Instr& i = f_.code[pc];
      for (unsigned slot = 0; slot < kSlots; ++slot) {
        makers_[pc][slot] = maker(i.op[slot]);
        if (i.op[slot].kind == Operand::Kind::vector)
          for (uint32_t e = i.op[slot].index; e < i.op[slot].index + i.op[slot].count; ++e)
            element_makers_[e] = maker(f_.vectors[e]);
      }
      if (i.guard > 0) guard_makers_[pc] = maker(predicate_of(i));
      if (!flow.is_dead(pc))
        for (const uint32_t reg : flow.access(pc).reads)
          if (last[reg] < kNever) ++uses_[last[reg]];
      for (const uint32_t reg : flow.access(pc).writes) last[reg] = written(pc);
    }
    for (uint32_t pc = b.begin; pc < b.end; ++pc)
      for (const uint32_t reg : flow.access(pc).writes)
        if (only[reg] == Dataflow::kNone && last[reg] == pc && flow.lives_behind(block, reg)) uses_[pc] += 2;
    for (uint32_t pc = b.begin; pc < b.end; ++pc)
      for (const uint32_t reg : flow.access(pc).writes) last[reg] = only[reg];
  }
}

void Known::find_stretches(const Dataflow& flow) {
  uint32_t stretch = 0;
  for (const Dataflow::Block& b : flow.blocks()) {
    ++stretch;
    for (uint32_t pc = b.begin; pc < b.end; ++pc) {
      stretch_[pc] = stretch;
      if (ends_stretch(f_.source[pc])) ++stretch;
    }
  }
}

// Whether an instruction makes one value out of others, all of which `fits` takes.
template <class F>
bool Known::reads_only(uint32_t pc, F&& fits) const {
  const Instr& i = f_.code[pc];
  if (i.guard >= 0 || i.op[0].kind == Operand::Kind::none) return false;
  for (unsigned slot = 1; slot < kMaxOperands; ++slot) {
    const Operand& op = i.op[slot];
    if (op.kind == Operand::Kind::none) continue;
    if (slot >= kSlots) return false;
    if (op.kind == Operand::Kind::vector) {
      for (uint32_t e = op.index; e < op.index + op.count; ++e)
        if (!fits(f_.vectors[e], element_makers_[e])) return false;
    } else if (!is_register(op) || !fits(op, makers_[pc][slot])) {
      return false;
    }
  }
  return true;
}

// A comparison of a value with itself, alone: what set and setp then give.
std::optional<uint64_t> Known::decided(uint32_t pc) const {
  const Instr& i = f_.code[pc];
  const Source& s = f_.source[pc];
  const unsigned first = s.tokens[0] == "setp" ? 2 : s.tokens[0] == "set" ? 1 : 0;
  if (first == 0 || i.guard >= 0 || (first == 2 && i.op[1])) return std::nullopt;
  const Operand &a = i.op[first], &b = i.op[first + 1];
  const size_t words = (first == 2 ? 3 : 4) + (s.has("ftz") ? 1 : 0);
  if (s.tokens.size() != words || !is_value(a) || !is_value(b) || a.offset != b.offset) return std::nullopt;
  const Type to = s.type();
  if (first == 1 && bits_of(to) != 32) return std::nullopt;
  const auto holds = of_itself(s.tokens[1], is_float(s.type(first == 2 ? 0 : 1)));
  if (!holds) return std::nullopt;
  return !*holds ? 0 : first == 2 ? 1 : to == Type::f32 ? 0x3f800000 : 0xffffffff;
}

void Known::find_constants(const Dataflow& flow) {
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const auto fits = [&](const Operand& op, uint32_t maker) { return is_constant(op, maker, pc); };
    constant_[pc] = decided(pc) || (is_foldable(f_.source[pc]) && flow.is_pure(pc) && reads_only(pc, fits));
  }
}

// What is computed from constants, but for NaNs.
void Known::find_values(const Rewriter& w, const Dataflow& flow) {
  std::vector<char> computed(f_.code.size(), 0);
  std::vector<uint32_t> pcs;
  bool is_worth_it = false;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const Source& s = f_.source[pc];
    const std::string_view name = s.tokens[0];
    const bool reads_carry = name == "addc" || name == "subc" || name == "madc";
    const bool is_pair = name == "setp" && f_.code[pc].op[1];
    if (!is_foldable(s) || reads_carry || is_pair || !(flow.is_pure(pc) || s.has("cc"))) continue;
    computed[pc] = reads_only(
        pc, [&](const Operand& op, uint32_t maker) { return is_row(op) || (maker < pc && computed[maker]); });
    if (!computed[pc]) continue;
    pcs.push_back(pc);
    is_worth_it |= name != "mov" || !is_value(f_.code[pc].op[0]) || !is_value(f_.code[pc].op[1]);
  }
  if (is_worth_it) values_ = evaluate(w, pcs);
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    if (const auto value = decided(pc)) values_[{pc, key_of(f_.code[pc].op[0])}] = *value;
  std::erase_if(values_, [&](const auto& entry) {
    const Source& s = f_.source[entry.first.first];
    return s.tokens[0] != "mov" && is_nan(entry.second, s.type());
  });
}

bool Known::is_row(const Operand& op) const {
  return op.kind == Operand::Kind::predicate ? op.index == 0 : bits_of_row(op).has_value();
}

std::optional<uint64_t> Known::bits_of_row(const Operand& op) const {
  if (!is_value(op)) return std::nullopt;
  const auto found = rows_.find(op.offset);
  if (found != rows_.end()) return found->second;
  if (op.immediate) return static_cast<uint64_t>(op.displacement);
  return std::nullopt;
}

std::optional<uint64_t> Known::bits(const Operand& operand, uint32_t maker, uint32_t pc) const {
  for (const Operand* op = &operand;;) {
    if (const auto known = bits_of_row(*op)) return known;
    if (maker == Dataflow::kNone || maker >= pc) return std::nullopt;
    const Instr& i = f_.code[maker];
    if (f_.source[maker].tokens[0] != "mov" || !is_value(i.op[0]) || !is_value(i.op[1]) ||
        bits_of(i.op[0].type) != bits_of(op->type)) {
      const auto value = values_.find({maker, key_of(*op)});
      return value == values_.end() ? std::nullopt : std::optional(value->second);
    }
    pc = maker, op = &i.op[1], maker = makers_[pc][1];
  }
}

std::optional<uint64_t> Known::bits(uint32_t pc, unsigned slot) const {
  return bits(f_.code[pc].op[slot], makers_[pc][slot], pc);
}

std::optional<uint64_t> Known::bits_of_element(uint32_t pc, uint32_t index) const {
  return bits(f_.vectors[index], element_makers_[index], pc);
}

std::optional<bool> Known::guard(uint32_t pc) const {
  const Instr& i = f_.code[pc];
  const uint32_t maker = guard_makers_[pc];
  if (maker >= pc) return std::nullopt;
  const auto value = values_.find({maker, key_of(predicate_of(i))});
  if (value != values_.end()) return bool(value->second) != i.guard_negated;
  return std::nullopt;
}

bool Known::is_constant(const Operand& op, uint32_t maker, uint32_t pc) const {
  return is_row(op) || (maker != Dataflow::kNone && maker < pc && constant_[maker]);
}

bool Known::is_constant(uint32_t pc, unsigned slot) const {
  return is_constant(f_.code[pc].op[slot], makers_[pc][slot], pc);
}

bool Known::is_constant_here(uint32_t pc, unsigned slot) const {
  const uint32_t maker = makers_[pc][slot];
  return is_constant(pc, slot) && (is_row(f_.code[pc].op[slot]) || stretch_[maker] == stretch_[pc]);
}

}  // namespace fp4lab::emu
