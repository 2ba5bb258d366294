// What a measurement leaves behind.
#include <nlohmann/json.hpp>

#include "fp4lab/bench.h"
#include "fp4lab/jit.h"
#include "fp4lab/store.h"

namespace fp4lab {
namespace {

nlohmann::json json_of(const Spread& s) {
  return {{"median", s.median}, {"p10", s.p10}, {"p90", s.p90},
          {"min", s.min},       {"max", s.max}, {"count", s.count}};
}

nlohmann::json json_of(const OutputCheck& check) {
  const Comparison& c = check.comparison;
  if (!c.count) return nullptr;
  return {{"passed", c.passed()},
          {"outside_tolerance_share", double(c.outside) / double(c.count)},
          {"bit_equal_share", double(c.bit_equal) / double(c.count)},
          {"max_abs_error", c.max_abs},
          {"max_rel_error", c.max_rel},
          {"relative_rms_error", check.relative_rms},
          {"within_fp32_accumulation_bound", c.by_slack}};
}

}  // namespace

nlohmann::json record_of(const GpuSpan& s) {
  if (!s.readings) return nullptr;
  return {{"readings", s.readings},           {"sm_mhz_min", s.sm_mhz_min},
          {"sm_mhz_median", s.sm_mhz_median}, {"sm_mhz_max", s.sm_mhz_max},
          {"memory_mhz", s.memory_mhz},       {"watts_max", s.watts_max},
          {"celsius_max", s.celsius_max},     {"slowdown", slowdown_names(s.slowdown)}};
}

nlohmann::json session_record(const Device& device, const Nvml& nvml, const TimingOptions& options,
                              const std::string& command_line) {
  int cuda = 0;
  device.driver().cuDriverGetVersion(&cuda);
  std::string nvrtc;
  try {
    nvrtc = jit::nvrtc_identity();
  } catch (const Error& e) {
    nvrtc = e.what();
  }
  nlohmann::json j{
      {"type", "session"},
      {"date", utc_now()},
      {"command", command_line},
      {"commit", commit()},
      {"device", device.name()},
      {"sms", device.sms()},
      {"compute_capability", fmt::format("{}.{}", device.compute_major(), device.compute_minor())},
      {"l2_bytes", device.attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)},
      {"cuda_driver_api", fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10)},
      {"nvrtc", nvrtc},
      {"method",
       {{"repeats", options.repeats},
        {"warmups", options.warmups},
        {"rounds", options.rounds},
        {"flush_bytes", options.flush_bytes}}},
  };
  if (nvml.present()) {
    j["driver"] = nvml.driver_version();
    j["power_limit_watts"] = nvml.power_limit_watts();
    j["max_sm_mhz"] = nvml.max_sm_mhz();
  } else {
    j["nvml"] = nvml.why();
  }
  return j;
}

nlohmann::json time_fields(const Measurement& m) {
  nlohmann::json j{
      {"launch", m.launch}, {"sets", m.sets}, {"flops", m.flops}, {"bytes", m.bytes}, {"passed", m.passed}};
  if (!m.remark.empty()) j["remark"] = m.remark;
  if (!m.error.empty()) j["error"] = m.error;
  if (m.timing.us.count) {
    j["us"] = json_of(m.timing.us);
    j["calls_per_sample"] = m.timing.calls;
    j["samples_us"] = m.timing.samples;
    j["gpu"] = record_of(m.gpu);
  }
  if (m.before.comparison.count) j["check_before"] = json_of(m.before);
  if (m.after.comparison.count) j["check_after"] = json_of(m.after);
  if (!m.weight_step.empty())
    j["weights"] = {{"step", m.weight_step}, {"us", m.weight_us}, {"bytes", m.weight_bytes}};
  for (const auto& [how, us] : m.variants) j["variants"].push_back({{"how", how}, {"us", us}});
  return j;
}

nlohmann::json record_of(const Measurement& m) {
  nlohmann::json j{{"type", "time"},     {"case", m.case_name},
                   {"kernel", m.kernel}, {"peer", m.peer},
                   {"how", m.how},       {"distribution", distribution_name(m.distribution)},
                   {"seed", m.seed}};
  j.update(time_fields(m));
  return j;
}

nlohmann::json record_of(const Limit& l) {
  return {{"type", "limit"},
          {"limit", l.name},
          {"how", l.how},
          {"per_second", l.per_second},
          {"us", json_of(l.timing.us)},
          {"gpu", record_of(l.gpu)}};
}

}  // namespace fp4lab
