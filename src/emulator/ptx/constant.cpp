#include "emulator/ptx/constant.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace fp4lab::emu {

namespace {

constexpr int kMaxDepth = 64;  // of parentheses and unary operators, so that no text exhausts the stack

using Form = Constant::Form;

Constant integer(uint64_t bits, bool is_unsigned) { return {Form::integer, is_unsigned, bits}; }

bool begins_fraction(const Token& t) {  // .5
  return t.kind == Token::Kind::dotted && !t.text.empty() && t.text[0] >= '0' && t.text[0] <= '9';
}
bool is_hexadecimal_float(const Token& t) {
  return t.kind == Token::Kind::number && t.text.size() > 1 && t.text[0] == '0' &&
         std::string_view("fFdD").find(t.text[1]) != std::string_view::npos;
}

// 1, 0x1F, 0b101, 017, with an optional U; 0f and 0d bit patterns; decimal floating point.
Constant literal(Cursor& c) {
  const Token& t = c.peek();
  if (t.is(Token::Kind::word, "WARP_SZ")) {
    c.next();
    return integer(kLanes, false);
  }
  const bool fraction = begins_fraction(t);
  if (t.kind != Token::Kind::number && !fraction) c.fail("expected a constant, found {}", Cursor::shown(t));
  std::string_view s = t.text;
  auto bad = [&]() { fail_at(c.module, t, "'{}' is not a number", t.text); };
  auto digits = [&](std::string_view d, int base) {
    uint64_t value = 0;
    auto [end, error] = std::from_chars(d.data(), d.data() + d.size(), value, base);
    if (error == std::errc::result_out_of_range) fail_at(c.module, t, "'{}' needs more than 64 bits", t.text);
    if (d.empty() || error != std::errc() || end != d.data() + d.size()) bad();
    return value;
  };
  c.next();
  if (s.size() > 1 && s[0] == '0' && (s[1] == 'f' || s[1] == 'F')) {
    if (s.size() != 10) bad();
    return {Form::f32, false, digits(s.substr(2), 16)};
  }
  if (s.size() > 1 && s[0] == '0' && (s[1] == 'd' || s[1] == 'D')) {
    if (s.size() != 18) bad();
    return {Form::f64, false, digits(s.substr(2), 16)};
  }
  bool hex = s.size() > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
  if (!hex && (fraction || s.find_first_of(".eE") != std::string_view::npos)) {
    const std::string copy = fraction ? fmt::format(".{}", s) : std::string(s);
    char* end = nullptr;
    double value = std::strtod(copy.c_str(), &end);
    if (*end) bad();
    if (std::isinf(value)) fail_at(c.module, t, "'{}' is too large", t.text);
    return {Form::decimal, false, std::bit_cast<uint64_t>(value)};
  }
  bool is_unsigned = s.size() > 1 && s.back() == 'U';
  if (is_unsigned) s.remove_suffix(1);
  uint64_t value;
  if (hex)
    value = digits(s.substr(2), 16);
  else if (s.size() > 1 && s[0] == '0' && (s[1] == 'b' || s[1] == 'B'))
    value = digits(s.substr(2), 2);
  else if (s.size() > 1 && s[0] == '0')
    value = digits(s.substr(1), 8);
  else
    value = digits(s, 10);
  return integer(value, is_unsigned || value > INT64_MAX);
}

class Expression {
 public:
  explicit Expression(Cursor& c) : c_(c) {}

  Constant ternary() {
    Guard deeper(*this);
    Constant test = binary(0);
    if (!c_.accept("?")) return test;
    need_integer(test);
    Constant yes = ternary();
    c_.expect(":", "in a conditional constant");
    Constant no = ternary();
    return test.bits ? yes : no;
  }

 private:
  struct Guard {
    Expression& e;
    explicit Guard(Expression& e) : e(e) {
      if (++e.depth_ > kMaxDepth) e.c_.fail("a constant expression nested deeper than {}", kMaxDepth);
    }
    ~Guard() { --e.depth_; }
  };

  void need_integer(const Constant& v) const {
    if (v.form != Form::integer) c_.fail("a floating-point constant where an integer is needed");
  }

  static int level_of(std::string_view op) {
    static constexpr std::string_view kLevels[] = {"||",    "&&",        "|",     "^",   "&",
                                                   "== !=", "<= >= < >", "<< >>", "+ -", "* / %"};
    for (int i = 0; i < static_cast<int>(std::size(kLevels)); ++i) {
      std::string_view rest = kLevels[i];
      while (!rest.empty()) {
        size_t space = rest.find(' ');
        if (rest.substr(0, space) == op) return i;
        rest = space == std::string_view::npos ? std::string_view() : rest.substr(space + 1);
      }
    }
    return -1;
  }

  Constant binary(int lowest) {
    Constant left = unary();
    for (;;) {
      const Token& op = c_.peek();
      int level = op.kind == Token::Kind::mark ? level_of(op.text) : -1;
      if (level < lowest) return left;
      c_.next();
      left = apply(op, left, binary(level + 1));
    }
  }

  Constant unary() {
    Guard deeper(*this);
    if ((c_.peek().mark("+") || c_.peek().mark("-")) && is_hexadecimal_float(c_.peek(1)))
      c_.fail("a hexadecimal floating-point value takes no sign: it is one of its bits");
    if (c_.accept("+")) return unary();
    if (c_.accept("-")) {
      Constant v = unary();
      if (v.form == Form::integer) return integer(0 - v.bits, v.is_unsigned && v.bits);
      v.bits ^= v.form == Form::f32 ? uint64_t(1) << 31 : uint64_t(1) << 63;
      return v;
    }
    if (c_.peek().mark("~") || c_.peek().mark("!")) {
      bool logical = c_.next().text == "!";
      Constant v = unary();
      need_integer(v);
      return logical ? integer(!v.bits, false) : integer(~v.bits, v.is_unsigned);
    }
    if (c_.accept("(")) {
      if (c_.peek().kind == Token::Kind::dotted) {
        const Token& cast = c_.next();
        if (cast.text != "s64" && cast.text != "u64")
          fail_at(c_.module, cast, "a constant is cast to .s64 or .u64 only");
        c_.expect(")", "after a cast");
        Constant v = unary();
        need_integer(v);
        return integer(v.bits, cast.text == "u64");
      }
      Constant v = ternary();
      c_.expect(")", "after a constant expression");
      return v;
    }
    return literal(c_);
  }

  static std::optional<Constant> between(std::string_view op, double a, double b) {
    const auto value = [](double v) { return Constant{Form::decimal, false, std::bit_cast<uint64_t>(v)}; };
    if (op == "+") return value(a + b);
    if (op == "-") return value(a - b);
    if (op == "*") return value(a * b);
    if (op == "/") return value(a / b);
    if (op == "==") return integer(a == b, false);
    if (op == "!=") return integer(a != b, false);
    if (op == "<") return integer(a < b, false);
    if (op == "<=") return integer(a <= b, false);
    if (op == ">") return integer(a > b, false);
    if (op == ">=") return integer(a >= b, false);
    return std::nullopt;
  }

  Constant apply(const Token& op, const Constant& l, const Constant& r) const {
    if (l.form == Form::decimal && r.form == Form::decimal)
      if (std::optional<Constant> v =
              between(op.text, std::bit_cast<double>(l.bits), std::bit_cast<double>(r.bits)))
        return *v;
    if (l.form != Form::integer || r.form != Form::integer)
      fail_at(c_.module, op, "'{}' between floating-point constants is not supported", op.text);
    bool u = l.is_unsigned || r.is_unsigned;
    auto a = l.bits, b = r.bits;
    auto sa = static_cast<int64_t>(a), sb = static_cast<int64_t>(b);
    std::string_view o = op.text;
    if (o == "+") return integer(a + b, u);
    if (o == "-") return integer(a - b, u);
    if (o == "*") return integer(a * b, u);
    if (o == "/" || o == "%") {
      if (!b) fail_at(c_.module, op, "constant division by zero");
      if (u) return integer(o == "/" ? a / b : a % b, true);
      if (sb == -1) return integer(o == "/" ? 0 - a : 0, false);
      return integer(static_cast<uint64_t>(o == "/" ? sa / sb : sa % sb), false);
    }
    if (o == "<<") return integer(b < 64 ? a << b : 0, l.is_unsigned);
    if (o == ">>") {
      if (l.is_unsigned) return integer(b < 64 ? a >> b : 0, true);
      return integer(static_cast<uint64_t>(sa >> (b < 64 ? b : 63)), false);
    }
    if (o == "&") return integer(a & b, u);
    if (o == "|") return integer(a | b, u);
    if (o == "^") return integer(a ^ b, u);
    if (o == "&&") return integer(a && b, false);
    if (o == "||") return integer(a || b, false);
    if (o == "==") return integer(a == b, false);
    if (o == "!=") return integer(a != b, false);
    if (o == "<") return integer(u ? a < b : sa < sb, false);
    if (o == ">") return integer(u ? a > b : sa > sb, false);
    if (o == "<=") return integer(u ? a <= b : sa <= sb, false);
    return integer(u ? a >= b : sa >= sb, false);
  }

  Cursor& c_;
  int depth_ = 0;
};

}  // namespace

bool constant_begins(const Cursor& c) {
  const Token& t = c.peek();
  if (t.kind == Token::Kind::number || begins_fraction(t) || t.is(Token::Kind::word, "WARP_SZ")) return true;
  if (t.mark("!")) return c.peek(1).kind == Token::Kind::number || c.peek(1).mark("(");
  return t.mark("-") || t.mark("+") || t.mark("~") || t.mark("(");
}

Constant parse_constant(Cursor& c) { return Expression(c).ternary(); }

int64_t parse_displacement(Cursor& c) {
  if (c.peek().mark("-")) c.fail("PTX has no '-' here: write +-");
  c.expect("+", "before a displacement");
  Constant v = parse_constant(c);
  if (v.form != Form::integer) c.fail("a displacement is an integer");
  return static_cast<int64_t>(v.bits);
}

int64_t parse_size(Cursor& c, std::string_view what, int64_t low, int64_t high) {
  const Token& at = c.peek();
  const Constant v = literal(c);
  const auto value = static_cast<int64_t>(v.bits);
  if (v.form != Form::integer || value < low || value > high)
    fail_at(c.module, at, "{} must be an integer from {} to {}", what, low, high);
  return value;
}

}  // namespace fp4lab::emu
