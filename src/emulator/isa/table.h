// The opcode table ready for use: rows with their compiled patterns, found by opcode text.
#pragma once

#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/isa/opcode.h"
#include "emulator/isa/operand_spec.h"
#include "emulator/isa/spelling.h"

namespace fp4lab::emu {

struct Entry {
  const Opcode* opcode;
  Spelling spelling;
  std::vector<OperandSpec> operands;
};

class Table {
 public:
  explicit Table(std::span<const Opcode>);
  static const Table& standard();  // of opcodes(); made at first use

  const std::vector<Entry>& entries() const { return entries_; }
  // The rows whose spelling fits. When none fits in the order of the table, the rows whose modifiers fit in
  // another order: ptxas takes most of them in any order (seen with 13.0: ld.u32.global,
  // atom.exch.acquire.cta, min.s32.relu), as long as the types keep theirs.
  std::vector<const Entry*> find(std::span<const std::string_view> tokens) const;
  // Why find() is empty, in words; `token` becomes the index of the offending one.
  std::string explain(std::span<const std::string_view> tokens, size_t& token) const;

 private:
  std::vector<Entry> entries_;
  std::map<std::string_view, std::vector<const Entry*>> by_mnemonic_;
};

// The names nearest to `word` by edit distance, best first; at most three, none that differs in more than a
// third of its letters.
std::vector<std::string_view> nearest(std::string_view word, std::span<const std::string_view> names);
std::string joined(std::span<const std::string_view> words, std::string_view prefix);  // ".a, .b, .c"

// What is refused by name, though the manual has it.
struct Refusal {
  std::string_view example, section, why;
};
std::span<const Refusal> refusals();
std::string_view reason_of(std::string_view mnemonic);  // of the first refusal with this first word, or empty

// The instructions of the manual, by first word.
std::vector<std::string_view> manual_mnemonics();

// The section of the manual that describes instructions with this first word, whether implemented or not;
// empty when it is no PTX instruction known here.
std::string_view section_of(std::string_view mnemonic);

}  // namespace fp4lab::emu
