// The instructions of a PTX text, as far as mutants and reports need them: where they lie, no more.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace fp4lab {

// One instruction: where it lies without its guard, and the guard ("@%p1 " or nothing) in front of it.
struct Statement {
  size_t guard, begin, end;  // [guard, begin) is the guard; end is behind the semicolon
  int line;                  // of `begin`, from 1
  std::string_view text;     // [begin, end)
};

inline bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::vector<Statement> statements_of(std::string_view ptx);

// Of the families that synchronise, or work asynchronously: what mutants alter.
bool synchronises(std::string_view statement);

}  // namespace fp4lab
