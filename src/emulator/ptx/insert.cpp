#include "emulator/ptx/insert.h"

#include <algorithm>
#include <utility>

#include "emulator/isa/opcode.h"

namespace fp4lab::emu {

const Entry* bind(const Table& table, Instr& i, const Source& s) {
  const Entry* row = table.find(s.tokens).at(0);
  i.opcode = row->opcode;
  i.body = row->opcode->bind(i, s);
  return row;
}

void insert(const Table& table, Function& f, std::vector<const Entry*>& rows,
            const std::vector<Insertion>& insertions) {
  if (insertions.empty()) return;
  std::vector<Instr> code;
  std::vector<Source> source;
  std::vector<const Entry*> new_rows;
  std::vector<uint32_t> moved;  // by the old pc, and one for the end
  auto next = insertions.begin();
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    moved.push_back(static_cast<uint32_t>(code.size()));
    for (; next != insertions.end() && next->pc == pc; ++next) {
      Instr i;
      i.guard = f.code[pc].guard;
      i.guard_negated = f.code[pc].guard_negated;
      std::ranges::copy(next->operands, i.op);
      Source s = f.source[pc];
      s.tokens = next->opcode;
      new_rows.push_back(bind(table, i, s));
      code.push_back(i);
      source.push_back(std::move(s));
    }
    code.push_back(f.code[pc]);
    source.push_back(std::move(f.source[pc]));
    new_rows.push_back(rows[pc]);
  }
  moved.push_back(static_cast<uint32_t>(code.size()));
  const auto move_label = [&](Operand& op) {
    if (op.kind == Operand::Kind::label) op.index = moved[op.index];
  };
  for (uint32_t pc = 0; pc < code.size(); ++pc) {
    code[pc].pc = pc;
    std::ranges::for_each(code[pc].op, move_label);
  }
  std::ranges::for_each(f.vectors, move_label);
  f.code = std::move(code);
  f.source = std::move(source);
  rows = std::move(new_rows);
}

}  // namespace fp4lab::emu
