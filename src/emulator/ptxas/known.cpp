#include "emulator/ptxas/known.h"

#include <algorithm>
#include <map>
#include <span>

#include "emulator/ptxas/behind_copies.h"
#include "emulator/ptxas/foldable.h"
#include "emulator/ptxas/halves.h"
#include "emulator/ptxas/reaching_writes.h"
#include "emulator/ptxas/routine.h"

namespace fp4lab::emu {

namespace {

// What comes of comparing a value with itself, if it does not depend on whether it is a NaN. The compiler
// does not ask lo, ls, hi and hs.
std::optional<bool> of_itself(std::string_view how, bool may_be_nan) {
  if (how == "equ" || how == "leu" || how == "geu") return true;
  if (how == "ne" || how == "lt" || how == "gt") return false;
  if (may_be_nan) return std::nullopt;
  return how == "eq" || how == "le" || how == "ge" ? std::optional(true) : std::nullopt;
}

// What comes of comparing a float with a NaN.
bool of_nan(std::string_view how) { return how == "nan" || (how.size() == 3 && how.ends_with('u')); }

bool is_arithmetic(const Source& s) {
  const std::string_view name = s.tokens[0];
  return name == "add" || name == "sub" || name == "mul" || name == "min" || name == "max";
}

// Of constants it is computed at compile time also where it makes a NaN, the canonical one.
bool is_rounded(const Source& s) {
  const std::string_view name = s.tokens[0];
  return (name == "add" || name == "sub" || name == "mul") && s.type() == Type::f32 && s.has("rn");
}

// To an integral number of the same type, which is computed of constants, but not of NaNs and infinities.
bool is_integral(const Source& s) {
  return s.tokens[0] == "cvt" && is_float(s.type(0)) && s.type(0) == s.type(1) &&
         (s.has("rni") || s.has("rzi") || s.has("rmi") || s.has("rpi"));
}

// A constant NaN is converted by the machine.
bool is_to_integer(const Source& s) {
  return s.tokens[0] == "cvt" && !is_float(s.type(0)) && is_float(s.type(1));
}

bool is_infinite(uint64_t bits, Type type) {
  if (type == Type::f64) return bits << 1 == 0xffe0000000000000;
  return type == Type::f32 && (bits & 0x7fffffff) == 0x7f800000;
}

// Of a constant NaN it is computed, and makes it quiet.
bool is_widening(const Source& s) {
  return s.tokens[0] == "cvt" && s.type(0) == Type::f64 && s.type(1) == Type::f32 && !s.has("ftz");
}

// A move, by its name or as a conversion of nothing.
bool is_move(const Source& s) {
  return s.tokens[0] == "mov" || (s.tokens[0] == "cvt" && s.tokens.size() == 3 && s.type(0) == s.type(1) &&
                                  (s.type() == Type::f32 || s.type() == Type::f64));
}

// One that compares and does not combine, or of pairs.
bool is_plain_setp(const Source& s) {
  return s.tokens[0] == "setp" && s.tokens.size() == (s.has("ftz") ? 4 : 3) &&
         !name_of(s.type()).ends_with("x2");
}

// What the compiler computes of constants only once operands are ordered: what it makes of several
// instructions of 32 bits for 64 (but counts of bits, sums and products), and a few others.
bool is_computed_late(const Source& s) {
  static const std::unordered_set<std::string_view> kWide = {"and", "or",  "xor", "shr",  "min",
                                                             "max", "bfe", "bfi", "testp"};
  const std::string_view name = s.tokens[0];
  const bool is_wide = bits_of(s.type()) == 64 && (s.type() != Type::f64 || name == "testp");
  return name == "fns" || name == "szext" || (is_wide && kWide.contains(name)) ||
         (name == "cvt" && s.type() == Type::f16x2);
}

bool is_register(const Operand& op) { return is_value(op) || op.kind == Operand::Kind::predicate; }

}  // namespace

bool is_nan(uint64_t bits, Type type) {
  const auto exceeds = [](uint64_t value, unsigned width, uint64_t infinity) {
    return (value & ((uint64_t(1) << (width - 1)) - 1)) > infinity;
  };
  switch (type) {
    case Type::f64:
      return exceeds(bits, 64, 0x7ff0000000000000);
    case Type::f32:
      return exceeds(bits, 32, 0x7f800000);
    case Type::f16:
    case Type::f16x2:
      return exceeds(bits, 16, 0x7c00) || exceeds(bits >> 16, 16, 0x7c00);
    case Type::bf16:
    case Type::bf16x2:
      return exceeds(bits, 16, 0x7f80) || exceeds(bits >> 16, 16, 0x7f80);
    default:
      return false;
  }
}

Known::Known(const Rewriter& w, const Dataflow& flow, const Dataflow& blocks)
    : f_(w.f),
      makers_(w.f.code.size()),
      merged_(w.f.code.size(), 0),
      element_makers_(w.f.vectors.size(), Dataflow::kNone),
      guard_makers_(w.f.code.size(), Dataflow::kNone),
      uses_(w.f.code.size(), 0),
      block_(w.f.code.size(), 0),
      stretch_(w.f.code.size(), 0),
      made_here_(w.f.code.size(), 0),
      constant_(w.f.code.size(), 0),
      makes_nan_(w.f.code.size(), 0) {
  for (const Row& row : w.image.constants) {
    if (row.what == Row::What::bits32 || row.what == Row::What::bits64) rows_[row.offset] = row.bits;
    if (row.what == Row::What::shared32 || row.what == Row::What::shared64) shared_[row.offset] = row.bits;
  }
  for (const Fixup& address : w.image.fixups)
    if (address.row < w.image.constants.size()) rows_.erase(w.image.constants[address.row].offset);
  const ReachingWrites writes(f_, flow);
  find_makers(flow, writes);
  if (&blocks == &flow)
    find_meetings(flow, writes);
  else
    find_meetings(blocks, ReachingWrites(f_, blocks));
  find_stretches(flow);
  find_made_here(flow);
  find_values(w, flow);
  find_blocks(blocks);
  find_constants(flow);
  find_stored(flow);
  find_readers(flow);
}

void Known::find_stored(const Dataflow& flow) {
  uint32_t left = 0;
  left_before_.reserve(f_.code.size());
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    left_before_.push_back(left);
    left += !flow.is_dead(pc) && !is_move(f_.source[pc]);
  }
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const Operand& stored = f_.code[pc].op[1];
    const Source& s = f_.source[pc];
    const bool is_of_call = s.has("param") || s.has("param::func");
    if (s.tokens[0] != "st" || bits_of(s.type()) != 64 || flow.is_dead(pc) || is_of_call) continue;
    if (stored.kind == Operand::Kind::vector && stored.count == 2)
      for (uint32_t e = stored.index; e < stored.index + stored.count; ++e)
        if (const auto of = bits_of_element(pc, e)) stored_in_pairs_.emplace(*of, pc);
    if (!is_value(stored)) continue;
    if (const auto of = bits(pc, 1)) stored_[*of].push_back(pc);
  }
}

// Arithmetic and comparisons, if they are not computed. Selections read halves, and conversions are computed.
// What repeats an instruction of constants alone is none.
void Known::find_readers(const Dataflow& flow) {
  static const std::unordered_set<std::string_view> kNames = {"add", "sub", "mul", "fma", "mad",
                                                              "min", "max", "set", "setp"};
  std::map<std::pair<Rewriter::Tokens, std::array<std::optional<uint64_t>, kSlots>>, uint32_t> firsts;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const Source& s = f_.source[pc];
    if (!kNames.contains(s.tokens[0]) || s.type(s.tokens[0] == "set" ? 1 : 0) != Type::f64 ||
        flow.is_dead(pc) || constant_[pc])
      continue;
    const unsigned first = s.tokens[0] == "setp" ? 2 : 1;
    if (s.tokens[0].starts_with("set") && bits(pc, first) && bits(pc, first + 1)) continue;
    std::array<std::optional<uint64_t>, kSlots> constants;
    bool are_all = true;
    for (unsigned slot = 1; slot < kSlots; ++slot) {
      if (!is_value(f_.code[pc].op[slot])) continue;
      constants[slot] = bits(pc, slot);
      are_all &= constants[slot].has_value();
    }
    if (are_all)
      if (const auto [same, is_new] = firsts.try_emplace({s.tokens, constants}, pc); !is_new) {
        repeated_.emplace(pc, same->second);
        continue;
      }
    for (unsigned slot = 1; slot < kSlots; ++slot) {
      const Operand& op = f_.code[pc].op[slot];
      auto of = is_value(op) && bits_of(op.type) == 64 ? constants[slot] : std::nullopt;
      if (!of) continue;
      if (s.tokens[0] == "sub" && slot == 2) *of ^= uint64_t(1) << 63;  // what is subtracted is added
      readers_[*of].push_back(pc);
    }
  }
}

bool Known::has_other_reader(uint64_t bits, uint32_t pc) const {
  const auto readers = readers_.find(bits);
  if (readers == readers_.end()) return false;
  const auto same = repeated_.find(pc);
  const uint32_t first = same == repeated_.end() ? pc : same->second;
  return std::ranges::any_of(readers->second, [&](uint32_t other) { return other != first; });
}

bool Known::shares_register(uint64_t bits, uint32_t pc) const {
  constexpr uint32_t kNear = 2;  // one stands between
  const auto shares = [&](uint32_t other) {
    return other < pc ||
           (other > pc && is_in_block(pc, other) && left_before_[other] - left_before_[pc] <= kNear);
  };
  const auto stores = stored_.find(bits);
  if (stores != stored_.end() && std::ranges::any_of(stores->second, shares)) return true;
  const auto pair = stored_in_pairs_.find(bits);
  if (pair != stored_in_pairs_.end() && shares(pair->second)) return true;
  const auto readers = readers_.find(bits);
  return bits << 32 != 0 && readers != readers_.end() && std::ranges::any_of(readers->second, shares);
}

void Known::find_makers(const Dataflow& flow, const ReachingWrites& writes) {
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const Instr& i = f_.code[pc];
    const auto maker = [&](const Operand& op) {
      return is_register(op) ? writes.maker(pc, flow.number_of(op)) : Dataflow::kNone;
    };
    for (unsigned slot = 0; slot < kSlots; ++slot) {
      makers_[pc][slot] = maker(i.op[slot]);
      if (i.op[slot].kind == Operand::Kind::vector)
        for (uint32_t e = i.op[slot].index; e < i.op[slot].index + i.op[slot].count; ++e)
          element_makers_[e] = maker(f_.vectors[e]);
    }
    if (i.guard > 0) guard_makers_[pc] = maker(guard_of(i));
  }
  uses_ = writes.uses();
}

void Known::find_meetings(const Dataflow& flow, const ReachingWrites& writes) {
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    for (unsigned slot = 0; slot < kSlots; ++slot)
      if (const Operand& op = f_.code[pc].op[slot];
          is_register(op) && writes.is_merged(pc, flow.number_of(op)))
        merged_[pc] |= uint8_t(1u << slot);
  meets_ = writes.meets();
}

bool Known::may_read_for(uint32_t pc, uint32_t other) const {
  if (is_in_block(pc, other)) return true;
  return std::none_of(makers_[other].begin() + 1, makers_[other].end(),
                      [&](uint32_t maker) { return maker != Dataflow::kNone && !sees(other, maker); });
}

// What the straight-line code makes out of constants alone, without those of the code before.
void Known::find_made_here(const Dataflow& flow) {
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    made_here_[pc] =
        is_foldable(f_.source[pc]) && flow.is_pure(pc) &&
        reads_only(pc, [&](const Operand& op, uint32_t maker) {
          return is_row(op) || (maker < pc && stretch_[maker] == stretch_[pc] && made_here_[maker]);
        });
}

void Known::find_stretches(const Dataflow& flow) {
  uint32_t stretch = 0;
  for (uint32_t block = 0; block < flow.blocks().size(); ++block) {
    const Dataflow::Block& b = flow.blocks()[block];
    ++stretch;
    for (uint32_t pc = b.begin; pc < b.end; ++pc) {
      if (f_.source[pc].begins_block) ++stretch;  // at labels that nobody goes to, too
      stretch_[pc] = stretch;
      if (ends_stretch(f_.source[pc])) ++stretch;
    }
  }
}

void Known::find_blocks(const Dataflow& flow) {
  uint32_t part = 0;
  for (const Dataflow::Block& b : flow.blocks()) {
    ++part;
    for (uint32_t pc = b.begin; pc < b.end; ++pc) {
      block_[pc] = part;
      if (!flow.becomes_branch(pc)) continue;
      const auto constant = bits(pc, 1);
      if (!constant || !is_routine_inline(f_.source[pc], *constant)) ++part;
    }
  }
}

// Whether an instruction makes one value out of others, all of which `fits` takes.
template <class F>
bool Known::reads_only(uint32_t pc, F&& fits) const {
  const Instr& i = f_.code[pc];
  if (i.guard >= 0 || i.op[0].kind == Operand::Kind::none) return false;
  for (unsigned slot = 1; slot < kMaxOperands; ++slot) {
    const Operand& op = i.op[slot];
    const bool is_written = slot == 1 && second_predicate(i, f_.source[pc]);
    if (op.kind == Operand::Kind::none || is_written) continue;
    if (slot >= kSlots) return false;
    if (op.kind == Operand::Kind::vector) {
      for (uint32_t e = op.index; e < op.index + op.count; ++e)
        if (!fits(f_.vectors[e], element_makers_[e])) return false;
    } else if (!is_register(op) || !fits(op, makers_[pc][slot])) {
      return false;
    }
  }
  return true;
}

std::optional<bool> Known::outcome(uint32_t pc) const {
  const Instr& i = f_.code[pc];
  const Source& s = f_.source[pc];
  const unsigned first = s.tokens[0] == "setp" ? 2 : s.tokens[0] == "set" ? 1 : 0;
  if (first == 0 || i.guard >= 0) return std::nullopt;
  const Operand &a = i.op[first], &b = i.op[first + 1];
  const size_t words = (first == 2 ? 3 : 4) + (s.has("ftz") ? 1 : 0);
  if (s.tokens.size() != words || !is_value(a) || !is_value(b)) return std::nullopt;
  const Type of = s.type(first == 2 ? 0 : 1);
  if (name_of(of).ends_with("x2")) return std::nullopt;
  const auto is_constant_nan = [&](unsigned slot) {
    const auto constant = is_float(of) ? bits(pc, slot) : std::nullopt;
    return constant && is_nan(*constant, of);
  };
  if (is_constant_nan(first) || is_constant_nan(first + 1)) return of_nan(s.tokens[1]);
  return a.offset == b.offset ? of_itself(s.tokens[1], is_float(of)) : std::nullopt;
}

// A predicate and the one that holds where it does not: both of one setp, or one made of the other by not, or
// the same one read as it is and negated.
bool Known::are_opposite(uint32_t pc, unsigned a, unsigned b) const {
  const Operand &p = f_.code[pc].op[a], &q = f_.code[pc].op[b];
  const uint32_t of_p = makers_[pc][a], of_q = makers_[pc][b];
  if (of_p >= pc || of_q >= pc) return false;
  if (p.negated != q.negated) return of_p == of_q && p.index == q.index;
  if (of_p == of_q) return p.index != q.index && is_plain_setp(f_.source[of_p]);
  const auto negates = [&](uint32_t by, const Operand& read, uint32_t other, const Operand& opposite) {
    const Instr& i = f_.code[by];
    return f_.source[by].tokens[0] == "not" && !i.op[1].negated && i.op[1].index == opposite.index &&
           makers_[by][1] == other && i.op[0].index == read.index;
  };
  return negates(of_p, p, of_q, q) || negates(of_q, q, of_p, p);
}

// What set and setp then give (a second predicate the opposite), logic of two opposite predicates, and an
// extreme of one constant.
std::optional<uint64_t> Known::decided(uint32_t pc) const {
  const std::string_view name = f_.source[pc].tokens[0];
  if ((name == "and" || name == "or" || name == "xor") && f_.source[pc].type() == Type::pred) {
    const bool is_known = f_.code[pc].guard < 0 && are_opposite(pc, 1, 2);
    return is_known ? std::optional<uint64_t>(name != "and") : std::nullopt;
  }
  if (is_plain_extreme(f_.code[pc], f_.source[pc])) {
    const auto value = f_.code[pc].guard < 0 ? bits(pc, 1) : std::nullopt;
    return value == bits(pc, 2) ? value : std::nullopt;
  }
  const auto holds = outcome(pc);
  const Type to = f_.source[pc].type();
  const bool is_set = f_.source[pc].tokens[0] == "set";
  if (!holds || (is_set && is_float(to) && to != Type::f32 && (*holds || to != Type::f16)))
    return std::nullopt;
  return !*holds ? 0 : !is_set ? 1 : to == Type::f32 ? 0x3f800000 : bits_of(to) == 16 ? 0xffff : 0xffffffff;
}

bool Known::leaves_sign(uint32_t pc) const {
  const Source& s = f_.source[pc];
  return (s.tokens[0] == "abs" || s.tokens[0] == "neg") && s.type() == Type::f32 && s.has("ftz") &&
         !made_here_[pc];
}

void Known::find_constants(const Dataflow& flow) {
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const auto fits = [&](const Operand& op, uint32_t maker) { return is_constant(op, maker, pc); };
    if (makes_nan_[pc] || leaves_sign(pc)) continue;
    const bool is_computed = is_foldable(f_.source[pc]) && !reads_carry(f_.source[pc]) && flow.is_pure(pc);
    constant_[pc] = decided(pc) || (is_computed && reads_only(pc, fits));
  }
}

// What is computed from constants, but for NaNs that are more than another NaN with a sign changed or a sum
// or product with .rn.
void Known::find_values(const Rewriter& w, const Dataflow& flow) {
  const auto count_outcomes = [&] {
    uint32_t count = 0;
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) count += outcome(pc).has_value();
    return count;
  };
  // A NaN that is computed decides comparisons, and more is computed from these. The compiler goes on until
  // nothing is left.
  constexpr unsigned kMostRounds = 4;
  uint32_t outcomes = count_outcomes();
  for (unsigned round = 0; round < kMostRounds; ++round) {
    compute_values(w, flow);
    const uint32_t more = count_outcomes();
    if (more == outcomes) return;
    outcomes = more;
  }
}

void Known::compute_values(const Rewriter& w, const Dataflow& flow) {
  std::vector<char> computed(f_.code.size(), 0);
  std::unordered_map<uint64_t, uint32_t> last;  // of the steps that wrote a register
  std::vector<Step> steps;
  bool is_worth_it = false;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
    const Instr& i = f_.code[pc];
    const Source& s = f_.source[pc];
    const std::string_view name = s.tokens[0];
    if (const auto value = decided(pc)) {
      computed[pc] = 1;
      steps.push_back({pc, {}, value});
      for_each_target(f_, i, s, [&](const Operand& op) { last[key_of(op)] = pc; });
      continue;
    }
    if (!is_foldable(s) || reads_carry(s) || !(flow.is_pure(pc) || s.has("cc"))) continue;
    if (leaves_sign(pc)) continue;
    Step step{pc, {}, {}};
    computed[pc] = reads_only(pc, [&](const Operand& op, uint32_t maker) {
      if (is_row(op)) return true;
      if (maker >= pc || !computed[maker]) return false;
      if (last.at(key_of(op)) != maker) step.overwritten.emplace_back(op, maker);
      return true;
    });
    if (!computed[pc]) continue;
    for (const auto& [op, maker] : step.overwritten)
      last[key_of(op)] = maker;  // it is set back for this step
    steps.push_back(std::move(step));
    for_each_target(f_, i, s, [&](const Operand& op) { last[key_of(op)] = pc; });
    is_worth_it |= name != "mov" || !is_value(i.op[0]) || !is_value(i.op[1]);
  }
  if (is_worth_it) values_ = evaluate(w, steps);
  moved_.clear();
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    if (const auto value = decided(pc)) {
      values_[{pc, key_of(f_.code[pc].op[0])}] = *value;
      if (const Operand& second = second_predicate(f_.code[pc], f_.source[pc]))
        values_[{pc, key_of(second)}] = !*value;
    }
  forget_left();
}

// NaNs, and what is computed at compile time only where it is 0 or at an integer's end. In the text's order:
// whether a NaN is kept depends on what is known of the operands.
void Known::forget_left() {
  std::vector<std::pair<uint32_t, uint64_t>> left;  // by instruction and register
  for (const auto& [at, value] : values_) {
    const Source& s = f_.source[at.first];
    if (is_foldable_to_zero(s) && value != 0) left.push_back(at);
    if (is_to_integer(s)) {
      const auto converted = bits(at.first, 1);
      const bool is_nan_converted = converted && is_nan(*converted, s.type(1));
      const bool is_at_end = converted && is_at_ends(s, *converted);
      if (is_nan_converted || (is_foldable_at_ends(s) && !is_at_end)) left.push_back(at);
    }
    if (is_integral(s))
      if (const auto converted = bits(at.first, 1); converted && is_infinite(*converted, s.type(1)))
        left.push_back(at);
    const bool gives_operand = is_plain_extreme(f_.code[at.first], s) && decided(at.first);
    const bool keeps_nan =
        is_move(s) || is_sign_of_f64(s) || is_rounded(s) || is_widening(s) || gives_operand;
    if (!keeps_nan && is_nan(value, s.type())) left.push_back(at);
  }
  if (left.empty()) return;
  std::ranges::sort(left);
  for (const auto& at : left) {
    const uint32_t pc = at.first;
    if (takes_canonical_nan(pc)) continue;
    makes_nan_[pc] = is_arithmetic(f_.source[pc]) || is_integral(f_.source[pc]) ||
                     is_foldable_to_zero(f_.source[pc]) || is_to_integer(f_.source[pc]);
    values_.erase(at);
    moved_.clear();
  }
  // What is computed from a NaN that is left to execute is left too.
  std::vector<char> is_left = makes_nan_;
  for (uint32_t pc = 0; pc < f_.code.size(); ++pc)
    for (unsigned slot = 1; slot < kSlots; ++slot)
      if (const uint32_t maker = makers_[pc][slot]; maker < pc && is_left[maker]) is_left[pc] = 1;
  std::erase_if(values_,
                [&](const auto& entry) { return is_left[entry.first.first] && !decided(entry.first.first); });
}

// A sum or product of f32 with the NaN that the hardware makes gives that NaN in the compiler too.
bool Known::takes_canonical_nan(uint32_t pc) const {
  const Source& s = f_.source[pc];
  const std::string_view name = s.tokens[0];
  if (s.type() != Type::f32 || (name != "add" && name != "sub" && name != "mul")) return false;
  constexpr uint64_t kCanonical = 0x7fffffff;
  return bits(pc, 1) == kCanonical || (name != "sub" && bits(pc, 2) == kCanonical);
}

bool Known::is_row(const Operand& op) const {
  return op.kind == Operand::Kind::predicate ? op.index == 0 : bits_of_row(op).has_value();
}

std::optional<uint64_t> Known::bits_of_row(const Operand& op) const {
  if (!is_value(op)) return std::nullopt;
  const auto found = rows_.find(op.offset);
  if (found != rows_.end()) return found->second;
  if (op.immediate) return static_cast<uint64_t>(op.displacement);
  return std::nullopt;
}

std::optional<uint64_t> Known::shared_address(const Operand& op) const {
  const auto found = is_value(op) ? shared_.find(op.offset) : shared_.end();
  return found == shared_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint64_t> Known::bits(const Operand& operand, uint32_t maker, uint32_t pc) const {
  std::vector<uint32_t> passed;  // moves
  const auto found = [&](const std::optional<uint64_t>& value) {
    for (const uint32_t move : passed) moved_[move] = value;
    return value;
  };
  for (const Operand* op = &operand;;) {
    if (const auto known = bits_of_row(*op)) return found(known);
    if (maker == Dataflow::kNone || maker >= pc) return found(std::nullopt);
    const Instr& i = f_.code[maker];
    if (f_.source[maker].tokens[0] != "mov" || !is_value(i.op[0]) || !is_value(i.op[1]) ||
        bits_of(i.op[0].type) != bits_of(op->type)) {
      const auto value = values_.find({maker, key_of(*op)});
      return found(value == values_.end() ? std::nullopt : std::optional(value->second));
    }
    if (const auto known = moved_.find(maker); known != moved_.end()) return found(known->second);
    passed.push_back(maker);
    pc = maker, op = &i.op[1], maker = makers_[pc][1];
  }
}

std::optional<uint64_t> Known::bits(uint32_t pc, unsigned slot) const {
  return bits(f_.code[pc].op[slot], makers_[pc][slot], pc);
}

std::optional<uint64_t> Known::bits_of_element(uint32_t pc, uint32_t index) const {
  return bits(f_.vectors[index], element_makers_[index], pc);
}

std::optional<bool> Known::guard(uint32_t pc) const {
  const Instr& i = f_.code[pc];
  const uint32_t maker = guard_makers_[pc];
  if (maker >= pc) return std::nullopt;
  const auto value = values_.find({maker, key_of(guard_of(i))});
  if (value != values_.end()) return bool(value->second) != i.guard_negated;
  return std::nullopt;
}

bool Known::is_decided_late(uint32_t pc) const {
  if (!guard(pc)) return false;
  std::vector<uint32_t> work{guard_makers_[pc]};
  std::unordered_set<uint32_t> seen(work.begin(), work.end());
  while (!work.empty()) {
    const uint32_t reader = work.back();
    work.pop_back();
    if (decided(reader)) continue;
    if (is_computed_late(f_.source[reader])) return true;
    for (const uint32_t maker : std::span(makers_[reader]).subspan(1)) {
      if (maker >= reader) continue;  // none, too
      if (!sees(reader, maker)) return true;
      if (seen.insert(maker).second) work.push_back(maker);
    }
  }
  return false;
}

bool Known::is_constant(const Operand& op, uint32_t maker, uint32_t pc) const {
  return is_row(op) || (maker != Dataflow::kNone && maker < pc && constant_[maker]);
}

bool Known::is_constant(uint32_t pc, unsigned slot) const {
  return is_constant(f_.code[pc].op[slot], makers_[pc][slot], pc);
}

bool Known::is_constant_here(uint32_t pc, unsigned slot) const {
  const uint32_t maker = makers_[pc][slot];
  return is_constant(pc, slot) && (is_row(f_.code[pc].op[slot]) || stretch_[maker] == stretch_[pc]);
}

bool Known::comes_from_here(uint32_t pc, unsigned slot) const {
  if (is_row(f_.code[pc].op[slot])) return true;
  const uint32_t maker = makers_[pc][slot];
  if (maker >= pc || stretch_[maker] != stretch_[pc]) return false;
  if (constant_[maker]) return made_here_[maker];
  const bool is_copied =
      f_.source[maker].tokens[0] == "mov" && f_.code[maker].op[0].kind == f_.code[maker].op[1].kind;
  return !is_copied || comes_from_here(maker, 1);
}

}  // namespace fp4lab::emu
