// The commands as a user types them: exit status and what is said.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "../command.h"
#include "../skip.h"
#include "fp4lab/json_text.h"

namespace {

namespace fs = std::filesystem;

fs::path binary() { return fs::read_symlink("/proc/self/exe").parent_path() / "fp4lab"; }

Outcome run_fp4lab(const std::string& arguments, const std::string& environment = "") {
  const std::string command = environment + " '" + binary().string() + "' " + arguments + " 2>&1";
  return run_command(command);
}

struct Scratch {
  fs::path folder = fs::temp_directory_path() / ("fp4lab-cli-" + std::to_string(getpid()));
  Scratch() { fs::create_directories(folder); }
  ~Scratch() { fs::remove_all(folder); }
  std::string file(const char* name) const { return (folder / name).string(); }
};

constexpr const char* kSmall = "group:100/128/512";

}  // namespace

TEST_CASE("command line: a run passes and says so") {
  const Scratch scratch;
  const Outcome o =
      run_fp4lab(std::string("run group --kernel v2 --dist moderate --device emulator --case ") + kSmall +
                 " --json " + scratch.file("r.json"));
  INFO(o.text);
  CHECK(o.status == 0);
  CHECK(o.says("PASS"));
  std::ifstream file(scratch.file("r.json"));
  std::string line;
  REQUIRE(std::getline(file, line));
  const auto record = fp4lab::parse_json(line);
  CHECK(record.at("passed") == true);
  CHECK(record.at("bit_equal_share") == 1.0);
  CHECK(record.at("emulated").at("warp_instructions") > 1000);
}

TEST_CASE("command line: bad input is said with place and values, and the exit status is not 0") {
  struct Bad {
    const char *arguments, *says;
  };
  for (const Bad& bad :
       {Bad{"run group --case nope", "no case \"nope\""},
        Bad{"run group --case group:64/128/100", "K = 100"},
        Bad{"run group --case group:64/100/256", "N = 100"},
        Bad{"run group --case group:0/128/256", "M = 0"},
        Bad{"run triple", "triple"},
        Bad{"run group --nope 3", "run has no option --nope"},
        Bad{"emulate --arch sm_90a -- /bin/true", "emulate has no option --arch"},
        Bad{"emulate --seed -1 -- /bin/true", "'-1' is not a whole number from 0 on"},
        Bad{"emulate --sms 0 -- /bin/true", "'0' is not a whole number from 1 on"},
        Bad{"emulate -- /tmp", "/tmp is a folder, not a program"},
        Bad{"run group --kernel v99", "v2_warp_specialized"},
        Bad{"run group --dist odd", "moderate"},
        Bad{"run group --case g2k1536 --set stages=99", "232448"},
        Bad{"run group --case g2k1536 --set stagse=9", "stagse"},
        Bad{"run group --case g2k1536 --ptx /nonexistent.ptx", "No such file"},
        Bad{"run dual --case g2k1536", "is a group GEMM"},
        Bad{"run group --device tpu --case g2k1536", "tpu"},
        Bad{"run group --case group:64/128/256 --json /dev/full", "No space left"},
        Bad{"run group --case group:64/128/256 --json /nonexistent/x", "No such file"},
        Bad{"run group --case group:64/128/256 --json /dev/full", "PASS"},  // what was computed still shows
        Bad{"run group --case group:64/128/256 --schedules 0", "--schedules"},
        Bad{"run group --case group:64/128/256 --seed -1", "'-1' is not a whole number from 0 on"},
        Bad{"run group --case group:64/128/256 --seed 99999999999999999999999",
            "is more than 18446744073709551615"},
        Bad{"run group --case group:64/128/256 --stop-at 4294967296", "from 1 to 4294967295"},
        Bad{"bench group --sets 0", "from 1 to 1000"},
        Bad{"mutate v2 group:64/128/256 --limit -3", "'-3' is not a whole number"},
        Bad{"run group --case group:64/128/256 --set stages=2 --set stages=3", "knob stages is set twice"},
        Bad{"sweep group --case group:64/128/256 --kernel v2 --set stages=2 --stages 1..2",
            "knob stages is set twice"},
        Bad{"run group --case group:64/128/256 --set warpgroups=2", "is a knob of the sm_90a kernels"},
        Bad{"run group --case group:64/128/256 --set stagse=2", "did you mean stages?"},
        Bad{"run group --case g8k716", "did you mean g8k7168?"},
        Bad{"run group --case g2k1536 --kernel v2_warp_specialised", "did you mean v2_warp_specialized?"},
        Bad{"run group --dist modrate", "did you mean moderate?"},
        Bad{"run gruop --case g2k1536", "did you mean group?"},
        Bad{"swep group", "did you mean sweep?"},
        Bad{"help swep", "did you mean sweep?"},
        Bad{"run group --kernal v2", "did you mean --kernel?"},
        Bad{"mutate v2 group:64/128/256 --rule nosuch", "no rule contains this"},
        Bad{"smem v0 group:64/128/512 --mma 999", "no launch has reached product 999 of CTA 0"},
        Bad{"smem v0 group:64/128/512 --rows 3 1", "the first is greater than the last"},
        Bad{"run group --device emulator --case group:64/128/512 --stop-at 99999",
            "no warp has reached that PTX line"},
        Bad{"run group --device emulator --case group:64/128/512 --watch foo",
            "watch foo: there was no access"},
        Bad{"run group --device emulator --case group:64/128/512 --trace /dev/full",
            "trace /dev/full: No space left on device"},
        Bad{"run group --device emulator --case group:64/128/512 --trace /dev/full", "1 of 1 passed"},
        Bad{"sweep group --device emulator --case group:64/128/512 --kernel v2 --stages 40",
            "no point of this sweep is legal"},
        Bad{"profile --kernel v2", "no case given"},
        Bad{"profile dual --case g2k1536", "is a group GEMM, not dual"},
        Bad{"plan v2 g2k1536 v3", "the case is g2k1536 and the kernel v2 already"},
        Bad{"run group --arch sm_80", "sm_90a"},
        Bad{"frobnicate", "no command 'frobnicate'"},
        Bad{"explain --tile 64", "expected MxNxK"},
        Bad{"sweep group --case g2k1536 --stages 5..x", "5..x"},
        Bad{"sweep group --case g2k1536 --device emulator --sort time", "only a GPU has times"},
        Bad{"sweep group --case g2k1536 --sort odd", "order, predicted, time, instructions"},
        Bad{"cases triple", "triple"}}) {
    CAPTURE(bad.arguments);
    const Outcome o = run_fp4lab(bad.arguments);
    INFO(o.text);
    CHECK(o.status == 2);
    const std::string says = bad.says;
    const size_t bar = says.find('|');
    CHECK((o.says(says.substr(0, bar)) || (bar != std::string::npos && o.says(says.substr(bar + 1)))));
  }
}

TEST_CASE("command line: no driver, no cache, no NVRTC") {
  const Scratch scratch;
  const std::string run = std::string("run group --kernel v0 --case ") + kSmall;
  if (const Outcome o = run_fp4lab(run + " --device cuda"); o.status != 0) {  // a machine without a GPU
    INFO(o.text);
    CHECK(o.status == 2);
    CHECK(o.says("libcuda.so.1"));
  }
  std::ofstream(scratch.file("plain")) << "a file where a folder should be";
  const Outcome uncached =
      run_fp4lab(run + " --device emulator", "FP4LAB_CACHE=" + scratch.file("plain") + "/cache");
  INFO(uncached.text);
  CHECK(uncached.status == 0);
  CHECK(uncached.says("warning: compiling without a cache"));
}

TEST_CASE("command line: an edited PTX file runs; a typo gets a caret") {
  const Scratch scratch;
  const std::string ptx = scratch.file("k.ptx");
  REQUIRE(run_fp4lab(std::string("ptx v2 ") + kSmall + " > " + ptx).status == 0);
  const std::string run =
      std::string("run group --kernel v2 --device emulator --case ") + kSmall + " --ptx " + ptx;
  const Outcome plain = run_fp4lab(run);
  INFO(plain.text);
  CHECK(plain.status == 0);
  const Outcome other_plan = run_fp4lab(run + " --set stages=2");
  INFO(other_plan.text);
  CHECK(other_plan.status == 1);
  CHECK(other_plan.says("was made for the plan"));

  const auto edit = [&](const std::string& from, const std::string& to) {
    std::ifstream in(ptx);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    std::ofstream(ptx) << text;
  };
  edit("mbarrier.try_wait.parity", "mbarrier.try_wiat.parity");
  const Outcome typo = run_fp4lab(run);
  INFO(typo.text);
  CHECK(typo.status == 1);
  CHECK(typo.says("try_wiat"));
  CHECK(typo.says("^"));
  std::filesystem::resize_file(ptx, 2500);
  const Outcome cut = run_fp4lab(run);
  INFO(cut.text);
  CHECK(cut.status == 1);
  CHECK(cut.says("FAIL"));
}

TEST_CASE("command line: any program's launches are looked into") {
  const std::string program =
      " -- '" + binary().string() + "' run group --kernel v0 --device emulator --case " + kSmall;
  const Outcome seen =
      run_fp4lab("emulate --profile --stop-at 99999 --tile 0,A,0,0,0,0 --kernel gemm_v0" + program);
  INFO(seen.text);
  CHECK(seen.status == 2);  // there is no answer to --stop-at
  CHECK(seen.says("launch 1, kernel group_gemm_v0_baseline"));
  CHECK(seen.says("profile of group_gemm_v0_baseline"));
  CHECK(seen.says("tcgen05.mma 0 of CTA (0,0,0)"));
  CHECK(seen.says("stop-at 99999: no warp has reached that PTX line"));
  const Outcome none = run_fp4lab("emulate --profile --kernel nothing" + program);
  CHECK(none.status == 2);
  CHECK(none.says("none of 1 launches was of a kernel whose name contains 'nothing'"));
  CHECK_FALSE(none.says("profile of"));
  const Outcome refused = run_fp4lab("emulate --tile 0,C,0,0,0,0" + program);
  CHECK(refused.status != 0);
  CHECK(refused.says("'0,C,0,0,0,0' is not MMA,A|B|D,ROW,ROW,COLUMN,COLUMN"));
  CHECK(run_fp4lab("emulate --stop-at line" + program).status != 0);
}

TEST_CASE("command line: any program's PTX is dumped, replaced, recorded and mutated") {
  const Scratch scratch;
  const std::string program = "-- '" + binary().string() +
                              "' run group --kernel v0 --device emulator --case " + kSmall,
                    folder = scratch.file("ptx");
  Outcome o =
      run_fp4lab("emulate --dump-ptx " + folder + " --json " + scratch.file("launches") + " " + program);
  INFO(o.text);
  REQUIRE(o.status == 0);
  std::ifstream file(scratch.file("launches"));
  std::string line;
  REQUIRE(std::getline(file, line));
  const auto launch = fp4lab::parse_json(line);
  CHECK(launch.at("kernel") == "group_gemm_v0_baseline");
  CHECK(launch.at("findings").empty());
  CHECK(launch.at("lines").size() > 50);
  const fs::path text = fs::path(folder) / launch.at("module").get<std::string>();
  REQUIRE(fs::exists(text));
  // An edited copy is what runs.
  std::ofstream(text) << "no PTX\n";
  o = run_fp4lab("emulate --replace-ptx " + folder + " " + program);
  CHECK(o.status != 0);
  CHECK(o.says(text.filename().string() + ":1:"));
  CHECK(run_fp4lab("emulate --replace-ptx " + scratch.file("none") + " " + program)
            .says("none: no such folder"));

  // A persistent kernel of four tiles has two CTAs on two SMs.
  o = run_fp4lab("emulate --sms 2 -- '" + binary().string() +
                 "' run group --kernel v3 --device emulator --case group:500/128/256");
  INFO(o.text);
  CHECK(o.says("v3_persistent     2"));
  CHECK(o.says("PASS"));
  o = run_fp4lab("mutate -v --own-seeds 1 --seeds 1 --rule 'expect_tx + 16' " + program);
  INFO(o.text);
  CHECK(o.status == 0);
  CHECK(o.says("expect_tx + 16 bytes        1         1             0      0         0"));
  CHECK(o.says("reported     0  line"));
  CHECK(o.says("deadlock: kernel group_gemm_v0_baseline"));
  CHECK(o.says("of 1 reports, 1 name the altered line"));
  o = run_fp4lab("mutate --own-seeds 1 --seeds 1 --rule 'TMA coordinate 0' " + program);
  CHECK(o.says("wrong result"));
  // What fails as it is has nothing to lose.
  o = run_fp4lab("mutate -- /bin/false");
  CHECK(o.status == 2);
  CHECK(o.says("/bin/false does not pass unchanged, with seed 0: exit status 1"));
  o = run_fp4lab("mutate -- ./nothere");
  CHECK(o.status == 2);
  CHECK(o.says("./nothere: No such file"));
  o = run_fp4lab("mutate -- /bin/true");
  CHECK(o.says("no kernel on the emulator"));
}

TEST_CASE("command line: the tables print") {
  CHECK(run_fp4lab("cases").says("g8k7168"));
  CHECK(run_fp4lab("sol").says("192 SMs"));
  CHECK(run_fp4lab("sol").says("148 SMs"));
  CHECK(run_fp4lab("kernels").says("v0_baseline"));
  CHECK(run_fp4lab("kernels --report --dual dual:256/128/512 --group g8k7168").status ==
        0);  // nothing spilled
  CHECK(run_fp4lab("kernels --report --dual g8k7168").says("case g8k7168 is a group GEMM"));
  CHECK(run_fp4lab("plan g2k1536").says("waves"));
  const Outcome tile = run_fp4lab("explain --tile 64x128x256");
  CHECK(tile.status == 1);
  CHECK(tile.says("no M = 64"));
  CHECK(run_fp4lab("explain --tile 128x128x256").status == 0);
  CHECK(run_fp4lab("--help").says("sweep"));
  CHECK(run_fp4lab("help sweep").text == run_fp4lab("sweep --help").text);
  CHECK(run_fp4lab("--version").says("fp4lab, commit "));
  CHECK(run_fp4lab("--version").says("NVRTC"));
}

TEST_CASE("command line: every command has examples in its help, which fits 100 columns") {
  const std::string help = run_fp4lab("help").text;
  std::istringstream lines(help.substr(help.find("Subcommands:")));
  size_t commands = 0;
  std::string line;
  std::getline(lines, line);
  for (; std::getline(lines, line) && line.starts_with("  ");) {
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    if (name.empty()) continue;  // a folded summary
    ++commands;
    CAPTURE(name);
    const Outcome o = run_fp4lab(name + " --help");
    CHECK(o.status == 0);
    CHECK(o.says("Examples:\n  fp4lab " + name));
    std::istringstream text(o.text);
    for (std::string each; std::getline(text, each);) {
      CAPTURE(each);
      CHECK(each.size() <= 120);
    }
  }
  CHECK(commands > 15);
}

TEST_CASE("command line: one grammar for all commands, and the short forms") {
  const std::string plan = run_fp4lab("plan group --case g2k1536 --kernel v2").text;
  CHECK(plan.find("g2k1536 with sm_100a v2_warp_specialized") == 0);
  for (const char* same :
       {"plan g2k1536 --kernel v2", "plan v2 g2k1536", "plan g2k1536 v2", "plan --case g2k1536 v2"}) {
    CAPTURE(same);
    CHECK(run_fp4lab(same).text == plan);
  }
  CHECK(run_fp4lab("plan g2k1536").says("v15_top"));
  const std::string ptx = run_fp4lab("ptx group --case group:64/128/512 --kernel v0").text;
  CHECK(ptx.find(".version") != std::string::npos);
  CHECK(run_fp4lab("ptx v0 group:64/128/512").text == ptx);
  CHECK(run_fp4lab("sol g2k1536").text == run_fp4lab("sol --case g2k1536").text);
  CHECK(run_fp4lab("profile group --case group:64/128/512 --kernel v0").says("v0_baseline"));
  const Outcome two = run_fp4lab(
      "run group --device emulator --kernel v0,v0 --case group:64/128/256,group:8,9/128/256 --case "
      "group:64/128/256");
  INFO(two.text);
  CHECK(two.says("2 of 2 passed"));
  CHECK(two.says("group:8,9/128/256"));
}

TEST_CASE("command line: a sweep prunes, verifies, records and resumes") {
  const Scratch scratch;
  const std::string sweep =
      std::string("sweep group --kernel v1,v2 --device emulator --stages 1..2,40 --case ") + kSmall +
      " --json " + scratch.file("s.json");
  const Outcome first = run_fp4lab(sweep);
  INFO(first.text);
  CHECK(first.status == 0);
  CHECK(first.says("6 points, 3 legal"));
  CHECK(first.says("dropped by rule 'shared memory'"));
  const Outcome again = run_fp4lab(sweep + " --resume");
  INFO(again.text);
  CHECK(again.status == 0);
  CHECK(again.says("3 points already in"));
}

TEST_CASE("command line: bench refuses the emulator, and what it cannot choose") {
  for (const char* arguments :
       {"bench group --device emulator", "bench all --device emulator --case g2k1536"}) {
    const Outcome o = run_fp4lab(arguments);
    INFO(o.text);
    CHECK(o.status == 2);
    CHECK(o.says("the emulator does not measure time"));
    CHECK(o.says("fp4lab run"));
  }
  CHECK(run_fp4lab("bench triple").says("no operation 'triple'"));
  CHECK(run_fp4lab("bench dual --case g2k1536").says("is a group GEMM"));
  CHECK(run_fp4lab("bench --report /nonexistent.json").says("No such file"));
  CHECK(run_fp4lab("bench --launch sideways").status == 2);
}

TEST_CASE("command line: bench's tables come from records, whoever wrote them") {
  const Scratch scratch;
  const std::string file = scratch.file("bench.json");
  const auto time = [](const std::string& c, const std::string& kernel, bool peer, double us) {
    return nlohmann::json{
        {"type", "time"},
        {"case", c},
        {"kernel", kernel},
        {"peer", peer},
        {"flops", 6e9},
        {"bytes", 4e6},
        {"how", "a plan"},
        {"launch", "graph"},
        {"passed", true},
        {"us", {{"median", us}, {"p10", us - 1}, {"p90", us + 1}}},
        {"check_after", {{"passed", true}, {"bit_equal_share", 1.0}}},
        {"gpu",
         {{"sm_mhz_min", 1755}, {"sm_mhz_max", 1980}, {"watts_max", 612.0}, {"slowdown", "power cap"}}}};
  };
  std::ofstream out(file);
  out << nlohmann::json{{"type", "session"},
                        {"date", "2026-11-21T10:00:00Z"},
                        {"device", "NVIDIA H200"},
                        {"commit", "abc"},
                        {"command", "fp4lab bench all"}}
      << "\n"
      << nlohmann::json{{"type", "limit"}, {"limit", "tensor"}, {"per_second", 800e12}} << "\n"
      << nlohmann::json{{"type", "limit"}, {"limit", "bytes"}, {"per_second", 4e12}} << "\n"
      << time("one", "v1", false, 30) << "\n"
      << time("one", "v1", false, 10) << "\n"  // the later one counts
      << time("one", "v0", false, 50) << "\n"
      << time("two", "v1", false, 20) << "\n"
      << time("one", "cublas-fp16", true, 20) << "\n"
      << time("two", "cublas-fp16", true, 160) << "\n"
      << time("two", "other", true, 60) << "\n"
      << nlohmann::json{{"type", "absent"}, {"kernel", "triton"}, {"reason", "not installed"}} << "\n";
  nlohmann::json wrong = time("three", "v1", false, 1);
  wrong.erase("us");
  wrong["error"] = "wrong before timing: row 3";
  out << wrong << "\n";
  out.close();
  const Outcome o = run_fp4lab("bench --report " + file);
  INFO(o.text);
  CHECK(o.status == 0);
  CHECK(o.says("NVIDIA H200, commit abc"));
  CHECK(o.says("9.00-11.00"));
  CHECK(o.says("600"));    // TFLOP/s: 6 GFLOP in 10 us
  CHECK(o.says("75 %"));   // of 800
  CHECK(o.says("10 %"));   // 4 MB in 10 us of 4 TB/s
  CHECK(o.says("2.00x"));  // one: 20 / 10
  CHECK(o.says("8.00x"));  // two: 160 / 20
  CHECK(o.says("4.00x"));  // their geometric mean
  CHECK(o.says("20.00 (2.00x)"));
  CHECK(o.says("3.00x of 1"));  // the other peer has one case only
  CHECK(o.says("1755-1980"));
  CHECK(o.says("not measured: triton: not installed"));
  CHECK(o.says("ERROR three v1: wrong before timing: row 3"));
  CHECK_FALSE(o.says("30.00"));
  const Outcome page = run_fp4lab("bench --markdown --report " + file);
  CHECK(page.says("| case | fastest kernel here | us | of tensor limit | cublas-fp16 | other |"));
  CHECK(page.says("| one | v1 | 10.00 | 75 % | 20.00 (2.00x) | - |"));
  std::ofstream(file, std::ios::app) << "not json\n";
  CHECK(run_fp4lab("bench --report " + file).says("bench.json:13: not a record"));
}

// In a process of its own: cuBLAS opens libcuda.so.1 by name, and in this one that may be the emulator
// already.
TEST_CASE("command line: bench measures kernels and cuBLAS on a GPU") {
  const Scratch scratch;
  const Outcome o = run_fp4lab(
      "bench all --case group:40,76,168/256/512 --case dual:96/256/512 --repeats 3 --sets 2 "
      "--no-limits --peers cublas --json " +
      scratch.file("b.json"));
  if (o.says("bench needs a GPU")) FP4LAB_SKIP("no GPU");
  INFO(o.text);
  CHECK(o.status == 0);
  std::ifstream file(scratch.file("b.json"));
  size_t kernels = 0, peers = 0;
  for (std::string line; std::getline(file, line);) {
    const auto r = fp4lab::parse_json(line);
    if (r.at("type") != "time") continue;
    CHECK(r.at("us").at("median") > 0);
    CHECK(r.at("check_after").at("relative_rms_error") < 0.1);
    (r.at("peer") ? peers : kernels) += 1;
  }
  CHECK(kernels == 2);
  CHECK((peers == 0 || peers == 5));  // no cuBLAS here, or fp16 and fp8, and the dual GEMM with fp16 sums
}

TEST_CASE("command line: a sweep on a GPU carries times") {
  const Scratch scratch;
  const Outcome o = run_fp4lab(std::string("sweep group --device cuda --repeats 3 --sets 2 --case ") +
                               kSmall + " --json " + scratch.file("s.json"));
  if (o.status == 2 && o.says("device cuda")) FP4LAB_SKIP("no GPU");
  INFO(o.text);
  CHECK(o.status == 0);
  std::ifstream file(scratch.file("s.json"));
  std::string line;
  REQUIRE(std::getline(file, line));
  const auto record = fp4lab::parse_json(line);
  CHECK(record.at("us").at("median") > 0);
  CHECK(record.at("passed") == true);
}
