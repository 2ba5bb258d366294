// Measuring, as far as it can be tested without a GPU: on the emulator's driver, whose times mean nothing but
// whose events, graphs and memory work.
#include "fp4lab/bench.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../skip.h"
#include "fp4lab/half.h"
#include "fp4lab/json_text.h"
#include "fp4lab/peers.h"
#include "fp4lab/ue4m3.h"
#include "lab/bench/expand.h"

using namespace fp4lab;

namespace {

Device emulator() { return Device::open("emulator", "sm_100a"); }

constexpr TimingOptions kQuick{.repeats = 3, .warmups = 1, .rounds = 2, .flush_bytes = 4096};

// Writes the right answer, as a kernel would; `spoil` alters it for a given set.
Contender answering(const InputSets& sets,
                    std::function<void(size_t set, std::vector<std::uint16_t>&)> spoil = {}) {
  Contender c;
  c.kernel = "answering";
  c.how = "copies the answer";
  c.enqueue = [&sets, spoil](size_t set, CUstream) {
    for (size_t g = 0; g < sets.want(set).size(); ++g) {
      std::vector<std::uint16_t> values = sets.want(set)[g];
      if (spoil) spoil(set, values);
      // The destination is the problem's own output, const only for those who measure.
      const_cast<DeviceBuffer&>(sets.on_device(set).groups()[g].c).upload(values.data(), values.size() * 2);
    }
  };
  return c;
}

}  // namespace

TEST_CASE("bench: order statistics and the geometric mean") {
  const Spread s = spread_of({5, 1, 4, 2, 3});
  CHECK(s.count == 5);
  CHECK(s.min == 1);
  CHECK(s.max == 5);
  CHECK(s.median == 3);
  CHECK(s.p10 == doctest::Approx(1.4));  // as numpy.percentile([1..5], 10)
  CHECK(s.p90 == doctest::Approx(4.6));
  CHECK(spread_of({1, 2, 3, 10}).median == 2.5);
  CHECK(spread_of({7}).p90 == 7);
  CHECK(std::isnan(spread_of({}).median));
  CHECK(geometric_mean({1, 4}) == doctest::Approx(2));
  CHECK(std::isnan(geometric_mean({})));
  CHECK(std::isnan(geometric_mean({1, 0})));
}

TEST_CASE("bench: a sample goes through the input sets in rotation, between two events") {
  const Device device = emulator();
  const Timer timer(device, kQuick);
  std::vector<size_t> order;
  int during = 0;
  const Timing t = timer.time(
      3, [&](size_t set, CUstream) { order.push_back(set); }, [&] { ++during; });
  CHECK(t.calls == 6);
  CHECK(t.samples.size() == 3);
  CHECK(t.us.count == 3);
  CHECK(during == 3);
  REQUIRE(order.size() == 4 * 6);  // a warm-up and three samples
  for (size_t i = 0; i < order.size(); ++i) CHECK(order[i] == i % 3);
  CHECK_THROWS_WITH_AS(
      timer.time(0, [](size_t, CUstream) {}),
      "timing: 3 repeats, 1 warm-ups, 2 rounds of 0 input sets: each but the warm-ups is at least 1", Error);
}

TEST_CASE("bench: verified before and after; wrong output is not timed") {
  const Device device = emulator();
  const Timer timer(device, kQuick);
  const Nvml nvml(device, "libnot-there.so.1");
  const InputSets sets(device, find_case("group:40,8/128/256"), Distribution::kModerate, 5, 2);

  const Measurement good = measure(timer, nvml, sets, answering(sets));
  CHECK(good.error.empty());
  CHECK(good.passed);
  CHECK(good.timing.samples.size() == 3);
  CHECK(good.after.comparison.bit_equal == 2 * (40 + 8) * 128);
  CHECK(good.after.relative_rms == 0);
  const auto record = record_of(good);
  CHECK(record.at("type") == "time");
  CHECK(record.at("us").at("count") == 3);
  CHECK(record.at("gpu").is_null());

  // One element of the second set.
  Measurement m = measure(timer, nvml, sets, answering(sets, [](size_t set, auto& values) {
                            if (set == 1) values[7] ^= 0x4000;
                          }));
  CHECK(m.error.starts_with("wrong before timing"));
  CHECK(m.timing.samples.empty());
  CHECK_FALSE(m.passed);
  CHECK_FALSE(record_of(m).contains("us"));

  // Right until it is timed: two calls verify it, two more are the warm-up's first round.
  auto calls = std::make_shared<int>(0);
  m = measure(timer, nvml, sets, answering(sets, [calls](size_t, auto& values) {
                if (++*calls > 12) values[0] = kHalfPoison;
              }));
  CHECK(m.error.starts_with("wrong after timing"));
  CHECK_FALSE(m.passed);

  // A peer of other numerics is timed, and its error is stated.
  Contender loose = answering(sets, [](size_t, auto& values) {
    for (auto& v : values) v = half_from_float(half_to_float(v) * 1.03f);
  });
  loose.must_pass = false, loose.peer = true;
  m = measure(timer, nvml, sets, loose);
  CHECK(m.error.empty());
  CHECK_FALSE(m.passed);
  CHECK(m.after.relative_rms == doctest::Approx(0.03).epsilon(0.05));
  CHECK(m.timing.samples.size() == 3);

  // What throws is a result too.
  Contender broken;
  broken.enqueue = [](size_t, CUstream) { fail("no such luck"); };
  CHECK(measure(timer, nvml, sets, broken).error == "no such luck");
}

TEST_CASE("bench: of several variants the fastest right one") {
  const Device device = emulator();
  const Timer timer(device, kQuick);
  const InputSets sets(device, find_case("gemm:16/128/256"), Distribution::kModerate, 1, 2);
  Contender wrong = answering(sets, [](size_t, auto& values) { values[0] ^= 0x4000; });
  wrong.how = "wrong";
  Contender right = answering(sets);
  right.how = "right";
  std::vector<std::pair<std::string, double>> tried;
  CHECK(fastest(timer, sets, {wrong, right}, tried).how == "right");
  REQUIRE(tried.size() == 2);
  CHECK(std::isnan(tried[0].second));
  CHECK(tried[1].second >= 0);
  CHECK_THROWS_AS(fastest(timer, sets, {wrong}, tried), Error);
}

TEST_CASE(
    "bench: NVFP4 expanded for libraries is exact in fp16, rounded once in e4m3; silu(x) y; in graphs") {
  const Device device = emulator();
  const InputSets sets(device, find_case("dual:20/128/256"), Distribution::kFull, 3, 1);
  const ExpandKernels kernels(device);
  const DeviceGroup& group = sets.on_device(0).groups().front();
  const std::vector<float> values = dequantize(sets.problem(0).groups[0].a);
  DeviceBuffer half(device, values.size() * 2), e4m3(device, values.size());
  const Timer timer(device, kQuick);
  Contender expanding;
  expanding.enqueue = [&](size_t, CUstream stream) { kernels.to_f16(group.a, half.address(), stream); };
  const Contender graph = as_graph(timer, 1, expanding);
  CHECK(graph.launch == "graph");
  half.fill(0xFD);
  graph.enqueue(0, timer.stream());
  kernels.to_e4m3(group.a, e4m3.address(), 0.125f, timer.stream());
  timer.stream().synchronize();
  const auto halves = half.values<std::uint16_t>();
  const auto bytes = e4m3.values<std::uint8_t>();
  size_t different = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    different += half_to_float(halves[i]) != values[i];
    different += bytes[i] != e4m3_encode(values[i] * 0.125f);
  }
  CHECK(different == 0);

  const int m = 3, n = 16;
  std::vector<float> xy(m * 2 * n);
  for (size_t i = 0; i < xy.size(); ++i) xy[i] = float(int(i * 37 % 101) - 50) / 8;
  std::vector<std::uint16_t> xy_half;
  for (float& v : xy) {
    xy_half.push_back(half_from_float(v));
    v = half_to_float(xy_half.back());
  }
  const DeviceBuffer from = DeviceBuffer::from(device, xy), from_half = DeviceBuffer::from(device, xy_half);
  for (const bool is_half : {false, true}) {
    DeviceBuffer to(device, m * n * 2);
    kernels.silu_mul(is_half ? from_half.address() : from.address(), is_half, to.address(), m, n, nullptr);
    device.synchronize();
    const auto got = to.values<std::uint16_t>();
    for (int i = 0; i < m * n; ++i) {
      const double x = xy[size_t(i / n * 2 * n + i % n)], y = xy[size_t(i / n * 2 * n + n + i % n)];
      CHECK(half_to_float(got[size_t(i)]) == doctest::Approx(x / (1 + std::exp(-x)) * y).epsilon(2e-3));
    }
  }
}

TEST_CASE("bench: the lab's kernels, from the stream or as a graph, their weights apart") {
  const Case c = find_case("group:40,8/128/512");
  for (const std::string_view arch : architectures()) {
    CAPTURE(arch);
    const Device device = Device::open("emulator", arch);
    const Timer timer(device, {.repeats = 1, .warmups = 0, .flush_bytes = 0});
    const Nvml nvml(device, "libnot-there.so.1");
    const InputSets sets(device, c, Distribution::kModerate, 1, 2);
    const Candidate candidate = candidate_for(find_rung(arch, Op::kGroup, "v0"), c, {});
    const Measurement m = measure_kernel(timer, nvml, sets, candidate, LaunchChoice::kBest);
    INFO(m.error);
    CHECK(m.error.empty());
    CHECK(m.passed);
    CHECK((m.launch == "stream" || m.launch == "graph"));
    CHECK(m.variants.size() == 2);
    CHECK(m.how == plan_line(candidate));
    if (!m.weight_step.empty()) {
      CHECK(m.weight_bytes > 2 * 128 * 512 / 2);
      CHECK(record_of(m).at("weights").at("step") == m.weight_step);
    }

    Candidate edited = candidate;
    edited.ptx = "/nonexistent.ptx";
    CHECK(measure_kernel(timer, nvml, sets, edited, LaunchChoice::kStream).error.find("nonexistent") !=
          std::string::npos);
  }
}

TEST_CASE("bench: a problem's files are what other programs read") {
  const Device device = emulator();
  const InputSets sets(device, find_case("dual:20/128/256"), Distribution::kTaskDual, 9, 2);
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("fp4lab-problem-{}", getpid());
  sets.write(folder.string());
  std::ifstream about(folder / "problem.json");
  const auto problem = parse_json(std::string{std::istreambuf_iterator<char>(about), {}});
  CHECK(problem.at("operation") == "dual");
  CHECK(problem.at("sets") == 2);
  CHECK(problem.at("groups").at(0).at("k") == 256);
  std::ifstream file(folder / "set1_group0_b2.codes", std::ios::binary);
  const std::string codes{std::istreambuf_iterator<char>(file), {}};
  const Bytes& want = sets.problem(1).groups[0].b2.codes;
  CHECK(codes == std::string(want.begin(), want.end()));
  CHECK(std::filesystem::file_size(folder / "set0_group0_want") == 20 * 128 * 2);
  CHECK(std::filesystem::file_size(folder / "set0_group0_a.scales") == 20 * 256 / 16);
  std::filesystem::remove_all(folder);
}

TEST_CASE("bench: a script that cannot measure, fails or is not there says so") {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("fp4lab-scripts-{}", getpid());
  std::filesystem::create_directories(folder);
  std::vector<nlohmann::json> records;
  const auto keep = [&](nlohmann::json r) { records.push_back(std::move(r)); };
  PeerScripts how{.problems = folder.string(), .timing = kQuick};
  how.python = "/nonexistent/python";
  const std::vector<std::string> names = peer_scripts();
  REQUIRE(names ==
          std::vector<std::string>{"humming_w4a16", "torch_grouped_mm", "torch_scaled_mm", "triton_nvfp4"});
  run_peer_script(names[0], how, keep);
  REQUIRE(records.size() == 1);
  CHECK(records[0].at("type") == "absent");
  CHECK(records[0].at("reason").get<std::string>().find("no interpreter") == 0);

  how.python = "false";  // takes any arguments and fails
  run_peer_script(names[0], how, keep);
  CHECK(records.back().at("reason").get<std::string>().find("exit status 1") == 0);

  CHECK(peer_scripts_trouble("/nonexistent/python").find("no interpreter") == 0);
  CHECK(peer_scripts_trouble("false").find("exit status 1") == 0);
  CHECK(peer_scripts_trouble("true").empty());

  how.python = "python3";
  records.clear();
  for (const std::string& name : names) run_peer_script(name, how, keep);
  std::filesystem::remove_all(folder);
  if (!records.empty() && records[0].at("reason").get<std::string>().find("no interpreter") == 0)
    FP4LAB_SKIP("no python3");
  // Nothing to measure in an empty folder: either PyTorch or a GPU is missing, or there is no record.
  for (const auto& r : records) {
    CHECK(r.at("type") == "absent");
    CHECK(r.at("reason").get<std::string>().find("PyTorch") == 0);
  }
}
