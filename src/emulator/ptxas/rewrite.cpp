#include "emulator/ptxas/rewrite.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/dataflow.h"

namespace fp4lab::emu {

Type bits_type(Type t) { return bits_of(t) == 64 ? Type::b64 : bits_of(t) == 16 ? Type::b16 : Type::b32; }

ConstantRows constant_rows(const Image& image) {
  static constexpr FixedSpecial kOfLanes[] = {
      FixedSpecial::tid_x,       FixedSpecial::tid_y,       FixedSpecial::tid_z,
      FixedSpecial::laneid,      FixedSpecial::lanemask_eq, FixedSpecial::lanemask_le,
      FixedSpecial::lanemask_lt, FixedSpecial::lanemask_ge, FixedSpecial::lanemask_gt};
  ConstantRows rows;
  for (const Row& row : image.constants) {
    rows.insert(row.offset);
    const bool special = row.what == Row::What::special;
    if (special && std::ranges::find(kOfLanes, FixedSpecial(row.bits)) != std::end(kOfLanes))
      rows.of_lanes.insert(row.offset);
  }
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

void Rewriter::insert_unguarded(uint32_t pc, Tokens tokens, std::vector<Operand> operands) {
  insert(pc, std::move(tokens), std::move(operands));
  inserted_.back().stays_unguarded = true;
}

void Rewriter::insert_behind(uint32_t pc, Tokens tokens, std::vector<Operand> operands) {
  insert_unguarded(pc, std::move(tokens), std::move(operands));
  inserted_.back().stands_behind = true;
  inserted_.back().source.begins_block = false;
}

void Rewriter::insert_guarded(uint32_t pc, Tokens tokens, std::vector<Operand> operands) {
  insert(pc, std::move(tokens), std::move(operands));
  inserted_.back().instr.guard = f.code[pc].guard;
  inserted_.back().instr.guard_negated = f.code[pc].guard_negated;
}

void Rewriter::insert_opposite(uint32_t pc, Tokens tokens, std::vector<Operand> operands) {
  insert(pc, std::move(tokens), std::move(operands));
  inserted_.back().instr.guard = f.code[pc].guard;
  inserted_.back().instr.guard_negated = !f.code[pc].guard_negated;
}

void Rewriter::replace(uint32_t pc, Tokens tokens, std::vector<Operand> sources) {
  Instr& i = f.code[pc];
  f.source[pc].tokens = std::move(tokens);
  std::fill(i.op + 1, i.op + kMaxOperands, Operand{});
  std::copy(sources.begin(), sources.end(), i.op + 1);
  i.aux = 0;
  rows[pc] = bind(i, f.source[pc]);
}

void Rewriter::drop_modifier(uint32_t pc, std::string_view modifier) {
  Tokens tokens = f.source[pc].tokens;
  std::erase(tokens, modifier);
  replace(pc, std::move(tokens), {f.code[pc].op + 1, f.code[pc].op + kMaxOperands});
}

void Rewriter::Code::add(const Instr& i, Source s, const Entry* row) {
  code.push_back(i);
  source.push_back(std::move(s));
  rows.push_back(row);
}

void Rewriter::Code::land(uint32_t branch, uint32_t at) {
  code[branch].op[0].index = at;
  settled.insert(branch);
}

// What only a guarded instruction reads is made under its guard: where that is false nothing may have written
// what it is made of.
void Rewriter::guard_inserted() {
  const auto is_guarded = [&](const Inserted& x) {
    return x.instr.guard < 0 && !x.stays_unguarded && f.code[x.at].guard >= 0 && !removed_.contains(x.at);
  };
  if (std::none_of(inserted_.begin(), inserted_.end(), is_guarded)) return;
  std::unordered_map<uint32_t, std::unordered_set<uint32_t>>
      readers;  // by a register's row: where it is read
  const auto collect = [&](const Instr& i, uint32_t pc) {
    const auto add = [&](const Operand& op) {
      if (op.kind == Operand::Kind::vector)
        for (unsigned n = 0; n < op.count; ++n) readers[f.vectors[op.index + n].offset].insert(pc);
      else
        readers[op.offset].insert(pc);
    };
    std::for_each(i.op + (i.op[0].kind == Operand::Kind::address ? 0 : 1), i.op + kMaxOperands, add);
  };
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) collect(f.code[pc], pc);
  for (const Inserted& x : inserted_) collect(x.instr, x.at);
  for (Inserted& x : inserted_) {
    const auto of = readers.find(x.instr.op[0].offset);
    if (!is_guarded(x) || of == readers.end() || of->second.size() != 1 || !of->second.contains(x.at))
      continue;
    x.instr.guard = f.code[x.at].guard;
    x.instr.guard_negated = f.code[x.at].guard_negated;
  }
}

void Rewriter::rebuild() {
  if (inserted_.empty() && removed_.empty()) return;
  guard_inserted();
  std::stable_sort(inserted_.begin(), inserted_.end(), [](const Inserted& a, const Inserted& b) {
    return std::pair(a.at, a.stands_behind) < std::pair(b.at, b.stands_behind);
  });
  Code now;
  auto next = inserted_.begin();
  const auto add_inserted = [&](uint32_t pc, bool behind) {
    for (; next != inserted_.end() && next->at == pc && next->stands_behind == behind; ++next)
      now.add(next->instr, std::move(next->source), next->row);
  };
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    now.moved.push_back(now.size());
    add_inserted(pc, false);
    if (!removed_.contains(pc))
      now.add(f.code[pc], std::move(f.source[pc]), rows[pc]);
    else if (pc + 1 < f.code.size())
      f.source[pc + 1].begins_block |= f.source[pc].begins_block;
    add_inserted(pc, true);
  }
  become(std::move(now));
  inserted_.clear();
  removed_.clear();
}

void Rewriter::become(Code now) {
  now.moved.push_back(
      now.size());  // what branch lists name behind the last instruction, whose own code is gone
  const auto move_label = [&](Operand& op) {
    if (op.kind == Operand::Kind::label) op.index = now.moved[op.index];
  };
  for (uint32_t pc = 0; pc < now.size(); ++pc) {
    now.code[pc].pc = pc;
    if (!now.settled.contains(pc)) std::for_each(now.code[pc].op, now.code[pc].op + kMaxOperands, move_label);
  }
  std::for_each(f.vectors.begin(), f.vectors.end(), move_label);
  f.code = std::move(now.code);
  f.source = std::move(now.source);
  rows = std::move(now.rows);
}

// The instructions of a loop up to `end`, without its branches: their labels are those of the same round.
void Rewriter::add_round(uint32_t begin, uint32_t back, uint32_t test, uint32_t end, Code& to) const {
  const uint32_t base = to.size();
  const auto place = [&](uint32_t pc) { return base + (pc - begin) - uint32_t(pc > test); };
  for (uint32_t pc = begin; pc < end; ++pc) {
    if (pc == test) continue;
    to.add(f.code[pc], f.source[pc], rows[pc]);
    for (Operand& op : to.code.back().op) {
      if (op.kind == Operand::Kind::vector) {  // its own elements, which a rule may change
        const std::vector<Operand> elements(f.vectors.begin() + op.index,
                                            f.vectors.begin() + op.index + op.count);
        op.index = static_cast<uint32_t>(f.vectors.size());
        f.vectors.insert(f.vectors.end(), elements.begin(), elements.end());
      }
      if (op.kind == Operand::Kind::label && op.index > begin && op.index <= back) {
        op.index = place(op.index);
        to.settled.insert(to.size() - 1);
      }
    }
  }
}

void Rewriter::repeat(const std::vector<Repetition>& loops) {
  Code now;
  auto next = loops.begin();
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    now.moved.push_back(now.size());
    if (next == loops.end() || pc != next->begin) {
      now.add(f.code[pc], f.source[pc], rows[pc]);
      continue;
    }
    for (uint32_t round = 0; round < next->rounds; ++round)
      add_round(next->begin, next->back, next->test, next->back, now);
    if (next->test != next->back) {
      add_round(next->begin, next->back, next->test, next->test, now);
      now.add(f.code[next->test], f.source[next->test], rows[next->test]);
      now.code.back().guard = -1;
    }
    now.moved.resize(next->back + 1, now.moved.back());  // nobody outside has a label to them
    pc = next->back;
    ++next;
  }
  become(std::move(now));
}

bool is_float(Type t) {
  return t == Type::f16 || t == Type::bf16 || t == Type::f32 || t == Type::f64 || t == Type::f16x2 ||
         t == Type::bf16x2;
}

bool is_integer(Type t) {
  const std::string_view name = name_of(t);
  return (name[0] == 'u' || name[0] == 's' || name[0] == 'b') && !name.starts_with("bf") &&
         !name.ends_with("x2");
}

bool is_integer_cvt(const Source& s) {
  return s.tokens[0] == "cvt" && s.tokens.size() == 3 && !is_float(s.type(0)) && !is_float(s.type(1));
}

bool rounds_in_a_direction(const Source& s) { return s.has("rz") || s.has("rm") || s.has("rp"); }
bool says_rounding(const Source& s) { return s.has("rn") || rounds_in_a_direction(s); }

}  // namespace fp4lab::emu
