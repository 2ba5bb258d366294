// Tables of measured points: read, predicted, compared.
#include "model/points.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "fp4lab/error.h"
#include "fp4lab/jit.h"

using namespace fp4lab;
using namespace fp4lab::model;

namespace {

struct File {
  std::filesystem::path path;
  File(const std::string& name, const std::string& text)
      : path(std::filesystem::temp_directory_path() / ("fp4lab-points-" + name)) {
    std::ofstream(path) << text;
  }
  ~File() { std::filesystem::remove(path); }
};

constexpr const char* kHeading =
    "kind,source,kernel,dtype,m,n,k,groups,tile,cluster,stages,clock_mhz,measured_us,note\n";

}  // namespace

TEST_CASE("points: published measurements of every kind are met") {
  const PointTable table = read_points((jit::project_root() / "tests/model/points.csv").string());
  REQUIRE(table.points.size() >= 15);
  for (const Point& p : table.points) {
    CAPTURE(p.kind);
    CAPTURE(p.dtype);
    CAPTURE(p.tile);
    CAPTURE(p.cluster);
    CAPTURE(p.stages);
    const Answer answer = predict(p);
    REQUIRE(answer.prediction);
    CHECK(answer.prediction->us == doctest::Approx(p.measured_us).epsilon(0.16));
  }
}

TEST_CASE("points: fields in quotes, empty ones, and rows that no model answers") {
  const File file("quotes.csv",
                  std::string(kHeading) +
                      "gemm,here,\"a, \"\"b\"\"\",fp16,4096,7168,2048,1,256x256x64,2x1,6,1300,155,\n"
                      "gemm,here,x,fp3,1,1,1,1,128x128x64,1x1,,,,\n"
                      "bound,here,x,nvfp4,,,,,,,,,5,\n"
                      "dream,here,x,nvfp4,1,1,1,1,,,,,5,\n");
  const PointTable table = read_points(file.path.string());
  REQUIRE(table.points.size() == 4);
  CHECK(table.points[0].kernel == "a, \"b\"");
  CHECK(predict(table.points[0]).prediction->sm_mhz == 1300);
  CHECK(predict(table.points[1]).why == "no number format 'fp3'");
  CHECK(predict(table.points[2]).why == "sizes are missing");
  CHECK(predict(table.points[3]).why == "kind 'dream' is none of the model's");
}

TEST_CASE("points: what cannot be read is named with its place") {
  const File bad("number.csv", std::string(kHeading) + "gemm,s,k,fp16,many,1,1,1,,,,,,\n");
  CHECK_THROWS_WITH_AS(read_points(bad.path.string()),
                       doctest::Contains("number.csv:2: column m: 'many' is not a number"), Error);
  const File narrow("narrow.csv", std::string(kHeading) + "gemm,s\n");
  CHECK_THROWS_WITH_AS(read_points(narrow.path.string()), doctest::Contains("narrow.csv:2: 2 fields"), Error);
  const File column("column.csv", "kind,m,n,k\n");
  CHECK_THROWS_WITH_AS(read_points(column.path.string()), doctest::Contains("no column 'dtype'"), Error);
  CHECK_THROWS_AS(read_points("/nowhere/points.csv"), Error);
}

TEST_CASE("points: records of our own name case, kernel and plan") {
  const File file(
      "records.jsonl",
      R"({"type":"session","device":"NVIDIA H200"})"
      "\n"
      R"({"case":"g2k1536","arch":"sm_90a","kernel":"v1_loops","plan":"warpgroups=2 max_tile=128 split=0 tile_step=64 at_once=1","device":"NVIDIA H200","us":{"median":12.632},"gpu":{"sm_mhz_median":1980}})"
      "\n"
      R"({"case":"g2k1536","kernel":"cublas-fp16","peer":true,"how":"","us":{"median":18.7}})"
      "\n");
  const PointTable table = read_points(file.path.string());
  REQUIRE(table.points.size() == 1);  // neither the session nor the library
  const Answer answer = predict(table.points[0]);
  REQUIRE(answer.prediction);
  CHECK(answer.prediction->us == doctest::Approx(12.632).epsilon(0.1));
  CHECK(answer.prediction->machine == "H200");
}

TEST_CASE("points: scores within a shape") {
  std::vector<Point> points(4);
  std::vector<Answer> answers(4);
  const double measured[] = {10, 20, 30, 40}, predicted[] = {11, 10, 33, 44};
  for (int i = 0; i < 4; ++i) {
    points[i].source = "s", points[i].kind = "gemm", points[i].m = 1, points[i].measured_us = measured[i];
    Prediction p;
    p.us = predicted[i], p.low = p.us * 0.9, p.high = p.us * 1.1, p.machine = "B200";
    answers[i].prediction = p;
  }
  const std::vector<Score> all = score(points, answers);
  REQUIRE(all.size() == 1);
  CHECK(all[0].mape == doctest::Approx((0.1 + 0.5 + 0.1 + 0.1) / 4));
  CHECK(all[0].tau == doctest::Approx(4.0 / 6));  // five pairs in order, one not
  CHECK(all[0].regret == doctest::Approx(1));     // it would have chosen 20 where 10 is the best
  CHECK(all[0].inside == doctest::Approx(0.75));
}
