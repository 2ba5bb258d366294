// What the rounds of a loop that has become several (several_loops.h) all compute of the same values. Where
// these are no variables ptxas has taken it out of the loop before, and all copies are the first one. Else it
// takes it out of the loop of four rounds later, where each round has its own copy in the order of operands;
// in what is left of the rounds it comes behind what they make.
#include <map>
#include <set>
#include <utility>

#include "emulator/ptxas/value_order.h"

namespace fp4lab::emu {

// By name, the copy that stands first: of what stands in several blocks, and several times in the first of
// them. (What stands behind branches of the loop stays there.)
std::map<Named, uint32_t> ValueOrder::first_copies() {
  std::map<Named, uint32_t> first;
  if (!goes_back(f_)) return first;
  std::set<Named> again, elsewhere;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const auto [at, fresh] = first.try_emplace(named(f_, pc), pc);
    if (!fresh) (blocks_.flow[at->second] == blocks_.flow[pc] ? again : elsewhere).insert(at->first);
  }
  is_copied_.assign(f_.code.size(), 0);
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    if (elsewhere.contains(named(f_, pc))) is_copied_[pc] = first.at(named(f_, pc)) != pc;
  std::erase_if(first, [&](const auto& copies) {
    return !again.contains(copies.first) || !elsewhere.contains(copies.first);
  });
  return first;
}

void ValueOrder::find_invariants() {
  const std::map<Named, uint32_t> first = first_copies();
  if (first.empty()) return;
  const auto root = [&](uint64_t is) {
    is = value_of(is);
    const auto found = is < kConstant ? invariants_.find(static_cast<uint32_t>(is)) : invariants_.end();
    return found == invariants_.end() ? is : found->second.first;
  };
  const auto is_of_variable = [&](uint32_t v) {
    const auto found = invariants_.find(v);
    return webs_[web_of(v)].is_variable || (found != invariants_.end() && found->second.is_of_variable);
  };
  std::map<Named, std::vector<uint32_t>> earlier;  // copies
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const auto made = made_.find(pc);
    const auto copies = first.find(named(f_, pc));
    if (copies == first.end() || made == made_.end() || meets_[made->second] ||
        flow_.access(pc).writes.size() != 1 || !may_repeat(pc) || f_.source[pc].tokens[0].starts_with("ld"))
      continue;
    std::vector<uint32_t>& candidates = earlier[copies->first];
    for (const uint32_t before : candidates) {
      const auto &reads = flow_.access(pc).reads, &reads_before = flow_.access(before).reads;
      if (reads.size() != reads_before.size() || reads.empty()) continue;
      Invariant invariant{made_.at(before)};
      bool is_same = true;
      for (size_t i = 0; i < reads.size() && is_same; ++i) {
        const uint32_t v = ssa_.read(pc, reads[i]), other = ssa_.read(before, reads_before[i]);
        is_same = v != Ssa::kNone && other != Ssa::kNone && root(copied_from(v)) == root(copied_from(other));
        if (is_same) invariant.is_of_variable |= is_of_variable(v);
      }
      if (!is_same || (invariant.is_of_variable && before != copies->second)) continue;
      invariant.is_of_first_block = blocks_.flow[before] == blocks_.flow[pc];
      invariants_.emplace(made->second, invariant);
      break;
    }
    candidates.push_back(pc);
  }
}

}  // namespace fp4lab::emu
