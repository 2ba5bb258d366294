#include "emulator/ptxas/memory_states.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "emulator/ptxas/routine.h"
#include "emulator/ptxas/sinking.h"

// Observed, one instruction between two loads at a time. A store changes everything of its space, wherever
// its address is, and what has a generic address, and so does a hint to the caches; barriers, fences and
// waiting change everything, and so do subroutines. Loops do for what follows them, whatever is in them, and
// for what is in them if they are of several blocks; out of one block loads are taken before it is a loop.
// What is loaded with .nc nothing changes.

namespace fp4lab::emu {

namespace {

using Names = std::unordered_set<std::string_view>;

// What does more than compute without changing memory.
bool only_looks(const Source& s) {
  static const Names kNames = {"ld",         "ldu",   "shfl",         "vote",      "match",     "activemask",
                               "elect",      "redux", "mma",          "ldmatrix",  "movmatrix", "bra",
                               "setmaxnreg", "brx",   "pmevent",      "brkpt",     "trap",      "ret",
                               "exit",       "mapa",  "createpolicy", "getctarank"};
  const std::string_view name = s.tokens[0];
  if (name == "multimem") return s.tokens[1] == "ld_reduce";
  if (name == "wgmma") return s.tokens[1] == "mma_async" || s.tokens[1] == "commit_group";
  return kNames.contains(name) || (name == "cp" && s.has("commit_group"));
}

// Or might, for all that ptxas knows.
bool stores(const Source& s) {
  static const Names kNames = {"st",       "atom",     "red",           "mbarrier",
                               "stmatrix", "prefetch", "applypriority", "discard"};
  return kNames.contains(s.tokens[0]);
}

}  // namespace

bool may_be_generic(const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {"ld", "st", "atom", "red"};
  static const std::unordered_set<std::string_view> kSpaces = {
      "global", "shared", "shared::cta", "shared::cluster", "local",
      "const",  "param",  "param::func", "param::entry"};
  if (s.tokens[0] == "call" || (s.tokens[0] == "cvta" && s.has("local"))) return true;
  return kNames.contains(s.tokens[0]) &&
         std::ranges::none_of(s.tokens, [](std::string_view token) { return kSpaces.contains(token); });
}

MemoryStates::Kind MemoryStates::kind_of(const Source& s) {
  if (s.has("nc")) return unchanged;
  if (s.has("global")) return global;
  if (s.has("shared") || s.has("shared::cta")) return shared;
  return s.has("local") ? local : generic;
}

unsigned MemoryStates::changes(const Dataflow& flow, const Source& s, uint32_t pc) {
  constexpr unsigned kAll = (1u << kKinds) - 1;
  if (is_float_routine(s)) return kAll;
  if (is_integer_routine(s)) return bits_of(s.type()) == 64 ? kAll : 0;
  if (s.has("cc") || flow.is_pure(pc) || only_looks(s)) return 0;
  if (!stores(s) || kind_of(s) == generic) return kAll;
  return 1u << kind_of(s) | 1u << generic;
}

MemoryStates::MemoryStates(const Function& f, const Dataflow& flow, const Ssa& ssa)
    : before_(f.code.size(), 0), changes_(f.code.size(), 0) {
  for (uint32_t pc = 0; pc < f.code.size(); ++pc)
    changes_[pc] = static_cast<uint8_t>(changes(flow, f.source[pc], pc));
  const std::vector<char> in_loop = blocks_in_loops(flow, ssa);
  for (uint32_t b = 0; b < flow.blocks().size(); ++b)
    begins_afresh_.push_back(std::ranges::any_of(flow.blocks()[b].predecessors, [&](uint32_t from) {
      return (ssa.dominates(b, from) && from != b) || (in_loop[from] && !in_loop[b]);
    }));
  for (const Kind kind : {global, shared, local, generic}) walk(kind, f, flow, ssa.order());
}

// A state is named by the block that it begins with, or by the instruction behind which it begins.
void MemoryStates::walk(Kind kind, const Function& f, const Dataflow& flow,
                        const std::vector<uint32_t>& order) {
  constexpr uint32_t kNone = Dataflow::kNone;
  const std::vector<Dataflow::Block>& blocks = flow.blocks();
  const auto count = static_cast<uint32_t>(blocks.size());
  const auto at_begin = [&](uint32_t block) { return block; };
  std::vector<uint32_t> change(count, kNone), begin(count, kNone);  // a block's last change; its first state
  for (uint32_t b = 0; b < count; ++b)
    for (uint32_t pc = blocks[b].begin; pc < blocks[b].end; ++pc)
      if (changes_[pc] >> kind & 1) change[b] = pc;
  const auto end = [&](uint32_t b) { return change[b] == kNone ? begin[b] : behind(change[b]); };
  // Where ways meet that bring different states, a new one begins: once it does, it stays so.
  for (bool again = true; again;) {
    again = false;
    for (const uint32_t b : order) {
      uint32_t state = blocks[b].predecessors.empty() ? at_begin(b) : kNone;
      for (const uint32_t from : blocks[b].predecessors) {
        const uint32_t other = begins_afresh_[b] ? at_begin(b) : end(from);
        if (other == kNone) continue;
        state = state == kNone || state == other ? other : at_begin(b);
      }
      if (begin[b] == at_begin(b) || state == begin[b]) continue;
      begin[b] = state;
      again = true;
    }
  }
  for (uint32_t b = 0; b < count; ++b) {
    uint32_t state = begin[b];
    for (uint32_t pc = blocks[b].begin; pc < blocks[b].end; ++pc) {
      if (f.source[pc].tokens[0].starts_with("ld") && kind_of(f.source[pc]) == kind) before_[pc] = state;
      if (changes_[pc] >> kind & 1) state = behind(pc);
    }
  }
}

}  // namespace fp4lab::emu
