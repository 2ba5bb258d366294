// Tables of measurements, made from records: of this run, of earlier ones, of other programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fp4lab::cli {

// Lines of JSON. Fails with file and line number on anything else.
std::vector<nlohmann::json> read_records(const std::string& path);

// Every session, limit, time and absence in `records` (see src/lab/bench/records.cpp), as text. Where a case
// and a kernel come twice the later one counts. Ratios are against the peer `against`: how many times as
// fast.
std::string bench_report(const std::vector<nlohmann::json>& records, const std::string& against);

// The table of our fastest kernels against the peers, for a page.
std::string bench_markdown(const std::vector<nlohmann::json>& records);

}  // namespace fp4lab::cli
