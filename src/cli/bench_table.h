// Tables of measurements, made from records: of this run, of earlier ones, of other programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/table.h"

namespace fp4lab::cli {

// How the times are shown: the peer of the ratio column, the rows of each case by "time" or in their order
// (empty, "order"), and how many of them at most; 0: all.
struct BenchView {
  std::string against = "cublas-fp16", sort = {};
  size_t top = 0;
};

// Every session, limit, time and absence in `records` (see src/lab/bench/records.cpp), as text. Where a case
// and a kernel come twice the later one counts. Ratios: how many times as fast as the peer.
std::string bench_report(const std::vector<nlohmann::json>& records, const BenchView& view,
                         const TableFormat& format);

// Its parts, for a page: all times, our fastest kernels against the peers, what the device can, what must be
// known of the times and what there is none of.
Table bench_times(const std::vector<nlohmann::json>& records, const std::string& against);
Table bench_summary(const std::vector<nlohmann::json>& records);
std::string bench_limits(const std::vector<nlohmann::json>& records);
std::string bench_remarks(const std::vector<nlohmann::json>& records);

// The table of our fastest kernels against the peers, for a page.
std::string bench_markdown(const std::vector<nlohmann::json>& records);

}  // namespace fp4lab::cli
