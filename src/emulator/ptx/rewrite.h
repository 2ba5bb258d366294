// Changes to the instructions of one function after it was lowered: what a pass over them replaces, inserts
// and removes. The table's rows stay beside the instructions.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "emulator/ptx/image.h"

namespace fp4lab::emu {

class Rewriter {
 public:
  using Tokens = std::vector<std::string_view>;  // an opcode's words: "fma", "rn", "f32"; their text lives on

  // rows[pc] is the table's row of code[pc].
  Rewriter(Image& image, Function& f, std::vector<const Entry*> rows)
      : image(image), f(f), rows(std::move(rows)) {}

  Image& image;
  Function& f;
  std::vector<const Entry*> rows;

  Operand fresh(Type type) { return image.fresh_register(type); }  // a register of its own
  Operand constant(uint64_t bits, Type = Type::b32);

  Operand negated(const Operand&, uint32_t pc);  // of the type of the instruction at pc, before it

  // Before the instruction at pc, unguarded.
  void insert(uint32_t pc, Tokens, std::vector<Operand>);
  // Another instruction with the same guard and destination.
  void replace(uint32_t pc, Tokens, std::vector<Operand> sources);
  void remove(uint32_t pc) { removed_.insert(pc); }
  // Does what was inserted and removed; labels follow. Only now do instructions move.
  void rebuild();

 private:
  const Entry* bind(Instr&, const Source&);

  struct Inserted {
    uint32_t before;
    const Entry* row;
    Instr instr;
    Source source;
  };
  std::vector<Inserted> inserted_;
  std::unordered_set<uint32_t> removed_;
};

// The offsets of rows that nothing writes.
std::unordered_set<uint32_t> constant_rows(const Image&);
// The type of as many bits that means nothing: b16, b32 or b64.
Type bits_type(Type);
// Whether an instruction names its rounding.
bool says_rounding(const Source&);
bool is_float(Type);  // tf32 and what has fewer bits than 16 are not among them
inline bool is_value(const Operand& op) { return op.kind == Operand::Kind::value; }

}  // namespace fp4lab::emu
