// What runs and sweeps came to, from their records: of this process, of others, of files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/table.h"

namespace fp4lab::cli {

using Records = std::vector<nlohmann::json>;

// The records of these points, in their order; those that are not there yet are left out.
Records records_at(const Records& all, const std::vector<std::string>& points);

bool passed(const nlohmann::json& record);

// A row each: correctness and speed of light.
Table run_table(const Records& records);
// Below it: what was noted, and why runs failed.
std::string run_remarks(const Records& records);

// Knobs and counts, on a GPU times. What all rows have in common stands above the table, once; what differs
// is a column. Rows are in the order of the records.
struct SweepTable {
  std::string common;
  Table table;
};
// `everything`: all of it as columns, for --csv.
SweepTable sweep_table(const Records& records, bool everything = false);
// Sorts by "order" (leaves it), "predicted", "time", "instructions", "bytes", "waves" or "seconds"; what
// failed comes last. Empty: by time where there are times, else by predictions where every record has one,
// else as it is. Fails on another name, and when no record has such a number.
void sort_records(Records& records, const std::string& by);

// The spread of a measured time: {"median", "p10", "p90"}.
bool has_time(const nlohmann::json& record);

}  // namespace fp4lab::cli
