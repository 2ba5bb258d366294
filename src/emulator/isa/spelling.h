// The spelling column of the opcode table as a pattern (language: opcode.h).
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fp4lab::emu {

// The farthest point of a failed match and the words that were possible there. Several patterns may report
// into one.
struct Expectation {
  size_t at = 0;                     // index of the token that fits nowhere; the token count = one is missing
  std::set<std::string_view> words;  // without dots
  bool complete = false;             // a pattern ended there
};

class Spelling {
 public:
  explicit Spelling(std::string_view pattern);  // throws fp4lab::Error when the pattern is malformed

  std::string_view mnemonic() const { return mnemonic_; }  // the first word
  // tokens[0] is the first word.
  bool matches(std::span<const std::string_view> tokens, Expectation* = nullptr) const;
  // The same with the modifiers in any order; the types among them keep the order of the row.
  bool matches_in_any_order(std::span<const std::string_view> tokens) const;
  // A random text that the pattern matches: tokens, the mnemonic first.
  std::vector<std::string_view> sample(std::mt19937&) const;

 private:
  struct Node {
    enum class Kind : uint8_t { word, sequence, one_of, at_most_one, any_order } kind;
    std::string_view word;
    std::vector<Node> parts;
  };
  class Reader;
  using Positions = uint64_t;  // a set of token indices
  static Positions walk(const Node&, Positions, std::span<const std::string_view>, Expectation*);
  static Positions walk_any(const Node&, uint64_t left, Positions, std::span<const std::string_view>,
                            Expectation*);
  using TokenSets = std::set<uint64_t>;  // each a set of tokens that are taken, one bit per token
  static TokenSets take(const Node&, const TokenSets& from, std::span<const std::string_view>,
                        size_t& budget);
  static void sample(const Node&, std::mt19937&, std::vector<std::string_view>&);

  std::string_view mnemonic_;
  Node rest_;
};

}  // namespace fp4lab::emu
