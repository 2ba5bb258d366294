// fp4lab report --html: records as one page that needs nothing else: no network, no file beside it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_table.h"

namespace fp4lab::cli {

struct HtmlOptions {
  std::string path;                // of the page; empty: none is wanted
  std::string sort, against;       // as of the text report
  std::vector<std::string> files;  // that the records are of
  bool timeline = false;           // run the best plan on the emulator and show what its warps do
};

// Writes the page and says so. Fails when none of the records is one that a page shows, when `path` is one of
// the files or holds something that is no such page, and when it cannot be written.
int write_html(const Records& records, const HtmlOptions& options);

// -- its parts, as HTML; empty where the records have none

// Verdicts of the experiments whose records these are, judged anew.
std::string experiments_html(const Records& records);
// Bars: each case's kernels beside their peers.
std::string bars_html(const Records& times, const Records& predicted);
// What the warps of the plan's first CTA do, step by step, on the emulator; or why that cannot be shown.
std::string timeline_html(const nlohmann::json& record);

// -- their data for page.js

// Measured and predicted times of each point with its knobs. Points are in the order of the table's rows.
nlohmann::json sweep_data(const Records& sweeps);
// By architecture: roofs and points.
nlohmann::json roofline_data(const Records& sweeps, const Records& times, const Records& predicted);

// "6.74 us (6.23 to 8.13)" of a prediction's record; empty without one.
std::string predicted_text(const nlohmann::json& prediction);

}  // namespace fp4lab::cli
