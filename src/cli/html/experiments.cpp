// The experiments' scorecard: verdicts with their intervals, then what Markdown's scorecard has further.
#include <cmath>
#include <sstream>

#include "cli/escape.h"
#include "cli/html/page.h"
#include "fp4lab/experiment.h"

namespace fp4lab::cli {
namespace {

using nlohmann::json;

// "measured", "predicted"; empty where the arm has no ratio.
std::string kind_of(const ArmJudgement& a) {
  std::string kind;
  for (const Factor& f : a.factors) {
    if (f.kind == Factor::Kind::kNone) return "";
    const std::string own = f.kind == Factor::Kind::kMeasured ? "measured" : "predicted";
    if (!kind.empty() && kind != own) return "measured and predicted";
    kind = own;
  }
  return a.geomean > 0 ? kind : "";
}

std::string cases_of(const ArmJudgement& a) {
  std::string text;
  for (const Factor& f : a.factors)
    text += fmt::format("\n{}: {:.2f} ({:.2f} to {:.2f})", f.case_name, f.value, f.low, f.high);
  return text;
}

// A factor on a logarithmic line from 1/4 to 4; beyond it is at the end.
double place(double factor) { return 100 * std::clamp(0.5 + std::log(factor) / std::log(16.0), 0.0, 1.0); }

std::string forest_line(const Experiment& e, const ArmJudgement& a) {
  const std::string kind = kind_of(a);
  std::string marks;
  if (e.claim_factor > 0)
    marks += fmt::format("<i class=claim style='left:{:.2f}%'></i>", place(e.claim_factor));
  if (!kind.empty())
    marks += fmt::format(
        "<i class=whisker style='left:{0:.2f}%;width:{1:.2f}%'></i><i class='dot {2}' "
        "style='left:{3:.2f}%'></i>",
        place(a.low), place(a.high) - place(a.low), kind == "measured" ? "full" : "hollow", place(a.geomean));
  if (marks.empty()) return "";
  const std::string said =
      kind.empty() ? "no ratio" : fmt::format("{:.2f} ({:.2f} to {:.2f}) {}", a.geomean, a.low, a.high, kind);
  const std::string claimed =
      e.claim_factor > 0 ? fmt::format(", claimed {:g}", e.claim_factor) : std::string();
  return fmt::format("<div class=lane data-t='{}'><span>{}</span><div class=track>{}</div></div>\n",
                     escaped(e.name + ": " + said + claimed + cases_of(a)), escaped(e.name), marks);
}

// What the scorecard writes: headings, tables, paragraphs; of links the text.
std::string markdown_html(const std::string& text) {
  std::string html;
  std::optional<Table> table;
  std::vector<std::string> heads;
  std::istringstream lines(text);
  const auto cells_of = [](const std::string& line) {
    std::vector<std::string> cells;
    std::string cell;
    for (size_t at = 1; at < line.size(); ++at)
      if (line[at] == '\\' && at + 1 < line.size() && line[at + 1] == '|')
        cell += line[++at];
      else if (line[at] == '|') {
        const size_t begin = std::min(cell.find_first_not_of(' '), cell.size());
        cell = cell.substr(begin, cell.find_last_not_of(' ') + 1 - begin);
        cells.push_back(std::exchange(cell, ""));
      } else
        cell += line[at];
    return cells;
  };
  for (std::string line; std::getline(lines, line);) {
    const bool row = line.starts_with("|");
    if (!row && table) html += table->html(), table.reset();
    if (line.starts_with("|-")) {
      std::istringstream marks(line.substr(1));
      size_t column = 0;
      for (std::string mark; std::getline(marks, mark, '|') && column < heads.size(); ++column)
        if (mark.ends_with(":")) heads[column] = ">" + heads[column];
      table.emplace(heads);
    } else if (row && table) {
      table->add(cells_of(line));
    } else if (row) {
      heads = cells_of(line);
    } else if (line.starts_with("## ")) {
      html += "<h3>" + escaped(line.substr(3)) + "</h3>\n";
    } else if (!line.empty()) {
      html += "<p>" + escaped(line) + "</p>\n";
    }
  }
  return table ? html + table->html() : html;
}

}  // namespace

std::string experiments_html(const Records& records) {
  std::map<std::string, Records> by_name;
  for (const json& r : records)
    if (const std::string name = r.value("experiment", ""); !name.empty()) by_name[name].push_back(r);
  if (by_name.empty()) return "";
  std::vector<Experiment> experiments;
  std::vector<Judgement> judgements;
  Table table({"experiment", "question", "verdict", ">claimed", ">came out", ">80 %", "how", "why"});
  std::string forest, troubles;
  for (const auto& [name, own] : by_name) try {
      const auto registration =
          std::ranges::find_if(own, [](const json& r) { return r.value("type", "") == "registration"; });
      Experiment e = registration == own.end()
                         ? find_experiment(name)
                         : parse_experiment(registration->value("text", ""), name + ".toml");
      Judgement j = judge(e, own, e.accept.rules.empty() ? RuleSet{} : find_rules(e.accept.rules));
      const ArmJudgement none, &a = e.variants.empty() ? none : j.judged(e);
      const std::string kind = kind_of(a);
      table.add({name, e.question, std::string(verdict_name(j.verdict)),
                 e.claim_factor > 0 ? fmt::format("{:.2f}", e.claim_factor) : "-",
                 kind.empty() ? "-" : fmt::format("{:.2f}", a.geomean),
                 kind.empty() ? "-" : fmt::format("{:.2f}-{:.2f}", a.low, a.high), kind.empty() ? "-" : kind,
                 j.why});
      forest += forest_line(e, a);
      experiments.push_back(std::move(e)), judgements.push_back(std::move(j));
    } catch (const Error& error) {
      troubles +=
          fmt::format("<p class=bad>{} is not judged: {}</p>\n", escaped(name), escaped(error.what()));
    }
  std::string html = troubles;
  if (!forest.empty())
    html += "<div class='card forest'>" + forest +
            "<div class=lane><span></span><div class=scale><span>¼</span><span>½</span><span>1</span>"
            "<span>2</span><span>4</span></div></div>"
            "<p class=legend><i class='dot full'></i>measured <i class='dot hollow'></i>predicted, with the "
            "interval <i class=claim></i>claimed. Speedup over the experiment's baseline, geometric mean "
            "over its cases; right of 1 is faster.</p></div>\n";
  if (!table.empty()) html += "<div class=filtered>" + table.html() + "</div>\n";
  if (experiments.size() > 1) {
    const std::string card = scorecard(experiments, judgements);
    // Its verdicts stand above, with their intervals.
    size_t rest = card.find("\n## ", card.find("## Verdicts"));
    if (rest != card.npos)
      html += "<details><summary>The contest's rounds and votes, how good predictions were</summary>\n" +
              markdown_html(card.substr(rest)) + "</details>\n";
  }
  return html;
}

}  // namespace fp4lab::cli
