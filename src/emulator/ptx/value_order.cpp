#include "emulator/ptx/value_order.h"

#include "emulator/isa/opcode.h"

namespace fp4lab::emu {

namespace {

constexpr unsigned kSlots = 5;  // operands 1 to 4 are asked for

uint64_t place(uint32_t pc, unsigned slot) { return uint64_t(pc) * kSlots + slot; }

bool is_copy(const Instr& i) {
  return i.guard < 0 && i.opcode->name == "mov" && i.op[0].kind == Operand::Kind::value &&
         i.op[1].kind == Operand::Kind::value;
}

bool is_asked_for(const Source& s) {
  const std::string_view name = s.tokens[0];
  return name == "bfe" || name == "bfi" || name == "add" || name == "sub" || name == "mul" || name == "fma" ||
         name == "mad" || name == "min" || name == "max" || s.has("approx") || s.has("full");
}

}  // namespace

ValueOrder::ValueOrder(const Function& f, const Dataflow& flow)
    : f_(f), flow_(flow), made_(flow.blocks().size()), met_(flow.blocks().size()) {
  // What is made within a block first, so that the others can ask; copies of what comes in are resolved then.
  for (uint32_t b = 0; b < flow.blocks().size(); ++b)
    for (uint32_t pc = flow.blocks()[b].begin; pc < flow.blocks()[b].end; ++pc) made_by(pc, -1, made_[b]);
  for (uint32_t b = 0; b < flow.blocks().size(); ++b) {
    Values made;
    for (uint32_t pc = flow.blocks()[b].begin; pc < flow.blocks()[b].end; ++pc) {
      const Instr& i = f.code[pc];
      if (!flow.is_dead(pc)) place_selections(pc, made);
      if (is_asked_for(f.source[pc]))
        for (unsigned slot = 1; slot < kSlots; ++slot)
          operands_[place(pc, slot)] = value_of(b, made, i.op[slot]);
      made_by(pc, is_copy(i) ? value_of(b, made, i.op[1]) : -1, made);
    }
    for (auto& [reg, v] : made)
      if (v == kSelected) v = value(2 * Value(flow.blocks()[b].end) - 1, reg);
    made_[b] = std::move(made);
  }
}

// A guarded instruction's result is selected where it is first read.
void ValueOrder::place_selections(uint32_t pc, Values& made) const {
  unsigned nth = 0;
  for (const uint32_t reg : flow_.access(pc).reads)
    if (const auto found = made.find(reg); found != made.end() && found->second == kSelected)
      found->second = value(2 * Value(pc) - 1, nth++);
}

// What an instruction writes, or what it copies if that is no less than 0.
void ValueOrder::made_by(uint32_t pc, Value copied, Values& made) const {
  unsigned nth = 0;
  for (const uint32_t reg : flow_.access(pc).writes)
    made[reg] = copied >= 0 ? copied : f_.code[pc].guard >= 0 ? kSelected : value(2 * Value(pc), nth++);
}

ValueOrder::Value ValueOrder::value_of(uint32_t block, const Values& made, const Operand& op) {
  const uint32_t reg = op.kind == Operand::Kind::value ? flow_.number_of(op) : Dataflow::kNone;
  if (reg == Dataflow::kNone) return kConstant + op.offset;
  const auto found = made.find(reg);
  return found != made.end() ? found->second : incoming(block, reg);
}

ValueOrder::Value ValueOrder::outgoing(uint32_t block, uint32_t reg) {
  const auto found = made_[block].find(reg);
  return found != made_[block].end() ? found->second : incoming(block, reg);
}

ValueOrder::Value ValueOrder::incoming(uint32_t block, uint32_t reg) {
  const Dataflow::Block& b = flow_.blocks()[block];
  const Value merged = value(2 * Value(b.begin) - 1, reg);
  const auto [found, fresh] = met_[block].try_emplace(reg, merged);
  if (!fresh) return found->second;
  Value one = merged;
  for (const uint32_t before : b.predecessors) {
    const Value v = outgoing(before, reg);
    if (v == merged) continue;
    if (one != merged && one != v) return merged;
    one = v;
  }
  return met_[block][reg] = one;
}

bool ValueOrder::made_later(uint32_t pc, unsigned slot, unsigned than) const {
  const Value a = operands_.at(place(pc, slot)), b = operands_.at(place(pc, than));
  return a > b;
}

std::optional<uint32_t> ValueOrder::constant_row(uint32_t pc, unsigned slot) const {
  const Value v = operands_.at(place(pc, slot));
  if (v < kConstant) return std::nullopt;
  return static_cast<uint32_t>(v - kConstant);
}

bool ValueOrder::same(uint32_t pc, unsigned slot, unsigned other) const {
  return operands_.at(place(pc, slot)) == operands_.at(place(pc, other));
}

}  // namespace fp4lab::emu
