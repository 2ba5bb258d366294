// Changes to the instructions of one function after it was lowered: what a pass over them replaces, inserts
// and removes. The table's rows stay beside the instructions.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "emulator/ptx/image.h"

namespace fp4lab::emu {

struct ConstantRows;

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

  // Before the instruction at pc; with its guard if nothing but that instruction reads what is made.
  void insert(uint32_t pc, Tokens, std::vector<Operand>);
  void insert_unguarded(uint32_t pc, Tokens, std::vector<Operand>);
  void insert_guarded(uint32_t pc, Tokens, std::vector<Operand>);
  // The same where that instruction's guard is false.
  void insert_opposite(uint32_t pc, Tokens, std::vector<Operand>);
  // Behind the instruction at pc, unguarded, and before whatever label stands there.
  void insert_behind(uint32_t pc, Tokens, std::vector<Operand>);
  // Another instruction with the same guard and destination.
  void replace(uint32_t pc, Tokens, std::vector<Operand> sources);
  void drop_modifier(uint32_t pc, std::string_view);  // the same instruction without
  void remove(uint32_t pc) { removed_.insert(pc); }
  // Does what was inserted and removed; labels follow. Only now do instructions move.
  void rebuild();

  // Instructions [begin, back] of a loop, `rounds` times behind each other, without the branch at `back`.
  // The one at `test` is taken behind the last round, where all before it stands once more; if it is the one
  // at `back`, the loop ends there.
  struct Repetition {
    uint32_t begin, back, test, rounds;
  };
  // Loops that do not overlap, in the text's order. Instructions move at once.
  void repeat(const std::vector<Repetition>&);

  // New code. Labels follow to where their instructions have moved, but for those of `settled` instructions.
  struct Code {
    std::vector<Instr> code;
    std::vector<Source> source;
    std::vector<const Entry*> rows;
    std::vector<uint32_t> moved;  // by the old pc
    std::unordered_set<uint32_t> settled;

    uint32_t size() const { return static_cast<uint32_t>(code.size()); }
    void add(const Instr&, Source, const Entry*);
    void land(uint32_t branch, uint32_t at);  // it leads to new code
  };
  // For code that is put together elsewhere: one round of a loop up to `end`, an instruction's body and row.
  void add_round(uint32_t begin, uint32_t back, uint32_t test, uint32_t end, Code&) const;
  const Entry* bind(Instr&, const Source&);
  void become(Code);

 private:
  struct Inserted {
    uint32_t at;  // before this instruction, or behind it
    const Entry* row;
    Instr instr;
    Source source;
    bool stays_unguarded = false, stands_behind = false;
  };

  void guard_inserted();

  std::vector<Inserted> inserted_;
  std::unordered_set<uint32_t> removed_;
};

ConstantRows constant_rows(const Image&);
// The type of as many bits that means nothing: b16, b32 or b64.
Type bits_type(Type);
// Whether an instruction names its rounding.
bool says_rounding(const Source&);
bool rounds_in_a_direction(const Source&);
// A conversion between integers that does nothing but cut or extend.
bool is_integer_cvt(const Source&);
bool is_integer(Type);  // b types too; no pairs
bool is_float(Type);    // tf32 and what has fewer bits than 16 are not among them
inline bool is_value(const Operand& op) { return op.kind == Operand::Kind::value; }
inline bool is_vector(const Operand& op) { return op.kind == Operand::Kind::vector; }
inline bool is_no_constant(const Operand& op) { return is_value(op) && !op.immediate; }

}  // namespace fp4lab::emu
