#include "emulator/ptxas/counted_loop.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "emulator/isa/opcode.h"
#include "emulator/ptxas/loop_weight.h"
#include "emulator/ptxas/rewrite.h"
#include "emulator/ptxas/stored_load.h"

namespace fp4lab::emu {

std::string_view negated_comparison(std::string_view how) {
  return how == "lt"   ? "ge"
         : how == "le" ? "gt"
         : how == "gt" ? "le"
         : how == "ge" ? "lt"
         : how == "eq" ? "ne"
                       : "eq";
}

namespace {

constexpr uint32_t kMostRounds = 4096;

uint64_t truncated(uint64_t bits, Type t) {
  return bits_of(t) == 64 ? bits : bits & ((uint64_t(1) << bits_of(t)) - 1);
}

// "lt", "le", "gt", "ge", "eq" or "ne", whatever the words for unsigned numbers are; empty for others.
std::string_view comparison(std::string_view word) {
  static constexpr std::string_view kUnsigned[][2] = {{"lo", "lt"}, {"ls", "le"}, {"hi", "gt"}, {"hs", "ge"}};
  for (const auto& [name, plain] : kUnsigned)
    if (word == name) return plain;
  static const std::unordered_set<std::string_view> kPlain = {"lt", "le", "gt", "ge", "eq", "ne"};
  return kPlain.contains(word) ? word : "";
}

std::string_view swapped(std::string_view how) {
  return how == "lt" ? "gt" : how == "le" ? "ge" : how == "gt" ? "lt" : how == "ge" ? "le" : how;
}

bool holds(std::string_view how, uint64_t a, uint64_t b, Type type) {
  const auto compare = [&](auto x, auto y) {
    return how == "lt" ? x < y : how == "le" ? x <= y : how == "gt" ? x > y : how == "ge" ? x >= y : x != y;
  };
  if (type == Type::s16) return compare(static_cast<int16_t>(a), static_cast<int16_t>(b));
  if (type == Type::s32) return compare(static_cast<int32_t>(a), static_cast<int32_t>(b));
  if (type == Type::s64) return compare(static_cast<int64_t>(a), static_cast<int64_t>(b));
  return compare(truncated(a, type), truncated(b, type));
}

// What the loop counts, and until when.
struct Count {
  uint32_t step_at = 0, compared_at = 0;
  Operand counter, limit;
  Operand kept;              // where it is from round to round, if it is copied there when it has grown
  std::string_view goes_on;  // while the counter compares like this
  Type type = Type::none;
  int64_t step = 0;
  bool is_first = false;  // the counter, of what is compared

  bool goes_down_with_sign() const {
    return step < 0 && is_first && (type == Type::s32 || type == Type::s64);
  }
};

class Finder {
 public:
  Finder(const Function& f, const Dataflow& flow, const std::vector<const Token*>& nounroll)
      : f_(f), flow_(flow), nounroll_(nounroll), only_writer_(flow.registers(), Dataflow::kNone) {
    for (uint32_t pc = 0; pc < f.code.size(); ++pc)
      for (const uint32_t reg : flow.access(pc).writes)
        if (!flow.is_dead(pc)) only_writer_[reg] = only_writer_[reg] == Dataflow::kNone ? pc : kSeveral;
  }

  std::vector<CountedLoop> find() {
    std::vector<CountedLoop> loops;
    for (uint32_t b = 0; b < flow_.blocks().size(); ++b)
      for (const uint32_t to : flow_.blocks()[b].successors)
        if (to <= b)
          if (const auto loop = loop_of(to, b)) loops.push_back(*loop);
    return loops;
  }

 private:
  const Dataflow::Block& block(uint32_t b) const { return flow_.blocks()[b]; }
  const Instr& last(uint32_t b) const { return f_.code[block(b).end - 1]; }

  std::optional<CountedLoop> loop_of(uint32_t first, uint32_t back) {
    CountedLoop loop;
    loop.begin = block(first).begin;
    loop.back = block(back).end - 1;
    if (!is_simple(first, back) || stays_as_it_is(first)) return std::nullopt;
    const bool leaves_at_end = leaves_before_branch_back(first, back);
    const bool at_end = leaves_at_end || f_.code[loop.back].guard >= 0;
    const uint32_t tests = leaves_at_end ? back - 1 : at_end ? back : first;
    loop.test = block(tests).end - 1;
    const Instr& test = f_.code[loop.test];
    if (test.opcode->name != "bra" || test.guard <= 0 || test.guard_negated ||
        f_.source[loop.test].has("uni"))
      return std::nullopt;
    uint32_t out = Dataflow::kNone;
    for (uint32_t b = first; b <= back; ++b)
      for (const uint32_t to : block(b).successors) {
        if (to >= first && to <= back) continue;
        if (b == tests)
          out = to;
        else
          loop.has_other_exits = true;
      }
    if (out == Dataflow::kNone) return std::nullopt;
    loop.out = out;
    const auto count = count_of(loop, first, tests, at_end, leaves_at_end);
    if (!count || passes_sign(*count, first, back)) return std::nullopt;
    loop.step_at = count->step_at, loop.compared_at = count->compared_at, loop.step = count->step;
    loop.loses_sign = !leaves_at_end && count->goes_down_with_sign() && is_opposite(count->limit);
    loop.is_entered_by_several = is_entered_by_several(first, back);
    loop.says_unsigned =
        f_.source[loop.compared_at].tokens[1] != comparison(f_.source[loop.compared_at].tokens[1]);
    loop.rounds = rounds(*count, first, back, at_end);
    if (count->kept && !loop.rounds) return std::nullopt;  // not followed
    if (leaves_at_end && loop.rounds) --*loop.rounds;      // the last one has no branch back
    loop.leaves_at_end = leaves_at_end;
    find_changing(loop, first + leaves_at_end == back);
    loop.carries_predicate = carries_predicate(loop, first);
    loop.size = size(loop);
    loop.is_light = is_light_loop(f_, flow_, loop.begin, loop.back + !leaves_at_end);
    if (stores_what_it_loaded(f_, flow_, loop.begin, loop.back)) {
      if (!lanes_) lanes_.emplace(f_, flow_);
      loop.stores_loaded = lanes_->part_at(loop.test);
    }
    return loop;
  }

  bool stays_as_it_is(uint32_t first) const {
    const uint32_t begin = block(first).begin, end = block(first).end - 1;
    const auto place = [&](uint32_t pc) { return std::pair(f_.source[pc].line, f_.source[pc].column); };
    return std::any_of(nounroll_.begin(), nounroll_.end(), [&](const Token* t) {
      const auto pragma = std::pair(t->line, t->column);
      return pragma < place(0) || ((begin == 0 || place(begin - 1) < pragma) && pragma <= place(end));
    });
  }

  bool carries_predicate(const CountedLoop& loop, uint32_t first) const {
    bool has_branches = false;
    std::vector<uint32_t> written;
    for (uint32_t pc = loop.begin; pc <= loop.back; ++pc) {
      const Instr& i = f_.code[pc];
      if (flow_.is_dead(pc)) continue;
      has_branches |= i.opcode->name == "bra" && pc != loop.test && pc != loop.back;
      for (const uint32_t reg : flow_.access(pc).writes)
        for (const Operand& op : {i.op[0], i.op[1]})
          if (op.kind == Operand::Kind::predicate && flow_.number_of(op) == reg &&
              is_written_before(loop, reg))
            written.push_back(reg);
    }
    return has_branches && !written.empty() && flow_.any_lives_before(first, written);
  }

  bool is_written_before(const CountedLoop& loop, uint32_t reg) const {
    for (uint32_t pc = 0; pc < loop.begin; ++pc) {
      const auto& writes = flow_.access(pc).writes;
      if (!flow_.is_dead(pc) && std::find(writes.begin(), writes.end(), reg) != writes.end()) return true;
    }
    return false;
  }

  // In one block a register changes until something writes what does not; in several, as long as anything
  // else writes it too.
  void find_changing(CountedLoop& loop, bool one_block) const {
    std::unordered_map<uint32_t, uint32_t> written;  // how often
    for (uint32_t pc = loop.begin; pc <= loop.back; ++pc)
      for (const uint32_t reg : flow_.access(pc).writes) ++written[reg];
    for (uint32_t pc = loop.begin; pc <= loop.back; ++pc) {
      if (flow_.is_dead(pc)) continue;
      const Dataflow::Access& a = flow_.access(pc);
      const std::string_view name = f_.source[pc].tokens[0];
      const bool copies = name == "mov" || name == "neg" || name == "abs";
      const bool moves =
          f_.source[pc].type() != Type::f64 || copies;  // f64 arithmetic: only when it is unrolled
      const bool computes =
          flow_.is_pure(pc) && name != "bra" && name != "ld" && f_.code[pc].guard < 0 && moves;
      const auto changes = [&](uint32_t reg) { return written.contains(reg); };
      const auto again = [&](uint32_t reg) {
        return !one_block && written.contains(reg) && written.at(reg) > 1;
      };
      const bool fixed = computes && std::none_of(a.reads.begin(), a.reads.end(), changes) &&
                         std::none_of(a.writes.begin(), a.writes.end(), again);
      if (!fixed) loop.changing.push_back(pc);
      for (const uint32_t reg : a.writes) {
        if (fixed || one_block) written.erase(reg);
        if (!fixed && one_block) written[reg] = 1;
      }
    }
    for (const uint32_t pc : loop.changing) {
      const auto& writes = flow_.access(pc).writes;
      if (std::any_of(writes.begin(), writes.end(), [&](uint32_t reg) { return written.contains(reg); }))
        loop.leaving.push_back(pc);
    }
  }

  // A store counts as two, and so does a shift of 64 bits.
  uint32_t size(const CountedLoop& loop) const {
    uint32_t n = 0;
    for (const uint32_t pc : loop.changing) {
      const Source& s = f_.source[pc];
      const std::string_view name = s.tokens[0];
      n += name == "st" || ((name == "shl" || name == "shr") && bits_of(s.type()) == 64) ? 2 : 1;
    }
    return n;
  }

  // One way in, one way back, and nothing in it that would need to stay alone.
  bool is_simple(uint32_t first, uint32_t back) const {
    const auto inside = [&](uint32_t b) { return b >= first && b <= back; };
    for (uint32_t b = first; b <= back; ++b) {
      for (const uint32_t from : block(b).predecessors)
        if (b == first ? inside(from) && from != back : !inside(from)) return false;
      for (const uint32_t to : block(b).successors)
        if (to <= b && inside(to) && !(b == back && to == first)) return false;
    }
    for (uint32_t pc = block(first).begin; pc < block(back).end; ++pc) {
      const std::string_view name = f_.source[pc].tokens[0];
      const bool alone = name != "bra" && name != "ld" && name != "ldu" && name != "st" && name != "atom" &&
                         name != "red" && name != "bfind";
      if (name == "brx" || name == "ret" || name == "exit" || (alone && flow_.becomes_branch(pc)))
        return false;
    }
    for (uint32_t b = first; b <= back; ++b)
      if (begins_switch(b)) return false;
    return last(back).opcode->name == "bra";
  }

  // Blocks behind each other of which each asks whether one register is another constant, and makes nothing
  // that is wanted elsewhere: they become an indirect branch, if its table has at most five entries for each.
  bool begins_switch(uint32_t b) const {
    constexpr int64_t kEntries = 5;
    const auto begin = case_of(b);
    if (!begin) return false;
    std::set<int64_t> values{begin->second};
    while (++b < flow_.blocks().size() && block(b).predecessors.size() == 1) {
      const auto next = case_of(b);
      if (!next || next->first != begin->first || block(b).end - block(b).begin != 2) break;
      values.insert(next->second);
    }
    const auto count = static_cast<int64_t>(values.size());
    return count > 1 && *values.rbegin() - *values.begin() < kEntries * count;
  }

  // The register, and the constant with which it is equal where the block's last branch is taken.
  std::optional<std::pair<uint32_t, int64_t>> case_of(uint32_t b) const {
    const Instr& branch = last(b);
    if (branch.opcode->name != "bra" || branch.guard < 0 || block(b).end - block(b).begin < 2)
      return std::nullopt;
    for (uint32_t pc = block(b).begin; pc < block(b).end; ++pc)
      for (const uint32_t reg : flow_.access(pc).writes)
        if (flow_.lives_behind(b, reg)) return std::nullopt;
    const Instr& asks = f_.code[block(b).end - 2];
    const Source& s = f_.source[block(b).end - 2];
    if (s.tokens.size() != 3 || s.tokens[0] != "setp" ||
        s.tokens[1] != (branch.guard_negated ? "ne" : "eq") || asks.guard >= 0 || is_float(s.type()) ||
        bits_of(s.type()) != 32)
      return std::nullopt;
    const auto constant = only_value(asks.op[3]);
    if (flow_.number_of(asks.op[0]) != flow_.number_of(guard_of(branch)) || !is_no_constant(asks.op[2]) ||
        !constant || only_value(asks.op[2]))
      return std::nullopt;
    return std::pair(flow_.number_of(asks.op[2]), int64_t(static_cast<int32_t>(*constant)));
  }

  bool is_entered_by_several(uint32_t first, uint32_t back) const {
    uint32_t b = first;
    for (size_t steps = 0; steps < flow_.blocks().size(); ++steps) {
      uint32_t before = Dataflow::kNone;
      for (const uint32_t from : block(b).predecessors) {
        if (b == first && from >= first && from <= back) continue;
        if (before != Dataflow::kNone) return true;
        before = from;
      }
      if (before == Dataflow::kNone || block(before).successors.size() != 1 || !leaves_nothing(before))
        return false;
      b = before;
    }
    return false;
  }

  // A block of copies and negations that become part of what reads them.
  bool leaves_nothing(uint32_t b) const {
    for (uint32_t pc = block(b).begin; pc < block(b).end; ++pc) {
      const Instr& i = f_.code[pc];
      if (flow_.is_dead(pc) || (i.opcode->name == "bra" && i.guard < 0)) continue;
      const bool is_passed_on = f_.source[pc].tokens[0] == "mov" || negated_by(pc);
      const auto& writes = flow_.access(pc).writes;
      if (!is_passed_on || i.guard >= 0 || writes.size() != 1 || only_writer_[writes[0]] != pc) return false;
    }
    return true;
  }

  // What an instruction negates as ptxas sees it: not where it is of u32 or u64, but for products by -1.
  const Operand* negated_by(uint32_t pc) const {
    const Instr& i = f_.code[pc];
    const Source& s = f_.source[pc];
    const std::string_view name = s.tokens[0];
    const Type type = s.type();
    const auto is = [&](const Operand& op, int64_t number) {
      const auto value = is_value(op) ? only_value(op) : std::nullopt;
      return value && truncated(*value, type) == truncated(static_cast<uint64_t>(number), type);
    };
    if (type == Type::s32 || type == Type::s64) {
      if (name == "neg") return &i.op[1];
      if (name == "sub" && s.tokens.size() == 2 && is(i.op[1], 0)) return &i.op[2];
    }
    const bool multiplies = (name == "mul" || (name == "mad" && is(i.op[3], 0))) && s.tokens.size() == 3;
    if (!multiplies || s.tokens[1] != "lo" || (type != Type::s32 && type != Type::u32)) return nullptr;
    return is(i.op[2], -1) ? &i.op[1] : is(i.op[1], -1) ? &i.op[2] : nullptr;
  }

  // Of an odd number of negations, and what they begin with is no constant.
  bool is_opposite(const Operand& op, int steps = 0) const {
    constexpr int kMostSteps = 8;
    const uint32_t reg = flow_.number_of(op);
    if (reg == Dataflow::kNone || only_writer_[reg] >= f_.code.size() || steps == kMostSteps) return false;
    const uint32_t pc = only_writer_[reg];
    const Instr& i = f_.code[pc];
    if (i.guard >= 0) return false;
    if (f_.source[pc].tokens[0] == "mov") return is_value(i.op[1]) && is_opposite(i.op[1], steps + 1);
    const Operand* negated = negated_by(pc);
    return negated && !only_value(*negated) && !is_opposite(*negated, steps + 1);
  }

  // The only instruction of the loop that writes a register, but for what nobody reads.
  uint32_t only_writer(const CountedLoop& loop, uint32_t reg) const {
    uint32_t found = Dataflow::kNone;
    for (uint32_t pc = loop.begin; pc <= loop.back; ++pc)
      for (const uint32_t written : flow_.access(pc).writes)
        if (written == reg && !flow_.is_dead(pc)) {
          if (found != Dataflow::kNone) return Dataflow::kNone;
          found = pc;
        }
    return found;
  }

  bool changes(const CountedLoop& loop, const Operand& op) const {
    const uint32_t reg = flow_.number_of(op);
    if (reg == Dataflow::kNone) return false;
    for (uint32_t pc = loop.begin; pc <= loop.back; ++pc)
      for (const uint32_t written : flow_.access(pc).writes)
        if (written == reg) return true;
    return false;
  }

  // The last block is the branch back alone, and the one before it leaves where the comparison holds; not to
  // behind the loop, which ptxas turns round. No other branch comes to the one back: such a round would go on
  // without the comparison.
  bool leaves_before_branch_back(uint32_t first, uint32_t back) const {
    if (back == first || block(back).end - block(back).begin != 1 || last(back).guard >= 0) return false;
    if (block(back).predecessors.size() != 1) return false;
    const auto& to = block(back - 1).successors;
    return last(back - 1).opcode->name == "bra" && last(back - 1).guard > 0 && to.size() == 2 &&
           std::none_of(to.begin(), to.end(), [&](uint32_t b) { return b == back + 1; }) &&
           std::any_of(to.begin(), to.end(), [&](uint32_t b) { return b < first || b > back; });
  }

  std::optional<Count> count_of(const CountedLoop& loop, uint32_t first, uint32_t tests, bool at_end,
                                bool leaves) const {
    const Instr& test = f_.code[loop.test];
    Count c;
    c.compared_at = only_writer(loop, flow_.number_of(guard_of(test)));
    if (c.compared_at == Dataflow::kNone || c.compared_at > loop.test) return std::nullopt;
    const Instr& compared = f_.code[c.compared_at];
    const Source& s = f_.source[c.compared_at];
    if (s.tokens[0] != "setp" || s.tokens.size() != 3 || compared.guard >= 0 || compared.op[1] ||
        c.compared_at < block(tests).begin || is_float(s.type()) || bits_of(s.type()) < 32)
      return std::nullopt;
    c.type = s.type();
    c.goes_on = comparison(s.tokens[1]);
    const bool counts_second = !changes(loop, compared.op[2]);
    c.counter = compared.op[counts_second ? 3 : 2];
    c.limit = compared.op[counts_second ? 2 : 3];
    if (c.goes_on.empty() || changes(loop, c.limit) || !is_value(c.counter)) return std::nullopt;
    if (counts_second) c.goes_on = swapped(c.goes_on);
    c.is_first = !counts_second;
    if (!at_end || leaves) c.goes_on = negated_comparison(c.goes_on);
    if (!find_step(loop, c, at_end) || (at_end ? c.step_at > c.compared_at : c.step_at < c.compared_at))
      return std::nullopt;
    const bool each_round = c.step_at < block(first).end || c.step_at >= block(tests).begin;
    // No branch stands between the step and the comparison that it is for.
    const uint32_t steps = flow_.block_of(c.step_at);
    if (steps != (at_end ? flow_.block_of(c.compared_at) : flow_.block_of(loop.back))) return std::nullopt;
    const bool grows = c.goes_on == "lt" || c.goes_on == "le", falls = c.goes_on == "gt" || c.goes_on == "ge";
    if (!each_round || c.goes_on == "eq" || (grows && c.step < 0) || (falls && c.step > 0))
      return std::nullopt;
    return c;
  }

  // The counter, or a copy of it that the round makes before it grows: LLVM's "mov.u32 %r53, %r249;" and
  // "add.s32 %r249, %r53, 1;". Or where it is kept: "add.s32 %r6, %r3, 1;" and "mov.u32 %r3, %r6;".
  bool holds_counter(const CountedLoop& loop, Count& c, const Operand& op, bool at_end) const {
    if (op.offset == (c.kept ? c.kept : c.counter).offset) return true;
    const uint32_t copy = only_writer(loop, flow_.number_of(op));
    if (c.kept || copy == Dataflow::kNone || !copies(copy, c.counter)) return false;
    if (copy < c.step_at) return copy < end_of_first_block(loop);
    if (!at_end || flow_.block_of(copy) != flow_.block_of(c.step_at)) return false;
    c.kept = op;
    return true;
  }

  bool copies(uint32_t pc, const Operand& op) const {
    const Instr& i = f_.code[pc];
    return f_.source[pc].tokens[0] == "mov" && i.guard < 0 && is_value(i.op[1]) &&
           i.op[1].offset == op.offset;
  }

  uint32_t end_of_first_block(const CountedLoop& loop) const {
    uint32_t pc = loop.begin;
    while (pc < loop.back && f_.code[pc].opcode->name != "bra") ++pc;
    return pc;
  }

  // The counter itself may be the copy of what has grown.
  bool find_step(const CountedLoop& loop, Count& c, bool at_end) const {
    c.step_at = only_writer(loop, flow_.number_of(c.counter));
    if (c.step_at == Dataflow::kNone) return false;
    if (const Operand grown = f_.code[c.step_at].op[1]; copies(c.step_at, grown)) {
      const uint32_t copy = c.step_at;
      c.step_at = only_writer(loop, flow_.number_of(grown));
      if (c.step_at >= copy || (at_end && copy > c.compared_at) ||
          flow_.block_of(copy) != flow_.block_of(c.step_at))
        return false;
      c.kept = c.counter;
    }
    const Instr& i = f_.code[c.step_at];
    const Source& s = f_.source[c.step_at];
    const bool adds = s.tokens[0] == "add", takes = s.tokens[0] == "sub";
    if ((!adds && !takes) || s.tokens.size() != 2 || i.guard >= 0 || is_float(s.type()) ||
        !is_value(i.op[1]) || !is_value(i.op[2]) || !holds_counter(loop, c, i.op[1], at_end))
      return false;
    const auto grows_by = only_value(i.op[2]);
    if (!grows_by) return false;
    const int64_t by =
        bits_of(s.type()) == 64 ? static_cast<int64_t>(*grows_by) : static_cast<int32_t>(*grows_by);
    c.step = takes ? -by : by;
    return c.step != 0;
  }

  // A number, or what a register holds wherever it is read: all that writes it is a mov of one, or an
  // integer instruction that ptxas computes of constants early.
  std::optional<uint64_t> only_value(const Operand& op, int steps = 0) const {
    constexpr int kMostSteps = 8;
    if (op.immediate) return static_cast<uint64_t>(op.displacement);
    const uint32_t reg = flow_.number_of(op);
    if (reg == Dataflow::kNone || only_writer_[reg] >= f_.code.size() || steps == kMostSteps)
      return std::nullopt;
    const Instr& writer = f_.code[only_writer_[reg]];
    if (writer.guard >= 0 || !is_value(writer.op[0]) || !is_value(writer.op[1])) return std::nullopt;
    const auto first = only_value(writer.op[1], steps + 1);
    if (!first || writer.opcode->name == "mov") return first;
    const Source& s = f_.source[only_writer_[reg]];
    const auto second = is_value(writer.op[2]) ? only_value(writer.op[2], steps + 1) : std::nullopt;
    return second && s.tokens.size() == 2 && bits_of(s.type()) == 32 && !is_float(s.type())
               ? computed(s.tokens[0], static_cast<uint32_t>(*first), static_cast<uint32_t>(*second))
               : std::nullopt;
  }

  static std::optional<uint64_t> computed(std::string_view name, uint32_t a, uint32_t b) {
    if (name == "add") return a + b;
    if (name == "sub") return a - b;
    if (name == "and") return a & b;
    if (name == "or") return a | b;
    if (name == "xor") return a ^ b;
    if (name == "shl") return b < 32 ? a << b : 0;
    return std::nullopt;
  }

  // What a register holds where the loop is entered, if a mov of a constant wrote it, in the block before
  // the loop: ptxas does not look for the counter's behind an earlier branch, nor what becomes one.
  std::optional<uint64_t> initial(const Operand& op, uint32_t first, uint32_t back) const {
    const uint32_t reg = flow_.number_of(op);
    uint32_t b = first;
    for (size_t steps = 0; steps < flow_.blocks().size(); ++steps) {
      uint32_t before = Dataflow::kNone;
      for (const uint32_t from : block(b).predecessors) {
        if (b == first && from >= first && from <= back) continue;
        if (before != Dataflow::kNone) return std::nullopt;
        before = from;
      }
      if (before == Dataflow::kNone || (b != first && block(before).successors.size() != 1))
        return std::nullopt;
      b = before;
      for (uint32_t pc = block(b).end; pc-- > block(b).begin;) {
        if (f_.code[pc].opcode->name != "bra" && flow_.becomes_branch(pc)) return std::nullopt;
        const auto& writes = flow_.access(pc).writes;
        if (std::find(writes.begin(), writes.end(), reg) == writes.end()) continue;
        const Instr& i = f_.code[pc];
        if (i.guard >= 0 || f_.source[pc].tokens[0] != "mov" || !is_value(i.op[0])) return std::nullopt;
        return is_value(i.op[1]) ? only_value(i.op[1]) : std::nullopt;
      }
    }
    return std::nullopt;
  }

  std::optional<uint64_t> limit_of(const Count& c, uint32_t first, uint32_t back) const {
    if (!is_value(c.limit)) return std::nullopt;
    const auto limit = only_value(c.limit);
    return limit ? limit : initial(c.limit, first, back);
  }

  // Of 32 bits, also without a sign: ptxas counts no rounds that would pass 2^31.
  bool passes_sign(const Count& c, uint32_t first, uint32_t back) const {
    const auto value = initial(c.kept ? c.kept : c.counter, first, back), limit = limit_of(c, first, back);
    if (!value || !limit || bits_of(c.type) != 32) return false;
    const auto from = static_cast<int32_t>(*value), to = static_cast<int32_t>(*limit);
    return c.step > 0 ? from > to : from < to;
  }

  std::optional<uint32_t> rounds(const Count& c, uint32_t first, uint32_t back, bool at_end) const {
    auto value = initial(c.kept ? c.kept : c.counter, first, back);
    const auto limit = limit_of(c, first, back);
    if (!value || !limit) return std::nullopt;
    uint32_t n = at_end ? 1 : 0;
    if (at_end) *value += static_cast<uint64_t>(c.step);
    for (; holds(c.goes_on, *value, *limit, c.type); ++n, *value += static_cast<uint64_t>(c.step))
      if (n > kMostRounds) return std::nullopt;
    return n;
  }

  const Function& f_;
  const Dataflow& flow_;
  const std::vector<const Token*>& nounroll_;
  static constexpr uint32_t kSeveral = Dataflow::kNone - 1;
  std::vector<uint32_t> only_writer_;  // by register
  std::optional<PartingLanes> lanes_;  // asked for by some loop
};

}  // namespace

std::vector<CountedLoop> counted_loops(const Function& f, const Dataflow& flow,
                                       const std::vector<const Token*>& nounroll) {
  return Finder(f, flow, nounroll).find();
}

// Small loops of at most so many rounds: measured with 1, 2, 4, 8 and 13 instructions beside the three that
// count, compare and branch. (Of one 3591 are the most, of two 1451, where this has 3324 and 1385.)
bool becomes_straight(const CountedLoop& loop) {
  constexpr uint32_t kSmall = 16, kMost = 480, kMostOfSmall = 16620, kCounting = 3;
  if (!loop.rounds || loop.carries_predicate || loop.says_unsigned) return false;
  if (loop.size > kSmall) return *loop.rounds * loop.size <= kMost;
  return loop.size <= kCounting || *loop.rounds * (loop.size - kCounting) * (loop.size + 1) <= kMostOfSmall;
}

bool becomes_several(const Function& f, const CountedLoop& loop) {
  static const std::unordered_set<std::string_view> kAlone = {"atom",  "red",   "bar",   "barrier",
                                                              "shfl",  "vote",  "match", "membar",
                                                              "fence", "redux", "elect", "activemask"};
  if (loop.has_other_exits || loop.is_entered_by_several || !loop.is_light || loop.stores_loaded ||
      loop.rounds)
    return false;
  return std::none_of(f.source.begin() + loop.begin, f.source.begin() + loop.back,
                      [](const Source& s) { return kAlone.contains(s.tokens[0]); });
}

}  // namespace fp4lab::emu
