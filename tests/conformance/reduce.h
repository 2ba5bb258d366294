// The smallest program that can be made of one that differs, so that a look at it tells the rule.
#pragma once

#include <functional>

#include "program.h"

namespace fp4lab::conformance {

// Takes lines out of the text, guards off instructions, and puts a move of one source in an instruction's
// place, for as long as `differs` holds (it must for `p`), at most `most_tries` times. `differs` gets texts
// that no assembler takes.
Program reduce(Program p, const std::function<bool(const Program&)>& differs, unsigned most_tries);

}  // namespace fp4lab::conformance
