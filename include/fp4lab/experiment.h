// Experiments: written down before they run, judged by rule. An experiment is a file,
// notes/experiments/NNN-name.toml; what came of it are records, notes/experiments/records/NNN-name.jsonl.
// Verdict, page and scorecard are functions of the two alone.
//
//   const Experiment e = read_experiment("notes/experiments/001-pipeline-stages.toml");
//   run_experiment(e, {});                                        // verifies, measures or predicts, records
//   const Judgement j = judge(e, read_records(e.records_path()));
//   fmt::print("{}: {}\n", verdict_name(j.verdict), j.why);
//
// notes/experiments/FORMAT.md tells the file's keys.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fp4lab/problem.h"
#include "fp4lab/rung.h"

namespace fp4lab {

/// What is compared: a rung with knobs, a kernel file or edited PTX with a rung's arguments, or a peer.
struct Arm {
  enum class Expect { kRight, kWrong, kIllegal };
  std::string name;              // "baseline" unless it says otherwise
  std::string kernel;            // a rung
  std::vector<std::string> set;  // knobs, "stages=3"
  std::string arch = "sm_100a";
  std::string file, ptx;           // in the kernel's place; relative to the project
  std::string peer;                // a contender of `fp4lab bench` that is no rung: "triton-nvfp4"
  Expect expect = Expect::kRight;  // the experiment asks whether it is found to be so
};

/// A figure that somebody claimed, and that the lab can compute: of a plan, or of a machine's roofline.
struct QuantityClaim {
  std::string name;  // see quantity_names()
  std::string arm;   // of this plan; "baseline"
  std::string case_name;
  double claimed = 0;
  double within = 0.1;  // share of the claimed value that it may be off
};

struct AcceptRule {
  double geomean = 1.5;  // the contest panel's rule: at least this over all cases,
  double worst = 0.9;    // and in no case less
  std::string variant;   // which is judged; the first
  std::vector<std::string> cases;
  std::string rules;                     // name of a rule set (notes/experiments/rules.toml); empty: none
  std::vector<QuantityClaim> claims;     // where there are any they decide, not the times
  std::optional<QuantityClaim> only_if;  // the baseline must have at least `claimed` of this
};

/// What the minutes of the contest say of it.
struct ContestRound {
  int round = 0;
  std::string winner, expected, actual, status;
};
struct PanelScore {
  std::string judge, pitch;
  double speedup = 0, evidence = 0, feasibility = 0, risk = 0, said = 0;
  double weighted() const { return 0.35 * speedup + 0.25 * evidence + 0.2 * feasibility + 0.2 * risk; }
};

struct Experiment {
  std::string path;  // of the file
  std::string id;    // "001"
  std::string name;  // "001-pipeline-stages"
  std::string text;  // what was written before the run: the file up to its line "[after]"
  std::string hash;  // XXH3-128 of `text`, 32 hexadecimal digits

  std::string question;
  bool retrospective = false;  // the outcome was known when the prediction was written down
  std::string claim, claim_source;
  double claim_factor = 0;  // 0: none
  std::string hypothesis, arithmetic, evidence, risk, needs;
  std::map<std::string, double> predicted;  // case -> times as fast as the baseline
  Arm baseline;
  std::vector<Arm> variants;
  AcceptRule accept;
  std::string distribution;  // empty: the task's
  std::string check_case;    // where accesses are checked for order; empty: in every case itself
  std::string measured_in;   // records of `fp4lab bench` that hold the times
  int seconds = 600;         // budget
  std::optional<ContestRound> contest;
  std::vector<PanelScore> scores;
  // written after the run
  std::string insight, cannot_decide;

  std::string records_path() const;
  std::string page_path() const;
  const Arm& judged() const;
  const Arm& arm(std::string_view name) const;  // fails with the names
  std::vector<const Arm*> arms() const;         // baseline first
  Distribution distribution_of(Operation) const;
};

/// Fails with file, line and what is expected, also on keys that there are not.
Experiment read_experiment(const std::string& path);
/// The same of text; `path` names it.
Experiment parse_experiment(const std::string& text, const std::string& path);
/// notes/experiments/*.toml of the project by number: paths.
std::vector<std::string> experiment_paths();
/// By number ("001", "1"), name or path. Fails with the list.
Experiment find_experiment(const std::string& which);
/// A file to fill in: notes/experiments/NNN-name.toml with the next number. Fails where the name is taken.
std::string new_experiment(const std::string& name);

/// What a rule set forbids: values of knobs.
struct RuleSet {
  std::string name, source, text;
  std::map<std::string, std::vector<std::string>> forbidden;  // knob -> values
};
RuleSet find_rules(const std::string& name);  // fails with the names

/// The arm's kernel and plan for the case. Fails for a peer.
Candidate candidate_of(const Arm&, const Case&);
/// "sms_busy", "waves", "rows_used", "ctas", ..., computed for the arm's plan and the case.
std::map<std::string, double> quantities(const Arm&, const Case&);
std::vector<std::string> quantity_names();

struct RunOptions {
  std::string device = "auto";
  bool again = false;  // leave the records, and start them anew
  bool predict = true;
  std::string records = {};  // another file than the experiment's own
  std::function<void(const std::string&)> progress = {};
};
/// Verifies every arm in every case, on the emulator with the order of accesses checked, times it where there
/// is a GPU for it, predicts it otherwise; what has a record is not done again. Gives what hardware is
/// missing.
std::vector<std::string> run_experiment(const Experiment&, const RunOptions&);

enum class Verdict {
  kAccepted,
  kRejected,
  kUndecided,     // the error of the ratio straddles the rule
  kInvalid,       // an arm is wrong, or no such plan can be
  kValidityOnly,  // right everywhere, and nothing here can tell how fast
  kNotRun,
};
std::string_view verdict_name(Verdict);  // "ACCEPTED"

/// How many times as fast as the baseline, in a case.
struct Factor {
  std::string case_name;
  enum class Kind { kNone, kMeasured, kPredicted } kind = Kind::kNone;
  double value = 0, low = 0, high = 0;
  double baseline_us = 0, us = 0;
  std::string on;          // device or machine and clock
  std::string validation;  // of a prediction
};
struct ArmJudgement {
  std::string arm;
  Verdict verdict = Verdict::kNotRun;
  std::string why;
  std::vector<Factor> factors;
  double geomean = 0, low = 0, high = 0;
};
struct ClaimJudgement {
  QuantityClaim claim;
  std::optional<double> value;
  bool holds = false;
};
struct Judgement {
  Verdict verdict = Verdict::kNotRun;
  std::string why;  // a sentence
  std::vector<ArmJudgement> arms;
  std::vector<ClaimJudgement> claims;
  const ArmJudgement& judged(const Experiment&) const;
};
/// A pure function: looks at nothing but its arguments.
Judgement judge(const Experiment&, const std::vector<nlohmann::json>& records, const RuleSet& rules);
/// With the experiment's own records and rule set.
Judgement judge(const Experiment&);

/// Was it written before it ran?
struct Registration {
  enum class State { kBefore, kAfter, kNotCommitted, kNotRun } state = State::kNotRun;
  std::string text;                  // a sentence, with dates and commits
  std::vector<std::string> changed;  // lines that are otherwise than when it ran: "- ..", "+ .."
  bool good() const { return changed.empty() && state != State::kAfter && state != State::kNotCommitted; }
};
Registration verify(const Experiment&, const std::vector<nlohmann::json>& records);

/// A page of one screen, Markdown; a function of its arguments.
std::string experiment_page(const Experiment&, const Judgement&, const std::vector<nlohmann::json>& records);
/// All of them as a table, the panel's scores and how good predictions were, Markdown.
std::string scorecard(const std::vector<Experiment>&, const std::vector<Judgement>&);

}  // namespace fp4lab
