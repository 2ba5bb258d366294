// Which values are equal, so that ptxas computes the second one no more: what repeats an instruction that
// every way here has come through, on equal operands, also where a register of either becomes part of a
// variable. (The variable, as other blocks read it, stays one.) A load repeats another if nothing between
// them may have changed what it reads (memory_states.h). Behind a store it gives what that has put there; but
// ptxas sees this later, when it has joined what is equal.
#include <algorithm>
#include <map>
#include <numeric>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/memory_states.h"
#include "emulator/ptxas/rewrite.h"
#include "emulator/ptxas/value_order.h"

namespace fp4lab::emu {

namespace {

using Kind = Ssa::Value::Kind;

// Its first two operands change places.
bool is_commutative(const Source& s) {
  static const std::unordered_set<std::string_view> kNames = {"add", "mul", "fma", "mad", "min", "max"};
  return kNames.contains(s.tokens[0]) && s.type() == Type::f64;
}

using Tokens = std::vector<std::string_view>;

// Of a load into registers of the type `to`. Local memory has no cache operators.
Tokens load_operation(Tokens tokens, Type to) {
  static const std::unordered_set<std::string_view> kCaching = {"ca", "cg", "cs", "lu", "cv", "wb", "wt"};
  const bool is_local = std::ranges::find(tokens, "local") != tokens.end();
  std::erase_if(tokens, [&](std::string_view token) {
    return token == "weak" || (is_local && kCaching.contains(token));
  });
  for (std::string_view& token : tokens)
    if (token == "f64" || token == "u64" || token == "s64")
      token = "b64";
    else if ((token == "f32" || token == "u32" || token == "s32") && bits_of(to) == 32)
      token = "b32";
    else if (token == "shared::cta")
      token = "shared";
  return tokens;
}

// As machine code tells them apart. (Loads of 16 bits of two types are joined later, observed.)
Tokens operation(const Instr& i, const Source& s) {
  Tokens tokens = s.tokens;
  if (tokens[0] == "mad" && s.type() == Type::f64) tokens[0] = "fma";
  return tokens[0] == "ld" ? load_operation(std::move(tokens), i.op[0].type) : tokens;
}

// Of the load that a store is forwarded to, if any is: a plain one of the same space and shape.
std::optional<Tokens> forwards_to(const Instr& i, const Source& s) {
  static const std::unordered_set<std::string_view> kPlain = {"ld", "local", "shared", "global", "v2", "b64"};
  if (s.tokens[0] != "st") return std::nullopt;
  Tokens tokens = s.tokens;
  tokens[0] = "ld";
  tokens = load_operation(std::move(tokens), i.op[1].type);
  const bool is_plain = std::ranges::all_of(tokens, [](std::string_view t) { return kPlain.contains(t); });
  return is_plain ? std::optional(std::move(tokens)) : std::nullopt;
}

// Which result of an instruction it is: of what is split into words, a load of its own, whose offset comes
// last.
void take_nth(std::vector<uint64_t>& made_of, Tokens& how, uint64_t nth, unsigned bytes_of_word) {
  if (bytes_of_word > 0) {
    made_of.back() += nth * bytes_of_word;
    std::erase_if(how, [](std::string_view token) { return token == "v2" || token == "v4"; });
    nth = 0;
  }
  made_of.push_back(nth);
}

// What operands of integers are, with the bits of a constant of 32 bits at most; unlike all values.
constexpr uint64_t kInteger = uint64_t(1) << 34;

std::optional<uint64_t> small_integer(const Known& known, const Operand& op, uint32_t pc, unsigned slot) {
  if (is_float(op.type) || slot >= Known::kSlots) return std::nullopt;
  const std::optional<uint64_t> bits = known.bits(pc, slot);
  return bits && *bits >> 32 == 0 ? bits : std::nullopt;
}

}  // namespace

// What a value is a copy of, as Held::is: not beyond a variable that the copy's block has not made.
uint64_t ValueOrder::copied_from(uint32_t v) {
  std::vector<uint32_t> path;
  uint64_t is = v;
  for (bool is_variable = false; is < kConstant && !is_variable;) {
    if (copied_[is] != kUnknown) {
      is = copied_[is];
      break;
    }
    const auto copy = static_cast<uint32_t>(is);
    if (only_[copy] != Ssa::kNone) {
      is_variable = is_variable_in(only_[copy], block_of(ssa_.values()[copy]));
      is = only_[copy] | (is_variable ? kVariable : 0);
    } else {
      const Ssa::Value& value = ssa_.values()[copy];
      if (value.kind != Kind::made || !is_copy(value.at)) break;
      const Operand& source = f_.code[value.at].op[1];
      const uint32_t from = flow_.number_of(source);
      const uint32_t read = from == Dataflow::kNone ? Ssa::kNone : ssa_.read(value.at, from);
      is = from == Dataflow::kNone ? kConstant | source.offset : read == Ssa::kNone ? kUnknown | copy : read;
      is_variable = read != Ssa::kNone && is_variable_in(read, blocks_.reads[value.at]);
      if (is_variable) is |= kVariable;
    }
    path.push_back(copy);
  }
  for (const uint32_t copy : path) copied_[copy] = is;
  return is;
}

bool ValueOrder::is_copy(uint32_t pc) const {
  const Instr& i = f_.code[pc];
  return comes_with_source(i, f_.source[pc]) && i.opcode->name != "neg_float" &&
         i.opcode->name != "abs_float";
}

// A copy and an equal value are what they show.
uint64_t ValueOrder::shown_by(uint32_t v) {
  const uint64_t is = copied_from(v);
  return is < kConstant ? equal_[is] : is;
}

uint64_t ValueOrder::shown_by(uint32_t pc, uint32_t reg) {
  const uint32_t v = ssa_.read(pc, reg);
  if (v == Ssa::kNone) return kUnknown | pc;  // unlike all others
  return is_variable_in(v, blocks_.reads[pc]) ? kVariable | v : shown_by(v);
}

// Instructions whose results other ones may have made before.
bool ValueOrder::may_repeat(uint32_t pc) const {
  const Source& s = f_.source[pc];
  if (f_.code[pc].guard >= 0 || flow_.is_dead(pc) || flow_.becomes_branch(pc) || reads_carry(s)) return false;
  const bool is_of_caller = s.tokens[0] == "ld" && (s.has("param") || s.has("param::func"));
  return flow_.is_pure(pc) && (!is_of_caller || flow_.is_in_bank(pc)) && !is_copy(pc);
}

// Its register, constant or variable, and how far behind that.
std::pair<uint64_t, uint64_t> ValueOrder::address(uint32_t pc, const Operand& op) {
  const uint32_t base = op.has_base ? flow_.number_of_base(op) : Dataflow::kNone;
  const uint64_t from =
      base != Dataflow::kNone ? shown_by(pc, base) : kConstant | (op.has_base ? op.offset : ~uint32_t(0));
  return {from, static_cast<uint64_t>(op.displacement)};
}

// What an instruction is made of; nothing if that is not known.
std::optional<std::vector<uint64_t>> ValueOrder::ingredients(uint32_t pc, const Known& known) {
  std::vector<uint64_t> all{f_.code[pc].aux};
  const auto add = [&](const Operand& op, uint64_t is) {
    all.push_back(is);
    all.push_back(op.negated);
  };
  const auto add_register = [&](const Operand& op) {
    const uint32_t reg = flow_.number_of(op);
    add(op, reg == Dataflow::kNone ? kConstant | op.offset : shown_by(pc, reg));
  };
  const auto add_address = [&](const Operand& op) {
    const auto [base, offset] = address(pc, op);
    all.insert(all.end(), {base, offset});
  };
  all.push_back(f_.code[pc].op[0].count);
  const size_t first = all.size();
  for (unsigned slot = 1; slot < kMaxOperands; ++slot) {
    const Operand& op = f_.code[pc].op[slot];
    switch (op.kind) {
      case Operand::Kind::none:
        break;
      case Operand::Kind::value:
      case Operand::Kind::predicate:
        if (const auto number = small_integer(known, op, pc, slot))
          add(op, kInteger | *number);
        else
          add_register(op);
        break;
      case Operand::Kind::address:
        add_address(op);
        break;
      case Operand::Kind::vector:
        for (uint32_t e = op.index; e < op.index + op.count; ++e) add_register(f_.vectors[e]);
        break;
      default:
        return std::nullopt;
    }
  }
  if (is_commutative(f_.source[pc]) && all[first] > all[first + 2]) std::swap(all[first], all[first + 2]);
  return all;
}

// Which of its instruction's results it is.
uint64_t ValueOrder::nth_result(uint32_t v) const {
  const Ssa::Value& value = ssa_.values()[v];
  const Operand& to = f_.code[value.at].op[0];
  const auto& writes = flow_.access(value.at).writes;
  if (to.kind != Operand::Kind::vector) return std::ranges::find(writes, value.reg) - writes.begin();
  uint32_t nth = 0;
  while (nth < to.count && flow_.number_of(f_.vectors[to.index + nth]) != value.reg) ++nth;
  return nth;
}

// Made of the same instruction of the text, for another round of its loop: ptxas joins the two later. Those
// of a straight loop when it has decided who is kept as halves, those of other loops behind all this.
bool ValueOrder::is_left_apart(uint32_t pc, uint32_t other, Rounds rounds) const {
  if (position(f_.source[pc]) != position(f_.source[other])) return false;
  const uint32_t loop = any_straight_loop_at(pc);
  return rounds == Rounds::apart || loop == Ssa::kNone || loop != any_straight_loop_at(other);
}

// An instruction that repeats another, which every way here has come through, is that other.
void ValueOrder::find_equals(const Known& known) {
  equal_.resize(ssa_.values().size());
  std::iota(equal_.begin(), equal_.end(), 0);
  copied_.assign(equal_.size(), kUnknown);
  if (equal_.empty()) return;
  find_invariants();
  join_equals(known, Rounds::apart);
  find_repeated_copies();
}

// Where several ways bring copies of equal values, those behind one of them repeat it, and there is nothing
// to merge. Not if each way has copied for itself.
void ValueOrder::find_repeated_copies() {
  const std::vector<Ssa::Value>& values = ssa_.values();
  const auto comes_before_all = [&](uint32_t copy, const Ssa::Value& merged) {
    const uint32_t at = values[copy].at;
    return std::ranges::all_of(merged.operands, [&](uint32_t other) {
      const uint32_t behind = values[other].at;
      return at <= behind && ssa_.dominates(blocks_.flow[at], blocks_.flow[behind]);
    });
  };
  for (uint32_t v = 0; v < values.size(); ++v) {
    const Ssa::Value& value = values[v];
    if (value.kind != Kind::merged || only_[v] != Ssa::kNone || value.operands.size() < 2) continue;
    const bool are_copies = std::ranges::all_of(value.operands, [&](uint32_t from) {
      return values[from].kind == Kind::made && is_copy(values[from].at);
    });
    if (!are_copies) continue;
    const uint64_t only = value_of(shown_by(value.operands[0]));
    const bool is_one =
        only < kConstant &&
        std::ranges::all_of(value.operands,
                            [&](uint32_t from) { return value_of(shown_by(from)) == only; }) &&
        std::ranges::any_of(value.operands, [&](uint32_t from) { return comes_before_all(from, value); });
    if (is_one) equal_[v] = static_cast<uint32_t>(only);
  }
}

void ValueOrder::join_rounds(const Known& known) {
  if (!straight_loops_.empty() || !tested_at_begin_.empty()) join_equals(known, Rounds::joined);
}

void ValueOrder::join_equals(const Known& known, Rounds rounds) {
  const std::vector<Ssa::Value>& values = ssa_.values();
  std::vector<std::vector<uint32_t>> results(f_.code.size());
  for (uint32_t v = 0; v < values.size(); ++v)
    if (values[v].kind == Kind::made) results[values[v].at].push_back(v);
  const MemoryStates memory(f_, flow_, ssa_);
  const Vectors vectors = vectors_in_memory(known);
  Made makers;
  std::vector<Load> loads;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    if (results[pc].empty() || !may_repeat(pc)) continue;
    std::optional<std::vector<uint64_t>> sources = ingredients(pc, known);
    if (!sources) continue;
    const bool is_load = f_.source[pc].tokens[0] == "ld" && !flow_.is_in_bank(pc);
    const bool is_split =
        is_load && is_vector_of_words(pc, f_.code[pc].op[0], f_.code[pc].op[1], vectors, known);
    if (f_.source[pc].tokens[0].starts_with("ld") && !flow_.is_in_bank(pc))
      sources->push_back(memory.before(pc));
    std::vector<Load> fresh;
    for (const uint32_t v : results[pc]) {
      if (is_split && !vectors.wanted[v]) continue;
      if (const auto copy = invariants_.find(v); copy != invariants_.end() && !copy->second.is_of_variable) {
        equal_[v] = equal_[copy->second.first];
        continue;
      }
      std::vector<uint64_t> key = is_load ? in_memory(pc, f_.code[pc].op[1], memory.before(pc)) : *sources;
      Tokens how = operation(f_.code[pc], f_.source[pc]);
      take_nth(key, how, nth_result(v), is_split ? bits_of(f_.source[pc].type()) / 8 : 0);
      std::vector<uint32_t>& equals = makers[{how, std::move(key)}];
      const auto last = std::find_if(equals.rbegin(), equals.rend(), [&](uint32_t other) {
        const uint32_t at = values[other].at;
        return !is_left_apart(at, pc, rounds) && ssa_.dominates(blocks_.flow[at], blocks_.flow[pc]);
      });
      if (last != equals.rend()) {
        equal_[v] = *last;
        continue;
      }
      equals.push_back(v);
      if (is_load) fresh.push_back({v, memory.before(pc), std::move(how)});
    }
    // A vector of which one word is left is a load of that.
    if (fresh.size() == 1) loads.push_back(std::move(fresh[0]));
  }
  if (rounds != Rounds::apart) return;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    forward_store(pc, memory.behind(pc), makers, vectors, known);
  find_pairs(loads, vectors, known);
}

// What a load is made of beside its operation, or what a store leaves for it.
std::vector<uint64_t> ValueOrder::in_memory(uint32_t pc, const Operand& at, uint32_t state) {
  const auto [base, offset] = address(pc, at);
  return {base, state, offset};
}

// To the loads behind it that nothing has come before.
void ValueOrder::forward_store(uint32_t pc, uint32_t state, const Made& makers, const Vectors& vectors,
                               const Known& known) {
  const Instr& i = f_.code[pc];
  const std::optional<Tokens> load = forwards_to(i, f_.source[pc]);
  if (!load) return;
  const Operand& op = i.op[1];
  const bool is_vector = op.kind == Operand::Kind::vector;
  const bool is_split = is_vector_of_words(pc, op, i.op[0], vectors, known);
  for (uint32_t nth = 0; nth < (is_vector ? op.count : 1u); ++nth) {
    const Operand& word = is_vector ? f_.vectors[op.index + nth] : op;
    Tokens how = *load;
    std::vector<uint64_t> key = in_memory(pc, i.op[0], state);
    take_nth(key, how, nth, is_split ? bits_of(f_.source[pc].type()) / 8 : 0);
    const auto loads = makers.find({how, key});
    if (loads == makers.end()) continue;
    for (const uint32_t v : loads->second)
      if (ssa_.dominates(blocks_.flow[pc], blocks_.flow[ssa_.values()[v].at]))
        forwarded_.emplace(v, Stored{pc, nth, i.guard < 0 ? &word : nullptr});
  }
}

// What a value shows once stores are forwarded, as Held::is.
uint64_t ValueOrder::shown_behind_stores(uint32_t v) {
  uint64_t is = shown_by(v);
  while (value_of(is) < kConstant) {
    const auto load = forwarded_.find(static_cast<uint32_t>(value_of(is)));
    if (load == forwarded_.end() || load->second.word == nullptr) break;
    const auto [at, nth, word] = load->second;
    const uint32_t reg = flow_.number_of(*word);
    is = reg == Dataflow::kNone ? kConstant | word->offset : shown_by(at, reg);
  }
  return is;
}

}  // namespace fp4lab::emu
