// What the warps of a plan's first CTA do, from the emulator's trace.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "cli/escape.h"
#include "cli/html/page.h"
#include "fp4lab/json_text.h"
#include "fp4lab/run.h"
#include "fp4lab/rung.h"

namespace fp4lab::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostBars = 4000;  // of a page: later ones are left out, and that is said

struct Row {
  std::string name;
  struct Span {
    uint64_t begin, end;
    std::string kind, what;
  };
  std::vector<Span> spans;
};

struct Scratch {
  fs::path path = fs::temp_directory_path() / fmt::format("fp4lab-timeline-{}.json", getpid());
  ~Scratch() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

// Of process 0, which is the first CTA. An event is a line.
std::map<uint64_t, Row> rows_of(const fs::path& trace) {
  std::map<uint64_t, Row> rows;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> begun;  // by id: row, step
  std::ifstream in(trace);
  for (std::string line; std::getline(in, line);) {
    if (line.find("\"pid\":0,") == line.npos) continue;
    const json e = parse_json(line.substr(line.find('{'), line.rfind('}') + 1 - line.find('{')), false);
    if (!e.is_object() || !e.contains("tid")) continue;
    const std::string phase = e.value("ph", "");
    const uint64_t row = e["tid"], at = e.value("ts", uint64_t(0));
    if (phase == "M" && row < 2000) rows[row].name = e["args"].value("name", "");
    if (phase == "X") {
      const std::string what = e.value("name", "");
      rows[row].spans.push_back({at, at + e.value("dur", uint64_t(0)), what == "runs" ? "runs" : "waits",
                                 what + (e.contains("args") ? ": " + e["args"].value("at", "") : "")});
    }
    if (phase == "b") begun[e.value("id", uint64_t(0))] = {row, at};
    if (phase == "e")
      if (const auto b = begun.find(e.value("id", uint64_t(0))); b != begun.end()) {
        rows[row].spans.push_back({b->second.second, at, "async", e.value("name", "")});
        begun.erase(b);
      }
  }
  std::erase_if(rows, [](const auto& r) { return r.second.spans.empty(); });
  return rows;
}

std::string drawn(const std::map<uint64_t, Row>& rows) {
  uint64_t last = 1;
  size_t count = 0;
  for (const auto& [id, row] : rows)
    for (const Row::Span& s : row.spans) last = std::max(last, s.end);
  std::string html = "<div class='card timeline'>";
  for (const auto& [id, row] : rows) {
    html += fmt::format("<div class=lane><span>{}</span><div class=track>", escaped(row.name));
    auto spans = row.spans;
    std::ranges::stable_sort(spans, {}, [](const Row::Span& s) { return s.kind != "runs"; });
    const size_t most = kMostBars / rows.size();
    count += spans.size() - std::min(most, spans.size());
    if (spans.size() > most) spans.resize(most);
    for (const Row::Span& s : spans)
      html += fmt::format("<i class={} style='left:{:.3f}%;width:{:.3f}%' data-t='{} (steps {} to {})'></i>",
                          s.kind, 100.0 * double(s.begin) / double(last),
                          100.0 * double(s.end - s.begin) / double(last), escaped(s.what.substr(0, 160)),
                          s.begin, s.end);
    html += "</div></div>\n";
  }
  html += fmt::format(
      "<div class=lane><span></span><div class=scale><span>0</span><span>{}</span><span>{} steps</span></div>"
      "</div><p class=legend><i class=runs></i>runs or is ready <i class=waits></i>waits <i class=async></i>"
      "an asynchronous operation in flight</p>",
      last / 2, last);
  if (count) html += fmt::format("<p>{} of the spans are not shown.</p>", count);
  return html + "</div>\n";
}

}  // namespace

std::string timeline_html(const json& record) {
  const std::string arch = record.value("arch", ""), kernel = record.value("kernel", ""),
                    name = record.value("case", ""), plan = record.value("plan", "");
  std::string html =
      fmt::format("<p>{} {} on {}: its first CTA.</p>\n", escaped(kernel), escaped(plan), escaped(name));
  try {
    const Case c = find_case(name);
    const Candidate candidate = candidate_of_line(find_rung(arch, op_of(c.operation), kernel), c, plan);
    const Device device = Device::open("emulator", arch);
    const Scratch scratch;
    observe(device, "trace=" + scratch.path.string());
    Trial trial(device, c, task_distribution(c.operation), 1);
    const RunResult r = run_trial(device, trial, candidate);
    if (!r.passed()) fail("it does not pass here: {}", r.error);
    return html + drawn(rows_of(scratch.path)) +
           "<p class=note>Emulator steps, not time: one instruction of one warp is one step of the CTA's "
           "cluster. Order and overlap are the program's; lengths say nothing about a GPU.</p>\n";
  } catch (const Error& e) {
    return html + fmt::format("<p class=bad>No timeline: {}</p>\n", escaped(e.what()));
  }
}

}  // namespace fp4lab::cli
