// What a loop of a constant number of rounds makes in its last one, where no round reads what another has
// made of it, or where all make the same: behind the loop ptxas takes it for made later than what follows,
// and so it takes copies of what earlier rounds made. Such loops are straight-line code by now (unroll.h);
// they are known by instructions that stand there several times.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "emulator/ptxas/memory_states.h"
#include "emulator/ptxas/value_order.h"

namespace fp4lab::emu {

namespace {

using Kind = Ssa::Value::Kind;

}  // namespace

// Those that are tested at the end: what is tested at its begin ends with what stands there. Rounds of loops
// that have become several (several_loops.h) stand in other blocks, too.
void ValueOrder::find_straight_loops() {
  if (ssa_.values().empty() || !goes_back(f_)) return;
  std::map<Named, uint32_t> last;
  std::set<Named> elsewhere;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const auto [at, fresh] = last.try_emplace(named(f_, pc), pc);
    if (fresh) continue;
    uint32_t begin = std::exchange(at->second, pc);
    if (blocks_.flow[begin] != blocks_.flow[pc]) elsewhere.insert(at->first);
    if (blocks_.flow[begin] != blocks_.flow[pc]) continue;
    for (; !straight_loops_.empty() && straight_loops_.back().second >= begin; straight_loops_.pop_back())
      begin = std::min(begin, straight_loops_.back().first);
    straight_loops_.emplace_back(begin, pc);
  }
  std::erase_if(straight_loops_, [&](const std::pair<uint32_t, uint32_t>& loop) {
    return elsewhere.contains(named(f_, loop.first));
  });
  std::erase_if(straight_loops_, [&](const std::pair<uint32_t, uint32_t>& loop) {
    const auto& [begin, end] = loop;
    const Position last = position(f_.source[end]);
    const bool goes_on = std::any_of(f_.source.begin() + begin, f_.source.begin() + end,
                                     [&](const Source& s) { return position(s) > last; });
    if (goes_on) find_round_behind_test(begin, end);
    return goes_on;
  });
}

// The last round of a loop that was tested at its begin goes from one copy of what stands there to the end of
// the next one.
void ValueOrder::find_round_behind_test(uint32_t begin, uint32_t end) {
  uint32_t test = end - 1;
  while (test > begin && named(f_, test) != named(f_, end)) --test;
  tested_at_begin_.push_back({begin, test + 1, end});
}

// The loop around an instruction.
uint32_t ValueOrder::straight_loop_at(uint32_t pc) const {
  const auto loop = std::ranges::lower_bound(straight_loops_, pc, {}, &std::pair<uint32_t, uint32_t>::second);
  return loop == straight_loops_.end() || loop->first > pc ? Ssa::kNone
                                                           : uint32_t(loop - straight_loops_.begin());
}

void ValueOrder::find_rounds() {
  find_straight_loops();
  if (straight_loops_.empty()) return;
  for (const auto& [begin, end] : straight_loops_) {
    uint32_t pc = end;
    while (position(f_.source[pc]) > position(f_.source[begin])) --pc;
    last_round_.push_back(pc);
  }
  const std::vector<Ssa::Value>& values = ssa_.values();
  const auto loop_of = [&](uint32_t v) {
    const bool is_made = values[v].kind == Kind::made || is_selection(v);
    return is_made && !meets_[v] ? straight_loop_at(values[v].at) : Ssa::kNone;
  };
  std::set<std::pair<uint32_t, Named>> goes_on;  // to the next round
  const auto read = [&](uint32_t v, uint32_t pc) {
    if (v == Ssa::kNone) return;
    const uint32_t loop = loop_of(v), at = values[v].at;
    if (loop != Ssa::kNone && loop == straight_loop_at(pc) &&
        position(f_.source[pc]) <= position(f_.source[at]))
      goes_on.emplace(loop, named(f_, at));
  };
  for (const auto& [begin, end] : straight_loops_)
    for (uint32_t pc = begin; pc <= end; ++pc)
      for (const uint32_t reg : flow_.access(pc).reads)
        if (ssa_.knows(reg)) read(ssa_.read(pc, reg), pc);
  for (uint32_t v = 0; v < values.size(); ++v)
    if (is_selection(v))
      for (const uint32_t from : values[v].operands)
        if (values[from].at < values[v].at) read(from, values[v].at);
  leaves_.assign(values.size(), Ssa::kNone);
  const std::vector<char> repeats = values_of_the_round_before();
  for (uint32_t v = 0; v < values.size(); ++v)
    if (const uint32_t loop = loop_of(v);
        loop != Ssa::kNone && (repeats[v] || !goes_on.contains({loop, named(f_, values[v].at)})))
      leaves_[v] = loop;
  is_read_behind_.assign(values.size(), 0);
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    for (const uint32_t reg : flow_.access(pc).reads)
      if (const uint32_t v = ssa_.read(pc, reg); v != Ssa::kNone && leaves_[v] != Ssa::kNone)
        is_read_behind_[v] |= static_cast<char>(straight_loops_[leaves_[v]].second < pc);
}

// Also one that was tested at its begin: behind the numbers of the others.
uint32_t ValueOrder::any_straight_loop_at(uint32_t pc) const {
  const auto tested = std::ranges::lower_bound(tested_at_begin_, pc, {}, &TestedAtBegin::end);
  const bool is_in = tested != tested_at_begin_.end() && tested->begin <= pc;
  const auto first = static_cast<uint32_t>(straight_loops_.size());
  return is_in ? first + static_cast<uint32_t>(tested - tested_at_begin_.begin()) : straight_loop_at(pc);
}

// By value: whether the round before made the same, or there is a later round, which made another.
std::vector<char> ValueOrder::values_of_the_round_before() {
  is_of_all_rounds_.assign(ssa_.values().size(), 0);
  std::vector<char> repeats(ssa_.values().size(), 0);
  const auto value_at = [&](uint32_t pc) {
    const auto made = made_.find(pc);
    return made == made_.end() ? Ssa::kNone : made->second;
  };
  const MemoryStates memory(f_, flow_, ssa_);
  std::map<Named, uint32_t> before;
  for (const auto& loop : straight_loops_) {
    const uint32_t begin = loop.first, end = loop.second;  // Debian's clang captures no structured bindings
    before.clear();
    std::vector<uint32_t> last(f_.code.size() > end ? end - begin + 1 : 0, Ssa::kNone);
    for (uint32_t pc = begin; pc <= end; ++pc) {
      const auto [at, fresh] = before.try_emplace(named(f_, pc), pc);
      if (fresh) continue;
      const uint32_t other = std::exchange(at->second, pc), v = value_at(pc);
      last[pc - begin] = other;
      if (v == Ssa::kNone) continue;
      const bool reads_other_memory =
          f_.source[pc].tokens[0] == "ld" && memory.before(pc) != memory.before(other);
      repeats[v] = !reads_other_memory && std::ranges::all_of(flow_.access(pc).reads, [&](uint32_t reg) {
        const uint32_t now = ssa_.read(pc, reg), then = ssa_.read(other, reg);
        if (!ssa_.knows(reg) || now == Ssa::kNone || then == Ssa::kNone) return false;
        if (now == then) return true;
        const uint32_t made = ssa_.values()[now].at;
        return repeats[now] && made >= begin && last[made - begin] != Ssa::kNone &&
               value_at(last[made - begin]) == then;
      });
    }
    for (uint32_t pc = begin; pc <= end; ++pc)
      if (const uint32_t v = value_at(pc); v != Ssa::kNone && repeats[v] && before.at(named(f_, pc)) == pc)
        is_of_all_rounds_[v] = 1;
    // What is not of the last round is left by a copy.
    for (uint32_t pc = begin; pc <= end; ++pc)
      if (const uint32_t v = value_at(pc); v != Ssa::kNone && before.at(named(f_, pc)) != pc) repeats[v] = 1;
  }
  return repeats;
}

// In the last round, which is the loop's own body: rounds before it are copies, made later. What all make is
// one of these. Gives the number of the loop.
std::optional<uint32_t> ValueOrder::comes_from_round_before(uint32_t v, uint32_t pc) const {
  const uint32_t loop = straight_loop_at(pc), at = ssa_.values()[v].at;
  if (loop == Ssa::kNone) {
    const auto tested = std::ranges::lower_bound(tested_at_begin_, pc, {}, &TestedAtBegin::end);
    const bool is_before = tested != tested_at_begin_.end() && tested->begin <= at &&
                           at < tested->last_round && tested->last_round <= pc;
    return is_before ? std::optional(uint32_t(straight_loops_.size() + (tested - tested_at_begin_.begin())))
                     : std::nullopt;
  }
  const bool is_before = straight_loops_[loop].first <= at &&
                         (at < last_round_[loop] || is_of_all_rounds_[v]) && last_round_[loop] <= pc;
  return is_before ? std::optional(loop) : std::nullopt;
}

// What something behind the loop reads counts so in the last round, too.
bool ValueOrder::has_left_rounds(uint32_t v, uint32_t pc) const {
  if (leaves_.empty() || leaves_[v] == Ssa::kNone) return false;
  const uint32_t last_round = last_round_[leaves_[v]];
  return straight_loops_[leaves_[v]].second < pc ||
         (is_read_behind_[v] && last_round <= ssa_.values()[v].at && last_round <= pc);
}

}  // namespace fp4lab::emu
