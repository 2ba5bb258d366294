#include "emulator/driver/findings.h"

#include <nlohmann/json.hpp>

#include "emulator/core/failure.h"
#include "fp4lab/json_text.h"

namespace fp4lab::emu::driver {

namespace {

nlohmann::json json_of(const OrderChecker::Party& p) {
  return {{"does", p.does}, {"who", p.who},       {"ptx", p.ptx},
          {"line", p.line}, {"source", p.source}, {"cuda", p.cuda}};
}

}  // namespace

std::string findings_json(const LaunchResult& result, const std::string& kernel,
                          const std::vector<OrderChecker::Finding>& findings) {
  nlohmann::json all = nlohmann::json::array();
  const auto add = [&](const char* severity, FaultKind fault, const std::string& report, uint32_t line) {
    const std::string kind = kind_text(fault);
    std::string what = report.substr(0, report.find('\n'));
    if (what.starts_with(kind + ": ")) what.erase(0, kind.size() + 2);
    all.push_back({{"severity", severity},
                   {"kind", kind},
                   {"what", what},
                   {"kernel", kernel},
                   {"line", line},
                   {"text", report}});
  };
  if (!result.ok) add("error", result.kind, result.report, result.line);
  for (const Tolerated& t : result.tolerated) add("note", t.kind, t.report, t.line);
  for (const OrderChecker::Finding& f : findings)
    all.push_back({{"severity", f.error ? "error" : "note"},
                   {"kind", f.kind},
                   {"what", f.what},
                   {"kernel", f.kernel},
                   {"place", f.place},
                   {"count", f.count},
                   {"first", json_of(f.first)},
                   {"then", json_of(f.then)},
                   {"needs", f.needs},
                   {"belongs", f.belongs},
                   {"text", f.text()}});
  return json_text(all);
}

}  // namespace fp4lab::emu::driver
