// .global and .const variables: from the tree into the module, from the module into device memory.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "emulator/ptx/image.h"
#include "emulator/ptx/load.h"
#include "fp4lab/error.h"

namespace fp4lab::emu {

namespace {

// As in ptxas 13.0, a floating-point value is converted to the variable's size, except 0f, which is not
// converted to f64. Integers are not converted.
uint64_t bits_for(const Module& module, const ast::Variable& v, const ast::Variable::Item& item) {
  using F = Constant::Form;
  const uint64_t bits = item.value.bits;
  const bool integer = item.value.form == F::integer, floats = v.type == Type::f32 || v.type == Type::f64;
  if (v.type == Type::f16 || v.type == Type::f16x2 || (integer && floats))
    fail_at(module, *item.at, "{} cannot initialise .{}", integer ? "an integer" : "a floating-point value",
            name_of(v.type));
  if (integer) return bits;
  const bool single = item.value.form == F::f32;
  switch (v.type) {
    case Type::f32:
    case Type::b32:
      return single ? bits : std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    case Type::b8:  // the constant's bits, truncated
    case Type::b16:
    case Type::b64:
    case Type::b128:
      return bits;
    case Type::f64:  // also of 0f: the lower half
      return bits;
    default:
      fail_at(module, *item.at, "a floating-point value cannot initialise .{}", name_of(v.type));
  }
}

// The address of a function, which is known when the module is parsed.
uint64_t function_bits(const Module& out, const ast::Function& f, const ast::Variable::Item& item) {
  if (f.entry || item.generic) fail_at(out, *item.at, "the address of '{}' is not allowed here", f.name);
  const uint64_t bits = f.address + item.value.bits;
  return item.mask == ~uint64_t(0) ? bits : (bits & item.mask) >> std::countr_zero(item.mask);
}

// 0: no room. Every second allocation begins at a page (GlobalMemory::allocate).
uint64_t allocate_aligned(GlobalMemory& memory, uint64_t bytes, uint64_t align) {
  constexpr uint64_t kMost = 4096;
  if (align > kMost) fail("variables aligned to {} bytes are not supported, {} are", align, kMost);
  const uint64_t first = memory.allocate(bytes);
  if (first % align == 0) return first;
  const uint64_t second = memory.allocate(bytes);
  memory.free(first);
  if (second % align == 0) return second;
  memory.free(second);
  return 0;
}

void place(const Module& module, Symbol& s, GlobalMemory& memory) {
  s.address = allocate_aligned(memory, std::max<uint64_t>(1, s.size), std::max<uint64_t>(1, s.align));
  if (!s.address)
    fail("{}: no device memory for '{}' ({} bytes, aligned to {})", module.name, s.name, s.size, s.align);
  std::byte* to = memory.host(s.address);
  std::memset(to, 0, s.size);
  if (!s.init.empty()) std::memcpy(to, s.init.data(), s.init.size());
}

// The value of the symbol's name in the text.
uint64_t address_in_space(const Symbol& s, const GlobalMemory& memory) {
  return s.space == Space::constant ? s.address - memory.constants() : s.address;
}

// For constants whose address kernels take as 32 bits: real banks are small, but here they lie in device
// memory.
void check_narrow_addresses(const Module& module, const GlobalMemory& memory) {
  for (const Fixup& f : module.fixups) {
    const Symbol& s = module.symbols[f.symbol];
    if (module.functions[f.function].constants[f.row].what == Row::What::bits32 &&
        address_in_space(s, memory) >> 32)
      fail("{}: '{}' is read by its 32-bit address, but 4 GiB of device memory were allocated before",
           module.name, s.name);
  }
}

void free_symbols(Module& module, GlobalMemory& memory) {
  for (Symbol& s : module.symbols)
    if (s.address) memory.free(std::exchange(s.address, 0));
}

void initialise(Module& out, const ast::Module& tree, const ast::Variable& v, Symbol& s) {
  if (v.init.empty()) return;
  constexpr uint64_t kMax = uint64_t(1) << 32;
  if (s.size > kMax) fail_at(out, *v.at, "an initialised variable of {} bytes is not supported", s.size);
  const uint32_t width = bits_of(v.type) / 8;  // bytes above 8 stay 0
  s.init.resize(s.size);
  uint64_t at = 0;
  for (const ast::Variable::Item& item : v.init) {
    uint64_t bits = 0;
    const bool masked = item.mask != ~uint64_t(0);
    if (item.symbol.empty()) {
      bits = bits_for(out, v, item);
      if (masked) bits = (bits & item.mask) >> std::countr_zero(item.mask);
    } else {
      const bool holds = v.type == Type::u64 || v.type == Type::u32 || (masked && v.type == Type::u8);
      if (!holds) fail_at(out, *item.at, "an address cannot initialise .{}", name_of(v.type));
      if (auto f = tree.function_by_name.find(item.symbol); f != tree.function_by_name.end()) {
        bits = function_bits(out, *f->second, item);
      } else {
        auto target = tree.variable_by_name.find(item.symbol);
        if (target == tree.variable_by_name.end())
          fail_at(out, *item.at, "'{}' is not a variable or function of this module", item.symbol);
        const ast::Variable& of = tree.variables[target->second];
        if (of.space != Space::global && of.space != Space::constant)
          fail_at(out, *item.at, "only addresses of .global and .const variables can initialise another");
        if (of.external || &of == &v)
          fail_at(out, *item.at, "the address of '{}' is not known here", of.name);
        s.relocations.push_back({at, std::string(item.symbol), static_cast<int64_t>(item.value.bits),
                                 item.generic, item.mask, width});
      }
    }
    std::memcpy(s.init.data() + at, &bits, std::min<size_t>(width, sizeof bits));
    at += width;
  }
}

}  // namespace

void make_symbols(Module& out, const ast::Module& tree) {
  for (const ast::Variable& v : tree.variables) {
    if (v.space != Space::global && v.space != Space::constant) continue;
    if (v.external) continue;  // symbol_of() refuses its uses
    if (v.elements == 0) fail_at(out, *v.at, "'{}' has no elements", v.name);
    Symbol s;
    s.name = v.name;
    s.space = v.space;
    s.size = v.bytes();
    s.align = v.align;
    s.element = v.type;
    s.managed = v.managed;
    initialise(out, tree, v, s);
    out.symbols.push_back(std::move(s));
  }
}

void load(Module& module, GlobalMemory& memory) {
  std::map<std::string_view, const Symbol*> by_name;
  try {
    for (Symbol& s : module.symbols) {
      place(module, s, memory);
      by_name[s.name] = &s;
    }
    check_narrow_addresses(module, memory);
  } catch (const fp4lab::Error&) {
    free_symbols(module, memory);
    throw;
  }
  for (const Symbol& s : module.symbols)
    for (const Symbol::Relocation& r : s.relocations) {
      const Symbol& of = *by_name.at(r.symbol);
      uint64_t address =
          (r.generic ? of.address : address_in_space(of, memory)) + static_cast<uint64_t>(r.addend);
      if (r.mask != ~uint64_t(0)) address = (address & r.mask) >> (r.mask ? std::countr_zero(r.mask) : 0);
      std::memcpy(memory.host(s.address) + r.at, &address, r.bytes);
    }
  for (const Fixup& f : module.fixups)
    module.functions[f.function].constants[f.row].bits += address_in_space(module.symbols[f.symbol], memory);
}

void unload(Module& module, GlobalMemory& memory) {
  for (const Fixup& f : module.fixups)
    module.functions[f.function].constants[f.row].bits -= address_in_space(module.symbols[f.symbol], memory);
  free_symbols(module, memory);
}

}  // namespace fp4lab::emu
