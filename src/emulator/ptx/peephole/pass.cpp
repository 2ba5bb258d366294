#include "emulator/ptx/peephole/pass.h"

namespace fp4lab::emu::peephole {

std::optional<uint32_t> Pass::made_by(uint32_t pc, unsigned slot, std::string_view mnemonic) const {
  const uint32_t from = known.maker(pc, slot);
  if (from == Dataflow::kNone || from >= pc || source(from).tokens[0] != mnemonic) return std::nullopt;
  return from;
}

bool Pass::same_register(uint32_t pc, unsigned a, unsigned b) const {
  return is_value(operand(pc, a)) && is_value(operand(pc, b)) &&
         operand(pc, a).offset == operand(pc, b).offset;
}

Operand Pass::kept(uint32_t pc, unsigned slot) {
  const Operand copy = w.fresh(operand(pc, slot).type);
  insert(pc, {"mov", name_of(bits_type(copy.type))}, {copy, operand(pc, slot)});
  return copy;
}

void Pass::insert(uint32_t pc, Rewriter::Tokens tokens, std::vector<Operand> operands) {
  w.insert(pc, std::move(tokens), std::move(operands));
  changed_ = true;
}

void Pass::replace(uint32_t pc, Rewriter::Tokens tokens, std::vector<Operand> sources) {
  w.replace(pc, std::move(tokens), std::move(sources));
  known.forget(pc);
  replaced_ = pc;
  changed_ = true;
}

void Pass::become(uint32_t pc, uint64_t value, Type type) {
  replace(pc, {"mov", name_of(bits_type(type))}, {w.constant(value, bits_type(type))});
}

void Pass::become_copy(uint32_t pc, const Operand& of, Type type) {
  replace(pc, {"mov", name_of(bits_type(type))}, {of});
}

void Pass::set_operand(uint32_t pc, unsigned slot, uint64_t value) {
  operand(pc, slot) = w.constant(value);
  changed_ = true;
}

}  // namespace fp4lab::emu::peephole
