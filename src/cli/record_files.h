// Files of records as a report reads them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fp4lab::cli {

// A file of JSON lines, or the record.json of `fp4lab gpu`, which holds the lines of several files. Records
// of old benchmarks take device, date, command and commit from the session before them. Fails, with the line,
// on what is no record.
std::vector<nlohmann::json> read_record_file(const std::string& path);

// "run", "sweep", "time", ...; old sweeps and runs do not say it. "unknown": it cannot be told.
std::string type_of(const nlohmann::json& record);

}  // namespace fp4lab::cli
