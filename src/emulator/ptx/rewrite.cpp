#include "emulator/ptx/rewrite.h"

#include <algorithm>

#include "emulator/isa/opcode.h"

namespace fp4lab::emu {

Type bits_type(Type t) { return bits_of(t) == 64 ? Type::b64 : bits_of(t) == 16 ? Type::b16 : Type::b32; }

std::unordered_set<uint32_t> constant_rows(const Image& image) {
  std::unordered_set<uint32_t> rows;
  for (const Row& row : image.constants) rows.insert(row.offset);
  return rows;
}

Operand Rewriter::constant(uint64_t bits, Type type) {
  Operand op;
  op.kind = Operand::Kind::value;
  op.type = type;
  op.immediate = true;
  op.displacement = static_cast<int64_t>(bits);
  op.offset = image.constant_row(bits_of(type) == 64 ? Row::What::bits64 : Row::What::bits32, bits);
  return op;
}

const Entry* Rewriter::bind(Instr& i, const Source& s) {
  const Entry* row = image.table.find(s.tokens).at(0);
  i.opcode = row->opcode;
  i.body = row->opcode->bind(i, s);
  return row;
}

Operand Rewriter::negated(const Operand& op, uint32_t pc) {
  const Operand negative = fresh(op.type);
  insert(pc, {"neg", name_of(f.source[pc].type())}, {negative, op});
  return negative;
}

void Rewriter::insert(uint32_t pc, Tokens tokens, std::vector<Operand> operands) {
  Inserted x{pc, nullptr, {}, f.source[pc]};
  x.source.tokens = std::move(tokens);
  std::copy(operands.begin(), operands.end(), x.instr.op);
  x.row = bind(x.instr, x.source);
  inserted_.push_back(std::move(x));
}

void Rewriter::replace(uint32_t pc, Tokens tokens, std::vector<Operand> sources) {
  Instr& i = f.code[pc];
  f.source[pc].tokens = std::move(tokens);
  std::fill(i.op + 1, i.op + kMaxOperands, Operand{});
  std::copy(sources.begin(), sources.end(), i.op + 1);
  i.aux = 0;
  rows[pc] = bind(i, f.source[pc]);
}

void Rewriter::rebuild() {
  if (inserted_.empty() && removed_.empty()) return;
  std::stable_sort(inserted_.begin(), inserted_.end(),
                   [](const Inserted& a, const Inserted& b) { return a.before < b.before; });
  std::vector<Instr> code;
  std::vector<Source> source;
  std::vector<const Entry*> entries;
  std::vector<uint32_t> moved(f.code.size());
  auto next = inserted_.begin();
  const auto add = [&](const Instr& i, Source&& s, const Entry* row) {
    code.push_back(i);
    source.push_back(std::move(s));
    entries.push_back(row);
  };
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    moved[pc] = static_cast<uint32_t>(code.size());
    for (; next != inserted_.end() && next->before == pc; ++next)
      add(next->instr, std::move(next->source), next->row);
    if (!removed_.contains(pc)) add(f.code[pc], std::move(f.source[pc]), rows[pc]);
  }
  const auto move_label = [&](Operand& op) {
    if (op.kind == Operand::Kind::label) op.index = moved[op.index];
  };
  for (uint32_t pc = 0; pc < code.size(); ++pc) {
    code[pc].pc = pc;
    std::for_each(code[pc].op, code[pc].op + kMaxOperands, move_label);
  }
  std::for_each(f.vectors.begin(), f.vectors.end(), move_label);
  f.code = std::move(code);
  f.source = std::move(source);
  rows = std::move(entries);
  inserted_.clear();
  removed_.clear();
}

bool is_float(Type t) {
  return t == Type::f16 || t == Type::bf16 || t == Type::f32 || t == Type::f64 || t == Type::f16x2 ||
         t == Type::bf16x2;
}

bool says_rounding(const Source& s) { return s.has("rn") || s.has("rz") || s.has("rm") || s.has("rp"); }

}  // namespace fp4lab::emu
