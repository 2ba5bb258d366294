// Which constants of f64 ptxas 13.0 puts into registers, and so which of two comes first: a sum or product
// has its first operand in a register, and one of the others may stand in the instruction or in a uniform
// register; so with min and max. See constant_places.cpp for the rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace fp4lab::emu {

class ConstantPlaces {
 public:
  struct Use {
    enum class By : uint8_t {
      arithmetic,  // two factors or summands, and maybe an addend
      extreme,
      store,  // of a whole register
      other   // which may read any register, or copies into one of its own
    };
    uint32_t pc = 0, block = 0;
    uint32_t begin = 0, end = 0;  // counted in machine instructions
    By by = By::other;
    std::vector<std::optional<uint64_t>> operands;  // none: not a constant
    bool computes() const { return by == By::arithmetic || by == By::extreme; }
  };

  struct Constant {
    unsigned reads = 0;        // operands of the function that hold it
    uint32_t first_calls = 0;  // behind how many calls the first one stands
  };
  // Of what stands behind that many calls, in the text's order. What repeats an instruction is none.
  ConstantPlaces(std::vector<Use>, uint32_t calls, const std::unordered_map<uint64_t, Constant>&);
  // Whether the first two operands of an instruction change places; none if they aren't two constants.
  std::optional<bool> exchanges(uint32_t pc) const;

 private:
  using Operand = std::optional<uint64_t>;
  using Place = std::pair<size_t, unsigned>;  // of a use: in the text's order
  enum class Where : uint8_t { in_register, elsewhere };
  struct Decision {
    Where where;
    size_t nth;  // of all
  };

  bool is_held(const Operand&) const;
  bool is_sole(const Operand&) const;
  bool is_near(size_t use, size_t behind) const;
  bool is_only_stored_later(size_t use, uint64_t constant) const;
  std::optional<unsigned> part_of(size_t use) const;
  void put_into_instructions();
  void decide(uint64_t constant, Where);
  void put_elsewhere(uint64_t constant);
  std::vector<uint64_t> undecided(const Use&) const;
  bool has_elsewhere(const Use&) const;
  std::optional<uint64_t> first_back(size_t use, const std::vector<uint64_t>& of) const;
  void choose(size_t use);
  bool is_in_register(size_t use, unsigned slot) const;
  Place first_in_register(uint64_t constant, size_t but_in) const;
  bool exchanges_operands(size_t use) const;

  std::vector<Use> uses_;
  std::unordered_map<uint64_t, std::vector<size_t>> readers_;  // by constant
  std::unordered_map<uint64_t, unsigned> left_;  // Constant::reads, without those in an instruction
  std::unordered_set<uint64_t> before_, stored_;
  std::unordered_map<uint64_t, Decision> where_;
  std::vector<std::optional<unsigned>> part_;  // by use: the operand that stands in the instruction
  std::unordered_map<uint32_t, bool> exchanged_;
};

}  // namespace fp4lab::emu
