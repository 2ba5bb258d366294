#include "emulator/ptxas/behind_copies.h"

#include "emulator/ptxas/part.h"

namespace fp4lab::emu {

namespace {

struct Packed {
  uint32_t by, element;  // an index in the function's vectors
};

// What a register that was taken out of a pack was in it.
std::optional<Packed> packed_behind(const Function& f, const Known& known, uint32_t unpacking,
                                    const Operand& part) {
  const auto n = nth_part(f, unpacking, part);
  if (!n) return {};
  const uint32_t pack = known.maker(unpacking, 1);
  if (pack == Dataflow::kNone || pack >= unpacking || f.source[pack].tokens[0] != "mov") return {};
  const Operand& packed = f.code[pack].op[1];
  if (!is_value(f.code[pack].op[0]) || packed.kind != Operand::Kind::vector ||
      packed.count != f.code[unpacking].op[0].count)
    return {};
  return Packed{pack, packed.index + *n};
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
    return s.tokens.size() == 2 && is_value(i.op[2]) && from.offset == i.op[2].offset;
  return s.tokens[0] == "cvt" && s.tokens.size() == 3 && !is_float(s.type(1)) &&
         bits_of(s.type()) == bits_of(s.type(1)) && bits_of(s.type()) == bits_of(to.type);
}

std::optional<uint32_t> behind_copies(const Function& f, const Known& known, uint32_t pc, const Operand& read,
                                      uint32_t maker, std::string_view wanted) {
  // The compiler counts no copies; the bound keeps a text of copies alone from taking the square of its
  // length.
  constexpr unsigned kMostCopies = 256;
  const Operand* value = &read;
  for (unsigned copies = 0; copies <= kMostCopies; ++copies) {
    if (maker == Dataflow::kNone || maker >= pc) return std::nullopt;
    const auto packed = wanted == "mov" ? std::nullopt : packed_behind(f, known, maker, *value);
    if (!packed && (f.source[maker].tokens[0] == wanted || !is_copy(f.code[maker], f.source[maker])))
      return maker;
    pc = packed ? packed->by : maker;
    value = packed ? &f.vectors[packed->element] : &f.code[maker].op[1];
    maker = packed ? known.maker_of_element(pc, packed->element) : known.maker(maker, 1);
  }
  return std::nullopt;
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
    const bool takes_lower_bits = s.tokens[0] == "cvt" && s.tokens.size() == 3 && is_value(i.op[1]) &&
                                  !is_float(s.type(0)) && !is_float(s.type(1)) && bits_of(s.type(0)) == 16 &&
                                  bits_of(s.type(1)) == 32;
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
