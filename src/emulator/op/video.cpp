// Video instructions (PTX ISA 9.7.18): arithmetic on bytes, halves and words of registers, followed by a
// second operation or a merge. Scalars (vadd), pairs (vadd2) and quads (vadd4) share one body. An operand's
// selector, `.b3210`, is in Operand::displacement (opcode.h).
#include <algorithm>
#include <array>
#include <cstring>

#include "emulator/isa/opcode.h"
#include "emulator/op/map.h"

namespace fp4lab::emu {

namespace {

enum class Op : uint8_t { add, sub, absdiff, min, max, avrg, shl, shr, set };
enum class Cmp : uint8_t { eq, ne, lt, le, gt, ge };
enum class Second : uint8_t { none, add, min, max };

struct Video {
  Op op;
  Cmp cmp;
  Second second;
  uint8_t parts;  // 1, 2 or 4
  bool d_signed : 1, a_signed : 1, b_signed : 1, sat : 1, wrap : 1;
};
static_assert(sizeof(Video) <= 8);
Video unpack(uint64_t bits) {
  Video v;
  std::memcpy(static_cast<void*>(&v), &bits, sizeof v);
  return v;
}

// The parts and their width that a selector names, the lowest first; without a selector the whole word.
struct Selector {
  unsigned width = 32, count = 1;
  std::array<uint8_t, 4> part{};
};
Selector selector_of(const Operand& o, unsigned parts, bool second) {
  char text[9] = {};
  if (!o.immediate) std::memcpy(text, &o.displacement, 8);
  Selector s;
  if (parts > 1) s.width = 32 / parts, s.count = parts;
  if (!text[0]) {
    for (unsigned i = 0; i < parts; ++i) s.part[i] = uint8_t(i + (second ? parts : 0));
    return s;
  }
  const std::string_view digits(text + 1);
  const unsigned limit = parts == 1 ? (text[0] == 'b' ? 4 : 2) : 2 * parts;
  if ((text[0] != 'b' && text[0] != 'h') || digits.size() != parts || (parts == 2 && text[0] != 'h') ||
      (parts == 4 && text[0] != 'b'))
    fail("the selector .{} does not fit", text);
  s.width = text[0] == 'b' ? 8 : 16;
  for (unsigned i = 0; i < parts; ++i) {
    s.part[i] = uint8_t(digits[parts - 1 - i] - '0');
    if (s.part[i] >= limit) fail("the selector .{} does not fit", text);
  }
  return s;
}
// The mask of a SIMD instruction's destination: .b20 writes bytes 2 and 0.
uint32_t mask_of(const Operand& o, unsigned parts) {
  char text[9] = {};
  std::memcpy(text, &o.displacement, 8);
  if (!text[0]) return (1u << parts) - 1;
  uint32_t mask = 0;
  unsigned above = parts;
  for (const char* c = text + 1; *c; ++c) {
    const auto n = unsigned(*c - '0');
    if (n >= above) fail("the mask .{} does not fit", text);
    mask |= 1u << n;
    above = n;
  }
  if (!mask || text[0] != (parts == 4 ? 'b' : 'h')) fail("the mask .{} does not fit", text);
  return mask;
}

int64_t extract(uint64_t words, unsigned width, unsigned part, bool is_signed) {
  const uint64_t v = words >> (width * part) << (64 - width);
  return is_signed ? int64_t(v) >> (64 - width) : int64_t(v >> (64 - width));
}

int64_t clamp(int64_t v, unsigned width, bool is_signed) {
  const int64_t low = is_signed ? -(int64_t(1) << (width - 1)) : 0;
  const int64_t high = (int64_t(1) << (width - is_signed)) - 1;
  return std::clamp(v, low, high);
}

int64_t primary(const Video& v, int64_t a, int64_t b) {
  switch (v.op) {
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::absdiff:
      return a > b ? a - b : b - a;
    case Op::min:
      return std::min(a, b);
    case Op::max:
      return std::max(a, b);
    case Op::avrg:
      return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
    case Op::shl:
    case Op::shr: {
      const int64_t by = v.wrap ? b & 31 : std::min<int64_t>(b, 32);
      return v.op == Op::shl ? int64_t(uint64_t(a) << by) : a >> by;
    }
    case Op::set:
      break;
  }
  switch (v.cmp) {
    case Cmp::eq:
      return a == b;
    case Cmp::ne:
      return a != b;
    case Cmp::lt:
      return a < b;
    case Cmp::le:
      return a <= b;
    case Cmp::gt:
      return a > b;
    case Cmp::ge:
      return a >= b;
  }
  return 0;
}

// Scalar results saturate as in ptxas 13.0's code, not always as in the manual. Without a selector of d, .u32
// checks for negative results only (shifts: for large ones too); with one, every result out of range becomes
// the largest value. Shifts have 34 bits and ignore the selector.
bool is_shift(const Video& v) { return v.op == Op::shl || v.op == Op::shr; }

int64_t saturated(const Video& v, int64_t t, unsigned width) {
  if (is_shift(v)) return clamp(int64_t(uint64_t(t) << 30) >> 30, 32, v.d_signed);
  if (width < 32) {
    const int64_t largest = (1 << (width - v.d_signed)) - 1;
    return t < 0 ? largest : std::min(t, largest);
  }
  return v.d_signed ? clamp(t, 32, true) : std::max<int64_t>(t, 0);
}

// The second operation as in ptxas 13.0: .min and .max compare 64 bits, in which the first operation's result
// has its sign; sums and saturated shifts are truncated to 32 bits and extended before.
uint32_t second(const Video& v, int64_t t, uint32_t c) {
  if (v.second == Second::none) return uint32_t(t);
  if (v.second == Second::add) return uint32_t(t) + c;
  const bool is_signed = v.op == Op::set ? v.a_signed : v.d_signed;
  const bool less = is_signed ? t < int32_t(c) : uint64_t(t) < c;
  const bool greater = is_signed ? t > int32_t(c) : uint64_t(t) > c;
  return (v.second == Second::min ? less : greater) ? uint32_t(t) : c;
}

// d.b0 .. d.h1: inserts the result's low part into c. For d.h1 ptxas 13.0 uses the result's upper half.
uint32_t merged(uint32_t t, uint32_t c, const Selector& d) {
  if (d.width == 32) return t;
  const unsigned at = d.width * d.part[0];
  const uint32_t mask = ((1u << d.width) - 1) << at;
  return (c & ~mask) | ((d.width == 16 ? t : t << at) & mask);
}

void scalar(Warp& w, const Instr& i) {
  const Video v = unpack(i.aux);
  const Selector sa = selector_of(i.op[1], 1, false), sb = selector_of(i.op[2], 1, false);
  const Selector sd = selector_of(i.op[0], 1, false);
  const auto* a = w.source<uint32_t>(i.op[1]);
  const auto* b = w.source<uint32_t>(i.op[2]);
  const auto* c = i.op[3] ? w.source<uint32_t>(i.op[3]) : nullptr;
  auto* d = w.target<uint32_t>(i.op[0]);
  const bool cut = v.op == Op::add || v.op == Op::sub || (v.sat && is_shift(v));
  for_lanes(w.active, [&](unsigned l) {
    int64_t t = primary(v, extract(a[l], sa.width, sa.part[0], v.a_signed),
                        extract(b[l], sb.width, sb.part[0], v.b_signed));
    if (v.sat) t = saturated(v, t, sd.width);
    if (cut) t = int32_t(t);
    d[l] = c ? merged(second(v, t, c[l]), c[l], sd) : uint32_t(t);
  });
}

void simd(Warp& w, const Instr& i) {
  const Video v = unpack(i.aux);
  const Selector sa = selector_of(i.op[1], v.parts, false), sb = selector_of(i.op[2], v.parts, true);
  const uint32_t mask = mask_of(i.op[0], v.parts);
  const auto* a = w.source<uint32_t>(i.op[1]);
  const auto* b = w.source<uint32_t>(i.op[2]);
  const auto* c = w.source<uint32_t>(i.op[3]);
  auto* d = w.target<uint32_t>(i.op[0]);
  for_lanes(w.active, [&](unsigned l) {
    const uint64_t words = a[l] | uint64_t(b[l]) << 32;
    uint32_t merged = 0, sum = c[l];
    for (unsigned n = 0; n < v.parts; ++n) {
      int64_t t = primary(v, extract(words, sa.width, sa.part[n], v.a_signed),
                          extract(words, sb.width, sb.part[n], v.b_signed));
      if (v.sat) t = clamp(t, sa.width, v.d_signed);
      const bool chosen = mask >> n & 1;
      const uint32_t low = (uint64_t(1) << sa.width) - 1;
      merged |= ((chosen ? uint32_t(t) : c[l] >> (sa.width * n)) & low) << (sa.width * n);
      if (chosen) sum += uint32_t(t);
    }
    d[l] = v.second == Second::add ? sum : merged;
  });
}

// Scalar instructions have a third operand for a second operation, or to merge the result into.
void check_third(const Instr& i, Second second) {
  const bool merge = selector_of(i.op[0], 1, false).width < 32;
  if (merge && second != Second::none) fail("d has a selector or there is a second operation, not both");
  const bool wanted = merge || second != Second::none;
  if (wanted && !i.op[3]) fail("operand c is missing");
  if (!wanted && i.op[3]) fail("operand c needs a second operation or a selector of d");
}

// The modifiers after the name: types, then the instruction's own. Also checks the operands' selectors, so
// that a wrong one is refused when the module is loaded.
Body bind_video(Instr& i, const Source& s, Op op, unsigned parts) {
  Video v{};
  v.op = op, v.parts = uint8_t(parts);
  const bool set = op == Op::set;
  const auto is_signed = [&](unsigned n) { return s.type(n) == Type::s32; };
  v.d_signed = !set && is_signed(0);
  v.a_signed = is_signed(set ? 0 : 1), v.b_signed = is_signed(set ? 1 : 2);
  v.sat = s.has("sat"), v.wrap = s.has("wrap");
  v.second = s.has("add")   ? Second::add
             : s.has("min") ? Second::min
             : s.has("max") ? Second::max
                            : Second::none;
  constexpr std::string_view kCmp[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (unsigned k = 0; k < std::size(kCmp); ++k)
    if (s.has(kCmp[k])) v.cmp = Cmp(k);
  if (i.op[1].negated || i.op[2].negated) fail("operands cannot be negated");
  selector_of(i.op[1], parts, false), selector_of(i.op[2], parts, true);
  if (parts > 1)
    mask_of(i.op[0], parts);
  else
    check_third(i, v.second);
  std::memcpy(&i.aux, &v, sizeof v);
  return parts > 1 ? simd : scalar;
}

struct Mad {
  bool a_signed : 1, b_signed : 1, plus_one : 1, sat : 1;
  uint8_t shift;
};

// As expanded by ptxas 13.0: the factors and c are 32 bits wide and taken as signed even if they are whole
// .u32 words; the manual has 64 bits and more. Scaled results are shifted according to their sign.
uint32_t scaled(const Mad& m, int64_t t, bool is_signed) {
  t = is_signed ? t >> m.shift : int64_t(uint64_t(t) >> m.shift);
  return m.sat ? uint32_t(clamp(t, 32, is_signed)) : uint32_t(t);
}

void vmad(Warp& w, const Instr& i) {
  Mad m;
  std::memcpy(static_cast<void*>(&m), &i.aux, sizeof m);
  const Selector sa = selector_of(i.op[1], 1, false), sb = selector_of(i.op[2], 1, false);
  const auto* a = w.source<uint32_t>(i.op[1]);
  const auto* b = w.source<uint32_t>(i.op[2]);
  const auto* c = w.source<uint32_t>(i.op[3]);
  auto* d = w.target<uint32_t>(i.op[0]);
  const bool minus = i.op[1].negated != i.op[2].negated, minus_c = i.op[3].negated;
  const bool is_signed = m.a_signed || m.b_signed || minus || minus_c;
  for_lanes(w.active, [&](unsigned l) {
    const int64_t t = int64_t(int32_t(extract(a[l], sa.width, sa.part[0], m.a_signed))) *
                      int32_t(extract(b[l], sb.width, sb.part[0], m.b_signed));
    const int64_t third = minus_c ? int64_t(int32_t(~c[l])) + 1 : int32_t(c[l]);
    d[l] = scaled(m, (minus ? -t : t) + third + m.plus_one, is_signed);
  });
}

}  // namespace

Body bind_vmad(Instr& i, const Source& s) {
  Mad m{};
  m.a_signed = s.type(1) == Type::s32, m.b_signed = s.type(2) == Type::s32;
  m.plus_one = s.has("po"), m.sat = s.has("sat");
  m.shift = s.has("shr7") ? 7 : s.has("shr15") ? 15 : 0;
  if (i.op[3].negated && i.op[1].negated != i.op[2].negated) fail("either the product or c can be negated");
  if (m.plus_one && (i.op[1].negated != i.op[2].negated || i.op[3].negated))
    fail("nothing can be negated with .po");
  selector_of(i.op[1], 1, false), selector_of(i.op[2], 1, false);
  std::memcpy(&i.aux, &m, sizeof m);
  return vmad;
}

Body bind_vadd(Instr& i, const Source& s) { return bind_video(i, s, Op::add, 1); }
Body bind_vadd2(Instr& i, const Source& s) { return bind_video(i, s, Op::add, 2); }
Body bind_vadd4(Instr& i, const Source& s) { return bind_video(i, s, Op::add, 4); }
Body bind_vsub(Instr& i, const Source& s) { return bind_video(i, s, Op::sub, 1); }
Body bind_vsub2(Instr& i, const Source& s) { return bind_video(i, s, Op::sub, 2); }
Body bind_vsub4(Instr& i, const Source& s) { return bind_video(i, s, Op::sub, 4); }
Body bind_vabsdiff(Instr& i, const Source& s) { return bind_video(i, s, Op::absdiff, 1); }
Body bind_vabsdiff2(Instr& i, const Source& s) { return bind_video(i, s, Op::absdiff, 2); }
Body bind_vabsdiff4(Instr& i, const Source& s) { return bind_video(i, s, Op::absdiff, 4); }
Body bind_vmin(Instr& i, const Source& s) { return bind_video(i, s, Op::min, 1); }
Body bind_vmin2(Instr& i, const Source& s) { return bind_video(i, s, Op::min, 2); }
Body bind_vmin4(Instr& i, const Source& s) { return bind_video(i, s, Op::min, 4); }
Body bind_vmax(Instr& i, const Source& s) { return bind_video(i, s, Op::max, 1); }
Body bind_vmax2(Instr& i, const Source& s) { return bind_video(i, s, Op::max, 2); }
Body bind_vmax4(Instr& i, const Source& s) { return bind_video(i, s, Op::max, 4); }
Body bind_vavrg2(Instr& i, const Source& s) { return bind_video(i, s, Op::avrg, 2); }
Body bind_vavrg4(Instr& i, const Source& s) { return bind_video(i, s, Op::avrg, 4); }
Body bind_vset(Instr& i, const Source& s) { return bind_video(i, s, Op::set, 1); }
Body bind_vset2(Instr& i, const Source& s) { return bind_video(i, s, Op::set, 2); }
Body bind_vset4(Instr& i, const Source& s) { return bind_video(i, s, Op::set, 4); }
Body bind_vshl(Instr& i, const Source& s) { return bind_video(i, s, Op::shl, 1); }
Body bind_vshr(Instr& i, const Source& s) { return bind_video(i, s, Op::shr, 1); }

}  // namespace fp4lab::emu
