// Shards of a sweep: a file each, and joined again.
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "fp4lab/error.h"
#include "fp4lab/json_text.h"
#include "fp4lab/store.h"
#include "lab/store/lines.h"

namespace fp4lab {

using nlohmann::json;

std::string Shard::text() const { return count == 1 ? "" : fmt::format("{}/{}", index, count); }

std::string Shard::path(const std::string& path) const {
  if (count == 1 || path.empty()) return path;
  const size_t slash = path.rfind('/'), dot = path.rfind('.');
  const bool suffix = dot != path.npos && (slash == path.npos || dot > slash + 1) && dot > 0;
  const size_t at = suffix ? dot : path.size();
  return fmt::format("{}.{}-of-{}{}", path.substr(0, at), index, count, path.substr(at));
}

Shard parse_shard(const std::string& text) {
  Shard shard;
  const char *at = text.data(), *const end = at + text.size();
  auto read = std::from_chars(at, end, shard.index);
  bool good = read.ec == std::errc() && read.ptr != end && *read.ptr == '/';
  if (good) {
    read = std::from_chars(read.ptr + 1, end, shard.count);
    good = read.ec == std::errc() && read.ptr == end;
  }
  if (!good || shard.index < 1 || shard.index > shard.count)
    fail("--shard {}: expected i/n with i from 1 to n, e.g. 2/4", text);
  return shard;
}

namespace {

struct Found {
  std::string line, point, date;
};

}  // namespace

Merged merge_records(const std::vector<std::string>& paths) {
  std::vector<Found> found;
  std::map<std::string, size_t> newest;
  std::set<unsigned> shards;
  unsigned count = 1;
  Merged merged;
  for (const std::string& path : paths) {
    store::Lines lines = store::lines_of(store::read_text(path), path);
    if (!lines.troubles.empty()) fail("{}", lines.troubles.front());
    const store::Tail tail = store::tail_of(lines.torn);
    if (tail == store::Tail::kForeign) fail("{}: the last line is not a record", path);
    if (tail == store::Tail::kTorn) fmt::print(stderr, "{}: the last line is incomplete and ignored\n", path);
    if (tail == store::Tail::kWhole)
      lines.records.push_back(parse_json(lines.torn)), lines.raw.push_back(lines.torn);
    for (size_t i = 0; i < lines.records.size(); ++i) {
      const json& r = lines.records[i];
      if (const std::string text = r.value("shard", ""); !text.empty()) {
        const Shard shard = parse_shard(text);
        shards.insert(shard.index), count = shard.count;
      }
      Found f{lines.raw[i], store::point_in(r), r.value("date", "")};
      const auto [at, first] = newest.emplace(f.point, found.size());
      if (!first && !f.point.empty()) {
        ++merged.repeated;
        if (f.date >= found[at->second].date) at->second = found.size();
      }
      found.push_back(std::move(f));
    }
  }
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i].point.empty() || newest.at(found[i].point) == i) merged.lines.push_back(found[i].line);
  for (unsigned i = 1; i <= count && !shards.empty(); ++i)
    if (!shards.contains(i))
      merged.missing += fmt::format("{}{}/{}", merged.missing.empty() ? "" : ", ", i, count);
  return merged;
}

}  // namespace fp4lab
