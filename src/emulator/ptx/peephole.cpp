#include "emulator/ptx/peephole.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "emulator/isa/opcode.h"
#include "emulator/ptx/known.h"

namespace fp4lab::emu {

namespace {

float float_of(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
bool is_nan32(uint64_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }
bool is_nan64(uint64_t bits) { return (bits & ~(uint64_t(1) << 63)) > 0x7ff0000000000000; }
bool is_float(Type t) {
  return t == Type::f16 || t == Type::bf16 || t == Type::f32 || t == Type::f64 || t == Type::f16x2 ||
         t == Type::bf16x2;
}
uint64_t quiet32(uint64_t bits) { return is_nan32(bits) ? bits | 0x400000 : bits; }
uint64_t flushed32(uint64_t bits) { return bits & 0x7f800000 ? bits : bits & 0x80000000; }

bool is_plain(const Source& s) { return !says_rounding(s) && !s.has("ftz") && !s.has("sat"); }

class Peephole {
 public:
  Peephole(Rewriter& w, const Dataflow& flow) : w_(w), f_(w.f), flow_(flow), known_(w, flow) {}

  bool run() {
    for (uint32_t pc = 0; pc < f_.code.size(); ++pc) {
      if (flow_.is_dead(pc)) continue;
      for (const Rule& rule : rules())
        if (f_.source[pc].tokens[0] == rule.mnemonic) {
          (this->*rule.apply)(pc);
          break;
        }
    }
    if (changed_) w_.rebuild();
    return changed_;
  }

 private:
  struct Rule {
    std::string_view mnemonic;
    void (Peephole::*apply)(uint32_t pc);
  };
  static std::span<const Rule> rules();

  const Source& source(uint32_t pc) const { return f_.source[pc]; }
  Operand& operand(uint32_t pc, unsigned slot) { return f_.code[pc].op[slot]; }
  std::optional<uint64_t> bits(uint32_t pc, unsigned slot) const { return known_.bits(pc, slot); }
  // The unguarded instruction that made an operand, if it has this mnemonic.
  std::optional<uint32_t> made_by(uint32_t pc, unsigned slot, std::string_view mnemonic) const {
    const uint32_t from = known_.maker(pc, slot);
    if (from == Dataflow::kNone || from >= pc || source(from).tokens[0] != mnemonic) return std::nullopt;
    return from;
  }
  bool same_register(uint32_t pc, unsigned a, unsigned b) {
    return is_value(operand(pc, a)) && is_value(operand(pc, b)) &&
           operand(pc, a).offset == operand(pc, b).offset;
  }

  void replace(uint32_t pc, Rewriter::Tokens tokens, std::vector<Operand> sources) {
    w_.replace(pc, std::move(tokens), std::move(sources));
    changed_ = true;
  }
  void insert(uint32_t pc, Rewriter::Tokens tokens, std::vector<Operand> operands) {
    w_.insert(pc, std::move(tokens), std::move(operands));
    changed_ = true;
  }
  void become(uint32_t pc, uint64_t value, Type type) {
    replace(pc, {"mov", name_of(bits_type(type))}, {w_.constant(value, bits_type(type))});
  }
  void become_copy(uint32_t pc, const Operand& of, Type type) {
    replace(pc, {"mov", name_of(bits_type(type))}, {of});
  }
  void set_operand(uint32_t pc, unsigned slot, uint64_t value) {
    operand(pc, slot) = w_.constant(value);
    changed_ = true;
  }

  // Of a constant abs and neg change the sign, also of a NaN, which f32 makes quiet.
  void fold_sign(uint32_t pc) {
    const Source& s = source(pc);
    const Type type = s.type();
    if (type != Type::f32 && type != Type::f64 && type != Type::f16x2) return;
    if (!known_.is_constant(pc, 1)) return;
    const uint64_t sign = type == Type::f64 ? uint64_t(1) << 63 : type == Type::f32 ? 0x80000000 : 0x80008000;
    const bool abs = s.tokens[0] == "abs";
    if (const auto x = bits(pc, 1); x && type == Type::f32) {
      const uint64_t value = quiet32(s.has("ftz") ? flushed32(*x) : *x);
      become(pc, abs ? value & ~sign : value ^ sign, type);
    } else if (!s.has("ftz") && (x || type != Type::f16x2)) {
      const Type as = bits_type(type);
      const uint64_t mask = abs ? (type == Type::f64 ? ~sign : ~sign & 0xffffffff) : sign;
      replace(pc, {abs ? "and" : "xor", name_of(as)}, {operand(pc, 1), w_.constant(mask, as)});
    }
  }

  // Conversions of constants keep a NaN's payload or not, otherwise than those that execute.
  void fold_conversion(uint32_t pc) {
    const Source& s = source(pc);
    const Type to = s.type(0), from = s.type(1);
    if (s.has("pack")) return;
    if (from == Type::f32 && !is_float(to)) forget_saturation(pc);
    if (s.has("sat") && convert_at_once(pc)) return;
    if ((from == Type::f16 || from == Type::bf16) && !is_float(to)) return convert_halves(pc);
    if (from == Type::s16 || from == Type::s32) return convert_integer(pc);
    if (to == Type::f64 && from != Type::f64 && !s.has("sat")) take_sign(pc);
    if (!known_.is_constant(pc, 1)) return;
    const auto x = bits(pc, 1);
    if (to == Type::f32 && from == Type::bf16) {
      const bool is_nan = x && (*x & 0x7fff) > 0x7f80;
      if (is_nan) become(pc, 0x7fffffff, to);
    } else if (to == Type::f32 && from == Type::f32 && s.tokens.size() == 4 && s.has("ftz") && x &&
               is_nan32(*x)) {
      become(pc, quiet32(*x), to);
    } else if (to == Type::f64 && from == Type::f16 && !s.has("sat")) {
      const Operand wide = w_.fresh(Type::b32);
      insert(pc, {"cvt", "f32", "f16"}, {wide, operand(pc, 1)});
      replace(pc, {"cvt", "f64", "f32"}, {wide});
    } else if (to == Type::f16 && from == Type::f64 && s.has("rn") && !s.has("sat") && x && is_nan64(*x)) {
      become(pc, 0x7fff, to);
    }
  }

  // A conversion to f64 takes the sign's change itself, which leaves a NaN as it was.
  void take_sign(uint32_t pc) {
    for (const std::string_view name : {"neg", "abs"}) {
      const auto from = made_by(pc, 1, name);
      if (!from || source(*from).has("ftz") || source(*from).type() != source(pc).type(1)) continue;
      const Operand wide = w_.fresh(Type::b64);
      insert(pc, source(pc).tokens, {wide, kept(*from, 1)});
      return replace(pc, {name, "f64"}, {wide});
    }
  }

  // From a number rounded to an integer to an integer: that the first saturates is forgotten.
  void forget_saturation(uint32_t pc) {
    const auto first = made_by(pc, 1, "cvt");
    if (!first || source(*first).type(0) != Type::f32 || source(*first).type(1) != Type::f32) return;
    const std::string_view rounding = source(*first).tokens[1];
    if (!source(*first).has("sat") || !rounding.starts_with("r") || rounding.size() != 3) return;
    Rewriter::Tokens tokens = source(pc).tokens;
    tokens[1] = rounding;
    replace(pc, tokens, {kept(*first, 1)});
  }

  // From a float over an integer to a saturated one of half its width: without the step between, so that
  // numbers below 0 stay, and without .ftz.
  bool convert_at_once(uint32_t pc) {
    const Type to = source(pc).type(0), over = source(pc).type(1);
    const auto first = made_by(pc, 1, "cvt");
    if (!first || source(*first).type(0) != over) return false;
    const Type from = source(*first).type(1);
    const bool words = bits_of(over) == 32 && bits_of(to) == 16 && from == Type::f32;
    const bool pairs = (over == Type::s64 && to == Type::s32) || (over == Type::u64 && to == Type::u32);
    if (!words && !(pairs && is_float(from) && from != Type::f64)) return false;
    const std::string_view rounding = source(*first).tokens[1];
    replace(pc, {"cvt", rounding, name_of(to), name_of(from)}, {kept(*first, 1)});
    return true;
  }

  // From f16 over bf16 to an integer by .rzi, or from bf16 over f16: what the first read is taken for what it
  // made, and its rounding counts. After a sign's change with .ftz, .rzi rounds to nearest.
  void convert_halves(uint32_t pc) {
    const Source& s = source(pc);
    const Type from = s.type(1);
    if (!s.has("rzi")) return;
    Rewriter::Tokens tokens = s.tokens;
    if (const auto first = made_by(pc, 1, "cvt")) {
      const Type a = source(*first).type(0), b = source(*first).type(1);
      const bool halves = (a == Type::f16 && b == Type::bf16) || (a == Type::bf16 && b == Type::f16);
      if (!halves) return;
      const std::string_view r = source(*first).tokens[1];
      tokens[1] = r == "rn" ? "rni" : r == "rz" ? "rzi" : r == "rm" ? "rmi" : "rpi";
      return replace(pc, tokens, {kept(*first, 1)});
    }
    for (const std::string_view name : {"neg", "abs"})
      if (const auto sign = made_by(pc, 1, name); sign && from == Type::f16 && source(*sign).type() == from &&
                                                  source(*sign).has("ftz") && s.has("rzi")) {
        tokens[1] = "rni";
        return replace(pc, tokens, {operand(pc, 1)});
      }
  }

  // What neg and abs make of the least integer is a positive number where it is converted next.
  void convert_integer(uint32_t pc) {
    const Source& s = source(pc);
    const Type to = s.type(0), from = s.type(1);
    if (from == Type::s16 && !is_float(to)) return widen(pc);
    if (from != Type::s32 || !s.has("sat") || bits_of(to) > 16) return;
    for (const std::string_view name : {"neg", "abs"})
      if (const auto sign = made_by(pc, 1, name); sign && source(*sign).type() == Type::s32) {
        const Operand x = operand(*sign, 1), negative = w_.fresh(Type::b32), result = w_.fresh(Type::b32);
        insert(*sign, {"sub", "sat", "s32"}, {negative, w_.constant(0), x});
        insert(*sign, {name == "neg" ? "min" : "max", "s32"},
               {result, negative, name == "neg" ? negative : x});
        operand(pc, 1) = result;
        return;
      }
  }

  // Of neg and abs of s16 the compiler takes 32 bits, which the least integer needs, where it would otherwise
  // extend the sign.
  void widen(uint32_t pc) {
    const Source& s = source(pc);
    if (s.type(s.tokens[0] == "cvt" ? 1 : 0) != Type::s16) return;
    const std::string_view name = s.tokens[0];
    const unsigned first = name == "setp" ? 2 : 1, count = name == "cvt" || name == "shr" ? 1 : 2;
    bool wide = false;
    for (unsigned slot = first; slot < first + count; ++slot) wide |= sign_of_s16(pc, slot).has_value();
    if (!wide || (name == "setp" && (s.tokens.size() > 3 || operand(pc, 1)))) return;
    std::vector<Operand> sources;
    for (unsigned slot = first; slot < first + count; ++slot) sources.push_back(extended(pc, slot));
    const bool high = s.has("hi"), widens = s.has("wide");
    if (name == "mul" || name == "mad") {
      if (!high && !widens) return;
      const Operand product = w_.fresh(Type::b32);
      insert(pc, {"mul", "lo", "s32"}, {product, sources[0], sources[1]});
      if (high) insert(pc, {"shr", "s32"}, {product, product, w_.constant(16)});
      if (name == "mul") return replace(pc, {"mov", "b32"}, {product});
      replace(pc, {"add", high ? "s16" : "s32"}, {product, operand(pc, 3)});
    } else if (name == "cvt") {
      Rewriter::Tokens tokens = s.tokens;
      tokens.back() = "s32";
      replace(pc, tokens, sources);
    } else if (name == "setp") {
      const std::string_view how = s.tokens[1];
      replace(pc, {"setp", how, "s32"}, {Operand{}, sources[0], sources[1]});
    } else if (name == "div" || name == "rem") {
      const Operand result = w_.fresh(Type::b32);
      insert(pc, {name, "s32"}, {result, sources[0], sources[1]});
      replace(pc, {"cvt", "u16", "u32"}, {result});
    } else if (name == "shr") {
      const Operand result = w_.fresh(Type::b32);
      insert(pc, {"shr", "s32"}, {result, sources[0], operand(pc, 2)});
      replace(pc, {"cvt", "u16", "u32"}, {result});
    }
  }
  std::optional<uint32_t> sign_of_s16(uint32_t pc, unsigned slot) const {
    for (const std::string_view name : {"neg", "abs"})
      if (const auto from = made_by(pc, slot, name); from && source(*from).type() == Type::s16) return from;
    return std::nullopt;
  }
  // An operand of s16 as the s32 that the compiler takes.
  Operand extended(uint32_t pc, unsigned slot) {
    const auto sign = sign_of_s16(pc, slot);
    const Operand result = w_.fresh(Type::b32);
    insert(sign.value_or(pc), {"cvt", "s32", "s16"}, {result, sign ? operand(*sign, 1) : operand(pc, slot)});
    if (sign) insert(*sign, {source(*sign).tokens[0], "s32"}, {result, result});
    return result;
  }

  // The remainder of an abs by a constant: as if the least integer were a positive number.
  void fold_remainder(uint32_t pc) {
    const auto by = bits(pc, 2);
    const auto abs = made_by(pc, 1, "abs");
    if (source(pc).type() != Type::s32) return widen(pc);
    if (!abs || source(*abs).type() != Type::s32 || !by || !static_cast<uint32_t>(*by)) return;
    const auto divisor = static_cast<int32_t>(*by);
    replace(pc, {"rem", "u32"},
            {operand(pc, 1), w_.constant(static_cast<uint32_t>(divisor < 0 ? -divisor : divisor))});
  }

  // x * 1 is x, whatever NaN it is.
  void fold_product(uint32_t pc) {
    const Source& s = source(pc);
    const Type type = s.type();
    const uint64_t one = type == Type::f32    ? 0x3f800000
                         : type == Type::f64  ? 0x3ff0000000000000
                         : type == Type::f16  ? 0x3c00
                         : type == Type::bf16 ? 0x3f80
                                              : 0;
    if (type == Type::s16) return widen(pc);
    if (!one || !is_plain(s)) return;
    const auto a = bits(pc, 1), b = bits(pc, 2);
    if (a && b && type == Type::f32 && !is_nan32(*a) && !is_nan32(*b)) {
      const float product = float_of(*a) * float_of(*b);  // on its own: no sum takes it
      if (!std::isnan(product)) return become(pc, std::bit_cast<uint32_t>(product), type);
    }
    for (const unsigned slot : {1u, 2u})
      if (bits(pc, slot) == one) return become_copy(pc, operand(pc, 3 - slot), type);
  }

  // The amount of a 16-bit shift is cut to 16 bits if the instruction itself names it.
  void fold_shift(uint32_t pc) {
    if (source(pc).tokens[0] == "shl" && bits_of(source(pc).type()) == 64) return fold_wide_shift(pc);
    if (bits_of(source(pc).type()) != 16) return;
    if (source(pc).type() == Type::s16) widen(pc);
    if (const auto amount = bits(pc, 2); amount && operand(pc, 2).immediate && *amount & 0xffff0000)
      set_operand(pc, 2, *amount & 0xffff);
  }

  // A wide product with a constant that is shifted out of 64 bits stays where it is.
  void fold_wide_shift(uint32_t pc) {
    const auto product = made_by(pc, 1, "mul");
    const auto amount = bits(pc, 2);
    if (!product || !source(*product).has("wide") || !amount || (*amount & 0xffffffff) < 64) return;
    if (bits(*product, 1) || bits(*product, 2)) become_copy(pc, operand(pc, 1), Type::b64);
  }

  // The constant by which slct.s32.s32 chooses is compared as if it were f32.
  void fold_choice(uint32_t pc) {
    const Source& s = source(pc);
    const Type type = s.type(0);
    if (same_register(pc, 1, 2)) return become_copy(pc, operand(pc, 1), type);
    if (s.tokens[0] == "selp") {
      // A selection that is known takes no signs (see optimise.h).
      if (type == Type::f32 && known_.is_constant(pc, 3))
        replace(pc, {"selp", "b32"}, {operand(pc, 1), operand(pc, 2), operand(pc, 3)});
      return;
    }
    const bool of_f32 = s.type(1) == Type::f32;
    if (const auto by = bits(pc, 3)) {
      const bool first = of_f32 || type == Type::s32 ? float_of(s.has("ftz") ? flushed32(*by) : *by) >= 0
                                                     : static_cast<int32_t>(*by) >= 0;
      become_copy(pc, operand(pc, first ? 1 : 2), type);
    } else if (type != (of_f32 ? Type::f32 : Type::s32) && !s.has("ftz") &&
               is_not_negative(pc, 3, s.type(1))) {
      become_copy(pc, operand(pc, 1), type);
    }
  }

  // Numbers that the compiler takes for no less than 0, a NaN or the least integer among them.
  bool is_not_negative(uint32_t pc, unsigned slot, Type type) {
    const uint32_t from = known_.maker(pc, slot);
    if (from == Dataflow::kNone || from >= pc) return false;
    const Source& s = source(from);
    if (s.type() != type) return false;
    const std::string_view name = s.tokens[0];
    if (type == Type::s32 || type == Type::s64) return name == "abs";
    if (type != Type::f32) return false;
    if (name == "abs") return !s.has("ftz");
    if (name == "ex2") return true;
    const bool sum = name == "add" || name == "sub" || name == "mul";
    if (sum && says_rounding(s)) return false;
    if ((sum || name == "fma") && s.has("sat")) return true;
    if (name == "mul") return same_register(from, 1, 2);
    return name == "add" && is_not_negative(from, 1, type) && is_not_negative(from, 2, type);
  }

  // A comparison with a number below 0, or of no less than 0 with 0, is decided, for NaNs as well.
  void fold_comparison(uint32_t pc) {
    const Source& s = source(pc);
    const Type type = s.type();
    std::string_view how = s.tokens[1];
    if (s.tokens.size() > (s.has("ftz") ? 4 : 3) || operand(pc, 1))
      return;  // combined with another, or two results
    if (type == Type::s16) widen(pc);
    if (same_register(pc, 2, 3) && is_decided(how, is_float(type))) known_.mark_constant(pc);
    for (const unsigned slot : {3u, 2u}) {
      if (slot == 2)
        how = how == "lt" ? "gt" : how == "le" ? "ge" : how == "gt" ? "lt" : how == "ge" ? "le" : how;
      const auto with = bits(pc, slot);
      if (!with || !is_not_negative(pc, 5 - slot, type)) continue;
      if (type == Type::f32 && is_nan32(*with)) continue;
      const double c = type == Type::f32   ? float_of(*with)
                       : type == Type::s32 ? static_cast<int32_t>(*with)
                                           : static_cast<int64_t>(*with);
      const bool number = type != Type::f32;
      const bool yes =
          (c < 0 && (how == "gt" || how == "ge" || (number && how == "ne"))) || (c == 0 && how == "ge");
      const bool no = (c <= 0 && how == "lt") || (number && c < 0 && (how == "le" || how == "eq"));
      if (!yes && !no) continue;
      known_.mark_constant(pc);
      f_.source[pc].tokens = {"setp", yes ? "eq" : "ne", "u32"};
      return replace(pc, f_.source[pc].tokens, {Operand{}, w_.constant(0), w_.constant(0)});
    }
  }

  // What comes of comparing a value with itself.
  static bool is_decided(std::string_view how, bool may_be_nan) {
    if (!may_be_nan) return true;
    return how == "equ" || how == "leu" || how == "geu" || how == "lt" || how == "gt" || how == "ne";
  }

  // A difference of constants below 0 that lies halfway between two numbers becomes the one nearer to 0.
  bool fold_tie(uint32_t pc) {
    const Source& s = source(pc);
    const auto a = bits(pc, 1), b = bits(pc, 2);
    if (!a || !b || !known_.is_constant(pc, 1) || !known_.is_constant(pc, 2) || s.type() != Type::f32 ||
        says_rounding(s) || s.has("sat"))
      return false;
    const double exact = double(float_of(*a)) + (s.tokens[0] == "sub" ? -1.0 : 1.0) * double(float_of(*b));
    const auto sum = static_cast<float>(exact);
    const float lesser = std::nextafter(sum, 0.0F);
    const bool differ = (*a ^ *b ^ (s.tokens[0] == "sub" ? 0x80000000 : 0)) & 0x80000000;
    if (!differ || sum > 0 || !std::isnormal(sum) || double(sum) - exact != exact - double(lesser))
      return false;
    become(pc, std::bit_cast<uint32_t>(lesser), Type::f32);
    return true;
  }

  // A constant NaN that is subtracted is added with its sign changed.
  void fold_difference(uint32_t pc) {
    const Source& s = source(pc);
    if (fold_tie(pc)) return;
    if (s.type() == Type::f64) {
      const auto x = bits(pc, 2);
      if (!x || !is_nan64(*x)) return;
      Rewriter::Tokens tokens = s.tokens;
      tokens[0] = "add";
      replace(pc, tokens, {operand(pc, 1), w_.constant(*x ^ uint64_t(1) << 63, Type::f64)});
    } else {
      fold_saturated(pc);
    }
  }

  // A sum with a constant that saturates takes another constant that was added before.
  void fold_saturated(uint32_t pc) {
    const Source& s = source(pc);
    if (s.tokens[0] == "add" && fold_tie(pc)) return;
    if (!s.has("sat") || s.type() != Type::s32) return;
    const bool minus = s.tokens[0] == "sub";
    for (const unsigned slot : {2u, 1u}) {
      const auto c = bits(pc, slot);
      if (!c || (minus && slot == 1)) continue;
      for (const bool difference : {false, true}) {
        const auto from = made_by(pc, 3 - slot, difference ? "sub" : "add");
        if (!from || known_.uses(*from) != 1 || source(*from).tokens.size() != 2 ||
            bits_of(source(*from).type()) != 32)
          continue;
        const auto first = bits(*from, 1), second = bits(*from, 2);
        if (bool(first) == bool(second)) continue;
        const Operand x = kept(*from, first ? 2 : 1);
        const auto known = static_cast<uint32_t>(first ? *first : *second);
        const auto last = static_cast<uint32_t>(minus ? -*c : *c);
        if (difference && first) return replace(pc, {"sub", "sat", "s32"}, {w_.constant(known + last), x});
        return replace(pc, {"add", "sat", "s32"}, {x, w_.constant((difference ? -known : known) + last)});
      }
    }
  }

  // The extreme of a value and itself is the value, of f32 and f64 also where it was loaded twice.
  void fold_extreme(uint32_t pc) {
    const Source& s = source(pc);
    const Type type = s.type();
    const bool plain = s.tokens.size() == 2;
    if (same_register(pc, 1, 2)) {
      if (plain && (type == Type::f32 || type == Type::f64 || type == Type::f16))
        return become_copy(pc, operand(pc, 1), type);
      const auto x = bits(pc, 1);
      if (x && type == Type::f32 && s.tokens.size() == 3 && s.has("ftz"))
        become(pc, quiet32(flushed32(*x)), type);
      return;
    }
    if (!plain || (type != Type::f32 && type != Type::f64)) return;
    if (!same_load(known_.maker(pc, 1), known_.maker(pc, 2))) return;
    become_copy(pc, operand(pc, 1), type);
  }
  bool same_load(uint32_t a, uint32_t b) const {
    if (a == Dataflow::kNone || b == Dataflow::kNone || source(a).tokens[0] != "ld") return false;
    const auto [first, last] = std::minmax(a, b);
    const Operand &x = f_.code[first].op[1], &y = f_.code[last].op[1];
    if (source(a).tokens != source(b).tokens || x.kind != Operand::Kind::address || y.kind != x.kind)
      return false;
    if (x.has_base != y.has_base || (x.has_base && x.offset != y.offset) || x.displacement != y.displacement)
      return false;
    for (uint32_t pc = first; pc < last; ++pc) {
      const auto& writes = flow_.access(pc).writes;
      if (!flow_.is_pure(pc)) return false;
      if (x.has_base && std::find(writes.begin(), writes.end(), flow_.number_of_base(x)) != writes.end())
        return false;
    }
    return true;
  }

  // and, or and xor of a lop3 and one of its operands become one lop3. Where the lop3 has an operand twice,
  // of them is taken for 0.
  void fold_logic(uint32_t pc) {
    const std::string_view name = source(pc).tokens[0];
    if (source(pc).type() != Type::b32) return;
    for (const unsigned slot : {2u, 1u}) {
      const auto inner = made_by(pc, slot, "lop3");
      if (!inner || source(*inner).tokens.size() != 2 || !operand(*inner, 4).immediate) continue;
      unsigned first = 1;  // the operand that is the other one's too
      const auto shared = [&](unsigned with) {
        return operand(*inner, with).offset == operand(pc, 3 - slot).offset &&
               known_.maker(*inner, with) == known_.maker(pc, 3 - slot);
      };
      while (first < 4 && !shared(first)) ++first;
      if (first == 4) continue;
      const unsigned order[] = {first, first % 3 + 1, (first + 1) % 3 + 1};
      const auto equal = [&](unsigned a, unsigned b) { return same_register(*inner, order[a], order[b]); };
      const bool drop_second = equal(0, 1) || equal(1, 2), drop_third = equal(0, 2);
      if (!drop_second && !drop_third) return;
      const auto table = static_cast<uint32_t>(operand(*inner, 4).displacement);
      uint32_t merged = 0;
      for (uint32_t i = 0; i < 8; ++i) {
        uint32_t from = 0;  // the lop3's operands by place
        for (unsigned k = 0; k < 3; ++k) from |= (i >> (2 - k) & 1) << (3 - order[k]);
        const uint32_t a = table >> from & 1, b = i >> 2;
        merged |= (name == "and" ? a & b : name == "or" ? a | b : a ^ b) << i;
      }
      std::vector<Operand> sources;
      for (const unsigned k : order) sources.push_back(kept(*inner, k));
      if (drop_second) sources[1] = w_.constant(0);
      if (drop_third) sources[2] = w_.constant(0);
      sources.push_back(w_.constant(merged));
      return replace(pc, {"lop3", "b32"}, sources);
    }
  }

  // The square of a pack in an fma: where one half alone is -0, or a constant below 0 beside a value, that
  // half's product has the wrong sign.
  void fold_square(uint32_t pc) {
    const Type type = source(pc).type();
    if ((type != Type::f16x2 && type != Type::bf16x2) || !same_register(pc, 1, 2)) return;
    const auto from = made_by(pc, 1, "mov");
    if (!from) return;
    uint32_t wrong = 0;
    if (const auto x = bits(pc, 1)) {
      const bool low = (*x & 0xffff) == 0x8000, high = (*x >> 16 & 0xffff) == 0x8000;
      wrong = low == high ? 0 : low ? 0x8000 : 0x80000000;
    } else if (const Operand& pack = operand(*from, 1);
               pack.kind == Operand::Kind::vector && pack.count == 2) {
      const auto low = element(*from, pack.index), high = element(*from, pack.index + 1);
      if (bool(low) == bool(high)) return;
      wrong = low ? *low & 0x8000 : (*high & 0x8000) << 16;
    }
    if (!wrong) return;
    const Operand other = w_.fresh(Type::b32);
    insert(pc, {"xor", "b32"}, {other, operand(pc, 1), w_.constant(wrong)});
    operand(pc, 1) = other;
  }
  // The bits of a vector's element, if a mov not far before pc made it of a constant.
  std::optional<uint64_t> element(uint32_t pc, uint32_t index) const {
    constexpr uint32_t kFar = 64;
    const Operand& op = f_.vectors[index];
    if (const auto known = known_.bits_of_row(op)) return known;
    const uint32_t reg = flow_.number_of(op);
    for (uint32_t from = pc; from-- > 0 && pc - from < kFar;) {
      const auto& writes = flow_.access(from).writes;
      if (std::find(writes.begin(), writes.end(), reg) == writes.end()) continue;
      return f_.code[from].guard < 0 && source(from).tokens[0] == "mov" ? bits(from, 1) : std::nullopt;
    }
    return std::nullopt;
  }

  // What an operand holds at pc, for a later instruction.
  Operand kept(uint32_t pc, unsigned slot) {
    const Operand copy = w_.fresh(operand(pc, slot).type);
    insert(pc, {"mov", name_of(bits_type(copy.type))}, {copy, operand(pc, slot)});
    return copy;
  }

  // bfi.b32 of a constant place and length: the mask is of length modulo 32, but right at a byte's boundary
  // and where the constant field goes into a constant.
  void fold_insertion(uint32_t pc) {
    if (source(pc).type() != Type::b32 || known_.is_constant(pc, 2)) return;
    const auto at = bits(pc, 3), length = bits(pc, 4);
    if (at && length && (*at & 0xff) < 32 && *at % 8 != 0 && *length > 31) set_operand(pc, 4, *length % 32);
  }

  // bfe.s32 of a constant field that begins behind the register: ones, whatever the sign is.
  void fold_extraction(uint32_t pc) {
    if (source(pc).type() != Type::s32 || known_.is_constant(pc, 1)) return;
    const auto at = bits(pc, 2), length = bits(pc, 3);
    if (at && length && (*at & 0xff) > 31 && (*length & 0xff) != 0) become(pc, 0xffffffff, Type::b32);
  }

  Rewriter& w_;
  Function& f_;
  const Dataflow& flow_;
  Known known_;
  bool changed_ = false;
};

std::span<const Peephole::Rule> Peephole::rules() {
  static constexpr Rule kRules[] = {
      {"neg", &Peephole::fold_sign},
      {"abs", &Peephole::fold_sign},
      {"cvt", &Peephole::fold_conversion},
      {"mul", &Peephole::fold_product},
      {"shl", &Peephole::fold_shift},
      {"shr", &Peephole::fold_shift},
      {"selp", &Peephole::fold_choice},
      {"slct", &Peephole::fold_choice},
      {"setp", &Peephole::fold_comparison},
      {"sub", &Peephole::fold_difference},
      {"add", &Peephole::fold_saturated},
      {"bfi", &Peephole::fold_insertion},
      {"and", &Peephole::fold_logic},
      {"or", &Peephole::fold_logic},
      {"xor", &Peephole::fold_logic},
      {"bfe", &Peephole::fold_extraction},
      {"fma", &Peephole::fold_square},
      {"rem", &Peephole::fold_remainder},
      {"div", &Peephole::widen},
      {"mad", &Peephole::widen},
      {"min", &Peephole::fold_extreme},
      {"max", &Peephole::fold_extreme},
  };
  return kRules;
}

}  // namespace

bool peephole(Rewriter& w, const Dataflow& flow) { return Peephole(w, flow).run(); }

}  // namespace fp4lab::emu
