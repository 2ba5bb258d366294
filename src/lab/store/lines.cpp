#include "lab/store/lines.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "fp4lab/error.h"
#include "fp4lab/json_text.h"
#include "fp4lab/store.h"

namespace fp4lab {
namespace store {

using nlohmann::json;

Lines lines_of(std::string_view text, const std::string& path, size_t first) {
  Lines lines;
  for (size_t number = first; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    if (end == text.npos) {
      lines.torn = text;
      break;
    }
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.empty()) continue;
    try {
      json record = parse_json(line);
      if (!record.is_object()) fail("not an object");
      lines.records.push_back(std::move(record));
      lines.raw.emplace_back(line);
    } catch (const std::exception& e) {
      lines.troubles.push_back(fmt::format("{}:{}: not a record: {}", path, number, e.what()));
    }
  }
  return lines;
}

Tail tail_of(const std::string& torn) {
  if (torn.empty()) return Tail::kNone;
  const json whole = parse_json(torn, false);
  if (whole.is_object()) return Tail::kWhole;
  return torn.front() == '{' ? Tail::kTorn : Tail::kForeign;
}

std::string point_in(const json& record) {
  const auto at = record.find("point");
  return at != record.end() && at->is_string() ? at->get<std::string>() : std::string();
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) fail("{}: {}", path, std::strerror(errno));
  return text;
}

}  // namespace store

std::vector<nlohmann::json> read_records(const std::string& path) {
  store::Lines lines = store::lines_of(store::read_text(path), path);
  if (!lines.troubles.empty()) fail("{}", lines.troubles.front());
  const store::Tail tail = store::tail_of(lines.torn);
  if (tail == store::Tail::kWhole) lines.records.push_back(parse_json(lines.torn));
  if (tail == store::Tail::kForeign) fail("{}: the last line is not a record", path);
  if (tail == store::Tail::kTorn)
    fmt::print(stderr, "{}: the last line is incomplete and ignored (--resume removes it)\n", path);
  std::map<std::string, size_t> last;
  for (size_t i = 0; i < lines.records.size(); ++i)
    if (const std::string point = store::point_in(lines.records[i]); !point.empty()) last[point] = i;
  std::vector<nlohmann::json> records;
  for (size_t i = 0; i < lines.records.size(); ++i) {
    const std::string point = store::point_in(lines.records[i]);
    if (point.empty() || last.at(point) == i) records.push_back(std::move(lines.records[i]));
  }
  return records;
}

std::string point_of(std::string_view type, const std::vector<std::string>& values) {
  std::string text(type);
  for (const std::string& value : values) text += " | " + value;
  return text;
}

}  // namespace fp4lab
