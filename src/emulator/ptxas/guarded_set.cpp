#include "emulator/ptxas/guarded_set.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "emulator/ptxas/whole_register.h"

namespace fp4lab::emu {

namespace {

bool converts_without_guard(const Instr& i, const Source& s) {
  if (i.guard < 0 || s.tokens[0] != "set") return false;
  const Type d = s.type(0);
  const bool narrow = bits_of(s.type(1)) == 16;
  if (d == Type::u32 || d == Type::s32) return narrow;
  return d == Type::f32 || d == Type::f16 || d == Type::bf16;
}

void convert_before_guard(Rewriter& w, WholeRegisters& registers, uint32_t pc, bool has_other_arm) {
  Instr& i = w.f.code[pc];
  const Source& s = w.f.source[pc];
  const Type to = s.type(0);
  Operand d = i.op[0];
  const std::string_view bits = name_of(bits_type(to));
  for (unsigned k : {1, 2})
    if (is_value(i.op[k]) && !i.op[k].immediate && i.op[k].offset == d.offset) {
      const Operand old = w.fresh(i.op[k].type);
      w.insert(pc, {"mov", bits}, {old, i.op[k]});
      i.op[k] = old;
    }
  const auto convert = [&](Rewriter::Tokens tokens, std::vector<Operand> operands) {
    if (has_other_arm)
      w.insert_opposite(pc, std::move(tokens), std::move(operands));
    else
      w.insert(pc, std::move(tokens), std::move(operands));
  };
  const auto extend = [&] {  // from the lower half
    const Operand sixteen = w.constant(16, Type::u32);
    convert({"shl", "b32"}, {d, d, sixteen});
    convert({"shr", "s32"}, {d, d, sixteen});
  };
  const bool narrow = bits_of(s.type(1)) == 16;
  if (!narrow && bits_of(to) == 16) {  // of the whole register
    const auto found = registers.found_by(pc, s.type(1) == Type::f64, has_other_arm);
    if (!found) return convert({"cvt", "rn", name_of(to), "u16"}, {d, d});
    const Operand magnitude = w.fresh(Type::b32);
    if (found->is_guarded)
      w.insert_guarded(found->at, {"abs", "s32"}, {magnitude, found->whole});
    else
      w.insert_unguarded(found->at, {"abs", "s32"}, {magnitude, found->whole});
    return convert({"cvt", "rn", name_of(to), "s32"}, {d, magnitude});
  }
  if (narrow && bits_of(to) == 32) extend();
  if (to == Type::u32 || to == Type::s32) return;
  const std::string_view integer = bits_of(to) == 32 ? "s32" : "s16";
  convert({"abs", integer}, {d, d});
  if (narrow && bits_of(to) == 32) extend();
  convert({"cvt", "rn", name_of(to), integer}, {d, d});
}

bool contains(const std::vector<uint32_t>& registers, uint32_t reg) {
  return std::find(registers.begin(), registers.end(), reg) != registers.end();
}

bool have_opposite_guards(const Instr& a, const Instr& b) {
  return a.guard == b.guard && a.guard_negated != b.guard_negated;
}

// Whether something may read behind the guarded instruction at pc what the register held before.
bool is_wanted_behind(const Dataflow& flow, const Function& f, uint32_t pc, uint32_t reg) {
  const Instr& set = f.code[pc];
  const uint32_t block = flow.block_of(pc), predicate = flow.number_of(guard_of(set));
  for (bool asks_same = true; ++pc < flow.blocks()[block].end;) {
    const Instr& i = f.code[pc];
    if (contains(flow.access(pc).reads, reg)) return true;
    const bool is_over = i.guard < 0 || (asks_same && have_opposite_guards(i, set));
    if (contains(flow.access(pc).writes, reg) && is_over) return false;
    asks_same &= !contains(flow.access(pc).writes, predicate);
  }
  return flow.lives_behind(block, reg);
}

// Whether the other arm, an instruction of the block under the opposite guard, has written the register: then
// nothing reads there what nobody has written.
bool is_written_by_other_arm(const Dataflow& flow, const Function& f, uint32_t pc, uint32_t reg) {
  const Instr& set = f.code[pc];
  const uint32_t predicate = flow.number_of(guard_of(set));
  const uint32_t begin = flow.blocks()[flow.block_of(pc)].begin;
  while (pc-- > begin) {
    const Instr& i = f.code[pc];
    if (contains(flow.access(pc).writes, predicate)) return false;
    if (contains(flow.access(pc).writes, reg)) return have_opposite_guards(i, set);
  }
  return false;
}

}  // namespace

void convert_before_guards(Rewriter& w) {
  std::vector<uint32_t> found;
  for (uint32_t pc = 0; pc < w.f.code.size(); ++pc)
    if (converts_without_guard(w.f.code[pc], w.f.source[pc])) found.push_back(pc);
  if (found.empty()) return;
  const ConstantRows constants = constant_rows(w.image);
  const Dataflow flow(w.image.out, w.f, w.rows, constants);
  const Known known(w, flow);
  WholeRegisters registers(w, flow, known);
  for (const uint32_t pc : found) {
    const uint32_t reg = flow.number_of(w.f.code[pc].op[0]);
    const bool has_other_arm = !flow.is_too_big() && is_written_by_other_arm(flow, w.f, pc, reg);
    if (flow.is_too_big() ||
        (is_wanted_behind(flow, w.f, pc, reg) && (!flow.lives_at_entry(reg) || has_other_arm)))
      convert_before_guard(w, registers, pc, has_other_arm);
  }
}

}  // namespace fp4lab::emu
