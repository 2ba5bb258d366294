#include "emulator/ptx/padding.h"

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/core/poison.h"

namespace fp4lab::emu {

namespace {

// The text's name of a register; constants and special registers, which have rows too, have none.
class Registers {
 public:
  explicit Registers(const Image& image) {
    for (const Row& row : image.constants) constants_.insert(row.offset);
  }
  bool has(const Operand& o) const {
    const bool named = o.kind == Operand::Kind::value || (o.kind == Operand::Kind::address && o.has_base);
    return named && !constants_.contains(o.offset);
  }

 private:
  std::unordered_set<uint32_t> constants_;
};

using Counts = std::unordered_map<uint32_t, uint32_t>;  // by the offset of a register's row

Counts mentions(const Function& f, const Registers& registers) {
  Counts count;
  const auto mention = [&](const Operand& o) {
    if (registers.has(o)) ++count[o.offset];
  };
  for (const Instr& i : f.code)
    for (const Operand& o : i.op) mention(o);
  for (const Operand& o : f.vectors) mention(o);
  return count;
}

}  // namespace

void fill_padding(Image& image, Function& f) {
  if (f.vectors.empty()) return;
  const Registers registers(image);
  const Counts mentioned = mentions(f, registers);
  Counts stored;  // number of uses as a stored element
  const auto for_stored = [&](auto&& visit) {
    for (size_t pc = 0; pc < f.code.size(); ++pc) {
      const Operand& o = f.code[pc].op[1];
      const Source& s = f.source[pc];
      const bool is_own = s.has("local") || s.has("param") || s.has("param::func");
      if (s.tokens[0] != "st" || !is_own || o.kind != Operand::Kind::vector) continue;
      visit(std::span(f.vectors).subspan(o.index, o.count));
    }
  };
  for_stored([&](std::span<Operand> elements) {
    for (const Operand& o : elements)
      if (registers.has(o)) ++stored[o.offset];
  });
  const auto is_padding = [&](const Operand& o) {
    return registers.has(o) && stored.at(o.offset) == mentioned.at(o.offset);
  };
  for_stored([&](std::span<Operand> elements) {
    std::vector<Operand*> padding;
    for (Operand& o : elements)
      if (is_padding(o)) padding.push_back(&o);
    if (padding.size() == elements.size()) return;
    for (Operand* o : padding)
      o->offset = bits_of(o->type) > 32 ? image.constant_row(Row::What::bits64, kPoison64)
                                        : image.constant_row(Row::What::bits32, kPoison32);
  });
}

}  // namespace fp4lab::emu
