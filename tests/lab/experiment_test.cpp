// Experiments: what a file may say, and every verdict from records made by hand.
#include "fp4lab/experiment.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../message.h"
#include "fp4lab/error.h"
#include "lab/bench/shell.h"

using namespace fp4lab;
using nlohmann::json;

namespace {

const std::string kFile = R"(question = "Is it faster?"

[hypothesis]
text = "It is."
arithmetic = "2 - 1"
predicted = { g2k1536 = 2.0, g2k4096 = 1.5 }

[baseline]
kernel = "v0_baseline"
set = {}

[[variant]]
name = "fast"
kernel = "v1_pipeline"
set = { stages = 3 }

[accept]
geomean = 1.5
worst_case = 0.9
cases = ["g2k1536", "g2k4096"]
rules = "contest"
)";

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}
Experiment parse(const std::string& text) { return parse_experiment(text, "077-fast.toml"); }

// Records as run_experiment leaves them.
struct Book {
  explicit Book(const Experiment& experiment) : e(experiment) {
    add({{"type", "registration"}, {"text", e.text}});
  }
  void add(json r) {
    r["hash"] = e.hash;
    records.push_back(std::move(r));
  }
  Book& valid(const std::string& result = "right", const std::string& arm = "",
              const std::string& error = "") {
    for (const std::string& c : e.accept.cases)
      for (const Arm* a : e.arms())
        if (arm.empty() || a->name == arm) {
          json r{{"type", "validity"}, {"arm", a->name}, {"case", c}, {"result", result}};
          if (!error.empty()) r["error"] = error;
          if (result == "wrong") r["outside_tolerance"] = 12;
          add(std::move(r));
        }
    return *this;
  }
  Book& ratio(const std::string& c, double value, double low, double high, bool validated = true,
              const std::string& arm = "fast") {
    add({{"type", "prediction"}, {"arm", "baseline"}, {"case", c}, {"prediction", {{"predicted_us", 10.0}}}});
    add({{"type", "prediction"},
         {"arm", arm},
         {"case", c},
         {"prediction", {{"predicted_us", 10.0 / value}}},
         {"ratio",
          {{"predicted_ratio", value},
           {"interval_low", low},
           {"interval_high", high},
           {"machine", "B200"},
           {"sm_mhz", 1850.0},
           {"validated", validated},
           {"validation", validated ? "validated on something" : "not validated; nearest: something"}}}});
    return *this;
  }
  Book& time(const std::string& arm, const std::string& c, double median, double spread = 0.01,
             const std::string& device = "NVIDIA B200") {
    add({{"type", "time"},
         {"arm", arm},
         {"case", c},
         {"device", device},
         {"us", {{"median", median}, {"p10", median * (1 - spread)}, {"p90", median * (1 + spread)}}}});
    return *this;
  }
  Judgement judged() const {
    return judge(e, records, e.accept.rules.empty() ? RuleSet{} : find_rules(e.accept.rules));
  }

  Experiment e;
  std::vector<json> records;
};

}  // namespace

TEST_CASE("an experiment's file says what it means") {
  const Experiment e = parse(kFile);
  CHECK(e.id == "077");
  CHECK(e.question == "Is it faster?");
  CHECK(!e.retrospective);
  CHECK(e.baseline.name == "baseline");
  CHECK(e.variants.at(0).set == std::vector<std::string>{"stages=3"});
  CHECK(e.accept.variant == "fast");
  CHECK(e.predicted.at("g2k1536") == 2.0);
  CHECK(e.hash.size() == 32);
  SUBCASE("what is written after the run is not part of what was registered") {
    const Experiment later = parse(kFile + "\n[after]\ninsight = \"It was not.\"\n");
    CHECK(later.insight == "It was not.");
    CHECK(parse(with(kFile, "2.0", "2.1")).hash != e.hash);
    CHECK(parse(kFile + "\n").hash == later.hash);
  }
}

TEST_CASE("an experiment's file with a mistake is refused with its line") {
  const auto message = [](const std::string& from, const std::string& to) {
    return message_of([&] { parse(with(kFile, from, to)); });
  };
  CHECK(message("question", "questoin").find("question is missing") != std::string::npos);
  CHECK(message("geomean = 1.5", "geomaen = 1.5").find("077-fast.toml:18: there is no key accept.geomaen") ==
        0);
  CHECK(message("\"It is.\"", "7").find("077-fast.toml:4: hypothesis.text must be text") == 0);
  CHECK(message("\"g2k4096\"]", "\"g2k4095\"]").find("g2k4095") != std::string::npos);
  CHECK(message("g2k4096 = 1.5", "g8k7168 = 1.5").find("g8k7168 is none of accept.cases") !=
        std::string::npos);
  CHECK(message("g2k4096 = 1.5", "g2k4096 = -1").find("a factor is above 0") != std::string::npos);
  CHECK(message("\"contest\"", "\"contset\"").find("no rule set 'contset'") != std::string::npos);
  CHECK(message("kernel = \"v0_baseline\"", "").find("either kernel, a rung, or peer") != std::string::npos);
  CHECK(message("{ stages = 3 }", "{ stages = 3.5 }").find("stages must be a whole number or a word") !=
        std::string::npos);
  CHECK(message("{ stages = 3 }", "{ stages = }").find("077-fast.toml:15") == 0);
  CHECK(message("name = \"fast\"", "name = \"baseline\"").find("two arms are called 'baseline'") !=
        std::string::npos);
}

TEST_CASE("verdicts by prediction") {
  const Experiment e = parse(kFile);
  Book book(e);
  SUBCASE("without a record") {
    CHECK(judge(e, {}, {}).verdict == Verdict::kNotRun);
    CHECK(book.judged().verdict == Verdict::kNotRun);
    CHECK(book.judged().why.find("has no record") != std::string::npos);
  }
  SUBCASE("of another text of the file") {
    book.valid().ratio("g2k1536", 2, 1.8, 2.2).ratio("g2k4096", 2, 1.8, 2.2);
    const Judgement j = judge(parse(with(kFile, "2.0", "2.1")), book.records, find_rules("contest"));
    CHECK(j.verdict == Verdict::kNotRun);
    CHECK(j.why.find("not what it was when it ran") != std::string::npos);
  }
  SUBCASE("accepted") {
    book.valid().ratio("g2k1536", 2, 1.8, 2.2).ratio("g2k4096", 1.9, 1.7, 2.1);
    const Judgement j = book.judged();
    CHECK(j.verdict == Verdict::kAccepted);
    CHECK(j.arms.at(0).geomean == doctest::Approx(std::sqrt(2 * 1.9)));
    CHECK(j.arms.at(0).factors.at(0).kind == Factor::Kind::kPredicted);
    CHECK(j.arms.at(0).factors.at(0).us == doctest::Approx(5));
    CHECK(j.why.find("predicted for B200 at 1850 MHz") != std::string::npos);
  }
  SUBCASE("undecided: the geometric mean's error holds the rule") {
    book.valid().ratio("g2k1536", 1.6, 1.4, 1.8).ratio("g2k4096", 1.6, 1.4, 1.8);
    CHECK(book.judged().verdict == Verdict::kUndecided);
  }
  SUBCASE("undecided: a case's error holds the least that it may be") {
    book.valid().ratio("g2k1536", 4, 3.8, 4.2).ratio("g2k4096", 0.95, 0.85, 1.05);
    CHECK(book.judged().verdict == Verdict::kUndecided);
  }
  SUBCASE("rejected by the mean") {
    book.valid().ratio("g2k1536", 1.1, 1.0, 1.2).ratio("g2k4096", 1.1, 1.0, 1.2);
    CHECK(book.judged().verdict == Verdict::kRejected);
  }
  SUBCASE("rejected by the worst case") {
    book.valid().ratio("g2k1536", 9, 8, 10).ratio("g2k4096", 0.8, 0.75, 0.85);
    CHECK(book.judged().verdict == Verdict::kRejected);
  }
  SUBCASE("what was never validated has twice the error") {
    book.valid().ratio("g2k1536", 2, 1.6, 2.2, false).ratio("g2k4096", 2, 1.6, 2.2, false);
    CHECK(book.judged().verdict == Verdict::kUndecided);  // 2 (1.6 / 2)^2 = 1.28
    CHECK(book.judged().arms.at(0).factors.at(0).low == doctest::Approx(1.28));
    CHECK(book.judged().why.find("not validated") != std::string::npos);
  }
  SUBCASE("the last prediction counts") {
    book.valid().ratio("g2k1536", 0.8, 0.7, 0.9).ratio("g2k4096", 0.8, 0.7, 0.9);
    book.ratio("g2k1536", 2, 1.8, 2.2).ratio("g2k4096", 2, 1.8, 2.2);
    CHECK(book.judged().verdict == Verdict::kAccepted);
  }
  SUBCASE("invalid: a wrong variant, however fast") {
    book.valid().valid("wrong", "fast").ratio("g2k1536", 2, 1.8, 2.2).ratio("g2k4096", 2, 1.8, 2.2);
    CHECK(book.judged().verdict == Verdict::kInvalid);
    CHECK(book.judged().why.find("12 elements are outside the tolerance") != std::string::npos);
  }
  SUBCASE("invalid: a wrong baseline") {
    book.valid().valid("fault", "baseline", "deadlock: ...\nmore").ratio("g2k1536", 2, 1.8, 2.2);
    CHECK(book.judged().verdict == Verdict::kInvalid);
    CHECK(book.judged().why == "'baseline' in g2k1536: deadlock: ...");
  }
  SUBCASE("invalid: no such plan") {
    book.valid().valid("illegal", "fast", "no M = 64");
    CHECK(book.judged().verdict == Verdict::kInvalid);
    CHECK(book.judged().why.find("no such plan can be") != std::string::npos);
  }
  SUBCASE("validity only: the model does not know the difference") {
    book.valid().ratio("g2k1536", 1, 0.95, 1.05).ratio("g2k4096", 1, 0.95, 1.05);
    CHECK(book.judged().verdict == Verdict::kValidityOnly);
    CHECK(book.judged().why.find("does not know the difference") != std::string::npos);
  }
  SUBCASE("validity only: a case without any time") {
    book.valid().ratio("g2k1536", 2, 1.8, 2.2);
    CHECK(book.judged().verdict == Verdict::kValidityOnly);
    CHECK(verdict_name(book.judged().verdict) == "VALIDITY ONLY");
  }
}

TEST_CASE("verdicts by measurement: predictions do not count where there are times of one device") {
  Book book(parse(kFile));
  book.valid().ratio("g2k1536", 0.5, 0.4, 0.6).ratio("g2k4096", 0.5, 0.4, 0.6);
  for (const char* c : {"g2k1536", "g2k4096"}) book.time("baseline", c, 20).time("fast", c, 10);
  Judgement j = book.judged();
  CHECK(j.verdict == Verdict::kAccepted);
  CHECK(j.arms.at(0).factors.at(0).kind == Factor::Kind::kMeasured);
  CHECK(j.arms.at(0).factors.at(0).low == doctest::Approx(20 * 0.99 / (10 * 1.01)));
  SUBCASE("a spread over the threshold decides nothing") {
    for (const char* c : {"g2k1536", "g2k4096"}) book.time("baseline", c, 16, 0.2).time("fast", c, 10, 0.2);
    CHECK(book.judged().verdict == Verdict::kUndecided);
  }
  SUBCASE("times of two devices are not compared") {
    book.time("fast", "g2k1536", 10, 0.01, "NVIDIA H200");
    CHECK(book.judged().arms.at(0).factors.at(0).kind == Factor::Kind::kPredicted);
  }
  SUBCASE("a wrong output has no time") {
    book.add({{"type", "time"}, {"arm", "fast"}, {"case", "g2k4096"}, {"error", "wrong"}});
    CHECK(book.judged().verdict == Verdict::kInvalid);
  }
}

TEST_CASE("a rule set forbids a knob, however fast it is") {
  Book book(parse(with(kFile, "{ stages = 3 }", "{ launch = \"streams\" }")));
  book.valid().ratio("g2k1536", 5, 4, 6).ratio("g2k4096", 5, 4, 6);
  CHECK(book.judged().verdict == Verdict::kRejected);
  CHECK(book.judged().why == "the rule set 'contest' forbids launch=streams");
  CHECK(judge(book.e, book.records, {}).verdict == Verdict::kAccepted);
}

TEST_CASE("an arm that is expected to be wrong is accepted when it is found so") {
  Book book(parse(with(kFile, "name = \"fast\"", "name = \"fast\"\nexpect = \"wrong\"")));
  book.valid();
  CHECK(book.judged().verdict == Verdict::kRejected);
  book.valid("wrong", "fast");
  CHECK(book.judged().verdict == Verdict::kAccepted);
}

TEST_CASE("only if the epilogue is over 10 %") {
  Book book(parse(kFile + "only_if = { quantity = \"predicted_epilogue_share\", at_least = 0.1 }\n"));
  book.valid().ratio("g2k1536", 2, 1.8, 2.2).ratio("g2k4096", 2, 1.8, 2.2);
  CHECK(book.judged().verdict == Verdict::kValidityOnly);
  for (const double share : {0.11, 0.09}) {
    for (const char* c : {"g2k1536", "g2k4096"})
      book.add({{"type", "prediction"},
                {"arm", "baseline"},
                {"case", c},
                {"prediction", {{"predicted_us", 10.0}}},
                {"quantities", {{"predicted_epilogue_share", share}}}});
    CHECK(book.judged().verdict == (share > 0.1 ? Verdict::kAccepted : Verdict::kRejected));
  }
}

TEST_CASE("claims are compared with what is computed") {
  Book book(
      parse(kFile +
            "claim = [ { quantity = \"machine_sms\", claimed = 192, within = 0.01 }, { quantity = \"waves\", "
            "claimed = 1.0 } ]\n"));
  CHECK(book.judged().verdict == Verdict::kNotRun);
  const Arm& arm = book.e.baseline;
  book.add({{"type", "prediction"},
            {"arm", "baseline"},
            {"case", "g2k1536"},
            {"quantities", quantities(arm, find_case("g2k1536"))}});
  const Judgement j = book.judged();
  CHECK(j.verdict == Verdict::kRejected);
  CHECK(j.why == "1 of 2 claims hold");
  CHECK(*j.claims.at(0).value == 148);
  CHECK(!j.claims.at(0).holds);
  CHECK(j.claims.at(1).holds);
}

TEST_CASE(
    "pages and scorecard are functions of file and records; measured and predicted never share a table") {
  Book book(parse(kFile));
  book.valid().ratio("g2k1536", 2, 1.8, 2.2).ratio("g2k4096", 1.9, 1.7, 2.1);
  const std::string page = experiment_page(book.e, book.judged(), book.records);
  CHECK(page == experiment_page(book.e, book.judged(), book.records));
  CHECK(page.find("**ACCEPTED**, by prediction") != std::string::npos);
  CHECK(page.find("measured us") == std::string::npos);
  for (const char* c : {"g2k1536", "g2k4096"}) book.time("baseline", c, 20).time("fast", c, 10);
  const std::string measured = experiment_page(book.e, book.judged(), book.records);
  CHECK(measured.find("predicted us") == std::string::npos);
  CHECK(measured.find("**ACCEPTED**, measured") != std::string::npos);
  const std::string card = scorecard({book.e}, {book.judged()});
  CHECK(card.find("| ours, written before | 2 | 1.155 |") != std::string::npos);  // sqrt(2 / 2 * 2 / 1.5)
}

TEST_CASE("the panel's weights are 35, 25, 20 and 20 %") {
  CHECK(PanelScore{"", "", 8.5, 9.5, 8, 9, 8.7}.weighted() == doctest::Approx(8.75));
  CHECK(PanelScore{"", "", 2, 8, 9, 3, 4.2}.weighted() == doctest::Approx(5.1));  // the minutes say 4.2
}

TEST_CASE("verify tells a prediction that was changed after its run") {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("fp4lab-verify-{}", getpid());
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "077-fast.toml").string();
  const auto git = [&](const std::string& what) {
    return run_shell(
               fmt::format("cd {} && git -c user.name=t -c user.email=t@t {} 2>&1", folder.string(), what))
        .status;
  };
  const auto save = [&](const std::string& text) { std::ofstream(path) << text; };
  save(kFile);
  const auto ran_at = [&](const char* date) {
    const Experiment e = read_experiment(path);
    return std::vector<json>{{{"type", "registration"}, {"hash", e.hash}, {"text", e.text}, {"date", date}}};
  };
  REQUIRE(git("init -q") == 0);
  CHECK(verify(read_experiment(path), {}).state == Registration::State::kNotRun);
  const auto records = ran_at("2030-01-01T00:00:00Z");
  CHECK(verify(read_experiment(path), records).state == Registration::State::kNotCommitted);
  REQUIRE(git("add . && git -c user.name=t -c user.email=t@t commit -q -m x") == 0);
  CHECK(verify(read_experiment(path), records).state == Registration::State::kBefore);
  CHECK(verify(read_experiment(path), records).good());
  CHECK(verify(read_experiment(path), ran_at("2001-01-01T00:00:00Z")).state == Registration::State::kAfter);
  save(kFile + "[after]\ninsight = \"so\"\n");
  CHECK(verify(read_experiment(path), records).good());
  save(with(kFile, "g2k1536 = 2.0", "g2k1536 = 1.1"));
  const Registration changed = verify(read_experiment(path), records);
  CHECK(!changed.good());
  REQUIRE(changed.changed.size() == 2);
  CHECK(changed.changed[0] == "- predicted = { g2k1536 = 2.0, g2k4096 = 1.5 }");
  CHECK(changed.changed[1] == "+ predicted = { g2k1536 = 1.1, g2k4096 = 1.5 }");
  std::filesystem::remove_all(folder);
}

TEST_CASE("an experiment runs on the emulator, keeps what it found, and is told when its file changes") {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("fp4lab-experiment-{}", getpid());
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "077-small.toml").string();
  std::string text = with(kFile, "predicted = { g2k1536 = 2.0, g2k4096 = 1.5 }", "");
  text = with(text, "[\"g2k1536\", \"g2k4096\"]", "[\"group:100/128/512\"]");
  std::ofstream(path) << text;
  const Experiment e = read_experiment(path);
  run_experiment(e, {.device = "emulator"});
  const Judgement j = judge(e);
  CHECK(j.verdict != Verdict::kNotRun);
  CHECK(j.verdict != Verdict::kInvalid);
  CHECK(j.arms.at(0).factors.at(0).kind == Factor::Kind::kPredicted);
  const auto size = std::filesystem::file_size(e.records_path());
  run_experiment(e, {.device = "emulator"});
  CHECK(std::filesystem::file_size(e.records_path()) == size);  // nothing was done again
  run_experiment(e, {.device = "emulator", .again = true});
  CHECK(judge(e).verdict == j.verdict);
  std::ofstream(path) << with(text, "stages = 3", "stages = 2");
  CHECK(judge(read_experiment(path)).verdict == Verdict::kNotRun);
  std::filesystem::remove_all(folder);
}
