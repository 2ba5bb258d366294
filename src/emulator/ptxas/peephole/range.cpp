#include "emulator/ptxas/peephole/range.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr unsigned kMostSteps = 8;  // the compiler's bound is not known
// Copies on all ways to one operand. The compiler counts none; the bound keeps a text of copies alone from
// taking the square of its length.
constexpr unsigned kMostCopies = 1u << 14;

class Ranges {
 public:
  explicit Ranges(const Pass& p) : p_(p) {}

  std::optional<Range> of(uint32_t pc, unsigned slot, unsigned steps = kMostSteps) {
    for (;;) {
      uint32_t from = maker(pc, slot);
      while (from != Dataflow::kNone && shows_bits(from, p_.operand(pc, slot))) {
        if (!count_copy()) return std::nullopt;
        pc = from, slot = 1, from = maker(pc, slot);
      }
      if (const auto bits = p_.bits(pc, slot)) {
        const double value = float_of(*bits);
        return std::isfinite(value) ? std::optional(Range{value, value}) : std::nullopt;
      }
      if (from == Dataflow::kNone || steps == 0) return std::nullopt;
      if (!p_.is_copy(from)) break;
      if (!count_copy()) return std::nullopt;
      pc = from, slot = 1;
    }
    return made_by(maker(pc, slot), steps - 1);
  }

  std::optional<Range> made_by(uint32_t pc, unsigned steps) {
    return p_.source(pc).type() == Type::f32 ? made(pc, steps) : std::nullopt;
  }

 private:
  uint32_t maker(uint32_t pc, unsigned slot) const {
    const uint32_t from = p_.known.maker(pc, slot);
    return from < pc ? from : Dataflow::kNone;
  }

  // A copy through which Known::bits looks: what it knows of `to` it knows of the source as well.
  bool shows_bits(uint32_t pc, const Operand& to) const {
    const Operand& made = p_.operand(pc, 0);
    return p_.source(pc).tokens[0] == "mov" && p_.is_copy(pc) && made.offset == to.offset &&
           bits_of(made.type) == bits_of(to.type);
  }

  bool count_copy() { return copies_++ < kMostCopies; }

  std::optional<Range> made(uint32_t pc, unsigned steps) {
    const Source& s = p_.source(pc);
    if (s.has("sat")) {
      const auto whole = unsaturated(pc, steps);
      return whole ? Range{std::clamp(whole->least, 0.0, 1.0), std::clamp(whole->most, 0.0, 1.0)}
                   : Range{0, 1};
    }
    return unsaturated(pc, steps);
  }

  std::optional<Range> unsaturated(uint32_t pc, unsigned steps) {
    const Source& s = p_.source(pc);
    const std::string_view name = s.tokens[0];
    if (name == "sin" || name == "cos" || name == "tanh") return Range{-1, 1};
    if (name == "ex2") return Range{0, kInfinity};
    if (name == "abs") return s.has("ftz") ? std::nullopt : std::optional(Range{0, kInfinity});
    const bool may_choose = name == "selp" || name == "slct";
    const bool is_extreme = (name == "min" || name == "max") && !s.has("NaN") && !s.has("xorsign");
    if (name == "mul" && !says_rounding(s) && p_.same_operands(pc, 1, 2)) return square(of(pc, 1, steps));
    if (name != "neg" && name != "add" && name != "sub" && name != "mul" && !may_choose && !is_extreme)
      return std::nullopt;
    if (says_rounding(s)) return std::nullopt;
    const auto a = of(pc, 1, steps);
    if (!a) return std::nullopt;
    if (name == "neg") return s.has("ftz") ? std::nullopt : std::optional(Range{-a->most, -a->least});
    const auto b = of(pc, 2, steps);
    if (!b) return std::nullopt;
    if (may_choose) return Range{std::min(a->least, b->least), std::max(a->most, b->most)};
    return is_extreme ? extreme(*a, *b, name == "max") : arithmetic(name, *a, *b);
  }

  static std::optional<Range> square(const std::optional<Range>& a) {
    const double most = a ? std::max(std::abs(a->least), std::abs(a->most)) : kInfinity;
    return Range{0, most * most};
  }

  // What may be infinite may be what is left, whichever extreme it is.
  static Range extreme(const Range& a, const Range& b, bool max) {
    if (is_infinite(a) || is_infinite(b)) return {std::min(a.least, b.least), std::max(a.most, b.most)};
    return max ? Range{std::max(a.least, b.least), std::max(a.most, b.most)}
               : Range{std::min(a.least, b.least), std::min(a.most, b.most)};
  }

  static std::optional<Range> arithmetic(std::string_view name, const Range& a, const Range& b) {
    if (name == "add") return rounded(a.least + b.least, a.most + b.most);
    if (name == "sub") return rounded(a.least - b.most, a.most - b.least);
    if (is_infinite(a) || is_infinite(b)) return std::nullopt;
    const double products[] = {a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most};
    return rounded(*std::min_element(std::begin(products), std::end(products), is_less),
                   *std::max_element(std::begin(products), std::end(products), is_less));
  }

  static bool is_infinite(const Range& a) { return std::isinf(a.least) || std::isinf(a.most); }

  // The bounds are numbers of f32, to nearest. What is infinite at all events may as well be a NaN.
  static std::optional<Range> rounded(double least, double most) {
    const Range range{static_cast<float>(least), static_cast<float>(most)};
    if (range.least != range.least || range.most != range.most) return std::nullopt;
    if (range.least == kInfinity || range.most == -kInfinity) return std::nullopt;
    return range;
  }

  // -0 is less than 0.
  static bool is_less(double a, double b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); }

  const Pass& p_;
  unsigned copies_ = 0;
};

bool reads_float(const Pass& p, const Pass::Reader& reader) {
  const Source& s = p.source(reader.pc);
  const std::string_view name = s.tokens[0];
  if (name == "testp" || name == "copysign") return false;
  const bool by_second = name == "cvt" || name == "set" || (name == "slct" && reader.slot == 3);
  return s.type(by_second ? 1 : 0) == Type::f32;
}

}  // namespace

void become_number(Pass& p, uint32_t pc, uint32_t number) {
  constexpr unsigned kMostCopies = 64;  // one behind the other, and beside each other
  std::vector<uint32_t> copies{pc};
  std::vector<Pass::Reader> floats;
  bool all = true;
  for (size_t n = 0; n < copies.size(); ++n)
    for (const Pass::Reader& reader : p.readers(copies[n])) {
      if (p.is_copy(reader.pc) && p.f.code[reader.pc].guard < 0 && copies.size() < kMostCopies)
        copies.push_back(reader.pc);
      else if (reads_float(p, reader))
        floats.push_back(reader);
      else
        all = false;
    }
  if (all) return p.become(pc, number, Type::b32);
  for (const Pass::Reader& reader : floats) p.set_operand(reader, number);
}

std::optional<Range> range_of(const Pass& p, uint32_t pc, unsigned slot) { return Ranges(p).of(pc, slot); }

std::optional<Range> range_made_by(const Pass& p, uint32_t pc) {
  return Ranges(p).made_by(pc, kMostSteps - 1);
}

void become_only_number(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (s.type() != Type::f32 || s.has("ftz") || (p.bits(pc, 1) && p.bits(pc, 2))) return;
  const auto range = range_made_by(p, pc);
  if (!range) return;
  const auto least = std::bit_cast<uint32_t>(static_cast<float>(range->least));
  if (least == std::bit_cast<uint32_t>(static_cast<float>(range->most))) become_number(p, pc, least);
}

}  // namespace fp4lab::emu::peephole
