// Tables of measurements, made from records: of this run, of earlier ones, of other programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/table.h"

namespace fp4lab::cli {

// Every session, limit, time and absence in `records` (see src/lab/bench/records.cpp), as text. Where a case
// and a kernel come twice the later one counts. Ratios are against the peer `against`: how many times as
// fast.
std::string bench_report(const std::vector<nlohmann::json>& records, const std::string& against,
                         const TableFormat& format);

// The table of our fastest kernels against the peers, for a page.
std::string bench_markdown(const std::vector<nlohmann::json>& records);

}  // namespace fp4lab::cli
