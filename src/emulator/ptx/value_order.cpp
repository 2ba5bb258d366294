#include "emulator/ptx/value_order.h"

#include <algorithm>
#include <utility>

#include "emulator/isa/opcode.h"

// The rule, read off the machine code of some ten thousand programs:
//
// * A value comes where it is made. A copy, a negation or an absolute value comes where its source does.
// * Values that meet behind branches are a variable. In the block that makes such a value it comes where it
//   is made. In other blocks, a register's first variable comes behind everything that the block makes in
//   which the text mentions the register first, in the order of these mentions; its later variables come
//   behind all values, in the order of their first definitions.
// * What several ways have brought and does not meet anything any more comes behind these, the variable that
//   would be first last.
// * 64-bit integers are made as halves, and come where something other than integer arithmetic reads them
//   first, as a whole. So does what a guarded instruction may have made, which is selected by halves, unless
//   it also reads the register; a guarded load is one of several ways.
// * Constants come last, and with them a kernel's parameters and the results of instructions that become
//   several ways in machine code.

namespace fp4lab::emu {

namespace {

constexpr unsigned kSlots = 5;  // operands 1 to 4 are asked for
// Steps within a block: two of an instruction, before and at it, for each register; then the variables.
constexpr int64_t kStep = 64, kBehind = int64_t(1) << 40;

uint64_t place(uint32_t pc, unsigned slot) { return uint64_t(pc) * kSlots + slot; }

int64_t nth(const std::vector<uint32_t>& registers, uint32_t reg) {
  return std::find(registers.begin(), registers.end(), reg) - registers.begin();
}

bool is_value(const Operand& op) { return op.kind == Operand::Kind::value; }

bool is_copy(const Instr& i) {
  return i.guard < 0 && i.opcode->name == "mov" && is_value(i.op[0]) && is_value(i.op[1]);
}

// Copies, and what becomes a part of the instruction that reads it.
bool comes_with_source(const Instr& i, const Source& s) {
  const std::string_view name = i.opcode->name;
  if (i.guard >= 0 || !is_value(i.op[0]) || !is_value(i.op[1])) return false;
  if ((name == "neg_float" || name == "abs_float") && s.type() == Type::f64) return true;
  const std::string_view mnemonic = s.tokens[0];
  return is_copy(i) ||
         (mnemonic == "cvt" && s.tokens.size() == 3 && s.type(0) == Type::f64 && s.type(1) == Type::f64) ||
         (mnemonic == "cvta" && s.has("global"));
}

// Works on the halves of 64-bit registers.
bool is_split(const Source& s) {
  static const std::unordered_set<std::string_view> kWhatever = {"selp", "slct", "and",  "or",   "xor",
                                                                 "not",  "shl",  "shr",  "atom", "bfe",
                                                                 "bfi",  "addc", "subc", "madc", "sad"};
  static const std::unordered_set<std::string_view> kIntegers = {"add", "sub", "mul",  "mad", "min",
                                                                 "max", "set", "setp", "abs", "neg"};
  if (s.tokens[0] == "mul" && s.has("wide")) return false;
  return kWhatever.contains(s.tokens[0]) || (kIntegers.contains(s.tokens[0]) && s.type() != Type::f64);
}

// What becomes of a guarded instruction's result.
enum class Guarded { in_place, selected, one_of_several };
Guarded guarded(const Source& s, bool reads_it_too) {
  const std::string_view name = s.tokens[0];
  if (name == "mov") return Guarded::in_place;
  const bool waits =
      name == "ld" || name == "atom" || name == "cvt" || name == "brev" || s.type() != Type::f64;
  if (waits) return Guarded::one_of_several;
  return reads_it_too ? Guarded::in_place : Guarded::selected;
}

// Comes last wherever it is made: parameters and constants, and what one of several ways brings in the
// machine code of one instruction.
bool comes_last(const Function& f, const Instr& i, const Source& s) {
  const std::string_view name = s.tokens[0];
  const Type type = s.type();
  if (name == "ld") return ((f.entry && s.has("param")) || s.has("const")) && !i.op[1].has_base;
  if (type == Type::f64)
    return name == "rsqrt" || ((name == "div" || name == "sqrt" || name == "rcp") && s.has("rn"));
  if (type == Type::u64) return (name == "mul" || name == "mad") && s.has("hi");
  return (name == "abs" || name == "neg") && type == Type::s64;
}

// The operands that are asked for: the first of them, and how many.
std::pair<unsigned, unsigned> asked_for(const Source& s) {
  const std::string_view name = s.tokens[0];
  const Type type = s.type();
  const bool extreme = name == "min" || name == "max";
  if (extreme && (type == Type::f64 || type == Type::f32 || type == Type::f16)) return {1, 2};
  if (s.has("approx") || s.has("full")) return {1, 2};
  const bool sum = name == "add" || name == "sub" || name == "mul" || name == "fma" || name == "mad";
  return {1, sum && type == Type::f64 ? 2 : 0};
}

}  // namespace

ValueOrder::ValueOrder(const Function& f, const Dataflow& flow)
    : f_(f), flow_(flow), ssa_(f, flow, registers_asked_for()) {
  block_of_.resize(f.code.size());
  for (uint32_t b = 0; b < flow.blocks().size(); ++b)
    std::fill(block_of_.begin() + flow.blocks()[b].begin, block_of_.begin() + flow.blocks()[b].end, b);
  find_webs();
  rank_webs();
  for (uint32_t pc = 0; pc < f.code.size(); ++pc) {
    if (flow.is_dead(pc)) continue;
    const auto [first, count] = asked_for(f.source[pc]);
    for (unsigned slot = first; slot < first + count; ++slot) held_[place(pc, slot)] = held(pc, slot);
  }
}

// Those that are operands, and what is copied into them.
std::vector<uint32_t> ValueOrder::registers_asked_for() const {
  std::unordered_map<uint32_t, std::vector<uint32_t>> sources;
  std::vector<uint32_t> found;
  std::unordered_set<uint32_t> known;
  const auto ask = [&](uint32_t reg) {
    if (reg != Dataflow::kNone && known.insert(reg).second) found.push_back(reg);
  };
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    if (flow_.is_dead(pc)) continue;
    const Instr& i = f_.code[pc];
    const auto [first, count] = asked_for(f_.source[pc]);
    for (unsigned slot = first; slot < first + count; ++slot) ask(flow_.number_of(i.op[slot]));
    if (comes_with_source(i, f_.source[pc]))
      sources[flow_.number_of(i.op[0])].push_back(flow_.number_of(i.op[1]));
  }
  for (size_t next = 0; next < found.size(); ++next)
    if (const auto copied = sources.find(found[next]); copied != sources.end())
      for (const uint32_t reg : copied->second) ask(reg);
  return found;
}

uint32_t ValueOrder::web_of(uint32_t value) {
  while (parent_[value] != value) value = parent_[value] = parent_[parent_[value]];
  return value;
}

void ValueOrder::find_webs() {
  const std::vector<Ssa::Value>& values = ssa_.values();
  meets_.assign(values.size(), 0);
  parent_.resize(values.size());
  for (uint32_t v = 0; v < values.size(); ++v) parent_[v] = v;
  for (uint32_t v = 0; v < values.size(); ++v)
    for (const uint32_t from : values[v].operands) {
      meets_[from] = 1;
      parent_[web_of(from)] = web_of(v);
    }
}

// A register's first web that is read in several blocks has the register's own rank.
void ValueOrder::rank_webs() {
  const std::vector<Ssa::Value>& values = ssa_.values();
  webs_.resize(values.size());
  first_read_.assign(values.size(), Ssa::kNone);
  std::vector<char> crosses(values.size(), 0);             // webs that are read in several blocks
  std::vector<uint32_t> first(values.size(), Ssa::kNone);  // where a web begins
  std::unordered_map<uint32_t, std::pair<uint32_t, int64_t>>
      mentioned;  // registers: by whom, as which of all
  const auto mention = [&](uint32_t reg, uint32_t pc) { mentioned.try_emplace(reg, pc, mentioned.size()); };
  for (uint32_t v = 0; v < values.size(); ++v) {
    const uint32_t web = web_of(v);
    if (values[v].kind != Ssa::Value::Kind::unknown) first[web] = std::min(first[web], values[v].at);
    if (!values[v].operands.empty()) webs_[web].is_variable = true, crosses[web] = 1;
  }
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    for (const uint32_t reg : flow_.access(pc).writes) mention(reg, pc);
    for (const uint32_t reg : flow_.access(pc).reads) {
      mention(reg, pc);
      const uint32_t v = ssa_.read(pc, reg);
      if (v == Ssa::kNone) continue;
      if (!is_split(f_.source[pc])) first_read_[v] = std::min(first_read_[v], pc);
      if (values[v].block != block_of_[pc] && !flow_.is_dead(pc)) crosses[web_of(v)] = 1;
    }
  }
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
    const auto [pc, order] = mentioned.at(reg);
    webs_[web].rank = {Rank::Class::known, block_of_[pc], kBehind + order};
  }
}

ValueOrder::Held ValueOrder::held(uint32_t pc, unsigned slot) {
  const Operand& op = f_.code[pc].op[slot];
  const auto constant = [](const Operand& row) {
    return Held{{Rank::Class::constant, 0, 0}, kConstant | row.offset};
  };
  const uint32_t reg = is_value(op) ? flow_.number_of(op) : Dataflow::kNone;
  if (reg == Dataflow::kNone) return constant(op);
  uint32_t v = ssa_.read(pc, reg);
  if (v == Ssa::kNone) return {{}, kUnknown | slot};
  Held result{rank(v, block_of_[pc]), 0};
  while (ssa_.values()[v].kind == Ssa::Value::Kind::made && is_copy(f_.code[ssa_.values()[v].at])) {
    const uint32_t at = ssa_.values()[v].at;
    const uint32_t from = flow_.number_of(f_.code[at].op[1]);
    if (from == Dataflow::kNone) {
      result.is = constant(f_.code[at].op[1]).is;
      return result;
    }
    v = ssa_.read(at, from);
  }
  result.is = v;
  return result;
}

// As an instruction of a block sees the value.
ValueOrder::Rank ValueOrder::rank(uint32_t v, uint32_t block) {
  using Kind = Ssa::Value::Kind;
  for (;;) {
    const Ssa::Value& value = ssa_.values()[v];
    const Web& web = webs_[web_of(v)];
    if (value.kind == Kind::kept) return rank_of_kept(v, block);
    if (value.kind == Kind::merged) return rank_of_met(v);
    if (value.kind == Kind::unknown) return web.rank;
    const Instr& i = f_.code[value.at];
    const Source& s = f_.source[value.at];
    if (comes_with_source(i, s)) {
      const uint32_t from = flow_.number_of(i.op[1]);
      if (from == Dataflow::kNone) return {Rank::Class::constant, 0, 0};
      v = ssa_.read(value.at, from);
      block = value.block;
      continue;
    }
    if (comes_last(f_, i, s)) return {Rank::Class::constant, 0, 0};
    if (web.is_variable && value.block != block) return web.rank;
    return is_split(s) ? joined_at(v) : made_at(value);
  }
}

ValueOrder::Rank ValueOrder::made_at(const Ssa::Value& value) const {
  return {Rank::Class::known, value.block,
          2 * kStep * value.at + nth(flow_.access(value.at).writes, value.reg)};
}

ValueOrder::Rank ValueOrder::rank_of_met(uint32_t v) {
  const Rank& web = webs_[web_of(v)].rank;
  if (meets_[v]) return web;
  return {Rank::Class::met, -static_cast<int64_t>(web.of), -web.at};
}

ValueOrder::Rank ValueOrder::rank_of_kept(uint32_t v, uint32_t block) {
  const Ssa::Value& value = ssa_.values()[v];
  const auto& reads = flow_.access(value.at).reads;
  const bool reads_it_too = std::find(reads.begin(), reads.end(), value.reg) != reads.end();
  const Guarded how = guarded(f_.source[value.at], reads_it_too);
  if (value.block != block && meets_[v]) return rank_of_met(v);
  if (how == Guarded::one_of_several && meets_[v]) return rank_of_met(v);
  if (how == Guarded::one_of_several) return {Rank::Class::met, 1, -webs_[web_of(v)].rank.at};
  return how == Guarded::in_place ? made_at(value) : joined_at(v);
}

// Before the instruction that reads it first.
ValueOrder::Rank ValueOrder::joined_at(uint32_t v) const {
  const Ssa::Value& value = ssa_.values()[v];
  const uint32_t read = first_read_[v];
  if (read == Ssa::kNone) return made_at(value);
  return {Rank::Class::known, block_of_[read],
          (2 * int64_t(read) - 1) * kStep + nth(flow_.access(read).reads, value.reg)};
}

bool ValueOrder::comes_later(uint32_t pc, unsigned slot, unsigned than) const {
  return held_.at(place(pc, slot)).rank > held_.at(place(pc, than)).rank;
}

bool ValueOrder::same(uint32_t pc, unsigned slot, unsigned other) const {
  return held_.at(place(pc, slot)).is == held_.at(place(pc, other)).is;
}

}  // namespace fp4lab::emu
