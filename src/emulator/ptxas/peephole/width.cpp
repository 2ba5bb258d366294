// Comparisons of integers of at most 32 bits that the number of their bits decides: a byte is below 256. The
// guards and branches that they decide are gone, and what these would have made variables is none.
#include <algorithm>
#include <bit>

#include "emulator/ptxas/part.h"
#include "emulator/ptxas/peephole/pass.h"
#include "emulator/ptxas/peephole/rules.h"

namespace fp4lab::emu::peephole {

namespace {

constexpr unsigned kAny = 64;
constexpr unsigned kLaneBits = 5;  // %laneid's

// How many lower bits of a value may be other than 0, for all that the compiler follows.
class Width {
 public:
  explicit Width(const Pass& p) : p_(p) {}

  unsigned of(uint32_t pc, unsigned slot) {
    if (const auto constant = p_.bits(pc, slot)) return static_cast<unsigned>(std::bit_width(*constant));
    const uint32_t maker = p_.known.maker(pc, slot);
    const bool is_moved = maker < pc && p_.source(maker).tokens[0] == "mov";
    if (const auto special = of_special(p_.operand(is_moved ? maker : pc, is_moved ? 1 : slot)))
      return *special;
    constexpr unsigned kMostSteps = 64;
    const auto from = p_.behind_copies(pc, slot);
    return from && *from < pc && ++steps_ < kMostSteps ? of_result(*from) : kAny;
  }

 private:
  // %laneid, and %tid where .reqntid says how many threads there are: of no other special register is a width
  // known.
  std::optional<unsigned> of_special(const Operand& op) const {
    if (op.kind != Operand::Kind::value) return std::nullopt;
    const auto row = std::ranges::find_if(p_.w.image.constants, [&op](const Row& row) {
      return row.what == Row::What::special && row.offset == op.offset;
    });
    if (row == p_.w.image.constants.end()) return std::nullopt;
    const auto which = FixedSpecial(row->bits);
    if (which == FixedSpecial::laneid) return kLaneBits;
    if (which > FixedSpecial::tid_z || !p_.f.req_ntid[0]) return std::nullopt;
    return std::bit_width(std::max(1u, p_.f.req_ntid[static_cast<size_t>(which)]) - 1);
  }

  unsigned of_result(uint32_t pc) {
    const Source& s = p_.source(pc);
    const std::string_view name = s.tokens[0];
    if (takes_apart(p_.f.code[pc], s)) return of_lower_half(pc);
    if (is_vector(p_.operand(pc, 0)) || is_float(s.type()) || bits_of(s.type()) > 32) return kAny;
    const bool is_signed = name_of(s.type())[0] == 's';
    if (name == "ld") return is_signed || bits_of(s.type()) > 16 ? kAny : bits_of(s.type());
    if (name == "cvt") return of_conversion(pc);
    if (name == "and") return std::min(of(pc, 1), of(pc, 2));
    if (name == "or" || name == "xor" || name == "selp" || name == "slct")
      return std::max(of(pc, 1), of(pc, 2));
    const unsigned bits = bits_of(s.type());
    if ((name == "min" || name == "max") && s.tokens.size() == 2 && bits == 32)
      return std::max(of(pc, 1), of(pc, 2));
    if ((name == "add" || name == "addc") && !s.has("sat") && !name_of(s.type()).ends_with("x2"))
      return within(bits, std::max(of(pc, 1), of(pc, 2)) + 1);
    const bool is_whole = s.has("lo") || (s.has("wide") && s.type() == Type::u16);
    if ((name == "mul" || name == "mad") && is_whole && !s.has("cc")) return of_product(pc);
    return name == "shl" || name == "shr" ? of_shift(pc, name == "shl") : kAny;
  }

  // A sum or product that may have more bits is any number.
  static unsigned within(unsigned bits, unsigned width) { return width < bits ? width : kAny; }

  unsigned of_product(uint32_t pc) {
    const Source& s = p_.source(pc);
    const unsigned product = of(pc, 1) + of(pc, 2), bits = s.has("wide") ? 33 : bits_of(s.type());
    return within(bits, s.tokens[0] == "mul" ? product : std::max(product, of(pc, 3)) + 1);
  }

  // Of the lower of two parts, what is read of it.
  unsigned of_lower_half(uint32_t pc) {
    return bits_of(p_.source(pc).type()) == 32 && p_.operand(pc, 0).count == 2 ? within(16, of(pc, 1)) : kAny;
  }

  // Only the bits that are known of what it reads.
  unsigned of_conversion(uint32_t pc) {
    const Source& s = p_.source(pc);
    const Type to = s.type(0), from = s.type(1);
    if (s.tokens.size() != 3 || is_float(to) || is_float(from) || bits_of(from) < 16 || bits_of(from) > 32)
      return kAny;
    return within(std::min(bits_of(to), bits_of(from)), of(pc, 1));
  }

  // A number whose sign may be set is shifted to any number.
  unsigned of_shift(uint32_t pc, bool left) {
    const auto places = p_.bits(pc, 2);
    const unsigned bits = bits_of(p_.source(pc).type());
    if (!places || *places >= bits) return kAny;
    const auto n = static_cast<unsigned>(*places);
    const unsigned width = std::min(of(pc, 1), bits);
    if (left) return std::min(width + n, bits);
    return name_of(p_.source(pc).type())[0] == 's' && width == bits ? kAny : width - std::min(width, n);
  }

  const Pass& p_;
  unsigned steps_ = 0;
};

// Whether the compiler knows that a value of 32 bits has its sign, or any bit at all.
class SetBits {
 public:
  explicit SetBits(const Pass& p) : p_(p) {}

  bool is_negative(uint32_t pc, unsigned slot) { return has(pc, slot, 0x80000000); }
  bool is_not_zero(uint32_t pc, unsigned slot) { return has(pc, slot, 0xffffffff); }

 private:
  bool has(uint32_t pc, unsigned slot, uint32_t any_of) {
    if (const auto constant = p_.bits(pc, slot)) return (*constant & any_of) != 0;
    constexpr unsigned kMostSteps = 64;
    const auto from = p_.behind_copies(pc, slot);
    if (!from || *from >= pc || ++steps_ > kMostSteps) return false;
    const Source& s = p_.source(*from);
    const std::string_view name = s.tokens[0];
    if (is_float(s.type()) || bits_of(s.type()) != 32) return false;
    const bool is_sign = any_of == 0x80000000;
    if (name == "or") return has(*from, 1, any_of) || has(*from, 2, any_of);
    if (name == "shr") return is_sign && s.type() == Type::s32 && has(*from, 1, any_of);
    const bool takes_both = is_sign && (name == "and" || name == "selp");
    return takes_both && has(*from, 1, any_of) && has(*from, 2, any_of);
  }

  const Pass& p_;
  unsigned steps_ = 0;
};

// A comparison of s16 extends the sign first, but for what a load or a mask has left clear in its register.
bool keeps_clear_sign(const Pass& p, uint32_t pc, unsigned slot) {
  constexpr unsigned kMostSteps = 64;
  for (unsigned step = 0; step < kMostSteps; ++step) {
    const auto from = p.behind_copies(pc, slot);
    if (!from || *from >= pc) return false;
    const Source& s = p.source(*from);
    const bool narrows = takes_apart(p.f.code[*from], s) || is_integer_cvt(s);
    if (!narrows) return s.tokens[0] == "ld" || (s.tokens[0] == "and" && p.bits(*from, 2));
    pc = *from, slot = 1;
  }
  return false;
}

// What comes of comparing what is always below, or always above, with what it is compared with.
std::optional<bool> of_order(std::string_view how, bool is_below) {
  if (how == "eq") return false;
  if (how == "ne") return true;
  const bool asks_below = how[0] == 'l';
  const bool asks_order = asks_below || how[0] == 'g' || how[0] == 'h';
  return asks_order ? std::optional(asks_below == is_below) : std::nullopt;
}

// A comparison that is decided still reads its register.
void become_decided(Pass& p, uint32_t pc, bool holds, unsigned slot) {
  const Operand read = p.operand(pc, slot);
  p.replace(pc, {"setp", holds ? "eq" : "ne", bits_of(p.source(pc).type()) == 16 ? "u16" : "u32"},
            {p.operand(pc, 1), read, read});
}

// Of a negative number with one that is none, and of one that has a bit with 0.
std::optional<bool> decided_by_set_bits(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (bits_of(s.type()) != 32 || (p.bits(pc, 2) && p.bits(pc, 3))) return std::nullopt;
  for (const unsigned slot : {2u, 3u}) {
    const unsigned other = 5 - slot;
    const bool asks_equal = s.tokens[1] == "eq" || s.tokens[1] == "ne";
    if (asks_equal && p.bits(pc, other) == 0u && SetBits(p).is_not_zero(pc, slot)) return s.tokens[1] == "ne";
    if (!SetBits(p).is_negative(pc, slot) || Width(p).of(pc, other) >= 32) continue;
    return of_order(s.tokens[1], (slot == 2) == (s.type() == Type::s32));
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> logic_by_width(const Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  if (bits_of(s.type()) > 32 || s.type() == Type::pred || (s.tokens[0] != "and" && s.tokens[0] != "or"))
    return std::nullopt;
  for (const unsigned slot : {1u, 2u}) {
    const auto constant = p.bits(pc, 3 - slot);
    const auto from = constant ? p.behind_copies(pc, slot) : std::nullopt;
    if (!constant || (from && takes_apart(p.f.code[*from], p.source(*from)))) continue;
    const unsigned width = Width(p).of(pc, slot);
    const uint64_t covered = *constant & ((uint64_t(1) << std::min(width, 63u)) - 1);
    if (width >= bits_of(s.type())) continue;
    if (s.tokens[0] == "and" && covered == 0) return 0;
    if (s.tokens[0] == "or" && covered + 1 == uint64_t(1) << width) return constant;
  }
  return std::nullopt;
}

void decide_by_width(Pass& p, uint32_t pc) {
  const Source& s = p.source(pc);
  const Type type = s.type();
  if (s.tokens.size() != 3 || p.operand(pc, 1) || is_float(type) || bits_of(type) > 32) return;
  if (name_of(type).ends_with("x2")) return;
  if (const auto holds = decided_by_set_bits(p, pc))
    return become_decided(p, pc, *holds, p.bits(pc, 2) ? 3 : 2);
  const bool is_swapped = p.bits(pc, 2).has_value();
  const auto with = p.bits(pc, is_swapped ? 2 : 3);
  if (!with || (is_swapped && p.bits(pc, 3))) return;
  const uint64_t constant = *with & ((uint64_t(1) << bits_of(type)) - 1);
  const bool is_signed = name_of(type)[0] == 's';
  const bool is_negative = is_signed && constant >> (bits_of(type) - 1);
  if (type == Type::s16 && !keeps_clear_sign(p, pc, is_swapped ? 3 : 2)) return;
  const unsigned width = Width(p).of(pc, is_swapped ? 3 : 2);
  if (width >= bits_of(type) || (constant >> width) == 0) return;
  const auto holds = of_order(s.tokens[1], is_negative == is_swapped);
  if (holds) become_decided(p, pc, *holds, is_swapped ? 3 : 2);
}

}  // namespace fp4lab::emu::peephole
