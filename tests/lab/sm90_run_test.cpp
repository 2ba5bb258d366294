// The Hopper kernels run on the emulated H200. Few SMs: the CTAs poll for each other, which is what takes
// time here.
#include <doctest/doctest.h>

#include "fp4lab/run.h"
#include "fp4lab/sm90.h"

using namespace fp4lab;

namespace {

struct Bench {
  explicit Bench(const char* case_text, Distribution distribution = Distribution::kModerate,
                 const char* kernel = "top")
      : device(Device::open("emulator", sm90::kArch)),
        trial(device, find_case(case_text), distribution, 7),
        rung(find_rung(sm90::kArch, op_of(trial.problem.spec.operation), kernel)) {}

  RunResult run(std::vector<std::string> knobs) {
    knobs.push_back("sms=6");
    return run_trial(device, trial, candidate_for(rung, trial.problem.spec, knobs));
  }
  void check(const std::vector<std::string>& knobs) {
    CAPTURE(trial.problem.spec.name);
    CAPTURE(fmt::format("{}", fmt::join(knobs, " ")));
    const RunResult r = run(knobs);
    INFO(r.plan);
    REQUIRE_MESSAGE(r.error.empty(), r.error);
    CHECK_MESSAGE(r.passed(), r.exact.describe());
    CHECK(r.tensor_core.count == 0);  // wgmma rounds in its own way
    // Moderate numbers with K <= 1024: every order of summing gives the same bits.
    if (trial.problem.distribution == Distribution::kModerate && rung.op == Op::kGroup)
      CHECK_MESSAGE(r.exact.bit_exact(), r.exact.describe());
  }
  void seed(unsigned long long s) {
    reinterpret_cast<decltype(&fp4lab_emulator_seed)>(device.driver().symbol("fp4lab_emulator_seed"))(s);
  }

  Device device;
  Trial trial;
  const Rung& rung;
};

}  // namespace

TEST_CASE("Hopper: any number of tokens, ragged groups of different N and K") {
  Bench("group:1,2,3,5,7,8,9,15,16,17,23,31,33/128/256").check({});
  Bench("group:63,96,129/128,256,128/256,512,256").check({});
  Bench("group:255,512/128,384/768,256").check({});
  Bench("gemm:40/128/1024").check({});
  Bench("dual:1/128/256").check({});
  Bench("dual:77/256/768").check({});
  Bench("group:40,700/128/2304").check({"split=1"});  // two ranges of K, more than 32 tokens an expander
}

TEST_CASE("Hopper: every distribution passes with the same kernel") {
  for (const Distribution d : distributions()) {
    Bench("group:40,150/128,256/512,1024", d).check({});
    Bench("dual:100/128/512", d).check({});
  }
}

TEST_CASE("Hopper: warpgroups, tiles, cut tiles, local steps") {
  Bench group("group:90,200/256,384/1024,512"), dual("dual:130/256/1024");
  for (Bench* bench : {&group, &dual}) {
    bench->check({"warpgroups=2", "split=1", "local=2"});
    bench->check({"warpgroups=3", "split=1", "local=0"});
    bench->check({"warpgroups=4", "split=0"});
  }
  dual.check({"split=2", "warpgroups=3"});
  Bench("dual:77/128/1536", Distribution::kFull).check({"split=2", "warpgroups=2"});
  Bench("gemm:37/128/1024", Distribution::kFull).check({"split=2", "warpgroups=4"});
  group.check({"warpgroups=2", "max_tile=256"});
  group.check({"warpgroups=2", "max_tile=8"});
  group.check({"warpgroups=4", "max_tile=88", "pdl=0"});
}

TEST_CASE("Hopper: activations at once or by ranges, in tiles of many sizes or few") {
  // Two ranges of K in one group; more than 32 items a warp when all is expanded at once.
  Bench group("group:9,40,77,330/128,128,256,128/512,2304,256,256");
  group.check({"at_once=0", "split=1"});
  group.check({"at_once=1", "split=1"});
  group.check({"at_once=1", "split=0", "tile_step=8", "max_tile=88"});
  group.check({"at_once=0", "tile_step=64", "warpgroups=3"});
  Bench("gemm:300/128/4096", Distribution::kFull).check({"at_once=1", "tile_step=24", "local=1"});
}

TEST_CASE("Hopper: the rung below") {
  Bench("group:40,150/256,128/512,1024", Distribution::kModerate, "v0").check({});
  Bench("dual:100/128/512", Distribution::kModerate, "v0").check({"split=1"});
}

TEST_CASE("Hopper: no schedule of the machine changes the result, and no order is left to luck") {
  for (const char* shape : {"group:40,70,1/256,128,128/512", "dual:40/128/1024"}) {
    Bench bench(shape);
    check_order(bench.device);
    for (unsigned long long s = 1; s <= 4; ++s) {
      CAPTURE(s);
      bench.seed(s);
      bench.check({"split=1"});
      bench.check({"split=0", "local=2"});
    }
    bench.seed(0);
    reinterpret_cast<decltype(&fp4lab_emulator_check)>(bench.device.driver().symbol("fp4lab_emulator_check"))(
        0);
  }
}

TEST_CASE("Hopper: a launch can be repeated, and its weights packed again") {
  Bench bench("group:40,70/256,128/512");
  const Candidate candidate = candidate_for(bench.rung, bench.trial.problem.spec, {"sms=6", "split=1"});
  const Module module = load(bench.device, *jit::compile(job_of(candidate)));
  const auto launch = prepare(bench.device, candidate, bench.trial.on_device, module);
  CHECK(launch->weight_step() == "repack_weights");
  CHECK(launch->weight_bytes() > 0);
  CHECK(launch->grid() == 6);
  const Stream stream(bench.device);
  for (int i = 0; i < 3; ++i) {
    bench.trial.on_device.poison();
    if (i == 2) launch->prepare_weights(stream);
    launch->run(stream);
    launch->run(stream);
    stream.synchronize();
    for (std::size_t g = 0; g < 2; ++g) CHECK(bench.trial.on_device.output(g) == bench.trial.want[g]);
  }
  // The same from a graph.
  const Graph graph = Graph::capture(stream, [&] { launch->run(stream); });
  bench.trial.on_device.poison();
  graph.launch(stream);
  stream.synchronize();
  for (std::size_t g = 0; g < 2; ++g) CHECK(bench.trial.on_device.output(g) == bench.trial.want[g]);
}

TEST_CASE("Hopper: rungs of both architectures are in one list, and each keeps to its own") {
  std::size_t hopper = 0;
  for (const Rung* rung : rungs()) hopper += rung->arch == sm90::kArch;
  CHECK(hopper == sm90::rungs().size());
  CHECK(rungs(sm90::kArch, Op::kGroup).front()->file() == "ptx/sm90/group_gemm/v0_registers.cu");
  CHECK_THROWS_WITH_AS(
      find_rung(sm90::kArch, Op::kDual, "v9"),
      doctest::Contains("no dual GEMM kernel for sm_90a is called 'v9'\n  there are: v0_registers"), Error);
  const Case c = find_case("g2k1536");
  const Rung& rung = find_rung(sm90::kArch, Op::kGroup, "top");
  CHECK_THROWS_WITH_AS(candidate_for(rung, c, {"stages=4"}),
                       doctest::Contains("'stages' is a knob of the sm_100a kernels"), Error);
  CHECK_THROWS_WITH_AS(require_legal(candidate_for(rung, c, {"warpgroups=4", "max_tile=96"}), c),
                       doctest::Contains("max_tile = 96, must be 8..88"), Error);
  CHECK_THROWS_WITH_AS(require_legal(candidate_for(rung, c, {}), find_case("g2k4096")),
                       doctest::Contains("other shapes"), Error);
}

TEST_CASE("Hopper: more CTAs than the device has SMs are refused") {
  Bench bench("group:40/128/256");
  const RunResult r =
      run_trial(bench.device, bench.trial, candidate_for(bench.rung, bench.trial.problem.spec, {"sms=140"}));
  CHECK(r.error.find("--set sms=132") != std::string::npos);
}
