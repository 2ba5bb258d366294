#include "emulator/isa/operand_spec.h"

#include "fp4lab/error.h"

namespace fp4lab::emu {

namespace {

using Form = OperandSpec::Form;
using Rule = OperandSpec::Rule;

constexpr std::string_view kMarks = ":~+@!?";

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// Splits at commas outside of brackets.
std::vector<std::string_view> split(std::string_view s) {
  std::vector<std::string_view> items;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i == s.size() || (s[i] == ',' && !depth)) {
      if (auto item = trimmed(s.substr(begin, i - begin)); !item.empty()) items.push_back(item);
      begin = i + 1;
    } else if (s[i] == '[' || s[i] == '{') {
      ++depth;
    } else if (s[i] == ']' || s[i] == '}') {
      --depth;
    }
  }
  return items;
}

size_t end_of_form(std::string_view s) {
  int depth = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '[' || s[i] == '{') ++depth;
    if (s[i] == ']' || s[i] == '}') --depth;
    if (!depth && kMarks.find(s[i]) != kMarks.npos) return i;
  }
  return s.size();
}

// Removes and records the `_` of `d_`, `{d_}`, `{d_}_`, `d_|p_`.
std::string without_discards(std::string_view form, OperandSpec& spec) {
  std::string plain;
  for (size_t i = 0; i < form.size(); ++i) {
    const bool letter_before = i == 1 || (i == 2 && form[0] == '{') || (i > 1 && form[i - 2] == '|');
    const bool whole = plain.ends_with('}');
    if (form[i] == '_' && (letter_before || whole))
      (whole || plain.find('|') != plain.npos ? spec.second_discarded : spec.discarded) = true;
    else
      plain += form[i];
  }
  return plain;
}

// One letter, optionally with a digit, has a meaning; longer names are values.
char letter_of(std::string_view name) {
  bool letter = name.size() == 1 || (name.size() == 2 && name[1] >= '0' && name[1] <= '9');
  return letter ? name[0] : 'a';
}

Form form_of(std::string_view f) {
  bool brace = f.front() == '{', bracket = f.front() == '[';
  if (bracket) return f.find('{') == f.npos ? Form::address : Form::tensor;
  if (f.find("/[") != f.npos) return Form::value_or_address;
  if (brace) {
    char inner = letter_of(f.substr(1, f.size() - 2));
    return inner == 'L' ? Form::labels : inner == 'd' ? Form::vector_target : Form::vector;
  }
  if (size_t bar = f.find('|'); bar != f.npos)
    return letter_of(f.substr(0, bar)) == 'd' ? Form::destination_pair : Form::predicate_pair;
  switch (letter_of(f)) {
    case 'd':
      return Form::destination;
    case 'p':
    case 'q':
      return Form::predicate;
    case 'P':
      return Form::predicate_target;
    case 'L':
      return Form::label;
    case 'F':
      return Form::function;
    case 'I':
      return Form::immediate;
    default:
      return Form::value;
  }
}

void read_type(OperandSpec& spec, std::string_view type, std::string_view column) {
  if (type == "any") {
    spec.rule = Rule::any;
  } else if (type.size() == 2 && std::string_view("twr").find(type[0]) != type.npos && type[1] >= '0' &&
             type[1] <= '9') {
    spec.rule = type[0] == 't' ? Rule::nth : type[0] == 'w' ? Rule::wide : Rule::registers;
    spec.nth = static_cast<unsigned>(type[1] - '0');
  } else {
    spec.rule = Rule::fixed;
    spec.fixed = type_named(type);
    if (spec.fixed == Type::none) fail("opcode table: no type '{}' in operands \"{}\"", type, column);
  }
}

}  // namespace

std::vector<OperandSpec> parse_operand_specs(std::string_view column) {
  std::vector<OperandSpec> specs;
  unsigned slot = 0;
  for (std::string_view item : split(column)) {
    OperandSpec spec;
    spec.text = item;
    size_t end = end_of_form(item);
    if (!end) fail("opcode table: operand '{}' in \"{}\" has no name", item, column);
    if (item.substr(0, end).find_first_of(kMarks) != item.npos)
      fail("opcode table: type and marks belong after the brackets, not in '{}' of \"{}\"", item, column);
    const std::string form = without_discards(item.substr(0, end), spec);
    spec.form = form_of(form);
    spec.pair_required = spec.form == Form::destination_pair && form.back() == 'P';
    for (std::string_view rest = item.substr(end); !rest.empty();) {
      char mark = rest[0];
      rest.remove_prefix(1);
      if (mark == '~') {
        spec.relaxed = true;
      } else if (mark == '+') {
        spec.selected = true;
      } else if (mark == '@') {
        spec.symbol = true;
      } else if (mark == '!') {
        spec.braced = true;
      } else if (mark == '?') {
        spec.optional = true;
        spec.only_with = rest;
        break;
      } else {
        size_t stop = rest.find_first_of(kMarks);
        read_type(spec, rest.substr(0, stop), column);
        rest = stop == rest.npos ? std::string_view() : rest.substr(stop);
      }
    }
    spec.slot = static_cast<uint8_t>(slot);
    bool two =
        spec.form == Form::destination_pair || spec.form == Form::predicate_pair || spec.form == Form::tensor;
    slot += two ? 2 : 1;
    if (slot > kMaxOperands) fail("opcode table: more than {} operands in \"{}\"", kMaxOperands, column);
    specs.push_back(spec);
  }
  return specs;
}

Type twice_as_wide(Type t) {
  switch (t) {
    case Type::b8:
      return Type::b16;
    case Type::u8:
      return Type::u16;
    case Type::s8:
      return Type::s16;
    case Type::b16:
      return Type::b32;
    case Type::u16:
      return Type::u32;
    case Type::s16:
      return Type::s32;
    case Type::b32:
      return Type::b64;
    case Type::u32:
      return Type::u64;
    case Type::s32:
      return Type::s64;
    case Type::f16:
      return Type::f32;
    case Type::f32:
      return Type::f64;
    case Type::b64:
    case Type::u64:
    case Type::s64:
      return Type::b128;
    default:
      return Type::none;
  }
}

// The registers of a matrix, by its elements' type: ptxas 13.0 requires .f16x2 or untyped ones for fp16, any
// of 32 bits for elements of 8 bits and less.
Type registers_for(Type element) {
  switch (element) {
    case Type::f16:
      return Type::f16x2;
    case Type::bf16:
      return Type::bf16x2;
    default:
      return bits_of(element) >= 32 ? element : Type::b32;
  }
}

Type OperandSpec::type_in(const Source& source) const {
  switch (rule) {
    case Rule::fixed:
      return fixed;
    case Rule::nth:
      return source.type(nth);
    case Rule::wide:
      return twice_as_wide(source.type(nth));
    case Rule::registers:
      return registers_for(source.type(nth));
    case Rule::any:
      return Type::none;
    case Rule::automatic:
      break;
  }
  if (form == Form::destination || form == Form::destination_pair) return source.type(0);
  if (form == Form::tensor) return Type::s32;
  if (form == Form::immediate) return Type::s32;
  if (form == Form::vector || form == Form::vector_target) {
    bool counted = source.has("v2") || source.has("v4") || source.has("v8");
    return counted ? source.type(0) : Type::none;
  }
  if (source.type(0) == Type::none) return Type::u32;
  return source.type(1) != Type::none ? source.type(1) : source.type(0);
}

}  // namespace fp4lab::emu
