// The types by name and width (PTX ISA 5.2).
#include <array>

#include "emulator/core/error.h"
#include "emulator/core/ir.h"

namespace fp4lab::emu {

namespace {

struct TypeRow {
  Type type;
  std::string_view name;
  unsigned bits;
};

// Sub-byte types count as the container that a register holds them in.
constexpr TypeRow kTypes[] = {
    {Type::none, "", 0},          {Type::pred, "pred", 1},
    {Type::b8, "b8", 8},          {Type::b16, "b16", 16},
    {Type::b32, "b32", 32},       {Type::b64, "b64", 64},
    {Type::b128, "b128", 128},    {Type::u8, "u8", 8},
    {Type::u16, "u16", 16},       {Type::u32, "u32", 32},
    {Type::u64, "u64", 64},       {Type::s8, "s8", 8},
    {Type::s16, "s16", 16},       {Type::s32, "s32", 32},
    {Type::s64, "s64", 64},       {Type::f16, "f16", 16},
    {Type::f16x2, "f16x2", 32},   {Type::bf16, "bf16", 16},
    {Type::bf16x2, "bf16x2", 32}, {Type::tf32, "tf32", 32},
    {Type::f32, "f32", 32},       {Type::f32x2, "f32x2", 64},
    {Type::f64, "f64", 64},       {Type::e4m3, "e4m3", 8},
    {Type::e5m2, "e5m2", 8},      {Type::e2m3, "e2m3", 8},
    {Type::e3m2, "e3m2", 8},      {Type::e2m1, "e2m1", 8},
    {Type::ue8m0, "ue8m0", 8},    {Type::e4m3x2, "e4m3x2", 16},
    {Type::e5m2x2, "e5m2x2", 16}, {Type::e2m3x2, "e2m3x2", 16},
    {Type::e3m2x2, "e3m2x2", 16}, {Type::e2m1x2, "e2m1x2", 8},
    {Type::e2m1x4, "e2m1x4", 16}, {Type::e4m3x4, "e4m3x4", 32},
    {Type::e5m2x4, "e5m2x4", 32}, {Type::e2m3x4, "e2m3x4", 32},
    {Type::e3m2x4, "e3m2x4", 32}, {Type::ue8m0x2, "ue8m0x2", 16},
    {Type::u16x2, "u16x2", 32},   {Type::s16x2, "s16x2", 32},
};
constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kTypes); ++i)
    if (static_cast<size_t>(kTypes[i].type) != i) return false;
  return true;
}
static_assert(in_order(), "kTypes is indexed by Type");

}  // namespace

unsigned bits_of(Type type) { return kTypes[static_cast<size_t>(type)].bits; }
std::string_view name_of(Type type) { return kTypes[static_cast<size_t>(type)].name; }

Type type_named(std::string_view word) {
  if (!word.empty())
    for (const TypeRow& row : kTypes)
      if (row.name == word) return row.type;
  return Type::none;
}

bool Source::has(std::string_view modifier) const {
  for (size_t i = 1; i < tokens.size(); ++i)
    if (tokens[i] == modifier) return true;
  return false;
}

Type Source::type(unsigned nth) const {
  for (size_t i = 1; i < tokens.size(); ++i)
    if (Type t = type_named(tokens[i]); t != Type::none && nth-- == 0) return t;
  return Type::none;
}

std::string_view Module::line_text(uint32_t line) const {
  std::string_view rest = text;
  for (; line > 1; --line) {
    size_t end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
  rest = rest.substr(0, rest.find('\n'));
  if (!rest.empty() && rest.back() == '\r') rest.remove_suffix(1);
  return rest;
}

// Tabs are kept in the caret's line, so that it is in the right column for any tab width.
PtxError::PtxError(const Module& module, uint32_t line, uint32_t column, const std::string& text)
    : std::runtime_error([&] {
        std::string_view shown = module.line_text(line);
        std::string pad(shown.substr(0, column ? column - 1 : 0));
        for (char& c : pad)
          if (c != '\t') c = ' ';
        return fmt::format("{}:{}:{}: {}\n{}\n{}^", module.name, line, column, text, shown, pad);
      }()),
      line(line),
      column(column) {}

}  // namespace fp4lab::emu
