// Results as JSON lines: one line per result, written when it is there, so that a later failure loses none.
#pragma once

#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "fp4lab/run.h"

namespace fp4lab {

nlohmann::json record_of(const RunResult& result);

// What makes two points of a sweep the same: case, kernel, plan, device, distribution, seed.
std::string point_key(const nlohmann::json& record);

class RecordFile {
 public:
  RecordFile() = default;  // nowhere
  // Opens for writing, or for appending to what is there (`keep`). Fails with the path and the system's text.
  RecordFile(std::string path, bool keep);
  // Fails when the line cannot be written (a full disk): what was written before stays.
  void add(const nlohmann::json& record);
  // Keys of the records that were in the file when it was opened with `keep`. A line that does not parse (cut
  // off by a crash) is left out and said on stderr.
  const std::set<std::string>& present() const { return present_; }

 private:
  std::string path_;
  std::ofstream file_;
  std::set<std::string> present_;
};

}  // namespace fp4lab
