#include "fp4lab/record.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fp4lab/json_text.h"

namespace fp4lab {

nlohmann::json record_of(const RunResult& r) {
  nlohmann::json j{{"case", r.case_name},
                   {"arch", r.arch},
                   {"kernel", r.kernel},
                   {"plan", r.plan},
                   {"device", r.device},
                   {"distribution", distribution_name(r.distribution)},
                   {"seed", r.seed},
                   {"grid", r.grid},
                   {"jit_ms", r.jit_ms},
                   {"jit_cached", r.jit_cached},
                   {"seconds", r.seconds},
                   {"passed", r.passed()},
                   {"roofline_us_computed", r.roofline_us}};
  if (!r.error.empty()) j["error"] = r.error;
  if (!r.findings.empty() && r.findings != "[]") j["findings"] = parse_json(r.findings);
  if (r.exact.count) {
    j["max_abs_error"] = r.exact.max_abs;
    j["max_rel_error"] = r.exact.max_rel;
    j["bit_equal_share"] = double(r.exact.bit_equal) / double(r.exact.count);
    if (r.tensor_core.count)
      j["bit_equal_share_tensor_core"] = double(r.tensor_core.bit_equal) / double(r.tensor_core.count);
    j["within_fp32_accumulation_bound"] = r.exact.by_slack;
    j["outside_tolerance"] = r.exact.outside;
  }
  if (r.emulated)
    j["emulated"] = {{"warp_instructions", r.emulated->warp_instructions},
                     {"async_ops", r.emulated->async_ops},
                     {"tma_bytes", r.emulated->tma_bytes},
                     {"mma", r.emulated->mma_count},
                     {"seconds", r.emulated->seconds},
                     {"fidelity", r.fidelity}};
  return j;
}

std::string point_key(const nlohmann::json& j) {
  std::string key;
  for (const char* field : {"case", "kernel", "plan", "device", "distribution", "seed"})
    key += json_text(j.at(field)) + "|";
  return key;
}

RecordFile::RecordFile(std::string path, bool keep) : path_(std::move(path)) {
  if (keep) {
    std::ifstream old(path_);
    std::string line;
    for (int number = 1; std::getline(old, line); ++number) {
      if (line.empty()) continue;
      try {
        present_.insert(point_key(parse_json(line)));
      } catch (const nlohmann::json::exception&) {
        fmt::print(stderr, "{}:{}: not a record, left out\n", path_, number);
      }
    }
  }
  file_.open(path_, keep ? std::ios::app : std::ios::trunc);
  if (!file_) fail("{}: {}", path_, std::strerror(errno));
}

void RecordFile::add(const nlohmann::json& record) {
  if (path_.empty()) return;
  file_ << json_text(record) << std::endl;
  if (!file_) fail("{}: writing a record failed: {}", path_, std::strerror(errno));
}

}  // namespace fp4lab
