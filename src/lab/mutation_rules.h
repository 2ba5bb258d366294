// The rules by which fp4lab mutate breaks an instruction.
#pragma once

#include <span>

namespace fp4lab {

struct MutationRule {
  const char* name;
  const char* pattern;      // ECMAScript, against one instruction without its guard
  const char* replacement;  // with $1, $2, ...; empty text leaves nothing
};

std::span<const MutationRule> mutation_rules();

}  // namespace fp4lab
