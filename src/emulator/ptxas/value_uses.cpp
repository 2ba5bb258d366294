// Which values are kept as halves. Everyone that makes or reads one has a voice (halves.h), and so has what
// it becomes a part of: a variable is asked for by what makes it, as what the value is in its own block; a
// result that is an f64 always as a whole.
#include <algorithm>
#include <optional>
#include <utility>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/behind_copies.h"
#include "emulator/ptxas/rewrite.h"
#include "emulator/ptxas/routine.h"
#include "emulator/ptxas/unroll.h"
#include "emulator/ptxas/value_order.h"

namespace fp4lab::emu {

using Kind = Ssa::Value::Kind;

namespace {

bool is_sign(const Instr& i) { return i.opcode->name == "neg_float" || i.opcode->name == "abs_float"; }

// Machine code of it has a place for a sign of its f64 operands.
bool takes_sign(const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {"add", "sub", "mul",  "fma", "mad",
                                                              "min", "max", "setp", "set"};
  const std::string_view name = s.tokens[0];
  if (name == "cvt") return s.type(1) == Type::f64;
  return s.type(name == "set" ? 1 : 0) == Type::f64 && kNames.contains(name);
}

}  // namespace

// A shift to the left of what was extended to 64 bits reads what that was made of, and packs both halves.
// With a sign, if that is shifted out.
void ValueOrder::find_extended_shifts(const Known& known) {
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const Source& s = f_.source[pc];
    const Operand& shifted = f_.code[pc].op[1];
    const auto amount = s.tokens[0] == "shl" && s.type() == Type::b64 ? known.bits(pc, 2) : std::nullopt;
    const auto from = amount ? behind_copies(f_, known, pc, shifted, known.maker(pc, 1)) : std::nullopt;
    if (!from) continue;
    const Source& extension = f_.source[*from];
    const bool converts = extension.tokens[0] == "cvt";
    if ((!converts && extension.tokens[0] != "ld") || extension.has("sat")) continue;
    const Type type = extension.type(converts ? 1 : 0);
    if (bits_of(type) == 64 || (converts && is_float(type))) continue;
    const bool has_sign = name_of(type)[0] == 's';
    if (!has_sign || (*amount & 0xffffffff) + bits_of(type) >= 64) extended_shifts_.insert(pc);
  }
}

Makes ValueOrder::made_as(uint32_t v) const {
  const Ssa::Value& value = ssa_.values()[v];
  if (is_selection(v)) return Makes::halves;
  if (value.kind != Kind::made || f_.code[value.at].guard >= 0) return Makes::whole;
  if (called_quotients_.contains(value.at) || extended_shifts_.contains(value.at)) return Makes::packed;
  return makes(f_.code[value.at], f_.source[value.at]);
}

// What several ways bring is one if that is which the text makes first.
bool ValueOrder::is_f64(uint32_t v) {
  if (const auto known = is_f64_.find(v); known != is_f64_.end()) return known->second;
  uint32_t first = Ssa::kNone;
  std::unordered_set<uint32_t> seen{v};
  std::vector<uint32_t> work{v};
  while (!work.empty()) {
    const Ssa::Value& value = ssa_.values()[work.back()];
    const bool is_made = value.kind == Kind::made || is_selection(work.back());
    work.pop_back();
    if (is_made) {
      first = std::min(first, value.at);
      continue;
    }
    for (const uint32_t from : value.operands)
      if (seen.insert(from).second) work.push_back(from);
  }
  return is_f64_[v] = first != Ssa::kNone && makes_f64(f_.source[first]);
}

// Whether a reader in a block sees what a value is a copy of, or becomes a part of it with.
bool ValueOrder::is_seen_through(uint32_t v, uint32_t block, Through through) {
  const Ssa::Value& value = ssa_.values()[v];
  if (only_[v] != Ssa::kNone) return true;
  return value.kind == Kind::made && !is_variable_in(v, block) &&
         comes_with_source(f_.code[value.at], f_.source[value.at]) &&
         (through == Through::signs || !is_sign(f_.code[value.at])) &&
         flow_.number_of(f_.code[value.at].op[1]) != Dataflow::kNone;
}

// What such a value shows, and the block of the last copy before it.
std::pair<uint32_t, uint32_t> ValueOrder::behind(uint32_t v, Through through) {
  std::vector<std::pair<uint32_t, uint32_t>>& known = behind_[through == Through::signs];
  std::vector<uint32_t> path;
  for (;; v = known[v].first) {
    auto& [from, block] = known[v];
    if (from == Ssa::kNone) {
      const uint32_t at = ssa_.values()[v].at;
      from = only_[v] != Ssa::kNone ? only_[v] : ssa_.read(at, flow_.number_of(f_.code[at].op[1]));
      block = block_of(ssa_.values()[v]);
      path.push_back(v);
    }
    if (!is_seen_through(from, block, through)) break;
  }
  for (const uint32_t copy : path) known[copy] = known[v];
  return known[v];
}

uint32_t ValueOrder::source_of(uint32_t v, uint32_t block, Through through) {
  return is_seen_through(v, block, through) ? behind(v, through).first : v;
}

// The readers of results, by way of copies and signs, which move with them. `joined`: those of what repeats a
// result are the first one's.
std::vector<std::vector<uint32_t>> ValueOrder::readers_of_results(bool joined) {
  const std::vector<Ssa::Value>& values = ssa_.values();
  const auto first = [&](uint32_t v) { return joined ? equal_[v] : v; };
  std::vector<std::vector<uint32_t>> users(f_.code.size());
  const auto use = [&](uint32_t v, uint32_t pc) {
    if (v == Ssa::kNone) return;
    const uint32_t from = first(source_of(first(v), blocks_.reads[pc]));
    if (values[from].kind == Kind::made) users[values[from].at].push_back(pc);
  };
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    if (flow_.is_dead(pc)) continue;
    const auto& writes = flow_.access(pc).writes;
    const bool copies = comes_with_source(f_.code[pc], f_.source[pc]) && ssa_.knows(writes[0]);
    if (!copies)
      for (const uint32_t reg : flow_.access(pc).reads) use(ssa_.read(pc, reg), pc);
  }
  for (const Ssa::Value& value : values)
    for (const uint32_t from : value.operands)
      if (values[from].kind == Kind::made && !flow_.is_dead(values[from].at)) use(from, values[from].at);
  // What becomes part of a variable stays.
  for (uint32_t v = 0; v < values.size(); ++v)
    if (meets_[v] && values[v].kind == Kind::made) users[values[v].at].push_back(values[v].at);
  return users;
}

void ValueOrder::find_sunk() {
  const std::vector<Ssa::Value>& values = ssa_.values();
  sunk_.resize(f_.code.size());
  std::vector<char> is_variable(values.size());
  for (uint32_t v = 0; v < values.size(); ++v)
    is_variable[v] = static_cast<char>(webs_[web_of(v)].is_variable);
  const Sinking joined(f_, flow_, ssa_, places_, readers_of_results(true), is_variable);
  bool any_repeats = false;
  for (uint32_t v = 0; v < values.size(); ++v) any_repeats |= equal_[v] != v;
  std::optional<Sinking> repeated;
  if (any_repeats) repeated.emplace(f_, flow_, ssa_, places_, readers_of_results(false), is_variable);
  const Sinking& apart = repeated ? *repeated : joined;
  for (uint32_t pc = 0; pc < sunk_.size(); ++pc) {
    const uint32_t root = joined.root(pc);
    const uint32_t weight = root == Ssa::kNone ? 0 : apart.weight(root);
    sunk_[pc] = {joined.place(pc), weight, root, joined.copies(pc)};
  }
  if (!has_products(f_)) return;
  // Products meet sums before repetitions are joined. Equal sums of different places are not followed.
  std::vector<char> is_torn(f_.code.size());
  for (uint32_t v = 0; v < values.size(); ++v) {
    if (equal_[v] == v || values[v].kind != Kind::made) continue;
    const uint32_t at = values[v].at, first = values[equal_[v]].at;
    if (apart.place(at) != apart.place(first)) is_torn[at] = is_torn[first] = 1;
  }
  sunk_readings_ = apart.sunk_readings();
  for (Sinking::Reading& r : sunk_readings_)
    if (is_torn[r.reader]) r.moves = false;
}

// A comparison that a value's being compared with itself or with a NaN decides reads nothing. Logic of a
// value and itself becomes a copy, but only behind the votes.
void ValueOrder::count_uses(const Known& known) {
  whole_.resize(ssa_.values().size());
  readers_.resize(ssa_.values().size());
  voices_.resize(ssa_.values().size());
  for (auto& behind : behind_) behind.assign(ssa_.values().size(), {Ssa::kNone, 0});
  for (uint32_t v = 0; v < whole_.size(); ++v)
    if ((ssa_.values()[v].kind == Kind::made || is_selection(v)) && equal_for_votes(v) == v)
      whole_[v] = made_as(v) == Makes::halves ? -1 : 1;
  const std::vector<char> is_own = copies_of_their_own();
  has_readers_ = values_with_readers();
  const std::vector<Carry> carries = carries_read();
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    if (!flow_.is_dead(pc) && !is_repeated_load(pc) && !known.outcome(pc) &&
        (!is_counted_copy(pc) || is_own[pc] || is_logic_of_itself(f_.code[pc], f_.source[pc])))
      count_operands(pc, carries[pc]);
  for (uint32_t v = 0; v < whole_.size(); ++v)
    if (is_selection(v))
      for (const uint32_t from : ssa_.values()[v].operands)
        count_use(from, ssa_.values()[v].at, 0, -1, Through::copies, Carry::unread);
  sum_voices();
  for (uint32_t v = 0; v < whole_.size(); ++v)
    if (meets_[v]) webs_[web_of(v)].whole += definition(v);
}

// Another load has brought its result before.
bool ValueOrder::is_repeated_load(uint32_t pc) const {
  const auto made = made_.find(pc);
  return made != made_.end() && equal_for_votes(made->second) != made->second;
}

// Whoever reads a copy counts.
bool ValueOrder::is_counted_copy(uint32_t pc) const {
  return comes_with_source(f_.code[pc], f_.source[pc]) && ssa_.knows(flow_.number_of(f_.code[pc].op[0]));
}

// By pc: copies that stay instructions. Signs that someone reads who has none in his own instruction; and
// what becomes part of a variable and says that this is an f64.
std::vector<char> ValueOrder::copies_of_their_own() {
  std::vector<char> is_own(f_.code.size());
  const auto read = [&](uint32_t v, uint32_t pc) {
    const Ssa::Value& value = ssa_.values()[source_of(v, blocks_.reads[pc], Through::copies)];
    if (value.kind == Kind::made && is_sign(f_.code[value.at]) && is_counted_copy(value.at))
      is_own[value.at] = 1;
  };
  const auto read_all = [&](uint32_t pc) {
    if (takes_sign(f_.source[pc])) return;
    for (const uint32_t reg : flow_.access(pc).reads)
      if (ssa_.knows(reg) && ssa_.read(pc, reg) != Ssa::kNone) read(ssa_.read(pc, reg), pc);
  };
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    if (!flow_.is_dead(pc) && !is_counted_copy(pc)) read_all(pc);
  for (uint32_t v = 0; v < ssa_.values().size(); ++v) {
    const Ssa::Value& value = ssa_.values()[v];
    if (is_selection(v))
      for (const uint32_t from : value.operands) read(from, value.at);
    if (!meets_[v] || value.kind != Kind::made || !is_counted_copy(value.at)) continue;
    is_own[value.at] |= static_cast<char>(makes_f64(f_.source[value.at]));
    if (!is_sign(f_.code[value.at])) read_all(value.at);
  }
  return is_own;
}

// By pc: whether an instruction that reads the carry comes behind, in the same block.
std::vector<ValueOrder::Carry> ValueOrder::carries_read() const {
  const auto is_result_read = [&](uint32_t pc) {
    const auto made = made_.find(pc);
    return made == made_.end() || has_readers_[made->second];
  };
  std::vector<Carry> carries(f_.code.size());
  for (const Dataflow::Block& b : flow_.blocks()) {
    bool is_wanted = false;
    for (uint32_t pc = b.end; pc-- > b.begin;) {
      if (flow_.is_dead(pc)) continue;
      if (f_.source[pc].has("cc") && std::exchange(is_wanted, false))
        carries[pc] = is_result_read(pc) ? Carry::beside_result : Carry::alone;
      is_wanted |= reads_carry(f_.source[pc]);
    }
  }
  return carries;
}

std::vector<char> ValueOrder::values_with_readers() const {
  std::vector<char> has_readers(ssa_.values().size());
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    for (const uint32_t reg : flow_.access(pc).reads)
      if (const uint32_t v = flow_.is_dead(pc) ? Ssa::kNone : ssa_.read(pc, reg); v != Ssa::kNone)
        has_readers[v] = 1;
  for (const Ssa::Value& value : ssa_.values())
    for (const uint32_t from : value.operands) has_readers[from] = 1;
  return has_readers;
}

// Of it only the call is left.
bool ValueOrder::is_unwanted_reciprocal(uint32_t pc) const {
  const Source& s = f_.source[pc];
  const auto made = made_.find(pc);
  return s.tokens[0] == "rcp" && s.type() == Type::f64 && is_float_routine(s) &&
         (made == made_.end() || !has_readers_[made->second]);
}

// The two halves of a sum or product that leaves its carry are two readers, if not the carry alone is wanted.
void ValueOrder::count_operands(uint32_t pc, Carry carry) {
  const Instr& i = f_.code[pc];
  const Through through = takes_sign(f_.source[pc]) || is_sign(i) ? Through::signs : Through::copies;
  const auto voice = [&](unsigned slot) {
    if (extended_shifts_.contains(pc)) return 0;
    if (is_unwanted_reciprocal(pc)) return -2;
    return called_quotients_.contains(pc) ? -2 : reads_whole(i, f_.source[pc], slot);
  };
  const auto count = [&](uint32_t reg, unsigned slot) {
    if (reg == Dataflow::kNone || !ssa_.knows(reg)) return;
    if (const uint32_t v = ssa_.read(pc, reg); v != Ssa::kNone)
      count_use(v, pc, slot, voice(slot) - (carry == Carry::beside_result ? 1 : 0), through, carry);
  };
  for (unsigned slot = 0; slot < kMaxOperands; ++slot) {
    const Operand& op = i.op[slot];
    if (op.kind == Operand::Kind::address && op.has_base) count(flow_.number_of_base(op), slot);
    if (slot == 0) continue;
    if (is_value(op)) count(flow_.number_of(op), slot);
    if (op.kind == Operand::Kind::vector)
      for (uint32_t e = op.index; e < op.index + op.count; ++e)
        if (is_value(f_.vectors[e])) count(flow_.number_of(f_.vectors[e]), slot);
  }
}

// Of a variable, other blocks read what the variable holds; its own, the value itself, and so do copies that
// it makes, whoever reads them.
void ValueOrder::count_use(uint32_t read, uint32_t pc, unsigned slot, int whole, Through through,
                           Carry carry) {
  const uint32_t block = blocks_.reads[pc];
  const uint32_t shown = is_variable_in(read, block) ? read : equal_for_votes(read);
  const bool is_copy = is_seen_through(shown, block, through);
  const auto [from, last] = is_copy ? behind(shown, through) : std::pair(shown, block);
  const uint32_t v = equal_for_votes(from);
  const bool made = ssa_.values()[v].kind == Kind::made || is_selection(v);
  const bool here = block_of(ssa_.values()[v]) == last;
  if (meets_[v] && !(made && here)) webs_[web_of(v)].whole += whole;
  if (!meets_[v] || here) {
    whole *= voices_of_rounds(v, pc);
    whole_[v] += whole;
    voices_[v].push_back({stretch_reads_[pc], whole});
  }
  const bool joins = whole > 0 || (slot > 0 && !called_quotients_.contains(pc) &&
                                   joins_halves(f_.code[pc], f_.source[pc], slot, carry == Carry::alone));
  if (joins) readers_[equal_[v]].push_back({place(pc, slot), here});
}

// What is computed twice is joined behind the votes.
uint32_t ValueOrder::equal_for_votes(uint32_t v) const {
  const Ssa::Value& value = ssa_.values()[v];
  const bool is_computed = value.kind == Kind::made && f_.source[value.at].tokens[0] != "ld";
  return is_computed ? v : equal_[v];
}

// What comes from before a loop that is unrolled by four is read in each of its rounds, as in those behind
// that are left of it: two, and one.
int ValueOrder::voices_of_rounds(uint32_t v, uint32_t pc) const {
  constexpr int kRounds = 7;
  const auto loop = std::ranges::find_if(
      unrolled_, [pc](const CountedLoop& loop) { return loop.begin <= pc && pc <= loop.back; });
  if (loop == unrolled_.end()) return 1;
  const uint32_t at = ssa_.values()[v].at;
  return loop->begin <= at && at <= loop->back ? 1 : kRounds;
}

// So that those behind a stretch are known by the first of them.
void ValueOrder::sum_voices() {
  for (std::vector<Voice>& voices : voices_) {
    std::ranges::stable_sort(voices, {}, &Voice::stretch);
    int behind = 0;
    // Not by std::views::reverse, which clang 14, the fuzzers' compiler, cannot read in GCC's library.
    for (auto voice = voices.rbegin(); voice != voices.rend(); ++voice)
      voice->with_later = behind += voice->whole;
  }
}

// What a value is up to the end of a stretch, in the text's order.
int ValueOrder::whole_until(uint32_t v, uint32_t stretch) const {
  const auto later = std::ranges::upper_bound(voices_[v], stretch, {}, &Voice::stretch);
  return whole_[v] - (later == voices_[v].end() ? 0 : later->with_later);
}

// As what an instruction makes a variable: as what the value itself is, once the rest of its stretch has read
// it.
int ValueOrder::definition(uint32_t v) {
  const Ssa::Value& value = ssa_.values()[v];
  if (value.kind != Kind::made && !is_selection(v)) return 0;
  const Instr& i = f_.code[value.at];
  const Source& s = f_.source[value.at];
  if (makes_f64(s)) return 1;
  uint32_t from = v;
  if (value.kind == Kind::made && comes_with_source(i, s)) {
    const uint32_t reg = flow_.number_of(i.op[1]);
    if (reg == Dataflow::kNone) return 0;
    from = source_of(ssa_.read(value.at, reg), blocks_.reads[value.at]);
  }
  if (flow_.is_in_bank(ssa_.values()[from].at)) return 0;
  int whole = whole_until(from, stretch_makes_[value.at]);
  if (made_as(from) == Makes::loose) {
    const std::string_view name = f_.source[ssa_.values()[from].at].tokens[0];
    if (name != "mad" && name != "mul") return -1;
    whole -= 2;  // its last step is a sum of halves
  }
  return (whole > 0) - (whole < 0);
}

// Before the first instruction that reads it as a whole, on whatever way: the same join in other blocks has
// the same register. Of a variable, its own block reads the value itself.
ValueOrder::Rank ValueOrder::joined(uint32_t v, uint32_t pc, unsigned slot, bool is_part) {
  uint64_t at = place(pc, slot);
  const uint32_t here = blocks_.flow[pc];
  for (const Reader& reader : readers_[v]) {
    const auto other = static_cast<uint32_t>(reader.place / kMaxOperands);
    const uint32_t there = blocks_.flow[other];
    const bool only_follows = there != here && ssa_.dominates(here, there);
    if (other < pc && !(is_part && reader.is_of_value) && !only_follows) {
      at = reader.place;
      break;
    }
  }
  return {Rank::Class::joined, 0, static_cast<int64_t>(at)};
}

// Halves that the majority of readers takes as such; a whole is itself.
bool ValueOrder::is_joined(uint32_t v) const {
  const Makes as = made_as(v);
  return as == Makes::loose || (as != Makes::whole && whole_[v] <= 0);
}

}  // namespace fp4lab::emu
