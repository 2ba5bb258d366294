// "did you mean": the names that a misspelt one may have been meant for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fp4lab {

/// The nearest of `names`, as "; did you mean stages?". Empty when none is near: an edit for each three
/// letters, or a name that begins with what was typed.
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& names);

}  // namespace fp4lab
