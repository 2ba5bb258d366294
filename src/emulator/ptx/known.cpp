#include "emulator/ptx/known.h"

#include <algorithm>

namespace fp4lab::emu {

namespace {

// Exact division and roots of floats are code of their own, which nothing folds.
bool is_subroutine(const Source& s) {
  const std::string_view name = s.tokens[0];
  if (s.has("approx") || s.has("full")) return false;
  const bool is_float = name_of(s.type())[0] == 'f';
  return name == "sqrt" || name == "rcp" || name == "rsqrt" || (name == "div" && is_float);
}

bool is_register(const Operand& op) { return is_value(op) || op.kind == Operand::Kind::predicate; }

}  // namespace

Known::Known(const Rewriter& w, const Dataflow& flow)
    : f_(w.f),
      makers_(w.f.code.size()),
      uses_(w.f.code.size(), 0),
      stretch_(w.f.code.size(), 0),
      constant_(w.f.code.size(), 0) {
  for (const Row& row : w.image.constants)
    if (row.what == Row::What::bits32 || row.what == Row::What::bits64) rows_[row.offset] = row.bits;
  for (const Fixup& address : w.image.fixups)
    if (address.row < w.image.constants.size()) rows_.erase(w.image.constants[address.row].offset);
  find_makers(flow);
  find_constants(flow);
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
    for (uint32_t pc = b.begin; pc < b.end; ++pc) {
      for (unsigned slot = 0; slot < kSlots; ++slot) {
        const Operand& op = f_.code[pc].op[slot];
        const uint32_t reg = is_register(op) ? flow.number_of(op) : Dataflow::kNone;
        makers_[pc][slot] = reg == Dataflow::kNone || last[reg] == kNever ? Dataflow::kNone : last[reg];
      }
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

void Known::find_constants(const Dataflow& flow) {
  uint32_t stretch = 0;
  for (const Dataflow::Block& b : flow.blocks()) {
    ++stretch;
    for (uint32_t pc = b.begin; pc < b.end; ++pc) {
      stretch_[pc] = stretch;
      if (is_subroutine(f_.source[pc]) || f_.source[pc].has("sync")) ++stretch;
    }
  }
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const Instr& i = f_.code[pc];
    const std::string_view name = f_.source[pc].tokens[0];
    if (!flow.is_pure(pc) || i.guard >= 0 || name == "ld" || name == "ldu" || flow.access(pc).writes.empty())
      continue;
    if (is_subroutine(f_.source[pc]) || f_.source[pc].has("approx")) continue;  // see fold.h
    bool constant = true;
    for (unsigned slot = 1; slot < kMaxOperands && constant; ++slot) {
      const Operand& op = i.op[slot];
      constant =
          op.kind == Operand::Kind::none || (is_register(op) && slot < kSlots && is_constant(pc, slot));
    }
    constant_[pc] = constant;
  }
}

std::optional<uint64_t> Known::bits_of_row(const Operand& op) const {
  if (!is_value(op)) return std::nullopt;
  const auto found = rows_.find(op.offset);
  if (found != rows_.end()) return found->second;
  if (op.immediate) return static_cast<uint64_t>(op.displacement);
  return std::nullopt;
}

std::optional<uint64_t> Known::bits(uint32_t pc, unsigned slot) const {
  for (;;) {
    const Operand& op = f_.code[pc].op[slot];
    if (const auto known = bits_of_row(op)) return known;
    const uint32_t from = makers_[pc][slot];
    if (from == Dataflow::kNone || from >= pc || f_.source[from].tokens[0] != "mov" ||
        !is_value(f_.code[from].op[0]) || bits_of(f_.code[from].op[0].type) != bits_of(op.type))
      return std::nullopt;
    pc = from, slot = 1;
  }
}

bool Known::is_constant(uint32_t pc, unsigned slot) const {
  const Operand& op = f_.code[pc].op[slot];
  if (op.kind == Operand::Kind::predicate && op.index == 0) return true;
  if (bits_of_row(op)) return true;
  const uint32_t from = makers_[pc][slot];
  return from != Dataflow::kNone && from < pc && constant_[from] && stretch_[from] == stretch_[pc];
}

}  // namespace fp4lab::emu
