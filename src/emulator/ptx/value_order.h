// Where the values were made that the operands of an instruction hold: the order in which a compiler meets
// them, copies counted as what they copy.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/dataflow.h"

namespace fp4lab::emu {

class ValueOrder {
 public:
  ValueOrder(const Function&, const Dataflow&);

  // Operands of one instruction, by slot. Constants count as made last.
  bool made_later(uint32_t pc, unsigned slot, unsigned than) const;
  bool same(uint32_t pc, unsigned slot, unsigned other) const;
  // The offset of the row that nothing writes.
  std::optional<uint32_t> constant_row(uint32_t pc, unsigned slot) const;

 private:
  // Steps: twice the pc that made it, or one less where several values meet: at the begin of a
  // block, or where what a guarded instruction may have made is first read. Below a step, which of the
  // instruction's or the block's values it is. From kConstant on: a constant's row. kSelected: by a guard,
  // not read yet.
  using Value = int64_t;
  static constexpr Value kStep = int64_t(1) << 32, kConstant = int64_t(1) << 60, kSelected = -1;
  static constexpr Value value(Value steps, uint32_t nth) { return steps * kStep + nth; }
  using Values = std::unordered_map<uint32_t, Value>;  // by register

  Value incoming(uint32_t block, uint32_t reg);
  Value outgoing(uint32_t block, uint32_t reg);
  void place_selections(uint32_t pc, Values& made) const;
  void made_by(uint32_t pc, Value copied, Values& made) const;
  Value value_of(uint32_t block, const Values& made, const Operand&);

  const Function& f_;
  const Dataflow& flow_;
  std::vector<Values> made_, met_;                // at the end and at the begin of a block, as far as known
  std::unordered_map<uint64_t, Value> operands_;  // by pc and slot
};

}  // namespace fp4lab::emu
