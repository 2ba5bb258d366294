// fp4lab compare: two kernels, plans, edited files or files of records, and which is faster.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/record_files.h"
#include "cli/run_table.h"
#include "cli/table.h"
#include "cli/versus.h"
#include "cli/workload.h"
#include "fp4lab/error.h"
#include "fp4lab/machine.h"
#include "fp4lab/model.h"
#include "fp4lab/record.h"
#include "fp4lab/sweep.h"

namespace fp4lab::cli {
namespace {

using nlohmann::json;

template <class... Args>
void tell(fmt::format_string<Args...> text, Args&&... args) {
  fmt::print("{}", screen(fmt::format(text, std::forward<Args>(args)...)));
}

struct Options {
  std::vector<std::string> words, case_names;
  std::string like;
  Target target;
  Numbers numbers;
  Output output;
  TableFormat format;
  bool ptx_diff = false;
};

// What a word names: "v2", "v2:stages=2,block_k=512", "my.cu", "my.cu:stages=2", "k.ptx", "s.json".
struct Side {
  std::string text, name, knobs;
  bool is(const char* extension) const { return name.ends_with(extension); }
  bool records() const { return is(".json") || is(".jsonl"); }
  bool file() const { return is(".cu") || is(".ptx") || records(); }
};

Side side_of(const std::string& word) {
  // A path may have colons: the knobs are behind the last one, and have a '='.
  const size_t colon = word.rfind(':');
  Side side{word, word, ""};
  if (colon != word.npos && word.find('=', colon) != word.npos)
    side.name = word.substr(0, colon), side.knobs = word.substr(colon + 1);
  std::error_code error;
  if (side.file() && !std::filesystem::exists(side.name, error)) fail("{}: no such file", side.name);
  return side;
}

Candidate candidate_of(const Side& side, const Options& o, std::string_view arch, const Case& c) {
  const Op op = op_of(c.operation);
  std::vector<std::string> knobs;
  for (size_t at = 0; at < side.knobs.size();) {
    const size_t comma = std::min(side.knobs.find(',', at), side.knobs.size());
    knobs.push_back(side.knobs.substr(at, comma - at));
    at = comma + 1;
  }
  const Rung& rung = !side.file()      ? find_rung(arch, op, side.name)
                     : !o.like.empty() ? find_rung(arch, op, o.like)
                                       : rung_like(arch, op, side.name);
  if (side.is(".ptx") && knobs.empty()) return candidate_of_ptx(rung, c, side.name);
  Candidate candidate = candidate_for(rung, c, knobs);
  if (side.is(".ptx")) candidate.ptx = side.name;
  if (side.is(".cu")) candidate.source = std::filesystem::absolute(side.name);
  return candidate;
}

// What stands in both columns, `width` each.
std::string beside(const std::vector<std::string>& left, const std::vector<std::string>& right,
                   size_t width) {
  std::string text;
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const auto cell = [&](const std::vector<std::string>& lines) {
      std::string line = i < lines.size() ? lines[i] : "";
      if (line.size() > width) line = line.substr(0, width - 2) + "..";
      return line;
    };
    std::string line = fmt::format("{:<{}}  {}", cell(left), width, cell(right));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::vector<std::string> role_lines(const Look& look, const std::string& name) {
  constexpr size_t kTop = 3;
  for (const json& role : look.profile.value("roles", json::array())) {
    if (role.value("name", "") != name) continue;
    std::vector<std::string> lines{fmt::format(
        "{} (warp{} {}) waits {:.1f} %", name, role.at("warps").size() > 1 ? "s" : "",
        fmt::join(role.at("warps").get<std::vector<int>>(), ","), 100 * role.value("waited", 0.0))};
    for (const Wait& w : waits_of(role)) {
      if (lines.size() > kTop || w.share < 0.005) break;
      lines.push_back(fmt::format("{:5.1f} %  {}  {}", 100 * w.share, w.what, w.where));
    }
    return lines;
  }
  return {};
}

std::string waits_text(const Look& a, const Look& b) {
  std::vector<std::string> names;
  for (const Look* look : {&a, &b})
    for (const json& role : look->profile.value("roles", json::array()))
      if (std::ranges::find(names, role.value("name", "")) == names.end())
        names.push_back(role.value("name", ""));
  std::string text;
  for (const std::string& name : names) text += beside(role_lines(a, name), role_lines(b, name), 48);
  return text;
}

// Where the predicted time goes; the terms add up to it.
std::string terms_text(const Versus& row) {
  std::vector<std::string> names;
  for (const auto* p : {&*row.predicted_a, &*row.predicted_b})
    for (const Term& t : p->terms)
      if (std::ranges::find(names, t.name) == names.end()) names.push_back(t.name);
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    const auto us = [&](const Prediction& p) {
      const auto at = std::ranges::find(p.terms, name, &Term::name);
      return at == p.terms.end() ? 0 : at->us;
    };
    const double a = us(*row.predicted_a), b = us(*row.predicted_b);
    if (std::max(a, b) >= 0.005) parts.push_back(fmt::format("{} {:.2f}:{:.2f}", name, a, b));
  }
  return fmt::format("Terms of the predicted us, {}, A:B: {}\n", row.spec.name, fmt::join(parts, ", "));
}

constexpr const char* kRule =
    "Faster or slower: the speedup's interval excludes 1. Same: equal plan and PTX, or an interval within 2 "
    "% of 1. Otherwise undecided. Where the model is not validated, its error is doubled, and at least a "
    "factor "
    "of 1.2.\n";

Versus compare_case(const Options& o, const Side (&sides)[2], const Device& emulator, const InTurn* gpu,
                    const Case& c, bool look_inside) {
  Versus row;
  row.spec = c;
  const Candidate candidates[2] = {candidate_of(sides[0], o, arch_of(emulator), c),
                                   candidate_of(sides[1], o, arch_of(emulator), c)};
  for (int i = 0; i < 2; ++i)
    if (const auto forbidden = reasons(candidates[i], c); !forbidden.empty())
      row.verdict = "refused", row.why = fmt::format("{} cannot run: {}", i ? "B" : "A", forbidden[0].text);
  if (row.verdict.empty()) {
    Trial trial(emulator, c, o.numbers.of(c.operation), o.numbers.seed);
    row.a = look_at(emulator, trial, candidates[0], look_inside);
    row.b = look_at(emulator, trial, candidates[1], look_inside);
    decide(row, gpu);
  }
  return row;
}

// On one line per side what it is.
void print_sides(const Versus& row, const Side (&sides)[2]) {
  for (int i = 0; i < 2; ++i) {
    const std::optional<Look>& look = i ? row.b : row.a;
    const std::string what = look ? title(look->candidate) : sides[i].text;
    tell("{}  {}{}\n", i ? "B" : "A", what, look ? "  " + plan_line(look->candidate) : "");
  }
}

int compare_kernels(const Options& o, const Side (&sides)[2], const std::vector<Case>& cases) {
  const std::string_view wanted = o.target.arch;
  std::string why;
  std::optional<Device> emulator;
  std::unique_ptr<InTurn> gpu;
  std::string arch{wanted.empty() ? architectures()[0] : wanted};
  if (wanted.empty() && o.target.device != "emulator")
    for (const std::string_view each : architectures())
      if (gpu_available(each)) {
        arch = each;
        break;
      }
  if (o.target.device == "cuda" || (o.target.device == "auto" && gpu_available(arch, &why)))
    gpu = std::make_unique<InTurn>(o.numbers, arch);
  emulator.emplace(open_for_kernels("emulator", arch));
  for (const Side& side : sides)  // refused before anything runs
    candidate_of(side, o, arch, cases[0]);
  Store store = o.output.open(*emulator, {sides[0].name, sides[1].name});

  // The least work: a look inside takes a while.
  const auto flops = [](const Case& c) { return work_of(c).flops; };
  const size_t inside = size_t(std::ranges::min_element(cases, {}, flops) - cases.begin());
  std::vector<Versus> rows;
  Records records;
  {
    Progress progress("compare", cases.size());
    for (size_t i = 0; i < cases.size(); ++i) {
      progress.update(i, cases[i].name);
      rows.push_back(compare_case(o, sides, *emulator, gpu.get(), cases[i], i == inside));
      records.push_back(record_of(rows.back(), sides[0].text, sides[1].text));
      store.add(records.back());
    }
  }
  const Table verdicts = comparison_table(records, false);
  const bool good = std::ranges::none_of(rows, &Versus::bad);
  if (o.format.csv) {
    fmt::print("{}", verdicts.csv());
    return good ? 0 : 1;
  }
  const Versus& row = rows[inside];
  print_sides(row, sides);
  fmt::print("\n{}", o.format.text(verdicts));
  std::map<std::string, std::vector<std::string>> whys;
  for (const Versus& r : rows)
    if (!r.why.empty()) whys[r.verdict + ": " + r.why].push_back(r.spec.name);
  for (const auto& [text, names] : whys)
    tell("{}{}\n", names.size() == rows.size() ? "" : fmt::format("{} ", fmt::join(names, ", ")), text);
  if (gpu)
    tell(
        "Measured on {}, A and B in turn in one run, 10 % to 90 % of the times; the ratio's interval holds "
        "its "
        "median with 98.8 %. ",
        gpu->device().name());
  else if (const auto r = row.record.find("predicted_ratio"); r != row.record.end())
    tell("Predicted, not measured: {} at {:.0f} MHz, intervals 80 %; ratios {}.\n", r->value("machine", ""),
         r->value("sm_mhz", 0.0), r->value("validation", ""));
  if (row.predicted_a) tell("{}", terms_text(row));
  tell("{}", kRule);
  if (row.a && row.b) {
    fmt::print("\n{} on the emulator, both verified. Steps are warp instructions, not time:\n{}",
               row.spec.name, o.format.text(counts_table({&*row.a, &*row.b}, {"A", "B"})));
    if (!row.a->profile.is_null() && !row.b->profile.is_null())
      fmt::print("\nWaits, as a share of the warp role's steps:\n{}", waits_text(*row.a, *row.b));
    if (row.ptx) fmt::print("{}", ptx_text(*row.ptx, o.ptx_diff));
  }
  return good ? 0 : 1;
}

// -- files of records: each case's best against the other file's best

double us_of(const json& r, bool measured) {
  const char* at = measured ? "/us/median" : "/predicted/predicted_us";
  const json::json_pointer pointer(at);
  return r.contains(pointer) && r.at(pointer).is_number() ? r.at(pointer).get<double>() : 0;
}

const json* best_of(const Records& records, const std::string& name, bool measured) {
  const json* best = nullptr;
  for (const json& r : records)
    if (r.value("case", "") == name && passed(r) && us_of(r, measured) > 0 &&
        (!best || us_of(r, measured) < us_of(*best, measured)))
      best = &r;
  return best;
}

std::string point_text(const json& r) {
  return r.value("kernel", "?") + " " + r.value("plan", r.value("how", ""));
}

Versus compare_best(const std::string& name, const Records& a, const Records& b) {
  Versus row;
  row.spec.name = name;
  const auto timed = [&](const Records& all) { return best_of(all, name, true) != nullptr; };
  const bool measured = timed(a) && timed(b);
  const json *x = best_of(a, name, measured), *y = best_of(b, name, measured);
  if (!x || !y) {
    row.verdict = "undecided", row.why = "no time, measured or predicted, in both files";
    return row;
  }
  row.record = {{"best_a", point_text(*x)}, {"best_b", point_text(*y)}};
  row.basis = measured ? "measured" : "predicted";
  const double ta = us_of(*x, measured), tb = us_of(*y, measured);
  if (measured) {
    const auto spread = [](const json& r, const char* q) {
      return r["us"].value(q, r["us"].value("median", 0.0));
    };
    row.time_a = fmt::format("{:.2f} ({:.2f}-{:.2f})", ta, spread(*x, "p10"), spread(*x, "p90"));
    row.time_b = fmt::format("{:.2f} ({:.2f}-{:.2f})", tb, spread(*y, "p10"), spread(*y, "p90"));
    row.ratio = {ta / tb, spread(*x, "p10") / spread(*y, "p90"), spread(*x, "p90") / spread(*y, "p10")};
    row.verdict = verdict_of(*row.ratio);
    if (x->value("device", "") != y->value("device", ""))
      row.why =
          fmt::format("times of two devices: {} and {}", x->value("device", "?"), y->value("device", "?"));
    return row;
  }
  const auto text = [](double us, const json& r) {
    const json& p = r["predicted"];
    return fmt::format("{:.2f} ({:.1f}-{:.1f})", us, p.value("interval_low_us", us),
                       p.value("interval_high_us", us));
  };
  row.time_a = text(ta, *x), row.time_b = text(tb, *y);
  try {
    const Case c = find_case(name);
    const auto candidate = [&](const json& r) {
      return candidate_of_line(
          find_rung(r.value("arch", ""), op_of(c.operation), r.value("like", r.value("kernel", ""))), c,
          r.value("plan", ""));
    };
    const PredictedRatio r = predict_ratio(candidate(*y), candidate(*x), c);
    const auto [low, high] = interval_for_verdict(r.ratio, r.low, r.high, r.validation.holds);
    row.ratio = {r.ratio, low, high};
    row.verdict = r.ratio == 1 ? "undecided" : verdict_of(*row.ratio);
    if (point_text(*x) == point_text(*y) && x->value("file_hash", "") == y->value("file_hash", ""))
      row.verdict = "same", row.why = "one kernel and plan", row.ratio = Ratio{};
    else if (r.ratio == 1)
      row.why = "the model cannot tell the two apart";
  } catch (const Error& error) {
    row.verdict = "undecided", row.why = error.what();
  }
  return row;
}

int compare_records(const Options& o, const Side (&sides)[2]) {
  const Records a = read_record_file(sides[0].name), b = read_record_file(sides[1].name);
  std::vector<std::string> names;
  for (const json& r : a) {
    const std::string name = r.value("case", "");
    const bool in_both =
        std::ranges::any_of(b, [&](const json& other) { return other.value("case", "") == name; });
    const bool wanted = o.case_names.empty() || std::ranges::find(o.case_names, name) != o.case_names.end();
    if (!name.empty() && in_both && wanted && std::ranges::find(names, name) == names.end())
      names.push_back(name);
  }
  if (names.empty())
    fail("{} and {} have no case in common{}", sides[0].text, sides[1].text,
         o.case_names.empty() ? "" : fmt::format(" of {}", fmt::join(o.case_names, ", ")));
  Store store = o.output.open({sides[0].name, sides[1].name});
  std::vector<Versus> rows;
  Records records;
  for (const std::string& name : names) {
    rows.push_back(compare_best(name, a, b));
    records.push_back(record_of(rows.back(), sides[0].text, sides[1].text));
    store.add(records.back());
  }
  if (!o.format.csv) fmt::print("A  {}\nB  {}\nThe best point of each case:\n", sides[0].text, sides[1].text);
  // Measured and predicted times never share a column.
  for (const Records& some : by_basis(records)) {
    const std::string basis = some[0].value("basis", "");
    fmt::print("{}{}", o.format.csv ? "" : "\n", o.format.text(comparison_table(some, false)));
    if (!o.format.csv && !basis.empty())
      tell("{}\n", basis == "measured" ? "Measured, 10 % to 90 % of the samples."
                                       : "Predicted, not measured, with the 80 % interval.");
  }
  if (o.format.csv) return 0;
  for (const Versus& r : rows) {
    tell("{}: A {}, B {}\n", r.spec.name, r.record.value("best_a", "-"), r.record.value("best_b", "-"));
    if (!r.why.empty()) tell("  {}\n", r.why);
  }
  tell("{}", kRule);
  return 0;
}

int run(const Options& o) {
  std::vector<std::string> words = o.words;
  std::string operation;
  if (words.size() == 3 && (words[0] == "group" || words[0] == "dual" || words[0] == "gemm"))
    operation = words[0], words.erase(words.begin());
  if (words.size() != 2) fail("compare takes two kernels, not {}, e.g. fp4lab compare v2 top", words.size());
  const Side sides[2] = {side_of(words[0]), side_of(words[1])};
  if (sides[0].records() != sides[1].records())
    fail("{} and {}: records can be compared with records only", sides[0].text, sides[1].text);
  if (sides[0].records()) return compare_records(o, sides);
  if (operation.empty())
    operation = o.case_names.empty()
                    ? "group"
                    : operation_name(chosen_cases(o.case_names, "all", "compare").at(0).operation);
  return compare_kernels(o, sides,
                         chosen_cases(o.case_names.empty() ? std::vector<std::string>{"all"} : o.case_names,
                                      operation, "compare"));
}

const Command kCommand{
    "compare", "compare two rungs, plans, files or records: time, counters, waits, PTX", [](Arguments& app) {
      auto o = std::make_shared<Options>();
      app.add_option("kernels", o->words,
                     "A and B: each a rung (v2), a rung with knobs (v2:stages=2,block_k=512), a kernel file "
                     "(my.cu) or PTX (k.ptx); or two files of records (s.json). Put dual or gemm first for "
                     "these operations; default: group")
          .required();
      add_list(app, "--case", o->case_names,
               "cases and shapes, repeated or separated by commas; default: the full sizes");
      app.add_option("--like", o->like,
                     "the rung whose plan, limits and launch a file uses; default: the one named by its "
                     "name, entry point or header comment");
      o->target.declare(app);
      o->numbers.declare(app);
      o->output.declare(app);
      app.add_flag("--ptx-diff", o->ptx_diff, "print all differences of the PTX");
      o->format.declare(app);
      app.examples(
          {"fp4lab compare v2 top", "fp4lab compare v2 v2:stages=2 --case g2k1536",
           "fp4lab compare v2 my.cu --case g2k1536,g2k4096", "fp4lab compare dual v3 v7",
           "fp4lab compare v2 k.ptx --case g2k1536 --ptx-diff", "fp4lab compare before.json after.json"},
          "Times are measured if there is a GPU that can run the kernels, otherwise predicted.\n"
          "Exit status 1: A or B gives wrong results or cannot run a case.");
      return [o] { return run(*o); };
    }};

}  // namespace
}  // namespace fp4lab::cli
