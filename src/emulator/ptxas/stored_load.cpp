#include "emulator/ptxas/stored_load.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/halves.h"
#include "emulator/ptxas/rewrite.h"

namespace fp4lab::emu {

namespace {

// Sets of memories as bits. What is not written counts as none.
using Memories = unsigned;
constexpr Memories kGlobal = 1, kShared = 2, kLocal = 4, kAny = kGlobal | kShared | kLocal;

Memories memory_of(const Source& s) {
  if (s.has("global")) return kGlobal;
  if (s.has("local")) return kLocal;
  if (s.has("const")) return 0;
  for (const std::string_view token : s.tokens) {
    if (token.starts_with("shared")) return kShared;
    if (token.starts_with("param")) return 0;
  }
  return kAny;
}

// Whether all that writes the register of an address is a sum of itself and a number.
bool moves_on(const Function& f, const Dataflow& flow, const Operand& address, uint32_t begin, uint32_t end) {
  if (!address.has_base) return false;
  bool moves = false;
  for (uint32_t pc = begin; pc < end; ++pc) {
    const Instr& i = f.code[pc];
    const std::string_view name = f.source[pc].tokens[0];
    if (flow.is_dead(pc) || !is_value(i.op[0]) || i.op[0].offset != address.offset) continue;
    const auto& writes = flow.access(pc).writes;
    if (std::ranges::find(writes, flow.number_of(i.op[0])) == writes.end()) continue;
    const bool adds = (name == "add" || name == "sub") && i.guard < 0 && is_value(i.op[1]) &&
                      i.op[1].offset == address.offset && i.op[2].immediate;
    if (!adds) return false;
    moves = true;
  }
  return moves;
}

}  // namespace

bool makes_lanes_differ(const Dataflow& flow, const Source& s, uint32_t pc) {
  static const std::unordered_set<std::string_view> kNames = {"atom", "call",      "elect",
                                                              "shfl", "movmatrix", "match"};
  const std::string_view name = s.tokens[0];
  const bool is_of_call = s.has("param") || s.has("param::func");  // its arguments and results
  return flow.asks_lane(pc) || kNames.contains(name) ||
         (name == "ld" && (s.has("local") || (is_of_call && !flow.is_in_bank(pc))));
}

bool asks_one_lane(const Instr& i, const Source& s) {
  constexpr int64_t kWholeWarp = 0x1f;  // no segments, and every lane is in range
  return s.tokens[0] == "shfl" && s.has("idx") && i.op[4].immediate && i.op[4].displacement == kWholeWarp;
}

bool makes_lanes_agree(const Instr& i, const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {"vote", "redux", "bar", "barrier",
                                                              "activemask"};
  const std::string_view name = s.tokens[0];
  if (name == "shfl") return asks_one_lane(i, s) && i.op[3].immediate;
  return kNames.contains(name) || (name == "match" && s.has("all"));
}

PartingLanes::PartingLanes(const Function& f, const Dataflow& flow)
    : flow_(flow), differ_(flow.registers() + 2, 0) {
  const uint32_t carry = memory() + 1;
  std::vector<std::vector<uint32_t>> readers(differ_.size());
  std::vector<uint32_t> work;
  const auto make_differ = [&](uint32_t pc) {
    if (makes_lanes_agree(f.code[pc], f.source[pc])) return;
    const auto differs = [&](uint32_t reg) {
      if (!std::exchange(differ_[reg], 1)) work.push_back(reg);
    };
    std::ranges::for_each(flow.access(pc).writes, differs);
    if (f.source[pc].has("cc")) differs(carry);
    if (f.source[pc].tokens[0] == "st" && (memory_of(f.source[pc]) & kLocal)) differs(memory());
  };
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    for (const uint32_t reg : flow.access(pc).reads) readers[reg].push_back(pc);
    if (reads_carry(f.source[pc])) readers[carry].push_back(pc);
    if (reads_generic(f.source[pc])) readers[memory()].push_back(pc);
    if (makes_lanes_differ(flow, f.source[pc], pc)) make_differ(pc);
  }
  while (!work.empty()) {
    const uint32_t reg = work.back();
    work.pop_back();
    for (const uint32_t pc : readers[reg]) make_differ(pc);
  }
}

bool PartingLanes::reads_generic(const Source& s) { return s.tokens[0] == "ld" && memory_of(s) == kAny; }

bool PartingLanes::part_at(uint32_t branch) const {
  return std::ranges::any_of(flow_.access(branch).reads, [&](uint32_t reg) { return differ_[reg] != 0; });
}

bool stores_what_it_loaded(const Function& f, const Dataflow& flow, uint32_t begin, uint32_t end) {
  std::unordered_map<uint32_t, Memories> loaded;  // by register: what of this round's loads it depends on
  Memories decided = 0;                           // by branches before
  for (uint32_t pc = begin; pc < end; ++pc) {
    if (flow.is_dead(pc)) continue;
    const Instr& i = f.code[pc];
    const Source& s = f.source[pc];
    Memories on = decided;
    for (const uint32_t reg : flow.access(pc).reads)
      if (const auto found = loaded.find(reg); found != loaded.end()) on |= found->second;
    if (i.opcode->name == "bra") decided |= on;
    if (s.tokens[0] == "st" && (on & memory_of(s)) && !moves_on(f, flow, i.op[0], begin, end)) return true;
    if (s.tokens[0] == "ld" || s.tokens[0] == "ldu") on = memory_of(s);
    for (const uint32_t reg : flow.access(pc).writes) loaded[reg] = i.guard < 0 ? on : loaded[reg] | on;
  }
  return false;
}

}  // namespace fp4lab::emu
