// Files of results as a user meets them: what is kept, what is refused, what is told.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "../command.h"
#include "fp4lab/json_text.h"

namespace {

namespace fs = std::filesystem;

fs::path binary() { return fs::read_symlink("/proc/self/exe").parent_path() / "fp4lab"; }

Outcome run_fp4lab(const std::string& arguments, const std::string& environment = "") {
  return run_command(environment + " '" + binary().string() + "' " + arguments + " 2>&1");
}

struct Scratch {
  fs::path folder = fs::temp_directory_path() / ("fp4lab-results-" + std::to_string(getpid()));
  Scratch() { fs::create_directories(folder); }
  ~Scratch() { fs::remove_all(folder); }
  std::string file(const char* name) const { return (folder / name).string(); }
};

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::vector<nlohmann::json> all;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) all.push_back(fp4lab::parse_json(line));
  return all;
}

std::set<std::string> points_of(const std::vector<nlohmann::json>& records) {
  std::set<std::string> all;
  for (const auto& r : records) all.insert(r.at("point"));
  return all;
}

size_t widest(const std::string& text) {
  size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
  return most;
}

const std::string kSweep =
    "sweep group --device emulator --kernel v1,v2 --stages 2..3 --block-k 256,512 --case group:100/128/512";

}  // namespace

TEST_CASE("results: launched once, in a loop, on streams or as a graph, a plan counts the same") {
  const Scratch scratch;
  const Outcome o = run_fp4lab(
      "sweep group --device emulator --case group:128,128,128,128/256/512 --kernel v2 --launch "
      "one,loop,streams,graph "
      "--stages 3 --json " +
      scratch.file("s.json"));
  INFO(o.text);
  CHECK(o.status == 0);
  std::map<std::string, nlohmann::json> by_launch;
  for (const auto& r : lines_of(scratch.file("s.json")))
    by_launch[r.at("knobs").at("launch")] = r.at("emulated");
  REQUIRE(by_launch.size() == 4);
  const auto& one = by_launch.at("one");
  CHECK(one.at("launches") == 1);
  for (const char* launch : {"loop", "streams", "graph"}) {
    CAPTURE(launch);
    const auto& e = by_launch.at(launch);
    CHECK(e.at("launches") == 4);
    CHECK(e.at("mma") == one.at("mma"));
    CHECK(e.at("tma_bytes") == one.at("tma_bytes"));
    CHECK(e.at("mma").get<int>() == 4 * 2 * 2 * 4);  // groups, tiles, stages of K = 256, MMAs of K = 64
  }
}

TEST_CASE("results: an existing file is refused, resumed or replaced, and refusals leave it alone") {
  const Scratch scratch;
  const std::string file = scratch.file("s.json"), json = " --json " + file;
  REQUIRE(run_fp4lab(kSweep + json).status == 0);
  const std::string before = text_of(file);
  const auto records = lines_of(file);
  REQUIRE(records.size() >= 6);
  for (const char* field : {"date", "commit", "command", "device", "point", "knobs", "placement", "passed"})
    CHECK(records[0].contains(field));
  const std::string refused[] = {kSweep + json,
                                 kSweep + json + " --force --kernel nobody",
                                 kSweep + json + " --force --stages 40",
                                 kSweep + json + " --force --resume",
                                 "run group --device emulator --case group:64/128/256" + json,
                                 "bench group --device emulator --force" + json,
                                 "mutate v2 group:64/128/256 --force --rule nosuch" + json,
                                 "run group --device emulator --case group:64/128/256 --schedules 0" + json};
  for (const std::string& command : refused) {
    CAPTURE(command);
    const Outcome o = run_fp4lab(command);
    INFO(o.text);
    CHECK(o.status == 2);
    CHECK(text_of(file) == before);
  }
  CHECK(run_fp4lab(kSweep + json).says("--resume continues it, --force overwrites it"));
  CHECK(run_fp4lab("bench group --device emulator --json " + scratch.file("new.json")).status == 2);
  CHECK_FALSE(fs::exists(scratch.file("new.json")));

  // All points again: in the table, and each once in the file.
  const Outcome again = run_fp4lab(kSweep + json + " --resume");
  INFO(again.text);
  CHECK(again.status == 0);
  CHECK(again.says("points already in " + file));
  CHECK(again.says("v1_pipeline"));
  CHECK(text_of(file) == before);
  CHECK(run_fp4lab(kSweep + json + " --force").status == 0);
  CHECK(points_of(lines_of(file)) == points_of(records));
}

TEST_CASE("results: the output is never a file that the command reads") {
  const Scratch scratch;
  const std::string ptx = scratch.file("k.ptx");
  REQUIRE(run_fp4lab("ptx v2 group:64/128/256 > " + ptx).status == 0);
  const std::string before = text_of(ptx),
                    run = "run group --device emulator --kernel v2 --case group:64/128/256 --ptx " + ptx;
  fs::create_symlink(ptx, scratch.file("link"));
  for (const std::string& output : {" --json " + ptx, " --force --json " + ptx, " --resume --json " + ptx,
                                    " --force --json " + scratch.file("link"), " --trace " + ptx}) {
    CAPTURE(output);
    CHECK(run_fp4lab(run + output).status == 2);
    CHECK(text_of(ptx) == before);
  }
}

TEST_CASE("results: two sweeps at once fill one file, each point once") {
  const Scratch scratch;
  const std::string file = scratch.file("s.json"), alone = scratch.file("alone.json");
  REQUIRE(run_fp4lab(kSweep + " --json " + alone).status == 0);
  const std::string sweep = "'" + binary().string() + "' " + kSweep + " --resume --json " + file;
  const Outcome both =
      run_command(sweep + " >/dev/null 2>&1 & " + sweep + " 2>&1; a=$?; wait $!; exit $((a + $?))");
  INFO(both.text);
  CHECK(both.status == 0);
  const auto records = lines_of(file);
  CHECK(records.size() == points_of(records).size());
  CHECK(points_of(records) == points_of(lines_of(alone)));
}

// 300 points, of which none needs a compiler: the shapes differ, the kernel is one.
TEST_CASE("results: a sweep whose processes are killed again and again has each point once") {
  const Scratch scratch;
  constexpr int kPoints = 300;
  std::string cases = "group:1/128/256";
  for (int m = 2; m <= kPoints; ++m) cases += ",group:" + std::to_string(m) + "/128/256";
  const std::string file = scratch.file("s.json"),
                    kernel = "sweep group --device emulator --kernel v2 --case ";
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(run_fp4lab(kernel + "group:1/128/256").status == 0);
  const auto life = static_cast<unsigned>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin)
          .count());
  const auto start = [&] {
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid) return pid;
    const std::string command = "exec '" + binary().string() + "' " + kernel + cases + " --resume --json " +
                                file + " > /dev/null 2>&1";
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  };
  const auto end_of = [](pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  };
  size_t before = 0;
  unsigned random = 7;
  for (int round = 0; round < 10; ++round) {
    const pid_t three[] = {start(), start(), start()};
    random = random * 1103515245 + 12345;
    usleep(life / 2 + random / 256 % (2 * life));
    for (const pid_t pid : three) kill(pid, SIGKILL);
    for (const pid_t pid : three) {
      const int status = end_of(pid);
      CHECK((status == 128 + SIGKILL || status == 0));  // one that was done already
    }
    const size_t now = fs::exists(file) ? fs::file_size(file) : 0;
    CHECK(now >= before);
    before = now;
  }
  const pid_t three[] = {start(), start(), start()};
  for (const pid_t pid : three) CHECK(end_of(pid) == 0);
  const auto records = lines_of(file);
  CHECK(records.size() == kPoints);
  CHECK(points_of(records).size() == kPoints);
}

TEST_CASE("results: a search says what it found and what stopped it, and goes on as it would have gone") {
  const Scratch scratch;
  const std::string whole = scratch.file("whole.json"), parts = scratch.file("parts.json");
  const std::string local = kSweep + " --search local --search-seed 3";
  const auto best = [](const Outcome& o) {
    const size_t at = o.text.find("best predicted");
    return at == std::string::npos ? "" : o.text.substr(at, o.text.find(';', at) - at);
  };
  const Outcome all = run_fp4lab(local + " --points 6 --json " + whole);
  INFO(all.text);
  CHECK(all.status == 0);
  CHECK(all.says(
      "search local, seed 3: for the smallest predicted time; each point that is tried is verified"));
  CHECK(all.says("6 of 8 points tried, stopped by: --points 6"));
  REQUIRE(lines_of(whole).size() == 6);
  for (const auto& r : lines_of(whole)) CHECK(r.at("passed") == true);
  CHECK(run_fp4lab(local + " --points 2 --json " + parts).status == 0);
  CHECK(lines_of(parts).size() == 2);
  const Outcome resumed = run_fp4lab(local + " --points 6 --resume --json " + parts);
  CHECK(best(resumed) == best(all));
  CHECK(!best(all).empty());
  CHECK(points_of(lines_of(parts)) == points_of(lines_of(whole)));

  // The model's order: the first is the grid's best, and a third of the points is the default.
  const Outcome grid = run_fp4lab(kSweep + " --points 100");
  CHECK(grid.says("8 of 8 points tried, stopped by: every point was tried"));
  const Outcome halving = run_fp4lab(kSweep + " --search halving");
  INFO(halving.text);
  CHECK(halving.says("3 of 8 points tried, stopped by: --points 3"));
  const auto us = [&](const Outcome& o) { return best(o).substr(0, best(o).find(" us")); };
  CHECK(us(halving) == us(grid));
  CHECK(run_fp4lab(kSweep + " --search random --patience 1").says("stopped by: --patience 1"));
  CHECK(run_fp4lab(kSweep + " --search random --seconds 1e-9")
            .says("0 of 8 points tried, stopped by: --seconds 1e-09"));

  // Shards of a random search share the points out; they are joined as a grid's are.
  for (const char* shard : {"1/2", "2/2"})
    CHECK(run_fp4lab(kSweep + " --search random --points 4 --json " + scratch.file("r.json") + " --shard " +
                     shard)
              .status == 0);
  CHECK(run_fp4lab("merge " + scratch.file("r.1-of-2.json") + " " + scratch.file("r.2-of-2.json") +
                   " --json " + scratch.file("r.json"))
            .status == 0);
  CHECK(points_of(lines_of(scratch.file("r.json"))).size() == 8);

  for (const auto& [option, said] :
       {std::pair("--search best", "best"), std::pair("--points 0", "--points"),
        std::pair("--seconds -1", "--seconds -1"), std::pair("--patience x", "--patience"),
        std::pair("--search-seed -3", "--search-seed")}) {
    CAPTURE(option);
    const Outcome o = run_fp4lab(kSweep + " " + option + " --json " + scratch.file("bad.json"));
    INFO(o.text);
    CHECK(o.status == 2);
    CHECK(o.says(said));
    CHECK_FALSE(fs::exists(scratch.file("bad.json")));
  }
}

TEST_CASE("results: reports are filtered, sorted and cut, whatever command left the records") {
  const Scratch scratch;
  const std::string file = scratch.file("s.json");
  REQUIRE(run_fp4lab(kSweep + " --json " + file).status == 0);
  const auto rows = [&](const std::string& options) {
    const Outcome o = run_fp4lab("report --csv " + file + " " + options);
    INFO(o.text);
    CHECK(o.status == 0);
    return std::count(o.text.begin(), o.text.end(), '\n') - 1;
  };
  CHECK(rows("") == 8);
  CHECK(rows("--where kernel=v2") == 4);
  CHECK(rows("--where kernel=v2 --where stages=3") == 2);
  CHECK(rows("--where case=group:100/128/512 --top 3 --sort predicted") == 3);
  for (const auto& [options, said] :
       {std::pair("--where stage=3", "no record has 'stage'; did you mean stages?"),
        std::pair("--where stages=9", "no record matches; stages is 2, 3"),
        std::pair("--where stages", "expected NAME=VALUE"), std::pair("--sort speed", "--sort speed"),
        std::pair("--top 0", "--top")}) {
    CAPTURE(options);
    const Outcome o = run_fp4lab("report " + file + " " + options);
    INFO(o.text);
    CHECK(o.status == 2);
    CHECK(o.says(said));
  }
  // Of bench: its rows by time, the peer stays what ratios are against.
  std::ofstream(scratch.file("bench"))
      << R"({"type":"time","case":"g2k1536","kernel":"v2_x","peer":false,"how":"128x128x256 stages=2","launch":"stream","passed":true,"us":{"median":9.0},"flops":1e9,"bytes":1e6})"
      << "\n"
      << R"({"type":"time","case":"g2k1536","kernel":"v3_x","peer":false,"how":"128x128x256 stages=3","launch":"stream","passed":true,"us":{"median":7.0},"flops":1e9,"bytes":1e6})"
      << "\n"
      << R"({"type":"time","case":"g2k1536","kernel":"cublas-fp16","peer":true,"how":"heuristic 1","launch":"graph","passed":true,"us":{"median":14.0},"flops":1e9,"bytes":1e6})"
      << "\n";
  const std::string report = "report --csv " + scratch.file("bench");
  const Outcome sorted = run_fp4lab(report + " --sort time --top 1");
  INFO(sorted.text);
  CHECK(sorted.says("v3_x"));
  CHECK(sorted.says("2.00x"));
  CHECK_FALSE(sorted.says("v2_x"));
  const Outcome chosen = run_fp4lab(report + " --where stages=2");
  CHECK((chosen.says("v2_x") && !chosen.says("v3_x") && !chosen.says("g2k1536,cublas")));
  CHECK(run_fp4lab(report + " --sort waves").says("records of bench are sorted by time or order"));
}

TEST_CASE("results: shards are joined to the whole") {
  const Scratch scratch;
  const std::string file = scratch.file("s.json"), one = scratch.file("s.1-of-2.json"),
                    two = scratch.file("s.2-of-2.json");
  REQUIRE(run_fp4lab(kSweep + " --json " + file).status == 0);
  const auto whole = points_of(lines_of(file));
  CHECK(run_fp4lab(kSweep + " --json " + file + " --shard 1/2").status == 0);
  const Outcome half = run_fp4lab("merge " + one + " --json " + scratch.file("half.json"));
  CHECK(half.status == 1);
  CHECK(half.says("no record is of shard 2/2"));
  CHECK(run_fp4lab(kSweep + " --json " + file + " --shard 2/2").status == 0);
  const std::string joined = scratch.file("joined.json");
  const Outcome o = run_fp4lab("merge " + one + " " + two + " --json " + joined);
  INFO(o.text);
  CHECK(o.status == 0);
  CHECK(points_of(lines_of(joined)) == whole);
  CHECK(lines_of(joined).size() == whole.size());
  CHECK(run_fp4lab("merge " + one + " --json " + joined).status == 2);
  CHECK(run_fp4lab("merge " + one + " --force --json " + one).status == 2);
  CHECK(run_fp4lab(kSweep + " --shard 3/2 --json " + file).says("i from 1 to n"));
  CHECK(run_fp4lab(kSweep + " --shard 1/2").says("needs --json"));
}

TEST_CASE("results: Ctrl-C tells what there is, and the file has it") {
  const Scratch scratch;
  const std::string file = scratch.file("s.json"), out = scratch.file("out");
  const std::string sweep =
      "sweep group --device emulator --kernel v1,v2 --stages 1..6 --dist full --case group:500/1024/4096";
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (!pid) {
    execl("/bin/sh", "sh", "-c",
          ("exec '" + binary().string() + "' " + sweep + " --json " + file + " > " + out + " 2>&1").c_str(),
          nullptr);
    _exit(127);
  }
  for (int i = 0; i < 3000 && (!fs::exists(file) || fs::file_size(file) == 0); ++i) usleep(10000);
  kill(pid, SIGINT);
  int status = 0;
  waitpid(pid, &status, 0);
  const std::string said = text_of(out);
  INFO(said);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  CHECK(said.find("PASS") != std::string::npos);
  CHECK(said.find("points done; --resume continues " + file) != std::string::npos);
  CHECK(lines_of(file).size() >= 1);
}

TEST_CASE("results: mutants are recorded and resumed") {
  const Scratch scratch;
  const std::string mutate =
      "mutate group --case group:64/128/256 --kernel v0 --own-seeds 1 --seeds 1 --rule expect_tx --json " +
      scratch.file("m.json");
  const Outcome first = run_fp4lab(mutate);
  INFO(first.text);
  REQUIRE(first.status == 0);
  const auto records = lines_of(scratch.file("m.json"));
  REQUIRE(!records.empty());
  CHECK(records[0].at("type") == "mutant");
  CHECK(points_of(records).size() == records.size());
  const Outcome again = run_fp4lab(mutate + " --resume");
  CHECK(again.says("mutants already in"));
  CHECK(again.text.substr(again.text.find("v0_baseline")) ==
        first.text.substr(first.text.find("v0_baseline")));
  CHECK(lines_of(scratch.file("m.json")).size() == records.size());
  CHECK(run_fp4lab("report " + scratch.file("m.json")).says("expect_tx"));
}

TEST_CASE("results: line numbers are those of the file that 'ptx' writes") {
  const Scratch scratch;
  const std::string ptx = scratch.file("k.ptx"), what = " --case group:100/128/1024 --kernel v2";
  REQUIRE(run_fp4lab("ptx group" + what + " > " + ptx).status == 0);
  std::vector<std::string> lines;
  std::ifstream in(ptx);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  CHECK(lines.back().starts_with("// fp4lab plan: "));
  size_t wait = 0;  // the last wait: with it a line that is met once
  for (size_t i = 0; i < lines.size(); ++i)
    if (lines[i].find("mbarrier.try_wait") != std::string::npos) wait = i + 1;
  REQUIRE(wait);
  const std::string number = std::to_string(wait);
  // Of the compiled kernel and of the file, by every command.
  for (const std::string& file : {std::string(), " --ptx " + ptx}) {
    const Outcome stop = run_fp4lab("run group --device emulator" + what + file + " --stop-at " + number);
    INFO(stop.text);
    CHECK(stop.says(":" + number + "  mbarrier.try_wait"));
  }
  const Outcome mutants =
      run_fp4lab("mutate group" + what + " --own-seeds 1 --seeds 1 -v --rule 'mbarrier wait removed'");
  INFO(mutants.text);
  CHECK(mutants.says("\n" + std::string(5 - std::min<size_t>(5, number.size()), ' ') + number +
                     "  mbarrier wait removed"));
  const Outcome profile = run_fp4lab("profile group" + what);
  INFO(profile.text);
  size_t named = 0;
  for (size_t at = 0; (at = profile.text.find(".ptx:", at)) != std::string::npos; ++named) {
    at += 5;
    const size_t line = std::stoul(profile.text.substr(at));
    REQUIRE(line <= lines.size());
    const std::string said = profile.text.substr(at, profile.text.find('\n', at) - at);
    if (said.find("mbarrier.try_wait") != std::string::npos)
      CHECK(lines[line - 1].find("mbarrier.try_wait") != std::string::npos);
  }
  CHECK(named > 0);
}

TEST_CASE("results: tables fit 80 columns, and --csv has everything") {
  const Scratch scratch;
  const std::string file = scratch.file("s.json"), narrow = "COLUMNS=80";
  for (const std::string& command :
       {std::string("run group --device emulator --case group:100/128/512 --kernel v0,v1,v2"),
        kSweep + " --json " + file, std::string("cases"), std::string("kernels"), std::string("sol"),
        "report " + file, std::string("profile v2 group:100/128/512"), std::string("plan g2k1536")}) {
    CAPTURE(command);
    const Outcome o = run_fp4lab(command, narrow);
    INFO(o.text);
    CHECK(o.status == 0);
    CHECK(widest(o.text) <= (command.starts_with("profile") || command.starts_with("plan") ? 120 : 80));
  }
  // Also of records that two commits left at two times.
  auto records = lines_of(file);
  records[0]["date"] = "2025-01-01T00:00:00Z", records[0]["commit"] = std::string(40, 'a') + ", modified";
  std::ofstream two_commits(scratch.file("two.json"));
  for (const auto& record : records) two_commits << fp4lab::json_text(record) << "\n";
  two_commits.close();
  const Outcome two = run_fp4lab("report " + scratch.file("two.json"), narrow);
  INFO(two.text);
  CHECK((two.status == 0 && two.says("2025-01-01T00:00:00Z to ") &&
         two.says(", commit aaaaaaaaaaaa, modified\n")));
  CHECK(widest(two.text) <= 80);
  const Outcome csv = run_fp4lab("report --csv " + file, narrow);
  CHECK(csv.text.find("device,") == 0);
  CHECK(csv.says("M instructions"));
  std::istringstream lines(csv.text);
  size_t rows = 0, commas = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    const auto here = size_t(std::count(line.begin(), line.end(), ','));
    if (rows) CHECK(here == commas);
    commas = here;
  }
  CHECK(rows == lines_of(file).size() + 1);
  // Swept knobs are columns; what all points have stands above.
  const Outcome sweep = run_fp4lab("report " + file);
  INFO(sweep.text);
  CHECK(sweep.says("kernel"));
  CHECK(sweep.says("stages"));
  CHECK(sweep.says("mma_n=128"));
  CHECK_FALSE(sweep.says("stages="));
}

TEST_CASE("results: reports of files that have none say so") {
  const Scratch scratch;
  std::ofstream(scratch.file("empty"));
  std::ofstream(scratch.file("sweep"))
      << R"({"type":"sweep","case":"g2k1536","kernel":"v2","plan":"128x128x256 stages=2","passed":true})"
      << "\n";
  CHECK(run_fp4lab("report " + scratch.file("empty")).status == 2);
  CHECK(run_fp4lab("report " + scratch.file("sweep")).status == 0);
  const Outcome bench = run_fp4lab("bench --report " + scratch.file("sweep"));
  CHECK(bench.status == 2);
  CHECK(bench.says("fp4lab report"));
}
