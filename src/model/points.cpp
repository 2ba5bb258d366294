#include "model/points.h"

#include <charconv>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "fp4lab/error.h"
#include "fp4lab/json_text.h"
#include "model/generic.h"
#include "model/harness.h"
#include "model/prediction.h"
#include "model/tensor.h"

namespace fp4lab::model {
namespace {

// Fields of a line of CSV; a field in quotes may hold commas and doubled quotes, not line ends.
std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> all(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"')
      all.back() += line[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      all.emplace_back();
    else if (c != '\r')
      all.back() += c;
  }
  return all;
}

double number(const std::string& text, const std::string& where, const std::string& column) {
  if (text.empty()) return 0;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail("{}: column {}: '{}' is not a number", where, column, text);
  return value;
}

PointTable read_csv(std::ifstream& file, const std::string& path) {
  PointTable table;
  std::string line;
  for (int count = 1; std::getline(file, line); ++count) {
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", path, count);
    std::vector<std::string> cells = fields(line);
    if (table.columns.empty()) {
      table.columns = std::move(cells);
      for (const char* needed : {"kind", "dtype", "m", "n", "k", "measured_us"})
        if (std::ranges::find(table.columns, needed) == table.columns.end())
          fail("{}: no column '{}'; README beside the points names them", where, needed);
      continue;
    }
    if (cells.size() != table.columns.size())
      fail("{}: {} fields, the heading has {}", where, cells.size(), table.columns.size());
    Point p;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string& name = table.columns[i];
      for (const auto& [column, field] : {std::pair<const char*, std::string*>{"kind", &p.kind},
                                          {"source", &p.source},
                                          {"kernel", &p.kernel},
                                          {"dtype", &p.dtype},
                                          {"tile", &p.tile},
                                          {"cluster", &p.cluster},
                                          {"stages", &p.stages},
                                          {"note", &p.note}})
        if (name == column) *field = cells[i];
      for (const auto& [column, field] : {std::pair<const char*, double*>{"m", &p.m},
                                          {"n", &p.n},
                                          {"k", &p.k},
                                          {"groups", &p.groups},
                                          {"clock_mhz", &p.clock_mhz},
                                          {"measured_us", &p.measured_us}})
        if (name == column) *field = number(cells[i], where, name);
    }
    if (p.groups == 0) p.groups = 1;
    p.cells = std::move(cells);
    table.points.push_back(std::move(p));
  }
  if (table.columns.empty()) fail("{}: empty", path);
  return table;
}

// Records of sweep and bench: lines without a time of one of our kernels (sessions, limits, libraries,
// failures) are passed over.
PointTable read_json_lines(std::ifstream& file, const std::string& path) {
  PointTable table{{"kind", "source", "case", "kernel", "plan", "device", "clock_mhz", "measured_us"}, {}};
  std::string line;
  for (int count = 1; std::getline(file, line); ++count) {
    if (line.empty()) continue;
    try {
      const nlohmann::json j = parse_json(line);
      if (!j.contains("us") || !j.contains("case") || j.value("peer", false)) continue;
      Point p;
      p.kind = "plan", p.source = path.substr(path.find_last_of('/') + 1), p.dtype = "nvfp4";
      p.case_name = j.at("case"), p.kernel = j.at("kernel");
      p.plan = j.contains("plan") ? j.at("plan") : j.at("how");
      p.device = j.value("device", ""), p.arch = j.value("arch", "");
      p.measured_us = j.at("us").at("median");
      if (j.contains("gpu") && j.at("gpu").is_object()) p.clock_mhz = j.at("gpu").value("sm_mhz_median", 0.0);
      p.cells = {p.kind,
                 p.source,
                 p.case_name,
                 p.kernel,
                 p.plan,
                 p.device,
                 fmt::format("{:g}", p.clock_mhz),
                 fmt::format("{:.6g}", p.measured_us)};
      table.points.push_back(std::move(p));
    } catch (const nlohmann::json::exception& e) {
      fail("{}:{}: {}", path, count, e.what());
    }
  }
  return table;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// "256x128x64".
bool three(const std::string& text, int& a, int& b, int& c) {
  return std::sscanf(text.c_str(), "%dx%dx%d", &a, &b, &c) == 3;
}

const Chip& chip_of(const Point& p) {
  if (!p.device.empty() || !p.arch.empty())
    return find_chip(has(p.device, "H100")   ? "H100"
                     : has(p.device, "H200") ? "H200"
                                             : "",
                     p.arch.empty() ? "sm_90a" : p.arch);
  if (has(p.note, "H200") || has(p.source, "H200")) return find_chip("H200", "");
  return find_chip("B200", "");
}

// The estimate at the clock that a benchmark which repeats the kernel for long would see: the busier the
// tensor cores, the lower. A clock that is known stays.
struct Clocked {
  Estimate estimate;
  double mhz;
};
Clocked under_load(const Chip& chip, double known_mhz, const std::function<Estimate(double)>& at) {
  if (known_mhz > 0) return {at(known_mhz), known_mhz};
  double mhz = chip.sm_mhz;
  for (int round = 0; round < 3; ++round)
    mhz = chip.sm_mhz - (chip.sm_mhz - chip.sm_mhz_loaded) * std::min(1.0, at(mhz).tensor_share);
  return {at(mhz), mhz};
}

TiledProduct product_of(const Point& p, const Format& format) {
  TiledProduct t;
  t.format = &format;
  t.m = p.m, t.n = p.n, t.k = p.k, t.groups = p.groups;
  t.out_bytes = has(p.note, "out fp32") ? 4 : has(p.note, "out fp8") ? 1 : 2;
  return t;
}

Answer predict_gemm(const Point& p, const Chip& chip, double mhz) {
  const Format* format = find_format(p.dtype);
  if (!format) return {{}, fmt::format("no number format '{}'", p.dtype)};
  if (p.m <= 0 || p.n <= 0 || p.k <= 0) return {{}, "sizes are missing"};
  TiledProduct t = product_of(p, *format);
  if (!three(p.tile, t.tile_m, t.tile_n, t.tile_k)) return {{}, fmt::format("no tile in '{}'", p.tile)};
  t.pair = p.cluster.starts_with("2");
  t.cluster_n = p.cluster == "2x2" || p.cluster == "1x2" ? 2 : 1;
  t.stages = std::atoi(p.stages.c_str());
  t.slots = has(p.note, "acc stages 1") ? 1 : 2;
  t.persistent = !has(p.kernel, "non-persistent");
  t.block_scaled_store = has(p.note, "out fp32") && format->scale_block;
  if (p.kind == "mainloop") {  // one tile, nothing else
    t.persistent = true, t.slots = 1;
    const Kernel kernel = kernel_of(t, chip);
    const double footprint = (p.m + p.n) * p.k * format->with_scales();
    const Step s = step(chip, mhz, kernel.kinds[0], kernel, 1, footprint > chip.l2_effective * 1e6 ? 1 : 0);
    Estimate e;
    e.us = kernel.kinds[0].steps * s.cycles / mhz, e.bound = s.bound;
    e.terms = {{"main loop", e.us, fmt::format("k-tiles bound by {}", s.bound)}};
    return {prediction_of(e, chip, mhz, class_of(p, e.us)), ""};
  }
  const Kernel kernel = kernel_of(t, chip);
  const Harness& harness = find_harness(p.source, p.kernel);
  const Clocked c = under_load(chip, mhz, [&](double at) { return estimate(chip, at, kernel, harness); });
  return {prediction_of(c.estimate, chip, c.mhz, class_of(p, c.estimate.us)), ""};
}

Answer predict_bound(const Point& p, const Chip& chip, double mhz) {
  const Format* format = find_format(p.dtype);
  if (!format) return {{}, fmt::format("no number format '{}'", p.dtype)};
  if (p.m <= 0 || p.n <= 0 || p.k <= 0) return {{}, "sizes are missing"};
  const bool split = has(p.kernel, "split-K") || has(p.kernel, "cuBLAS");
  TiledProduct plan;
  const Harness& harness = find_harness(p.source, p.kernel);
  const Clocked c = under_load(chip, mhz, [&](double at) {
    Found found = best_plan(product_of(p, *format), split, chip, at, harness);
    plan = found.plan;
    return found.estimate;
  });
  Prediction answer = prediction_of(c.estimate, chip, c.mhz, class_of(p, c.estimate.us));
  answer.bound += ", best plan " + describe(plan, chip);
  return {answer, ""};
}

Answer predict_mma(const Point& p, const Chip& chip, double mhz) {
  Mma mma{int(p.m),
          int(p.n),
          has(p.cluster, "2") ? 2 : 1,
          has(p.kernel, " TS ") ? From::kTmem : From::kShared,
          0,
          p.dtype.starts_with("mx")};
  Estimate e;
  e.us = (p.kind == "mma_interval" ? mma_interval(mma, chip.port, chip.scale_copy) : mma_latency(mma)) / mhz;
  e.bound = "tensor core";
  e.terms = {{p.kind, e.us, ""}};
  return {prediction_of(e, chip, mhz, class_of(p, e.us)), ""};
}

// All SMs load boxes of p.tile bytes: `stages` at a time, from DRAM, or shared by `cluster` CTAs.
Answer predict_tma(const Point& p, const Chip& chip, double mhz) {
  const double bytes = std::atof(p.tile.c_str());
  if (bytes <= 0) return {{}, fmt::format("no bytes in '{}'", p.tile)};
  TileKind kind;
  kind.arriving = kind.from_l2 = bytes, kind.rows = std::max(1.0, bytes / 128), kind.loads = 1;
  Kernel kernel;
  const double in_flight = std::atof(p.stages.c_str());
  kernel.stages = in_flight > 0 ? in_flight : 2;  // the sharing sweep names none
  const size_t filled = p.note.find("SMEM bytes filled per SM-sum ");
  const double total = filled == p.note.npos ? bytes * chip.sms : std::atof(p.note.c_str() + filled + 29);
  const double loads = total / bytes / chip.sms;
  const size_t dram = p.note.find("DRAM bytes ");
  const double from_dram = dram == p.note.npos ? total : std::atof(p.note.c_str() + dram + 11);
  const Step s = step(chip, mhz, kind, kernel, chip.sms, 1);
  Estimate e;
  e.us = std::max(loads * s.cycles / mhz, from_dram / chip.dram / 1000), e.bound = s.bound;
  e.terms = {{"loads", e.us, ""}};
  return {prediction_of(e, chip, mhz, class_of(p, e.us)), ""};
}

// Intervals of a trace, by the words that their note begins with.
Answer predict_span(const Point& p, const Chip& chip, double mhz) {
  Estimate e;
  if (p.note.starts_with("span of whole kernel")) {
    Point whole = p;
    whole.kind = "gemm";
    return predict_gemm(whole, chip, mhz);
  }
  if (p.note.starts_with("setup:"))
    e.us = chip.set_up / 1000;
  else if (p.note.starts_with("setup end to first full stage, median"))
    e.us = chip.first_fill / 1000;
  else
    return {{}, "the model has no such interval"};
  e.terms = {{"span", e.us, ""}};
  return {prediction_of(e, chip, mhz, class_of(p, e.us)), ""};
}

Answer predict_plan(const Point& p, const Chip& chip, double mhz) {
  const Case c = find_case(p.case_name);
  const std::string arch(chip.arch);
  const Rung& rung = find_rung(arch, op_of(c.operation), p.kernel);
  return {predict(candidate_of_line(rung, c, p.plan), c, Setting{std::string(chip.name), mhz}), ""};
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

}  // namespace

std::string Point::shape() const {
  if (!case_name.empty()) return case_name;
  return fmt::format("{:g}/{:g}/{:g}/{:g}", m, n, k, groups);
}

PointTable read_points(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail("{}: {}", path, std::strerror(errno));
  return path.ends_with(".csv") ? read_csv(file, path) : read_json_lines(file, path);
}

Answer predict(const Point& p, double sm_mhz) {
  try {
    const Chip& chip = chip_of(p);
    const double known = p.clock_mhz > 0 ? p.clock_mhz : sm_mhz,
                 mhz = known > 0 ? known : double(chip.sm_mhz);
    if (p.kind == "gemm") return predict_gemm(p, chip, known);
    if (p.kind == "mainloop") return predict_gemm(p, chip, mhz);
    if (p.kind == "bound") return predict_bound(p, chip, known);
    if (p.kind == "mma_interval" || p.kind == "mma_latency") return predict_mma(p, chip, mhz);
    if (p.kind == "tma") return predict_tma(p, chip, mhz);
    if (p.kind == "span") return predict_span(p, chip, mhz);
    if (p.kind == "plan") return predict_plan(p, chip, mhz);
    return {{}, fmt::format("kind '{}' is none of the model's", p.kind)};
  } catch (const Error& e) {
    return {{}, e.what()};
  }
}

bool set_aside(const Point& p) {
  if (p.kind == "plan") return fnv1a(p.case_name + " " + p.kernel + " " + p.plan) % 2 == 0;
  return fnv1a(fmt::format("{:g}/{:g}/{:g}", p.m, p.n, p.k)) % 3 == 0;
}

}  // namespace fp4lab::model
