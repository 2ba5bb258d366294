#include "fp4lab/record.h"

#include <map>
#include <nlohmann/json.hpp>

#include "fp4lab/json_text.h"
#include "fp4lab/store.h"

namespace fp4lab {

namespace {

nlohmann::json json_of(const std::vector<std::pair<std::string, std::string>>& knobs) {
  return std::map<std::string, std::string>(knobs.begin(), knobs.end());
}

}  // namespace

nlohmann::json plan_fields(const Candidate& candidate) {
  return {{"arch", candidate.rung->arch},
          {"kernel", candidate.rung->name},
          {"plan", plan_line(candidate)},
          {"knobs", json_of(knob_values(candidate))}};
}

nlohmann::json record_of(const RunResult& r) {
  nlohmann::json j{{"type", "run"},
                   {"case", r.case_name},
                   {"arch", r.arch},
                   {"kernel", r.kernel},
                   {"plan", r.plan},
                   {"knobs", json_of(r.knobs)},
                   {"device", r.device},
                   {"distribution", distribution_name(r.distribution)},
                   {"seed", r.seed},
                   {"grid", r.grid},
                   {"placement",
                    {{"tiles", r.work.tiles},
                     {"waves", r.work.waves},
                     {"sms", r.work.sms},
                     {"busy", r.work.busy},
                     {"rows_used", r.work.rows_used},
                     {"shared_bytes", r.work.shared_bytes}}},
                   {"jit_ms", r.jit_ms},
                   {"jit_cached", r.jit_cached},
                   {"seconds", r.seconds},
                   {"passed", r.passed()},
                   {"roofline_us_computed", r.roofline_us}};
  if (!r.like.empty()) j["like"] = r.like, j["file"] = r.file, j["file_hash"] = r.file_hash;
  if (!r.passed()) j["error"] = r.error.empty() ? r.exact.describe() : r.error;
  if (!r.findings.empty() && r.findings != "[]") j["findings"] = parse_json(r.findings);
  if (!r.notes.empty()) j["notes"] = r.notes;
  if (r.exact.count) {
    j["elements"] = r.exact.count;
    j["max_abs_error"] = r.exact.max_abs;
    j["max_rel_error"] = r.exact.max_rel;
    j["bit_equal_share"] = double(r.exact.bit_equal) / double(r.exact.count);
    if (r.tensor_core.count)
      j["bit_equal_share_tensor_core"] = double(r.tensor_core.bit_equal) / double(r.tensor_core.count);
    j["within_fp32_accumulation_bound"] = r.exact.by_slack;
    j["outside_tolerance"] = r.exact.outside;
  }
  if (r.emulated)
    j["emulated"] = {{"launches", r.emulated->launches},
                     {"warp_instructions", r.emulated->warp_instructions},
                     {"async_ops", r.emulated->async_ops},
                     {"tma_bytes", r.emulated->tma_bytes},
                     {"mma", r.emulated->mma_count},
                     {"seconds", r.emulated->seconds},
                     {"fidelity", r.fidelity}};
  return j;
}

std::string point_of_run(std::string_view type, const Device& device, const Case& c,
                         const Candidate& candidate, Distribution distribution, std::uint64_t seed,
                         const std::string& how) {
  std::vector<std::string> values{c.name,
                                  std::string(candidate.rung->arch),
                                  std::string(candidate.rung->name),
                                  plan_line(candidate),
                                  device.name(),
                                  std::string(distribution_name(distribution)),
                                  fmt::format("seed {}", seed)};
  if (const std::string hash = text_hash(candidate); !hash.empty())
    values.push_back(fmt::format("{} {}", candidate.ptx.empty() ? "file" : "ptx", hash));
  if (!how.empty()) values.push_back(how);
  return point_of(type, values);
}

}  // namespace fp4lab
