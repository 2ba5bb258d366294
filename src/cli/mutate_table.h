// What became of mutants, from their records.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/table.h"

namespace fp4lab::cli {

// By rule; the sum is the last row.
Table mutate_table(const std::vector<nlohmann::json>& records);
// The sum as a row of a page.
std::string mutate_markdown(const std::vector<nlohmann::json>& records, const std::string& name);
// How well reports lead to the altered line, and how many mutants were no PTX.
std::string mutate_remarks(const std::vector<nlohmann::json>& records);
// "equivalent to the original, or missed"; empty when there are none.
std::string survivors(const std::vector<nlohmann::json>& records);

}  // namespace fp4lab::cli
