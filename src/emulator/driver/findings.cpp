#include "emulator/driver/findings.h"

#include <nlohmann/json.hpp>

#include "emulator/core/failure.h"
#include "emulator/core/place.h"
#include "fp4lab/json_text.h"

namespace fp4lab::emu::driver {

namespace {

nlohmann::json json_of(const OrderChecker::Party& p) {
  return {{"does", p.does}, {"who", p.who},       {"ptx", p.ptx},
          {"line", p.line}, {"source", p.source}, {"cuda", p.cuda}};
}

// Of a fault or a note: one place.
nlohmann::json place_of(const Module& m, uint32_t line, const std::string& cuda) {
  if (!line) return nullptr;
  std::string_view text = m.line_text(line);
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t")));
  return {
      {"does", ""},   {"who", ""},      {"ptx", fmt::format("{}:{}", m.name.empty() ? "ptx" : m.name, line)},
      {"line", line}, {"source", text}, {"cuda", cuda}};
}

}  // namespace

std::string findings_json(const LaunchResult& result, const Module& module, const std::string& kernel,
                          const std::vector<OrderChecker::Finding>& findings) {
  nlohmann::json all = nlohmann::json::array();
  const auto add = [&](bool error, FaultKind fault, const std::string& report, uint32_t line,
                       const std::string& cuda, uint64_t count) {
    const std::string kind = kind_text(fault);
    std::string what = report.substr(0, report.find('\n'));
    if (what.starts_with(kind + ": ")) what.erase(0, kind.size() + 2);
    all.push_back({{"severity", error ? "error" : "note"},
                   {"kind", kind},
                   {"what", what},
                   {"kernel", kernel},
                   {"place", ""},
                   {"count", count},
                   {"line", line},
                   {"first", place_of(module, line, cuda)},
                   {"then", nullptr},
                   {"needs", ""},
                   {"belongs", ""},
                   {"text", report}});
  };
  if (!result.ok) add(true, result.kind, result.report, result.line, result.source, 1);
  for (const Tolerated& t : result.tolerated) add(t.error, t.kind, t.report, t.line, t.source, t.count);
  for (const OrderChecker::Finding& f : findings)
    all.push_back({{"severity", f.error ? "error" : "note"},
                   {"kind", f.kind},
                   {"what", f.what},
                   {"kernel", f.kernel},
                   {"place", f.place},
                   {"count", f.count},
                   {"line", f.then.line},
                   {"first", json_of(f.first)},
                   {"then", json_of(f.then)},
                   {"needs", f.needs},
                   {"belongs", f.belongs},
                   {"text", f.text()}});
  return json_text(all);
}

}  // namespace fp4lab::emu::driver
