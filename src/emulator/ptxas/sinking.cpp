#include "emulator/ptxas/sinking.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/halves.h"
#include "emulator/ptxas/rewrite.h"
#include "emulator/ptxas/routine.h"

// The rule, read off the machine code of some seven hundred programs that differ in one thing each. An
// instruction outside of loops moves
//
// * if it makes no predicate,
// * if neither its own block reads its result nor one whose immediate dominator that is, or only what moves
//   itself reads it,
// * and if each of its operands is a constant; or made by an instruction that could move too (which is
//   carried out twice if others want its result where it stands); or kept across blocks and no arithmetic:
//   what memory, another lane or a routine gives, or a pair of halves, but not what several ways bring, and
//   no load that is extended to 64 bits;
//
// to the end of the last block outside of loops that dominates all who read it, without being one of them.
// If all who read it move, it goes with them, whichever blocks they stand in. At one place the results that
// others need stand by their weight, each behind what goes with it in the order of the text. The weight is
// 1 and that of all that is made for it, wherever: 1 each, 2 if it is read more than once. What weighs more
// than 10 stays.
//
// What does not move so, because its own block or the next one needs it too, is itself where something else
// reads it that moves. But if it is made of a routine's result, it is carried out again there, behind all
// else: in the order of where it stands, yet what is made for others behind these. A few random programs
// follow something else, which was not found.

namespace fp4lab::emu {

namespace {

constexpr uint32_t kMostWeight = 10;
constexpr size_t kMostReadings = 1u << 20;  // a bound for hostile texts
constexpr unsigned kMostParts = 16;         // copies of copies; the compiler counts none

bool is_pack_or_unpack(const Instr& i) {
  return i.opcode->name == "mov" &&
         (i.op[0].kind == Operand::Kind::vector || i.op[1].kind == Operand::Kind::vector);
}

// What it brings is made wider by another instruction, in its own block.
bool is_extending_load(const Function& f, uint32_t pc) {
  const Source& s = f.source[pc];
  if ((s.tokens[0] != "ld" && s.tokens[0] != "ldu") || bits_of(s.type()) >= 64) return false;
  const Operand& to = f.code[pc].op[0];
  const Operand& first = to.kind == Operand::Kind::vector ? f.vectors[to.index] : to;
  return bits_of(first.type) == 64;
}

// A copy, a sign that the instruction which reads it has a place for, and what cuts a word.
bool is_part_of_reader(const Instr& i, const Source& s, const Source& reader) {
  static const std::unordered_set<std::string_view> kTake = {"add", "sub", "mul", "fma",  "mad",
                                                             "min", "max", "cvt", "setp", "set"};
  const std::string_view name = s.tokens[0];
  if (name == "mov") return !is_pack_or_unpack(i);
  if (name == "cvt")
    return !is_float(s.type(0)) && bits_of(s.type(0)) < bits_of(s.type(1)) && bits_of(s.type(1)) == 32 &&
           !is_float(s.type(1)) && !s.has("sat");
  const bool is_sign = (name == "neg" || name == "abs") && (s.type() == Type::f32 || s.type() == Type::f64);
  return is_sign && kTake.contains(reader.tokens[0]) && is_float(reader.type());
}

// Of 64 bits they have a branch inside.
bool is_wide_search(const Source& s) {
  return (s.tokens[0] == "clz" || s.tokens[0] == "bfind") && bits_of(s.type()) == 64;
}

// How often an instruction's own machine instructions read one another.
uint32_t inner_weight(const Instr& i, const Source& s) {
  static const std::unordered_set<std::string_view> kApproximate = {"ex2", "lg2", "rcp", "rsqrt", "sqrt"};
  const std::string_view name = s.tokens[0];
  const uint32_t first = i.op[1].immediate ? 1 : 0, second = i.op[2].immediate ? 1 : 0;
  if (name == "copysign" && s.type() == Type::f64) return 4 - first - 2 * second;
  if (name == "brev" && bits_of(s.type()) == 64) return 4;
  if (name == "cvt" && s.has("ftz") && s.type() == Type::f64) return 1;
  if (name == "mul" && bits_of(s.type()) == 16) return 2 - first - second + (s.has("hi") ? 1 : 0);
  if (kApproximate.contains(name) && s.has("approx") && !s.has("ftz")) return 7;
  return 0;
}

// How many of them read what is in the register.
uint32_t readings(const Instr& i, const Source& s, bool is_second) {
  if (bits_of(s.type()) != 64) return 1;
  return s.tokens[0] == "brev" || (s.tokens[0] == "copysign" && is_second && !i.op[2].immediate) ? 2 : 1;
}

}  // namespace

Sinking::Sinking(const Function& f, const Dataflow& flow, const Ssa& ssa, const Blocks& blocks,
                 const std::vector<std::vector<uint32_t>>& users, const std::vector<char>& is_variable)
    : f_(f), flow_(flow), ssa_(ssa), blocks_(blocks), is_variable_(is_variable) {
  const auto size = static_cast<uint32_t>(f.code.size());
  place_.assign(size, kNone);
  root_.assign(size, kNone);
  reads_routine_.assign(size, 0);
  copies_.assign(size, 0);
  weight_.assign(size, 0);
  if (ssa.is_too_big() || std::ranges::all_of(users, [](const auto& list) { return list.empty(); })) return;
  find_dominators();
  in_loop_ = blocks_in_loops(flow, ssa);
  find_results();
  for (uint32_t pc = 0; pc < size; ++pc)
    if (!users[pc].empty())
      results_[pc].is_kept = std::ranges::any_of(users[pc], [&](uint32_t user) {
        return blocks_.reads[user] != blocks_.makes[pc] ||
               std::ranges::any_of(flow_.access(pc).writes,
                                   [&](uint32_t reg) { return reads_behind_guard(user, reg); });
      });
  can_move_.assign(size, 0);
  for (uint32_t pc = 0; pc < size; ++pc) can_move_[pc] = static_cast<char>(can_move(pc));
  for (uint32_t pc = size; pc-- > 0;) {
    if (!can_move_[pc]) continue;
    if (go_with_readers(pc, users[pc].empty() && !results_[pc].is_kept ? results_[pc].readers : users[pc]))
      continue;
    root_[pc] = pc;
    weight_[pc] = weigh(pc, users);
    if (weight_[pc] > kMostWeight) continue;
    place_[pc] = find_place(pc, users[pc]);
    if (reads_routine_[pc]) copies_[pc] = find_copies(pc, users[pc]);
  }
}

// A branch at its end makes nothing.
uint32_t Sinking::last(uint32_t flow_block) const {
  const uint32_t pc = flow_.blocks()[flow_block].end - 1;
  return flow_.access(pc).writes.empty() ? blocks_.reads[pc] : blocks_.makes[pc];
}

// Blocks of one block of the data flow stand behind each other.
void Sinking::find_dominators() {
  flow_block_.assign(blocks_.makes.back() + 1, 0);
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    flow_block_[blocks_.reads[pc]] = flow_block_[blocks_.makes[pc]] = blocks_.flow[pc];
  up_.assign(flow_block_.size(), kNone);
  for (uint32_t b = 1; b < up_.size(); ++b) {
    const uint32_t above = ssa_.dominator(flow_block_[b]);
    if (flow_block_[b] == flow_block_[b - 1])
      up_[b] = b - 1;
    else if (above != Ssa::kNone)
      up_[b] = last(above);
  }
  depth_.assign(up_.size(), kNone);
  std::vector<uint32_t> path;
  for (uint32_t b = 0; b < up_.size(); ++b) {
    uint32_t at = b;
    for (; at != kNone && depth_[at] == kNone; at = up_[at]) path.push_back(at);
    for (uint32_t depth = at == kNone ? 0 : depth_[at] + 1; !path.empty(); path.pop_back())
      depth_[path.back()] = depth++;
  }
}

// Natural loops: all ways back to a block that dominates where they come from.
std::vector<char> blocks_in_loops(const Dataflow& dataflow, const Ssa& ssa) {
  const std::vector<Dataflow::Block>& flow = dataflow.blocks();
  std::vector<char> in_loop(flow.size(), 0);
  std::vector<uint32_t> seen(flow.size(), Dataflow::kNone), work;
  for (uint32_t head = 0; head < flow.size(); ++head) {
    for (const uint32_t from : flow[head].predecessors)
      if (ssa.dominates(head, from)) work.push_back(from);
    if (!work.empty()) in_loop[head] = 1;
    seen[head] = head;
    while (!work.empty()) {
      const uint32_t b = work.back();
      work.pop_back();
      if (seen[b] == head) continue;
      seen[b] = head;
      in_loop[b] = 1;
      work.insert(work.end(), flow[b].predecessors.begin(), flow[b].predecessors.end());
    }
  }
  return in_loop;
}

void Sinking::find_results() {
  results_.resize(f_.code.size());
  made_here_.resize(f_.code.size());
  for (uint32_t b = 0; b < flow_.blocks().size(); ++b) find_kept(b);
  std::vector<uint32_t> writer(flow_.registers(), kNone);
  writes_.assign(flow_.registers(), 0);
  writer_.assign(flow_.registers(), kNone);
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    if (flow_.is_dead(pc)) continue;
    for (const uint32_t reg : flow_.access(pc).reads) {
      const uint32_t from = writer[reg];
      if (from == kNone || blocks_.makes[from] != blocks_.reads[pc]) continue;
      made_here_[pc].push_back(from);
      results_[from].readers.push_back(pc);
    }
    for (const uint32_t reg : flow_.access(pc).writes) writer[reg] = writer_[reg] = pc, ++writes_[reg];
  }
}

// Backwards: which results live behind their own block.
void Sinking::find_kept(uint32_t b) {
  struct State {
    uint32_t block = kNone;
    bool lives = false, lives_behind = false, is_written = false;
  };
  std::unordered_map<uint32_t, State> known;
  const auto state = [&](uint32_t reg, uint32_t block) -> State& {
    const auto [found, fresh] = known.try_emplace(reg);
    State& s = found->second;
    if (fresh) s.lives = flow_.lives_behind(b, reg);
    if (s.block != block) s = {block, s.lives, s.lives, false};
    return s;
  };
  for (uint32_t pc = flow_.blocks()[b].end; pc-- > flow_.blocks()[b].begin;) {
    if (flow_.is_dead(pc)) continue;
    for (const uint32_t reg : flow_.access(pc).writes) {
      State& s = state(reg, blocks_.makes[pc]);
      results_[pc].is_kept |= s.lives_behind && !s.is_written;
      s.is_written = true;
      if (f_.code[pc].guard < 0) s.lives = false;
    }
    for (const uint32_t reg : flow_.access(pc).reads) {
      State& s = state(reg, blocks_.reads[pc]);
      s.lives = true;
      s.lives_behind |= reads_behind_guard(pc, reg);
    }
  }
}

// What a guarded instruction reads that does more than compute, it reads in a block of its own, but for the
// guard.
bool Sinking::reads_behind_guard(uint32_t pc, uint32_t reg) const {
  return flow_.branches_under_guard(pc) && flow_.number_of(guard_of(f_.code[pc])) != reg;
}

// Who makes what an instruction reads in a register: of its own block, or else the only one of others.
uint32_t Sinking::maker(uint32_t reader, uint32_t reg) const {
  for (const uint32_t at : made_here_[reader])
    if (std::ranges::find(flow_.access(at).writes, reg) != flow_.access(at).writes.end()) return at;
  const uint32_t v = ssa_.read(reader, reg);
  if (v == Ssa::kNone) return writes_[reg] == 1 ? writer_[reg] : kNone;
  return is_variable_[v] || ssa_.values()[v].kind != Ssa::Value::Kind::made ? kNone : ssa_.values()[v].at;
}

// The same behind what is a part of the reader.
uint32_t Sinking::maker_of_its_own(uint32_t reader, uint32_t reg) const {
  uint32_t at = maker(reader, reg);
  for (unsigned parts = 0; at != kNone && parts < kMostParts; ++parts) {
    if (f_.code[at].guard >= 0 || flow_.access(at).reads.size() != 1 ||
        !is_part_of_reader(f_.code[at], f_.source[at], f_.source[reader]))
      return at;
    at = maker(at, flow_.access(at).reads[0]);
  }
  return kNone;
}

uint32_t Sinking::weigh(uint32_t root, const std::vector<std::vector<uint32_t>>& users) {
  std::unordered_set<uint32_t> seen{root};
  std::vector<uint32_t> work{root};
  uint32_t weight = 1;
  while (!work.empty() && weight <= kMostWeight) {
    const uint32_t pc = work.back();
    work.pop_back();
    const Instr& i = f_.code[pc];
    weight += inner_weight(i, f_.source[pc]);
    for (const uint32_t reg : flow_.access(pc).reads) {
      const uint32_t from = maker_of_its_own(pc, reg);
      if (from == kNone) continue;
      if (!can_move_[from] && flow_.becomes_branch(from)) reads_routine_[root] = 1;
      if (!can_move_[from] || is_part_of_any_reader(from) || !seen.insert(from).second) continue;
      const bool twice = readings(i, f_.source[pc], flow_.number_of(i.op[2]) == reg) > 1;
      weight += twice || has_several_readers(from, users[from]) ? 2 : 1;
      work.push_back(from);
    }
  }
  return weight;
}

// A constant and a parameter.
bool Sinking::is_part_of_any_reader(uint32_t pc) const {
  const Instr& i = f_.code[pc];
  return flow_.is_in_bank(pc) || (f_.source[pc].tokens[0] == "mov" && i.op[1].immediate);
}

bool Sinking::has_several_readers(uint32_t pc, const std::vector<uint32_t>& users) const {
  return users.empty() ? results_[pc].readers.size() + results_[pc].is_kept > 1 : users.size() > 1;
}

std::vector<Sinking::Reading> Sinking::sunk_readings() const {
  std::vector<Reading> found;
  std::unordered_set<uint64_t> seen;
  std::vector<uint32_t> work;
  for (uint32_t root = 0; root < place_.size(); ++root) {
    const uint32_t place = place_[root];
    if (place == kNone) continue;
    work.push_back(root);
    while (!work.empty()) {
      const uint32_t pc = work.back();
      work.pop_back();
      if (!seen.insert(uint64_t(place) << 32 | pc).second) continue;
      for (const uint32_t reg : flow_.access(pc).reads) {
        const uint32_t from = maker(pc, reg);
        if (from == kNone || !can_move_[from]) continue;
        if (found.size() == kMostReadings) return {};
        found.push_back({place, from, pc, place_[pc] == place});
        work.push_back(from);
      }
    }
  }
  std::ranges::sort(found);
  return found;
}

bool Sinking::can_move(uint32_t pc) const {
  const std::string_view name = f_.source[pc].tokens[0];
  if (flow_.is_dead(pc) || f_.code[pc].guard >= 0 || !flow_.is_pure(pc) || flow_.becomes_branch(pc) ||
      (flow_.access(pc).writes.size() != 1 && !is_pack_or_unpack(f_.code[pc])) ||
      in_loop_[blocks_.flow[pc]] || name == "ldu" || (name == "ld" && !flow_.is_in_bank(pc)) ||
      is_wide_search(f_.source[pc]) || f_.code[pc].op[0].kind == Operand::Kind::predicate)
    return false;
  return std::ranges::all_of(flow_.access(pc).reads, [&](uint32_t reg) { return can_have(pc, reg); });
}

// Made by what could move as well, or by what stays a value of its own. What makes a copy of its own block
// moves like any other.
bool Sinking::can_have(uint32_t pc, uint32_t reg) const {
  const uint32_t from = maker(pc, reg);
  if (from == kNone) return false;
  if (blocks_.makes[from] == blocks_.reads[pc])
    return can_move_[from] || (results_[from].is_kept && is_leaf(from));
  const uint32_t of = maker_of_its_own(pc, reg);
  return of != kNone && (can_move_[of] || is_leaf(of));
}

bool Sinking::is_leaf(uint32_t pc) const {
  static const std::unordered_set<std::string_view> kHalves = {"brev", "copysign", "min", "max"};
  const Instr& i = f_.code[pc];
  const Source& s = f_.source[pc];
  const std::string_view name = s.tokens[0];
  // What several ways bring in the machine code is none: of f32 also roots with a direction.
  if (i.guard >= 0 || name == "rsqrt" || (name == "rem" && s.type() == Type::s32)) return false;
  if (flow_.becomes_branch(pc)) return !s.has("rn") && !is_selected_routine(s);
  if (is_extending_load(f_, pc)) return false;
  if (!flow_.is_pure(pc) || name == "ld" || name == "ldu" || name == "shfl" || flow_.access(pc).reads.empty())
    return true;
  if (is_pack_or_unpack(i)) return i.op[0].kind == Operand::Kind::vector;
  if (bits_of(s.type()) != 64) return false;
  return kHalves.contains(name) || s.has("ftz") || makes(i, s) == Makes::halves ||
         makes(i, s) == Makes::loose;
}

// With the first of them, if all of them move.
bool Sinking::go_with_readers(uint32_t pc, const std::vector<uint32_t>& readers) {
  const auto moves = [&](uint32_t reader) { return place_[reader] != kNone && reader > pc; };
  if (readers.empty() || !std::ranges::all_of(readers, moves)) return false;
  const auto rank = [&](uint32_t reader) {
    return std::tuple(place_[reader], weight_[reader], root_[reader]);
  };
  const uint32_t first =
      *std::ranges::min_element(readers, [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); });
  std::tie(place_[pc], weight_[pc], root_[pc]) = rank(first);
  return true;
}

// Others need it where it stands.
uint32_t Sinking::find_copies(uint32_t pc, const std::vector<uint32_t>& users) const {
  bool is_kept = false;
  uint32_t copies = 1;
  for (const uint32_t user : users) {
    is_kept |= place_[user] == kNone && blocks_.reads[user] != blocks_.makes[pc];
    if (user > pc && place_[user] == kNone && copies_[user] > 0) copies = std::max(copies, copies_[user] + 1);
  }
  return is_kept ? copies : 0;
}

uint32_t Sinking::find_place(uint32_t pc, const std::vector<uint32_t>& users) {
  const uint32_t own = blocks_.makes[pc];
  uint32_t place = kNone;
  for (const uint32_t user : users) {
    const uint32_t to = blocks_.reads[user] == own ? kNone : before(blocks_.reads[user]);
    if (to == kNone) return kNone;
    place = place == kNone ? to : common(place, to);
    if (place == kNone || depth_[place] <= depth_[own]) return kNone;
  }
  return place;
}

// The last block outside of loops on every way to one.
uint32_t Sinking::before(uint32_t block) const {
  uint32_t above = up_[block];
  while (above != kNone && in_loop_[flow_block_[above]]) above = up_[above];
  return above;
}

uint32_t Sinking::common(uint32_t a, uint32_t b) {
  while (a != b) {
    if (a == kNone || b == kNone || steps_ == 0) return kNone;
    --steps_;
    (depth_[a] > depth_[b] ? a : b) = up_[depth_[a] > depth_[b] ? a : b];
  }
  return a;
}

}  // namespace fp4lab::emu
