#include "emulator/ptxas/value_order.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/behind_copies.h"
#include "emulator/ptxas/counted_loop.h"
#include "emulator/ptxas/halves.h"
#include "emulator/ptxas/routine.h"
#include "emulator/ptxas/summed_product.h"
#include "emulator/ptxas/unroll.h"

// The rule, read off the machine code of some ten thousand programs:
//
// * A value comes where it is made. A copy, a negation or an absolute value comes where its source does.
// * Values that meet behind branches are a variable. In the block that makes such a value it comes where it
//   is made. In other blocks, a register's first variable comes behind everything that the block of the text
//   makes in which the register is mentioned first, in the order of these mentions; its later variables come
//   behind all values, in the order of their first definitions. Where a loop with branches inside has become
//   straight, what an instruction makes is no variable, wherever it is read.
// * Where a loop has become several (several_loops.h), what the copies of its rounds make comes behind these;
//   what all rounds make of the same is one value, unless that is of a variable (value_invariants.cpp).
// * What several ways have brought and does not meet anything any more comes next, the last one first: a
//   variable by where the text mentions it first, the result of an instruction that becomes several ways in
//   machine code (div.rn.f64) by where it stands. A loop that is unrolled by four has several exits. If such
//   an instruction is the last one before a loop, its ways meet at the loop's head: its result comes behind
//   everything that its own block of the text makes.
// * Before these, too, comes what a loop of a constant number of rounds leaves behind, if no round reads what
//   another made of it (value_rounds.cpp): of several loops the last one's first. So does, in the last round,
//   what a round before made.
// * What an atomic of 64 bits in shared memory gives back, which is a loop in machine code, comes behind
//   these, in the order of the text, in other blocks too.
// * What is computed later than where it stands (sinking.h) comes behind these, by the blocks where that is,
//   in one block by the weight of what is needed there, and what goes with that just before it.
// * What repeats an instruction is what that one made (value_equals.cpp), of that one's operands in their
// order.
// * 64-bit integers are made as halves, and so is what a guarded instruction may have made, which is selected
//   by halves; a guarded load is one of several ways, if its register held anything before. What is kept as
//   halves (value_uses.cpp) is joined before the first instruction that reads it as a whole, be it in a
//   branch beside: behind everything above, and of several in the order of these instructions.
// * The results of a routine that is called several times may share a register (value_routines.cpp).
// * A load that gives what a store before it has put there comes behind these, in the order of the stores,
//   and so do one behind a guarded store and the second of two that become one (value_pairs.cpp). It is no
//   longer equal to what was stored when operands are ordered. If the addend of a product takes the
//   instruction's place for a constant, it comes behind a constant, too; and what was stored of constants
//   comes behind others, the last one first.
// * A constant is one in all blocks, though it becomes part of a variable.
// * What is in a uniform register comes behind the other factor or summand (value_uniform.cpp).
// * Constants come last, and before them what .const memory holds. Of sums and products a constant
//   whose lower half is not 0 comes before a kernel's parameter (if sums and products alone read that), any
//   other behind it, and two parameters change places; of extremes parameters come before constants. But zero
//   comes first. Of two constants see constant_places.cpp.

namespace fp4lab::emu {

namespace {

using Kind = Ssa::Value::Kind;

constexpr int64_t kBehind = int64_t(1) << 40;  // all instructions: variables
constexpr int64_t kRoot = int64_t(1) << 20;    // more than there are instructions
constexpr int64_t kCopied = 16;                // more than the weight of what is computed later
constexpr int64_t kLeavesRounds = -32;         // before all that several ways bring
constexpr int64_t kLeavesLoop = 2;             // behind all that

int64_t nth(const std::vector<uint32_t>& registers, uint32_t reg) {
  return std::find(registers.begin(), registers.end(), reg) - registers.begin();
}

bool is_copy(const Instr& i) {
  return i.guard < 0 && i.opcode->name == "mov" && is_value(i.op[0]) && is_value(i.op[1]);
}

// A conversion from one to the other changes no bit.
bool is_of_64_bits_alike(Type to, Type from) {
  return bits_of(to) == 64 && bits_of(from) == 64 && is_float(to) == is_float(from);
}

// Of what ends a block for products.
bool orders_memory(const Source& s) {
  return s.tokens[0] == "membar" || s.tokens[0] == "fence" || s.tokens[0] == "griddepcontrol";
}

// An atomic of 64 bits in shared memory that the machine has no instruction for.
bool becomes_loop(const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {"add", "and", "or", "xor", "min", "max"};
  const auto is_one = [](std::string_view token) { return kNames.contains(token); };
  return s.tokens[0] == "atom" && bits_of(s.type()) == 64 && (s.has("shared") || s.has("shared::cta")) &&
         std::ranges::any_of(s.tokens, is_one);
}

// The operands that are asked for: the first of them, and how many.
std::pair<unsigned, unsigned> asked_for(const Source& s) {
  const std::string_view name = s.tokens[0];
  const Type type = s.type();
  const bool extreme = name == "min" || name == "max";
  if (extreme && (type == Type::f64 || type == Type::f32 || type == Type::f16)) return {1, 2};
  if (s.has("approx") || s.has("full")) return {1, 2};
  if ((name == "selp" || name == "slct") && type == Type::f32) return {1, 2};
  if (type != Type::f64) return {1, 0};
  if (s.has("add") && (name == "atom" || name == "red")) return {name == "atom" ? 2 : 1, 1};
  if (name == "fma" || name == "mad") return {1, 3};
  return {1, name == "add" || name == "sub" || name == "mul" ? 2 : 0};
}

// Loops that are unrolled by four where they stand. (Those with the test at their end are several loops by
// now: several_loops.h.)
std::vector<CountedLoop> unrolled_loops(const Function& f, const Dataflow& flow,
                                        const std::vector<const Token*>& nounroll) {
  std::vector<CountedLoop> loops;
  if (!sums_f64(f)) return loops;
  for (const CountedLoop& loop : counted_loops(f, flow, nounroll))
    if (becomes_several(f, loop) && !loop.is_tested_at_end()) loops.push_back(loop);
  return loops;
}

// Each has an exit of its own for what is left of the rounds.
std::vector<Ssa::Stretch> exits_of(const std::vector<CountedLoop>& loops) {
  std::vector<Ssa::Stretch> stretches;
  for (const CountedLoop& loop : loops) stretches.push_back({loop.leaving, loop.out});
  return stretches;
}

}  // namespace

bool comes_with_source(const Instr& i, const Source& s) {
  const std::string_view name = i.opcode->name;
  if (i.guard >= 0 || !is_value(i.op[0]) || !is_value(i.op[1])) return false;
  if ((name == "neg_float" || name == "abs_float") && s.type() == Type::f64) return true;
  const std::string_view mnemonic = s.tokens[0];
  const bool is_extreme_of_itself = (mnemonic == "min" || mnemonic == "max") && s.type() == Type::f64 &&
                                    is_value(i.op[2]) && i.op[1].offset == i.op[2].offset;
  return is_copy(i) || is_extreme_of_itself || is_logic_of_itself(i, s) ||
         (mnemonic == "cvt" && s.tokens.size() == 3 && is_of_64_bits_alike(s.type(0), s.type(1))) ||
         (mnemonic == "cvta" && s.has("global"));
}

ValueOrder::ValueOrder(const Function& f, const Dataflow& flow, const Known& known,
                       const std::vector<const Token*>& nounroll, bool are_renamed)
    : f_(f),
      flow_(flow),
      are_renamed_(are_renamed),
      stored_constants_(known.stored_constants()),
      unrolled_(unrolled_loops(f, flow, nounroll)),
      ssa_(f, flow, registers_asked_for(), exits_of(unrolled_)) {
  find_blocks(known);
  find_called_quotients(known);
  find_constant_roots(known);
  find_extended_shifts(known);
  find_only();
  find_webs();
  find_rounds();
  find_text_blocks();
  rank_webs();
  for (uint32_t pc = 0; pc < f.code.size() && !ssa_.values().empty(); ++pc)
    if (leads_into_loop(pc, known)) lead_into_loops_.insert(pc);
  find_equals(known);
  find_shared_results();
  count_uses(known);
  find_sunk();
  join_rounds(known);
  find_uniform(known);
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    if (flow.is_dead(pc)) continue;
    const auto [first, count] = asked_for(f.source[pc]);
    for (unsigned slot = first; slot < first + count; ++slot) {
      Held& operand = held_[place(pc, slot)] = held(pc, slot);
      // What integer instructions compute of constants is one by then, what is converted, and a number that
      // is computed without a rounding's name.
      const auto bits = known.bits(pc, slot);
      const uint32_t maker = known.only_maker(pc, slot);
      const bool is_computed = maker != Dataflow::kNone &&
                               (!is_float(f_.source[maker].type()) || f_.source[maker].tokens[0] == "cvt" ||
                                known.is_result_constant(maker));
      if (bits &&
          (operand.rank.of == Rank::Class::joined || (operand.rank.of == Rank::Class::known && is_computed)))
        operand.rank = rank_of_constant(*bits, pc);
    }
  }
  find_constant_places(known);
}

void ValueOrder::find_blocks(const Known& known) {
  const size_t count = f_.code.size();
  for (std::vector<uint32_t>* by_pc :
       {&places_.reads, &places_.makes, &places_.flow, &blocks_.reads, &blocks_.makes, &blocks_.flow,
        &stretch_reads_, &stretch_makes_, &calls_before_})
    by_pc->resize(count);
  uint32_t place = 0, block = 0, stretch = 0, calls = 0;
  for (const Dataflow::Block& b : flow_.blocks()) {
    for (uint32_t pc = b.begin; pc < b.end; ++pc) {
      places_.reads[pc] = place;
      blocks_.reads[pc] = block;
      stretch_reads_[pc] = stretch;
      places_.flow[pc] = blocks_.flow[pc] = static_cast<uint32_t>(&b - flow_.blocks().data());
      calls_before_[pc] = calls;
      calls += !flow_.is_dead(pc) && has_call(f_.source[pc], known.bits(pc, 1));
      const bool ends = ends_block(f_.source[pc], flow_.becomes_branch(pc), known.bits(pc, 1));
      place += ends;
      block += ends && !orders_memory(f_.source[pc]);
      stretch += ends || ends_stretch(f_.source[pc]);
      places_.makes[pc] = place;
      blocks_.makes[pc] = block;
      stretch_makes_[pc] = stretch;
    }
    ++place;
    ++block;
    ++stretch;
  }
}

// Blocks end in the text's places too: behind a label that nobody goes to any more, behind the branch of a
// loop that has become straight, and with stretches. Not within such a loop, and not between the rounds of
// one that has become several.
void ValueOrder::find_text_blocks() {
  text_reads_.resize(f_.code.size());
  text_makes_.resize(f_.code.size());
  std::map<Named, uint32_t> last;  // the flow's block where a copy stands
  uint32_t block = 0;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const uint32_t loop = straight_loop_at(pc);
    bool begins = f_.source[pc].begins_block && (loop == Ssa::kNone || straight_loops_[loop].first == pc);
    if (begins) {
      const auto [at, fresh] = last.try_emplace(named(f_, pc), blocks_.flow[pc]);
      begins = fresh || std::exchange(at->second, blocks_.flow[pc]) != blocks_.flow[pc];
    }
    if (pc > 0 && (begins || stretch_reads_[pc] != stretch_makes_[pc - 1])) ++block;
    text_reads_[pc] = block;
    block += stretch_makes_[pc] - stretch_reads_[pc];
    text_makes_[pc] = block;
  }
}

uint32_t ValueOrder::text_block_of(const Ssa::Value& v) const {
  return v.kind == Kind::made || v.kind == Kind::kept ? text_makes_[v.at] : text_reads_[v.at];
}

uint32_t ValueOrder::place_of(const Ssa::Value& v) const {
  return v.kind == Kind::made || v.kind == Kind::kept ? places_.makes[v.at] : places_.reads[v.at];
}

uint32_t ValueOrder::block_of(const Ssa::Value& v) const {
  return v.kind == Kind::made || v.kind == Kind::kept ? blocks_.makes[v.at] : blocks_.reads[v.at];
}

// All of them, if any may have to be ordered: what is computed of equal values is equal, too. Of a function
// too big for that those of 64 bits.
std::vector<uint32_t> ValueOrder::registers_asked_for() const {
  std::vector<char> is_wide(flow_.registers(), 0);
  bool any = false;
  const bool contracts = has_products(f_);
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    if (flow_.is_dead(pc)) continue;
    any |= asked_for(f_.source[pc]).second != 0 ||
           (contracts && shape_of(f_.code[pc], f_.source[pc]) == Shape::sum);
    for (const Operand& op : f_.code[pc].op)
      if (const uint32_t reg = flow_.number_of(op); reg != Dataflow::kNone && bits_of(op.type) == 64)
        is_wide[reg] = 1;
  }
  std::vector<uint32_t> asked;
  const bool all = !Ssa::is_too_big(flow_.blocks().size(), flow_.registers());
  for (uint32_t reg = 0; any && reg < flow_.registers(); ++reg)
    if (all || is_wide[reg]) asked.push_back(reg);
  return asked;
}

uint32_t ValueOrder::web_of(uint32_t value) {
  while (parent_[value] != value) value = parent_[value] = parent_[parent_[value]];
  return value;
}

// Where all ways bring copies of one value there is nothing to merge.
void ValueOrder::find_only() {
  constexpr unsigned kMostCopies = 256;
  const std::vector<Ssa::Value>& values = ssa_.values();
  only_.assign(values.size(), Ssa::kNone);
  const auto source = [&](uint32_t v) {
    for (unsigned copies = 0; copies < kMostCopies && v != Ssa::kNone; ++copies) {
      const Ssa::Value& value = values[v];
      if (only_[v] != Ssa::kNone) {
        v = only_[v];
        continue;
      }
      if (value.kind != Kind::made || !is_copy(value.at)) break;
      const uint32_t reg = flow_.number_of(f_.code[value.at].op[1]);
      if (reg == Dataflow::kNone) return Ssa::kNone;
      v = ssa_.read(value.at, reg);
    }
    return v;
  };
  for (uint32_t v = 0; v < values.size(); ++v) {
    if (values[v].kind != Kind::merged || values[v].operands.size() < 2) continue;
    const uint32_t only = source(values[v].operands[0]);
    const bool is_one =
        only != Ssa::kNone && only != v &&
        std::ranges::all_of(values[v].operands, [&](uint32_t from) { return source(from) == only; });
    if (is_one) only_[v] = only;
  }
  find_only_loads();
}

// A guarded load brings the only value that there is where nothing, or only the same load, has written its
// register before.
void ValueOrder::find_only_loads() {
  const std::vector<Ssa::Value>& values = ssa_.values();
  std::vector<char> is_nothing(values.size(), 0);
  for (uint32_t v = 0; v < values.size(); ++v)
    is_nothing[v] = values[v].kind == Kind::unknown || values[v].kind == Kind::merged;
  const auto is_only_load = [&](uint32_t v) {
    const Ssa::Value& value = values[v];
    if (value.kind != Kind::kept || !is_nothing[value.operands[0]]) return false;
    const std::string_view name = f_.source[value.at].tokens[0];
    return name == "ld" || name == "atom";
  };
  const auto brings_something = [&](uint32_t from) { return !is_nothing[from] && !is_only_load(from); };
  for (bool changes = true; std::exchange(changes, false);)
    for (uint32_t v = 0; v < values.size(); ++v)
      if (values[v].kind == Kind::merged && is_nothing[v] &&
          std::ranges::any_of(values[v].operands, brings_something))
        is_nothing[v] = 0, changes = true;
  for (uint32_t v = 0; v < values.size(); ++v)
    if (is_only_load(v)) only_[v] = values[v].operands[1];
}

void ValueOrder::find_webs() {
  const std::vector<Ssa::Value>& values = ssa_.values();
  meets_.assign(values.size(), 0);
  webs_.resize(values.size());
  parent_.resize(values.size());
  for (uint32_t v = 0; v < values.size(); ++v) parent_[v] = v;
  for (uint32_t v = 0; v < values.size(); ++v) {
    if (is_selection(v) || only_[v] != Ssa::kNone) continue;
    for (const uint32_t from : values[v].operands) {
      meets_[from] = 1;
      parent_[web_of(from)] = web_of(v);
    }
  }
  for (uint32_t v = 0; v < values.size(); ++v)
    if (values[v].kind == Kind::made) made_[values[v].at] = v;
  for (uint32_t v = 0; v < values.size(); ++v)
    if (!values[v].operands.empty() && !is_selection(v) && only_[v] == Ssa::kNone)
      webs_[web_of(v)].is_variable = true;
}

// One of several ways in the machine code of one instruction brings it.
bool ValueOrder::is_met_inside(uint32_t pc) const {
  const Source& s = f_.source[pc];
  return s.type() == Type::f64 && stays_unwanted(s) && !called_quotients_.contains(pc) &&
         !constant_roots_.contains(pc);
}

// Nothing but what is wanted by nobody, or becomes part of its readers, stands between an instruction that
// becomes several ways and the head of a loop. (What ends it is in the same block as what is behind it if the
// loop does nothing and goes.)
bool ValueOrder::leads_into_loop(uint32_t pc, const Known& known) const {
  const uint32_t block = blocks_.flow[pc];
  if (!is_met_inside(pc) || block + 1 == flow_.blocks().size()) return false;
  const Dataflow::Block& head = flow_.blocks()[block + 1];
  for (uint32_t between = pc + 1; between < head.begin; ++between) {
    const auto made = made_.find(between);
    const bool is_part = made != made_.end() && !meets_[made->second] &&
                         comes_with_source(f_.code[between], f_.source[between]);
    if (!is_part && !flow_.is_dead(between)) return false;
  }
  return std::ranges::any_of(head.predecessors, [&](uint32_t from) {
    const uint32_t behind = flow_.blocks()[from].end;
    return ssa_.dominates(block + 1, from) &&
           (behind == f_.code.size() || !known.is_in_block(head.begin, behind));
  });
}

// What a guarded instruction kept, without a branch.
bool ValueOrder::is_selection(uint32_t v) const {
  const Ssa::Value& value = ssa_.values()[v];
  return value.kind == Kind::kept && !is_branch_under_guard(f_.source[value.at]);
}

// A register's first web that is read in several blocks has the register's own rank.
void ValueOrder::rank_webs() {
  const std::vector<Ssa::Value>& values = ssa_.values();
  std::vector<char> crosses = webs_that_cross();
  std::vector<uint32_t> first(values.size(), Ssa::kNone);  // where a web begins
  // Registers: in which block they are mentioned first, as which of all.
  std::unordered_map<uint32_t, std::pair<uint32_t, int64_t>> mentioned;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    int64_t at = kStep * pc;
    for (const uint32_t reg : flow_.access(pc).writes) mentioned.try_emplace(reg, text_makes_[pc], at++);
    for (const uint32_t reg : flow_.access(pc).reads) mentioned.try_emplace(reg, text_reads_[pc], at++);
  }
  for (uint32_t v = 0; v < values.size(); ++v)
    if (values[v].kind != Kind::unknown) first[web_of(v)] = std::min(first[web_of(v)], values[v].at);
  std::vector<uint32_t> webs;
  for (uint32_t v = 0; v < values.size(); ++v)
    if (web_of(v) == v && crosses[v] && first[v] != Ssa::kNone) webs.push_back(v);
  std::sort(webs.begin(), webs.end(), [&](uint32_t a, uint32_t b) { return first[a] < first[b]; });
  std::unordered_set<uint32_t> named;
  for (const uint32_t web : webs) {
    const uint32_t reg = values[web].reg;
    if (!named.insert(reg).second) {
      webs_[web].rank = {Rank::Class::variable, 0, first[web]};
      continue;
    }
    const auto [block, order] = mentioned.at(reg);
    webs_[web].rank = {Rank::Class::known, block, kBehind + order};
  }
}

// Those that are read in several blocks, by name.
std::vector<char> ValueOrder::webs_that_cross() {
  const std::vector<Ssa::Value>& values = ssa_.values();
  std::vector<char> crosses(values.size(), 0);
  for (uint32_t v = 0; v < values.size(); ++v) {
    crosses[web_of(v)] |= static_cast<char>(webs_[web_of(v)].is_variable);
    for (const uint32_t from : values[v].operands)
      if (is_selection(v) && block_of(values[from]) != block_of(values[v])) crosses[web_of(from)] = 1;
  }
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    for (const uint32_t reg : flow_.access(pc).reads) {
      const uint32_t v = ssa_.read(pc, reg);
      const bool is_read = !flow_.is_dead(pc) || is_float_routine(f_.source[pc]);
      if (v != Ssa::kNone && block_of(values[v]) != blocks_.reads[pc] && is_read) crosses[web_of(v)] = 1;
    }
  return crosses;
}

ValueOrder::Held ValueOrder::held(uint32_t pc, unsigned slot) {
  const Operand& op = f_.code[pc].op[slot];
  const uint32_t reg = is_value(op) ? flow_.number_of(op) : Dataflow::kNone;
  if (reg == Dataflow::kNone) return {rank_of_constant(op, pc), kConstant | op.offset, kConstant | op.offset};
  const uint32_t v = ssa_.read(pc, reg);
  if (v == Ssa::kNone) return {{}, kUnknown | slot, kUnknown | slot};
  const uint32_t shown = shown_to(v, pc);
  const bool is_variable =
      is_variable_in(shown, blocks_.reads[pc]) || ssa_.values()[shown].kind == Kind::merged;
  const bool is_of_others = is_variable_in(v, blocks_.reads[pc]);
  return {rank(v, pc, slot), is_of_others ? kVariable | v : shown_behind_stores(v),
          is_of_others ? kVariable | v : copied_from(v), uniform_uses_[shown], is_variable};
}

bool ValueOrder::is_variable_in(uint32_t v, uint32_t block) {
  const Ssa::Value& value = ssa_.values()[v];
  if (are_renamed_ && value.kind == Kind::made) return false;
  if (value.kind == Kind::merged && !equal_.empty() && equal_[v] != v) return false;  // not of its variable
  return webs_[web_of(v)].is_variable && block_of(value) != block;
}

// As an operand of an instruction.
ValueOrder::Rank ValueOrder::rank(uint32_t v, uint32_t pc, unsigned slot) {
  uint32_t block = blocks_.reads[pc];
  for (bool repeats = false;;) {
    // Other blocks read a variable as such, though what made it repeats a value.
    if (equal_[v] != v && (repeats || ssa_.values()[v].kind != Kind::made || !is_variable_in(v, block))) {
      v = equal_[v];
      repeats = true;
    }
    if (const auto load = forwarded_.find(v); load != forwarded_.end())
      return rank_of_stored(v, load->second);
    const Ssa::Value& value = ssa_.values()[v];
    const Web& web = webs_[web_of(v)];
    if (only_[v] != Ssa::kNone) {
      v = only_[v];
      continue;
    }
    if (value.kind == Kind::merged) return rank_of_variable(v, pc, slot);
    if (value.kind == Kind::unknown) return web.rank;
    const Instr& i = f_.code[value.at];
    const Source& s = f_.source[value.at];
    if (value.kind == Kind::kept && is_branch_under_guard(s))
      return meets_[v] ? rank_of_variable(v, pc, slot) : rank_of_last(web);
    // A constant goes on into all blocks.
    const bool is_constant =
        value.kind == Kind::made && emu::is_copy(i, s) && flow_.number_of(i.op[1]) == Dataflow::kNone;
    if (is_constant) return rank_of_constant(i.op[1], pc);
    if (!repeats && is_variable_in(v, block)) return rank_of_variable(v, pc, slot);
    if (value.kind == Kind::made) {
      if (comes_with_source(i, s)) {
        if (flow_.number_of(i.op[1]) == Dataflow::kNone) return rank_of_constant(i.op[1], pc);
        std::tie(v, block) = behind(v);
        continue;
      }
      if (flow_.is_in_bank(value.at))
        return {Rank::Class::constant, s.has("const") ? kInConst : kParameter, kStep * value.at};
      if (lead_into_loops_.contains(value.at))
        return {Rank::Class::known, text_reads_[value.at], kBehind + kStep * value.at};
      if (is_met_inside(value.at)) return {Rank::Class::met, 0, -(kBehind + kStep * value.at)};
    }
    if (is_joined(v)) return joined(v, pc, slot, false);
    if (value.kind == Kind::made && becomes_loop(s)) return {Rank::Class::met, kLeavesLoop, kStep * value.at};
    if (const auto shared = shared_result(value)) return *shared;
    if (const auto copy = invariants_.find(v); copy != invariants_.end() && !copy->second.is_of_first_block)
      return {Rank::Class::sunk, place_of(value), kBehind + value.at};
    if (const auto loop = comes_from_round_before(v, pc))
      return {Rank::Class::met, kLeavesRounds - *loop, value.at};
    if (has_left_rounds(v, pc))  // of a vector the last element first
      return {Rank::Class::met, kLeavesRounds - leaves_[v],
              kStep * value.at - nth(flow_.access(value.at).writes, value.reg)};
    return made_at(value, pc);
  }
}

// As an operand of the instruction `reader`.
ValueOrder::Rank ValueOrder::made_at(const Ssa::Value& value, uint32_t reader) const {
  if (value.kind == Kind::made && !sunk_.empty()) {
    const Sunk &sunk = sunk_[value.at], &to = sunk_[reader];
    const bool moves = sunk.block != Ssa::kNone;
    if (sunk.copies > 0 && to.block != Ssa::kNone && sunk.block != to.block)
      return {Rank::Class::sunk, to.block,
              kBehind * (kCopied + sunk.copies) +
                  kRoot * (2 * int64_t(moves ? sunk.block : place_of(value)) + moves) + value.at};
    if (moves) return {Rank::Class::sunk, sunk.block, kBehind * sunk.weight + kRoot * sunk.root + value.at};
  }
  return {!is_copied_.empty() && is_copied_[value.at] ? Rank::Class::copied : Rank::Class::known,
          text_block_of(value), kStep * value.at + nth(flow_.access(value.at).writes, value.reg)};
}

// Of a load behind a store.
ValueOrder::Rank ValueOrder::rank_of_stored(uint32_t load, const Stored& stored) {
  const int64_t at = kStep * stored.at + stored.nth;
  if (shown_behind_stores(load) / kConstant == 1) return {Rank::Class::constant, kStored, -at};
  return {Rank::Class::stored, 0, at};
}

ValueOrder::Rank ValueOrder::rank_of_variable(uint32_t v, uint32_t pc, unsigned slot) {
  const Web& web = webs_[web_of(v)];
  const bool is_last = !meets_[v] && ssa_.values()[v].kind == Kind::merged;
  if (is_last ? whole_[v] <= 0 && !is_f64(v) : web.whole <= 0)
    return joined(v, pc, slot, ssa_.values()[v].kind == Kind::made);
  return is_last ? rank_of_last(web) : web.rank;
}

// Of a variable's value that does not meet anything any more.
ValueOrder::Rank ValueOrder::rank_of_last(const Web& web) {
  return {Rank::Class::met, -static_cast<int64_t>(web.rank.of), -web.rank.at};
}

// A zero is a register of its own, which comes before all else. Of the others the upper half may be part of
// the instruction if the lower one is 0. What is stored, too, is in another register behind a call.
ValueOrder::Rank ValueOrder::rank_of_constant(uint64_t bits, uint32_t reader) const {
  if (bits << 1 == 0) return {Rank::Class::known, -1, 0};
  const auto stores = stored_constants_.find(bits);
  const auto calls_before = [&](uint32_t store) { return calls_before_[store]; };  // more, the later it is
  if (stores != stored_constants_.end() &&
      std::ranges::binary_search(stores->second, calls_before_[reader], {}, calls_before))
    return {Rank::Class::constant, kAlsoStored, 0};
  return {Rank::Class::constant, bits << 32 == 0 ? kInInstruction : kInRegister, 0};
}

ValueOrder::Rank ValueOrder::rank_of_constant(const Operand& op, uint32_t reader) const {
  if (op.immediate) return rank_of_constant(static_cast<uint64_t>(op.displacement), reader);
  return {Rank::Class::constant, kInRegister, 0};
}

// What an instruction repeats is the instruction that is left.
uint32_t ValueOrder::first_of_equals(uint32_t pc) const {
  const auto made = made_.find(pc);
  if (made == made_.end()) return pc;
  const uint32_t first = ssa_.values()[equal_[made->second]].at;
  return f_.source[first].tokens[0] == f_.source[pc].tokens[0] && held_.contains(place(first, 1)) ? first
                                                                                                  : pc;
}

// The addend of a product takes the instruction's place for a constant.
bool ValueOrder::takes_constant_behind(uint32_t pc) const {
  const auto addend = constant_addend(pc);
  return addend && addend->block == kInInstruction;
}

bool ValueOrder::comes_later(uint32_t pc, unsigned slot, unsigned than) const {
  if (const uint32_t first = first_of_equals(pc); first != pc) {
    const bool exchanged = held_.at(place(pc, slot)).is != held_.at(place(first, slot)).is;
    return comes_later(first, exchanged ? than : slot, exchanged ? slot : than);
  }
  const bool later = is_ranked_later(pc, slot, than);
  return later != changes_places(pc, held_.at(place(pc, later ? than : slot)),
                                 held_.at(place(pc, later ? slot : than)));
}

std::optional<ValueOrder::Rank> ValueOrder::constant_addend(uint32_t pc) const {
  const auto addend = held_.find(place(pc, 3));
  const bool is_it = addend != held_.end() && addend->second.rank.of == Rank::Class::constant;
  return is_it ? std::optional(addend->second.rank) : std::nullopt;
}

bool ValueOrder::is_ranked_later(uint32_t pc, unsigned slot, unsigned than) const {
  const Rank &a = held_.at(place(pc, slot)).rank, &b = held_.at(place(pc, than)).rank;
  if (takes_constant_behind(pc)) {
    if (a.of == Rank::Class::stored && b.of == Rank::Class::constant) return true;
    if (a.of == Rank::Class::constant && b.of == Rank::Class::stored) return false;
  }
  if (a.of == Rank::Class::constant && b.of == Rank::Class::constant) {
    const Source& s = f_.source[pc];
    const std::string_view name = s.tokens[0];
    const bool is_extreme = name == "min" || name == "max";
    if (is_written(a) && is_written(b)) {
      const auto second = second_constant(pc);
      return second ? slot == *second : is_extreme || rounds_in_a_direction(s);
    }
    if (is_extreme) return a.block != kParameter && b.block == kParameter;
    if (a.block == kParameter && b.block == kParameter) return true;
  }
  return a > b;
}

bool ValueOrder::comes_behind_memory(uint32_t pc, unsigned slot) const {
  const Held& held = held_.at(place(pc, slot));
  const bool is_in_halves = held.rank.of == Rank::Class::joined && !held.is_variable;
  return is_in_halves || held.rank.of == Rank::Class::stored || held.rank.of == Rank::Class::constant;
}

bool ValueOrder::are_copies_of_one(uint32_t pc, unsigned slot, unsigned other) const {
  return held_.at(place(pc, slot)).copied == held_.at(place(pc, other)).copied;
}

bool ValueOrder::same(uint32_t pc, unsigned slot, unsigned other) const {
  const auto shown = [&](unsigned of) {
    uint64_t is = held_.at(place(pc, of)).is;
    for (auto found = late_copies_.find(is); found != late_copies_.end(); found = late_copies_.find(is)) {
      const Ssa::Value& copy = ssa_.values()[found->first];
      if (block_of(copy) != blocks_.reads[pc]) break;
      is = found->second;
    }
    return is;
  };
  return shown(slot) == shown(other);
}

void ValueOrder::became_copy(uint32_t pc, unsigned slot) {
  const auto made = made_.find(pc);
  if (made != made_.end() && f_.code[pc].guard < 0)
    late_copies_.emplace(made->second, held_.at(place(pc, slot)).is);
}

}  // namespace fp4lab::emu
