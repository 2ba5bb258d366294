// The lines of a file of records.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace fp4lab::store {

struct Lines {
  std::vector<nlohmann::json> records;
  std::vector<std::string> raw;       // as they stand
  std::vector<std::string> troubles;  // "s.json:3: not a record: why"
  std::string torn;                   // what stands behind the last newline
};

// `first`: number of the first line, for messages.
Lines lines_of(std::string_view text, const std::string& path, size_t first = 1);

// Is it the beginning of a record that was cut off?
enum class Tail { kNone, kWhole, kTorn, kForeign };
Tail tail_of(const std::string& torn);

// The point that the record is of; empty: of none.
std::string point_in(const nlohmann::json& record);

// The whole file. Fails with the path and the system's text.
std::string read_text(const std::string& path);

}  // namespace fp4lab::store
