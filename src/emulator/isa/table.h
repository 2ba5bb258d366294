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
  // The rows whose spelling matches. If none matches in the table's order, the rows whose modifiers match in
  // another order: ptxas accepts most modifiers in any order (seen with 13.0: ld.u32.global,
  // atom.exch.acquire.cta, min.s32.relu), as long as the types keep theirs.
  std::vector<const Entry*> find(std::span<const std::string_view> tokens) const;
  // Why find() is empty, as a message; `token` becomes the index of the offending token.
  std::string explain(std::span<const std::string_view> tokens, size_t& token) const;

 private:
  std::vector<Entry> entries_;
  std::map<std::string_view, std::vector<const Entry*>> by_mnemonic_;
};

// The names nearest to `word` by edit distance, best first; at most three, each differing in at most a third
// of its letters.
std::vector<std::string_view> nearest(std::string_view word, std::span<const std::string_view> names);
std::string joined(std::span<const std::string_view> words, std::string_view prefix);  // ".a, .b, .c"

// Instructions of the manual that are refused by name.
struct Refusal {
  std::string_view example, section, why;
};
std::span<const Refusal> refusals();
std::string_view reason_of(std::string_view mnemonic);  // of the first refusal with this first word, or empty

// The instructions of the manual, by first word.
std::vector<std::string_view> manual_mnemonics();

// The manual's section on instructions with this first word, implemented or not; empty for unknown words.
std::string_view section_of(std::string_view mnemonic);

}  // namespace fp4lab::emu
