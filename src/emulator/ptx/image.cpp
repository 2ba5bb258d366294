#include "emulator/ptx/image.h"

#include <algorithm>

namespace fp4lab::emu {

uint32_t Image::index_of(const ast::Function& f) const {
  auto at = std::find(functions.begin(), functions.end(), &f);
  return first + static_cast<uint32_t>(at - functions.begin());
}

uint32_t Image::new_rows(Type type) {
  uint32_t rows = std::max(1u, bits_of(type) / 32), offset = register_bytes;
  register_bytes += rows * kRowBytes;
  return offset;
}

Operand Image::fresh_register(Type type) {
  Operand op;
  op.kind = Operand::Kind::value;
  op.type = type;
  op.offset = new_rows(bits_of(type) < 32 ? Type::b32 : type);
  register_names.emplace_back(op.offset, "a compiler's value");
  return op;
}

uint32_t Image::constant_row(Row::What what, uint64_t bits) {
  auto [found, fresh] = constant_rows_.try_emplace({what, bits}, 0);
  if (fresh) {
    bool wide =
        what == Row::What::bits64 || what == Row::What::shared64 ||
        (what == Row::What::special && (bits == static_cast<uint64_t>(FixedSpecial::gridid) ||
                                        bits == static_cast<uint64_t>(FixedSpecial::current_graph_exec)));
    found->second = new_rows(wide ? Type::b64 : Type::b32);
    constants.push_back({found->second, what, bits});
  }
  return found->second;
}

uint32_t Image::symbol_row(uint32_t symbol, int64_t addend, Type type) {
  auto [found, fresh] = symbol_rows_.try_emplace({symbol, addend, type}, 0);
  if (fresh) {
    found->second = new_rows(type);
    fixups.push_back({first, static_cast<uint32_t>(constants.size()), symbol});
    const auto what = type == Type::b32 ? Row::What::bits32 : Row::What::bits64;
    constants.push_back({found->second, what, static_cast<uint64_t>(addend)});
  }
  return found->second;
}

uint32_t Image::sink_row() {
  if (sink_ == kNoPc) sink_ = new_rows(Type::b128);
  return sink_;
}

uint32_t Image::new_local(uint64_t bytes, uint32_t align, const Token& at) {
  constexpr uint64_t kMax =
      512 << 10;  // local memory of a thread (CUDA programming guide, compute capabilities)
  const uint64_t used = kLocalTop - local_base;
  if (bytes > kMax || used + bytes > kMax)
    fail_at(out, at, "more than {} bytes of local memory per thread", kMax);
  return local_base = static_cast<uint32_t>(local_base - bytes) & ~(align - 1);
}

uint32_t Image::symbol_of(const ast::Variable& v) const {
  for (uint32_t i = 0; i < out.symbols.size(); ++i)
    if (out.symbols[i].name == v.name) return i;
  fail_at(out, *v.at, "'{}' is declared .extern, and no linked module defines it", v.name);
}

}  // namespace fp4lab::emu
