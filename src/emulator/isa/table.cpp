#include "emulator/isa/table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "emulator/core/error.h"

namespace fp4lab::emu {

Table::Table(std::span<const Opcode> rows) {
  entries_.reserve(rows.size());
  for (const Opcode& row : rows)
    entries_.push_back({&row, Spelling(row.spelling), parse_operand_specs(row.operands)});
  for (const Entry& e : entries_) by_mnemonic_[e.spelling.mnemonic()].push_back(&e);
}

const Table& Table::standard() {
  static const Table table(opcodes());
  return table;
}

std::vector<const Entry*> Table::find(std::span<const std::string_view> tokens) const {
  std::vector<const Entry*> found;
  auto rows = tokens.empty() ? by_mnemonic_.end() : by_mnemonic_.find(tokens[0]);
  if (rows == by_mnemonic_.end()) return found;
  for (const Entry* e : rows->second)
    if (e->spelling.matches(tokens)) found.push_back(e);
  if (found.empty())
    for (const Entry* e : rows->second)
      if (e->spelling.matches_in_any_order(tokens)) found.push_back(e);
  return found;
}

std::string Table::explain(std::span<const std::string_view> tokens, size_t& token) const {
  token = 0;
  std::string_view section = section_of(tokens[0]);
  auto manual = section.empty() ? std::string() : fmt::format(" (PTX ISA {})", section);
  auto rows = by_mnemonic_.find(tokens[0]);
  if (rows == by_mnemonic_.end()) {
    if (!section.empty()) {
      const std::string_view why = reason_of(tokens[0]);
      return fmt::format("'{}' is not implemented{}{}{}", tokens[0], why.empty() ? "" : ": ", why, manual);
    }
    std::vector<std::string_view> all;
    for (const auto& [name, _] : by_mnemonic_) all.push_back(name);
    auto near = nearest(tokens[0], all);
    return fmt::format("unknown instruction '{}'{}", tokens[0],
                       near.empty() ? "" : fmt::format("; did you mean {}?", joined(near, "")));
  }
  // The possible continuations of the rows that matched farthest, and the manual's section.
  Expectation expected;
  std::set<std::string_view> sections;
  for (const Entry* e : rows->second) {
    Expectation own;
    own.at = 1;
    e->spelling.matches(tokens, &own);
    if (own.at < std::max<size_t>(expected.at, 1)) continue;
    if (own.at > expected.at) {
      expected = {own.at, {}, false};
      sections.clear();
    }
    expected.words.merge(own.words);
    expected.complete |= own.complete;
    sections.insert(e->opcode->section);
  }
  if (sections.size() == 1) manual = fmt::format(" (PTX ISA {})", *sections.begin());
  std::string so_far(tokens[0]);
  for (size_t i = 1; i < std::min(expected.at, tokens.size()); ++i) so_far += fmt::format(".{}", tokens[i]);
  std::vector<std::string_view> words(expected.words.begin(), expected.words.end());
  std::string choice = words.empty() ? "" : fmt::format("; supported: {}", joined(words, "."));
  if (expected.at >= tokens.size()) {
    token = tokens.size() - 1;
    return fmt::format("{}: a modifier is missing{}{}", so_far, choice, manual);
  }
  token = expected.at;
  if (expected.complete) choice += words.empty() ? "; nothing more may follow" : " or nothing";
  auto near = nearest(tokens[token], words);
  std::string guess = near.empty() ? "" : fmt::format(" (did you mean .{}?)", near[0]);
  return fmt::format("{}: modifier .{} is not supported here{}{}{}", so_far, tokens[token], guess, choice,
                     manual);
}

std::string joined(std::span<const std::string_view> words, std::string_view prefix) {
  std::string out;
  for (std::string_view w : words) out += fmt::format("{}{}{}", out.empty() ? "" : ", ", prefix, w);
  return out;
}

std::vector<std::string_view> nearest(std::string_view word, std::span<const std::string_view> names) {
  std::vector<std::pair<size_t, std::string_view>> scored;
  std::vector<size_t> row;
  word = word.substr(0, 64);
  for (std::string_view name : names) {
    size_t limit = std::max<size_t>(1, std::min(name.size(), word.size()) / 3);
    if (name.size() > word.size() + limit || word.size() > name.size() + limit) continue;
    row.resize(name.size() + 1);
    for (size_t j = 0; j <= name.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = std::exchange(row[0], i);
      for (size_t j = 1; j <= name.size(); ++j) {
        size_t change = diagonal + (word[i - 1] != name[j - 1]);
        diagonal = row[j];
        row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() <= limit) scored.emplace_back(row.back(), name);
  }
  std::sort(scored.begin(), scored.end());
  std::vector<std::string_view> out;
  for (size_t i = 0; i < std::min<size_t>(3, scored.size()); ++i) out.push_back(scored[i].second);
  return out;
}

}  // namespace fp4lab::emu
