#include "emulator/ptxas/reaching_writes.h"

#include "emulator/ptxas/routine.h"

namespace fp4lab::emu {

namespace {

constexpr uint32_t kNone = Dataflow::kNone, kSeveral = kNone - 1;

// The writer of each register, if there is one.
std::vector<uint32_t> only_writers(const Function& f, const Dataflow& flow) {
  std::vector<uint32_t> only(flow.registers(), kNone);
  for (uint32_t pc = 0; pc < f.code.size(); ++pc)
    for (const uint32_t reg : flow.access(pc).writes) only[reg] = only[reg] == kNone ? pc : kSeveral;
  return only;
}

std::vector<uint32_t> with_several(const std::vector<uint32_t>& only) {
  std::vector<uint32_t> registers;
  for (uint32_t reg = 0; reg < only.size(); ++reg)
    if (only[reg] == kSeveral) registers.push_back(reg);
  return registers;
}

}  // namespace

ReachingWrites::ReachingWrites(const Function& f, const Dataflow& flow)
    : f_(f), flow_(flow), only_(only_writers(f, flow)), ssa_(f, flow, with_several(only_)) {
  for (const Ssa::Value& v : ssa_.values())
    if (v.kind == Ssa::Value::Kind::kept) found_[v.at].push_back(v.operands[0]);
}

// What a guarded instruction that does not read a register, but writes it, found there.
uint32_t ReachingWrites::found_by(uint32_t pc, uint32_t reg) const {
  const auto found = found_.find(pc);
  if (found == found_.end()) return kNone;
  for (const uint32_t value : found->second)
    if (ssa_.values()[value].reg == reg) return value;
  return kNone;
}

uint32_t ReachingWrites::made_by(uint32_t value) const {
  if (value == Ssa::kNone) return kNone;
  const Ssa::Value& v = ssa_.values()[value];
  return v.kind == Ssa::Value::Kind::made && f_.code[v.at].guard < 0 ? v.at : kNone;
}

uint32_t ReachingWrites::maker(uint32_t pc, uint32_t reg) const {
  if (reg == kNone || only_[reg] == kNone) return kNone;
  if (only_[reg] == kSeveral) {
    const uint32_t value = ssa_.read(pc, reg);
    return made_by(value != Ssa::kNone ? value : found_by(pc, reg));
  }
  return f_.code[only_[reg]].guard < 0 ? only_[reg] : kNone;
}

// What a guarded instruction makes is selected, where no branch is made of it or the branch leads to no more
// than the call of a division.
bool ReachingWrites::is_selection(const Ssa::Value& v) const {
  if (v.kind != Ssa::Value::Kind::kept) return false;
  const Source& s = f_.source[v.at];
  const bool is_division = is_integer_routine(s) && bits_of(s.type()) < 64;
  return !flow_.becomes_branch(v.at) || is_selected_routine(s) || is_division;
}

bool ReachingWrites::is_merged(uint32_t pc, uint32_t reg) const {
  if (reg == kNone || only_[reg] != kSeveral) return false;
  const uint32_t value = ssa_.read(pc, reg);
  if (value == Ssa::kNone) return false;
  const Ssa::Value& v = ssa_.values()[value];
  return v.kind == Ssa::Value::Kind::merged || (v.kind == Ssa::Value::Kind::kept && !is_selection(v));
}

std::vector<char> ReachingWrites::meets() const {
  std::vector<char> meets(f_.code.size(), 0);
  for (const Ssa::Value& meeting : ssa_.values()) {
    if (is_selection(meeting)) continue;
    for (const uint32_t value : meeting.operands)
      if (const uint32_t pc = made_by(value); pc != kNone) meets[pc] = 1;
  }
  return meets;
}

std::vector<uint32_t> ReachingWrites::uses() const {
  // Of registers with several writers nothing is known where the form would take too much memory.
  std::vector<uint32_t> uses(f_.code.size(), ssa_.is_too_big() ? 2 : 0);
  const auto count = [&](uint32_t pc, uint32_t operands) {
    if (pc != kNone) uses[pc] += operands;
  };
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    if (!flow_.is_dead(pc))
      for (const uint32_t reg : flow_.access(pc).reads) count(maker(pc, reg), 1);
  for (const Ssa::Value& meeting : ssa_.values())
    for (const uint32_t value : meeting.operands) count(made_by(value), 2);
  return uses;
}

}  // namespace fp4lab::emu
