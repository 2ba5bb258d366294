#include "emulator/ptxas/dataflow.h"

#include <algorithm>
#include <charconv>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/halves.h"
#include "emulator/ptxas/routine.h"

namespace fp4lab::emu {

namespace {

constexpr unsigned kVideo = 18;
constexpr uint64_t kCarry = ~uint64_t(0);  // the key of the flag among those of registers

// Of "9.7.4.1" the 4: the chapter on this kind of instructions.
unsigned chapter(std::string_view section) {
  unsigned n = 0;
  if (section.starts_with("9.7.")) std::from_chars(section.data() + 4, section.data() + section.size(), n);
  return n;
}

// Collectives of a warp that leave nothing but their results.
bool is_collective(const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {
      "activemask", "elect", "ldmatrix", "match", "mma", "movmatrix", "redux", "shfl", "vote"};
  return kNames.contains(s.tokens[0]);
}

}  // namespace

Operand guard_of(const Instr& i) {
  Operand op;
  op.kind = Operand::Kind::predicate;
  op.index = static_cast<uint32_t>(i.guard);
  return op;
}

Dataflow::Dataflow(const Module& module, const Function& f, std::span<const Entry* const> rows,
                   const ConstantRows& constants, std::span<const uint32_t> idle, Calls calls)
    : f_(f),
      constants_(constants),
      calls_(calls),
      access_(f.code.size()),
      asks_lane_(f.code.size(), 0),
      dead_(f.code.size(), 0) {
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) collect(pc, *rows[pc]);
  if (std::ranges::any_of(f.source, reads_carry)) carry_ = number(kCarry);
  flows_.reserve(f.code.size());
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) flows_.push_back(flow_of(module, f, pc));
  for (const uint32_t pc : idle) flows_[pc] = {};
  for (auto pc = static_cast<uint32_t>(f.code.size()); pc-- > 0;)
    if (is_idle(pc)) remove_branch(pc);
  do {
    find_blocks();
    if (is_too_big()) return;
    find_live();
  } while (remove_idle_branches());
}

uint32_t Dataflow::block_of(uint32_t pc) const {
  const auto next =
      std::ranges::upper_bound(blocks_, pc, std::ranges::less{}, [](const Block& b) { return b.begin; });
  return static_cast<uint32_t>(next - blocks_.begin()) - 1;
}

// A branch over nothing, or over what is dead, is none, also to one of several places: its blocks are one.
bool Dataflow::is_idle(uint32_t pc) const {
  const std::vector<uint32_t>& targets = flows_[pc].targets;
  const bool is_branch = f_.code[pc].opcode->name == "bra" || f_.source[pc].tokens[0] == "brx";
  if (!is_branch || targets.empty() || std::ranges::min(targets) <= pc) return false;
  const auto end = dead_.begin() + std::ranges::max(targets);
  return std::find(dead_.begin() + pc + 1, end, 0) == end;
}

void Dataflow::remove_branch(uint32_t pc) {
  flows_[pc] = {};
  dead_[pc] = 1;
}

// Whether there was such a branch. Without it more is dead: its predicate, and with that maybe all that an
// earlier branch goes over. So what lives is found anew on the way from the last block to the first, but for
// what comes back from a loop.
bool Dataflow::remove_idle_branches() {
  bool any = false;
  std::vector<RegisterSet> live_in(blocks_.size());
  for (auto b = static_cast<uint32_t>(blocks_.size()); b-- > 0;) {
    const Block& block = blocks_[b];
    if (is_idle(block.end - 1)) remove_branch(block.end - 1), any = true;
    RegisterSet& live = live_in[b];
    live = live_out_[b];
    if (std::ranges::all_of(block.successors, [&](uint32_t next) { return next > b; })) {
      std::ranges::fill(live, 0);
      for (const uint32_t next : block.successors)
        for (size_t w = 0; w < live.size(); ++w) live[w] |= live_in[next][w];
    }
    for (uint32_t pc = block.end; pc-- > block.begin;)
      dead_[pc] = static_cast<char>(visit_backwards(pc, live));
  }
  return any;
}

uint64_t Dataflow::key_of(const Operand& op) {
  return op.kind == Operand::Kind::predicate ? uint64_t(op.index) << 32 | 0xffffffffu : op.offset;
}

uint32_t Dataflow::number(uint64_t key) {
  return numbers_.try_emplace(key, static_cast<uint32_t>(numbers_.size())).first->second;
}

uint32_t Dataflow::number_of(const Operand& op) const {
  if (op.kind != Operand::Kind::value && op.kind != Operand::Kind::predicate) return kNone;
  const auto found = numbers_.find(key_of(op));
  return found == numbers_.end() ? kNone : found->second;
}

uint32_t Dataflow::number_of_base(const Operand& address) const {
  const auto found = numbers_.find(address.offset);
  return found == numbers_.end() ? kNone : found->second;
}

void Dataflow::add(const Operand& op, Access& to, bool read, bool write) {
  switch (op.kind) {
    case Operand::Kind::vector:
      for (uint32_t i = op.index; i < op.index + op.count; ++i) add(f_.vectors[i], to, read, write);
      return;
    case Operand::Kind::address:
      if (op.has_base && !constants_.contains(op.offset)) to.reads.push_back(number(op.offset));
      return;
    case Operand::Kind::value:
      if (op.immediate || constants_.contains(op.offset)) return;
      break;
    case Operand::Kind::predicate:
      if (op.index == 0) return;
      break;
    default:
      return;
  }
  const uint32_t reg = number(key_of(op));
  if (read) to.reads.push_back(reg);
  if (write) to.writes.push_back(reg);
}

void Dataflow::collect(uint32_t pc, const Entry& row) {
  const Instr& instr = f_.code[pc];
  asks_lane_[pc] = std::ranges::any_of(instr.op, [&](const Operand& op) {
    return op.kind == Operand::Kind::value && !op.immediate && constants_.of_lanes.contains(op.offset);
  });
  const std::string_view name = f_.source[pc].tokens[0];
  Access& to = access_[pc];
  if (instr.guard > 0) to.reads.push_back(number(uint64_t(instr.guard) << 32 | 0xffffffffu));
  // Their targets may be sources as well: wgmma adds to the first one.
  const bool in_place = name == "call" || name == "tcgen05";
  bool target[kMaxOperands] = {};
  for (const OperandSpec& spec : row.operands) {
    if (!spec.is_target()) continue;
    const bool pair =
        spec.form == OperandSpec::Form::destination_pair || spec.form == OperandSpec::Form::predicate_pair;
    for (unsigned slot = spec.slot; slot <= spec.slot + unsigned(pair) && slot < kMaxOperands; ++slot)
      target[slot] = true;
  }
  for (unsigned slot = 0; slot < kMaxOperands; ++slot) {
    const bool both = in_place || (name == "wgmma" && slot == 0);
    add(instr.op[slot], to, !target[slot] || both, target[slot] || both);
  }
}

void Dataflow::find_blocks() {
  blocks_.clear();
  const auto n = static_cast<uint32_t>(f_.code.size());
  std::vector<char> leader(n + 1, 0);
  leader[0] = 1;
  for (uint32_t pc = 0; pc < n; ++pc) {
    if (!flows_[pc].targets.empty() || flows_[pc].leaves) leader[pc + 1] = 1;
    for (const uint32_t t : flows_[pc].targets) leader[t] = 1;
  }
  std::vector<uint32_t> block_of(n + 1, kNone);
  for (uint32_t pc = 0; pc < n; ++pc) {
    if (leader[pc]) {
      if (!blocks_.empty()) blocks_.back().end = pc;
      blocks_.push_back({pc, n, {}, {}});
    }
    block_of[pc] = static_cast<uint32_t>(blocks_.size() - 1);
  }
  const auto edge = [&](uint32_t from, uint32_t to_pc) {
    const uint32_t to = block_of[to_pc];
    if (to == kNone) return;
    blocks_[from].successors.push_back(to);
    blocks_[to].predecessors.push_back(from);
  };
  for (uint32_t b = 0; b < blocks_.size(); ++b) {
    const Flow& last = flows_[blocks_[b].end - 1];
    for (const uint32_t t : last.targets) edge(b, t);
    if (last.falls_through) edge(b, blocks_[b].end);
  }
}

bool Dataflow::is_pure(uint32_t pc) const { return !f_.source[pc].has("cc") && is_pure_but_for_carry(pc); }

bool Dataflow::is_pure_but_for_carry(uint32_t pc) const {
  const Source& s = f_.source[pc];
  const std::string_view name = s.tokens[0];
  if (name == "bra") return flows_[pc].targets.empty();
  if (name == "ld" || name == "ldu") return !s.has("volatile") && !s.has("relaxed") && !s.has("acquire");
  if (name == "mov" || name == "cvt" || name == "cvta" || name == "prmt" || name == "isspacep") return true;
  const unsigned of = chapter(f_.code[pc].opcode->section);
  return (of >= 1 && of <= 8) || of == kVideo;
}

// Subroutines, also where nobody wants their results (but for quotients of s32, which are no calls), and
// guarded instructions that do more than compute.
bool Dataflow::becomes_branch(uint32_t pc) const {
  const Instr& i = f_.code[pc];
  const Source& s = f_.source[pc];
  const std::string_view name = s.tokens[0];
  if (name == "call" || name == "pmevent" || is_float_routine(s)) return true;
  // The remainder of s32 branches for its dividend's sign, which that of a constant has beforehand.
  if (name == "rem" && s.type() == Type::s32 && number_of(i.op[1]) == kNone) return false;
  if (is_integer_routine(s)) return s.type() == Type::s32 ? !dead_[pc] : s.type() != Type::u32;
  if (dead_[pc]) return false;
  if (name == "bfind") return bits_of(s.type()) == 64;
  return branches_under_guard(pc);
}

// A lop3 that makes a predicate, too, does more than compute.
bool Dataflow::branches_under_guard(uint32_t pc) const {
  const Source& s = f_.source[pc];
  const std::string_view name = s.tokens[0];
  const bool tests_logic = name == "lop3" && (s.has("and") || s.has("or"));
  return f_.code[pc].guard >= 0 && (!is_pure(pc) || name == "ld" || name == "ldu" || tests_logic);
}

bool Dataflow::is_in_bank(uint32_t pc) const {
  const Source& s = f_.source[pc];
  if (s.tokens[0] != "ld") return false;
  const Operand& address = f_.code[pc].op[1];
  const bool of_call = static_cast<uint64_t>(address.displacement) >= kCallParam;  // what a callee gives back
  const bool parameter = f_.entry && !of_call && (s.has("param") || s.has("param::entry"));
  return (parameter || s.has("const")) && (!address.has_base || number_of_base(address) == kNone);
}

// A routine that is called for nothing. Quotients of 32 bits are no calls.
bool Dataflow::is_kept(uint32_t pc) const {
  const Source& s = f_.source[pc];
  if (stays_unwanted(s) && number_of(f_.code[pc].op[1]) != kNone) return true;
  return calls_ == Calls::always && has_call(s, {});
}

// A copy of a register into itself, which other instructions may have become.
bool Dataflow::is_copy_of_itself(uint32_t pc) const {
  const Instr& i = f_.code[pc];
  return i.opcode->name == "mov" && i.op[0].kind == Operand::Kind::value &&
         i.op[1].kind == Operand::Kind::value && i.op[0].offset == i.op[1].offset;
}

// Steps over an instruction, from the registers that live behind it to those before it. Whether it is dead.
bool Dataflow::visit_backwards(uint32_t pc, RegisterSet& live) const {
  const Access& a = access_[pc];
  const auto wanted = [&](uint32_t reg) { return has(live, reg); };
  const auto lives = [&](uint32_t reg) { live[reg / 64] |= uint64_t(1) << reg % 64; };
  const auto dies = [&](uint32_t reg) { live[reg / 64] &= ~(uint64_t(1) << reg % 64); };
  const bool leaves_carry = carry_ != kNone && f_.source[pc].has("cc");
  if (is_copy_of_itself(pc)) return true;
  if ((is_pure_but_for_carry(pc) || is_collective(f_.source[pc])) && !is_kept(pc) &&
      !(leaves_carry && wanted(carry_)) && std::none_of(a.writes.begin(), a.writes.end(), wanted))
    return true;
  if (f_.code[pc].guard < 0) {
    std::ranges::for_each(a.writes, dies);
    if (leaves_carry) dies(carry_);
  }
  std::ranges::for_each(a.reads, lives);
  if (reads_carry(f_.source[pc])) lives(carry_);
  return false;
}

bool Dataflow::any_lives_before(uint32_t block, std::span<const uint32_t> regs) const {
  RegisterSet live = live_out_[block];
  for (uint32_t pc = blocks_[block].end; pc-- > blocks_[block].begin;) visit_backwards(pc, live);
  return std::any_of(regs.begin(), regs.end(), [&](uint32_t reg) { return has(live, reg); });
}

void Dataflow::find_live() {
  const size_t words = (numbers_.size() + 63) / 64;
  live_out_.assign(blocks_.size(), RegisterSet(words, 0));
  std::vector<char> queued(blocks_.size(), 1);
  std::vector<uint32_t> work;
  for (uint32_t b = 0; b < blocks_.size(); ++b) work.push_back(b);
  RegisterSet live;
  while (!work.empty()) {
    const uint32_t b = work.back();
    work.pop_back();
    queued[b] = 0;
    live = live_out_[b];
    for (uint32_t pc = blocks_[b].end; pc-- > blocks_[b].begin;)
      dead_[pc] = static_cast<char>(visit_backwards(pc, live));
    if (b == 0) live_in_ = live;
    for (const uint32_t before : blocks_[b].predecessors) {
      RegisterSet& out = live_out_[before];
      uint64_t grown = 0;
      for (size_t w = 0; w < words; ++w) grown |= live[w] & ~out[w], out[w] |= live[w];
      if (grown && !queued[before]) {
        queued[before] = 1;
        work.push_back(before);
      }
    }
  }
}

Dominators dominators_of(const Dataflow& flow) {
  std::vector<std::vector<uint32_t>> successors, predecessors;
  for (const Dataflow::Block& b : flow.blocks()) {
    successors.push_back(b.successors);
    predecessors.push_back(b.predecessors);
  }
  return immediate_dominators(successors, predecessors, 0);
}

}  // namespace fp4lab::emu
