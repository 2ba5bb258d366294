// Which records a table is made of: report's --where and --top.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_table.h"

namespace fp4lab::cli {

// The plan's knobs by name. Records of old versions, and those of bench, may have the plan's line only, which
// leaves out what is as usual. Empty for a library.
std::map<std::string, std::string> knobs_in(const nlohmann::json& record);

// Those of which every condition holds: "stages=4", "kernel=v2" (a rung's short name, too), "case=g2k1536",
// "passed=true": a knob of the plan or a field of the record. Records that are about no kernel (a session, a
// limit) stay. Fails on what is no condition, on a name that no record has, and when none is left.
Records records_where(const Records& records, const std::vector<std::string>& conditions);

// The first `count` of each case; 0: all.
Records first_of_each_case(const Records& records, size_t count);

}  // namespace fp4lab::cli
