#include "cli/record_files.h"

#include <fstream>

#include "fp4lab/error.h"
#include "fp4lab/json_text.h"
#include "fp4lab/store.h"

namespace fp4lab::cli {
namespace {

using nlohmann::json;

// What `fp4lab gpu` collects: one object, on many lines.
bool is_collection(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string first;
  return std::getline(in, first) && first == "{";
}

std::vector<json> collected(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const json all = parse_json(std::string(std::istreambuf_iterator<char>(in), {}), false);
  if (!all.is_object() || !all.contains("measured"))
    fail("{}: neither records nor the file of fp4lab gpu", path);
  std::vector<json> records;
  for (const char* part : {"steps", "verified", "measured", "predicted", "experiments"})
    for (json r : all.value(part, json::array())) {
      if (!r.is_object()) fail("{}: {} holds what is no record", path, part);
      if (part == std::string("predicted")) {
        r["type"] = part;
        for (const char* field : {"date", "command", "commit"})
          if (all.contains(field)) r[field] = all[field];
        r["device"] = "the model of " + r.value("machine", "?");
      }
      records.push_back(std::move(r));
    }
  return records;
}

}  // namespace

std::string type_of(const json& record) {
  return record.value("type", record.contains("us") ? "sweep" : record.contains("plan") ? "run" : "unknown");
}

std::vector<json> read_record_file(const std::string& path) {
  std::vector<json> records = is_collection(path) ? collected(path) : read_records(path);
  json session;
  for (json& r : records) {
    if (r.value("type", "") == "session") session = r;
    for (const char* field : {"device", "date", "command", "commit"})
      if (!session.is_null() && !r.contains(field) && session.contains(field)) r[field] = session[field];
  }
  return records;
}

}  // namespace fp4lab::cli
