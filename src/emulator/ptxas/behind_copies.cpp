#include "emulator/ptxas/behind_copies.h"

#include "emulator/ptxas/part.h"

namespace fp4lab::emu {

namespace {

// What the instruction `by` reads, and who made it.
struct Read {
  uint32_t by;
  Origin of;
};

// Between integers of 32 and 64 bits that stand in registers as wide.
bool converts(const Instr& i, const Source& s, unsigned to, unsigned from) {
  return is_integer_cvt(s) && is_value(i.op[0]) && is_value(i.op[1]) && bits_of(s.type(0)) == to &&
         bits_of(s.type(1)) == from && bits_of(i.op[0].type) == to && bits_of(i.op[1].type) == from;
}

// What a register that was taken out of a pack was in it. A conversion of 64 bits to 32 takes the lower word
// out, and one of 32 to 64 packs that word with what extends it.
std::optional<Read> part_behind(const Function& f, const Known& known, uint32_t taking, const Operand& part) {
  const Instr& i = f.code[taking];
  const unsigned bits = bits_of(part.type);
  const bool narrows = bits == 32 && converts(i, f.source[taking], 32, 64);
  const auto n = narrows ? std::optional(0u) : nth_part(f, taking, part);
  if (!n) return {};
  const uint32_t whole = known.maker(taking, 1);
  if (whole == Dataflow::kNone || whole >= taking) return {};
  const Instr& made = f.code[whole];
  const unsigned count = narrows ? 2 : i.op[0].count;
  if (*n == 0 && count == 2 && converts(made, f.source[whole], 64, 32))
    return Read{whole, {known.maker(whole, 1), &made.op[1]}};
  const Operand& packed = made.op[1];
  if (f.source[whole].tokens[0] != "mov" || !is_value(made.op[0]) || packed.kind != Operand::Kind::vector ||
      packed.count != count)
    return {};
  const uint32_t element = packed.index + *n;
  return Read{whole, {known.maker_of_element(whole, element), &f.vectors[element]}};
}

}  // namespace

bool is_copy(const Instr& i, const Source& s) {
  const Operand &to = i.op[0], &from = i.op[1];
  if (!is_value(to) || !is_value(from) || bits_of(to.type) != bits_of(from.type)) return false;
  if (s.tokens[0] == "mov") return true;
  if (s.tokens[0] == "cvt" && s.tokens.size() == 3 && s.type(0) == s.type(1) &&
      (s.type() == Type::f32 || s.type() == Type::f64))
    return true;
  if (is_float(s.type()) || s.tokens.size() > 3) return false;
  if (s.tokens[0] == "min" || s.tokens[0] == "max")
    return s.tokens.size() == 2 && is_value(i.op[2]) && from.offset == i.op[2].offset &&
           !name_of(s.type()).ends_with("x2");
  return is_integer_cvt(s) && bits_of(s.type()) == bits_of(s.type(1)) &&
         bits_of(s.type()) == bits_of(to.type);
}

bool is_logic_of_itself(const Instr& i, const Source& s) {
  return i.guard < 0 && (s.tokens[0] == "and" || s.tokens[0] == "or") && s.type() == Type::b64 &&
         is_value(i.op[1]) && is_value(i.op[2]) && i.op[1].offset == i.op[2].offset;
}

bool is_plain_extreme(const Instr& i, const Source& s) {
  const std::string_view name = i.opcode->name;
  const Type type = s.type();
  return (s.tokens[0] == "min" || s.tokens[0] == "max") &&
         (name.ends_with("n_float") || name.ends_with("x_float") || name.ends_with("_half")) &&
         !s.has("ftz") && !s.has("NaN") && !s.has("xorsign") &&
         (type == Type::f32 || type == Type::f64 || type == Type::f16);
}

std::optional<Origin> origin_behind_copies(const Function& f, const Known& known, uint32_t pc,
                                           const Operand& read, uint32_t maker, std::string_view wanted) {
  // The compiler counts no copies; the bound keeps a text of copies alone from taking the square of its
  // length.
  constexpr unsigned kMostCopies = 256;
  Read at{pc, {maker, &read}};
  for (unsigned copies = 0; copies <= kMostCopies; ++copies) {
    const auto [by, of] = at;
    if (of.maker == Dataflow::kNone || of.maker >= by) return std::nullopt;
    const Instr& i = f.code[of.maker];
    const Source& s = f.source[of.maker];
    const bool is_copied = wanted == "cvt" && !is_float(s.type()) && is_copy(i, s);
    const bool is_wanted = s.tokens[0] == wanted && !is_copied;  // between integers as wide
    const auto part = is_wanted ? std::nullopt : part_behind(f, known, of.maker, *of.value);
    if (!part && (is_wanted || !is_copy(i, s))) return of;
    at = part.value_or(Read{of.maker, {known.maker(of.maker, 1), &i.op[1]}});
  }
  return std::nullopt;
}

std::optional<uint32_t> behind_copies(const Function& f, const Known& known, uint32_t pc, const Operand& read,
                                      uint32_t maker, std::string_view wanted) {
  const auto origin = origin_behind_copies(f, known, pc, read, maker, wanted);
  return origin ? std::optional(origin->maker) : std::nullopt;
}

std::optional<Half> half_behind_packs(const Function& f, const Known& known, uint32_t pc, unsigned part) {
  constexpr unsigned kMostCopies = 256;  // see behind_copies
  const Operand* value = &f.code[pc].op[1];
  uint32_t maker = known.maker(pc, 1);
  unsigned bit = part * 16;
  for (unsigned copies = 0; copies <= kMostCopies; ++copies) {
    if (maker == Dataflow::kNone || maker >= pc) return std::nullopt;
    const Instr& i = f.code[maker];
    const Source& s = f.source[maker];
    const bool moves = s.tokens[0] == "mov";
    const bool takes_lower_bits =
        is_integer_cvt(s) && is_value(i.op[1]) && bits_of(s.type(0)) == 16 && bits_of(s.type(1)) == 32;
    pc = maker;
    if (moves && i.op[1].kind == Operand::Kind::vector && is_value(i.op[0])) {
      const unsigned bits = bits_of(s.type()) / i.op[1].count;
      const uint32_t element = i.op[1].index + bit / bits;
      value = &f.vectors[element];
      maker = known.maker_of_element(pc, element);
      bit %= bits;
    } else if (takes_apart(i, s)) {
      bit += nth_part(f, pc, *value).value_or(0) * bits_of(s.type()) / i.op[0].count;
      value = &i.op[1];
      maker = known.maker(pc, 1);
    } else if (is_copy(i, s) || takes_lower_bits) {
      value = &i.op[1];
      maker = known.maker(pc, 1);
    } else {
      return Half{pc, bit};
    }
  }
  return std::nullopt;
}

}  // namespace fp4lab::emu
