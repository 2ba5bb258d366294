// Several sets of a case's numbers, on the device and with their answers.
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "fp4lab/bench.h"
#include "fp4lab/half.h"
#include "fp4lab/json_text.h"
#include "fp4lab/reference.h"
#include "lab/comparison_sum.h"

namespace fp4lab {

InputSets::InputSets(const Device& device, const Case& c, Distribution distribution, std::uint64_t seed,
                     int count) {
  if (count < 1) fail("{} input sets: at least 1", count);
  for (int i = 0; i < count; ++i) {
    Problem problem = make_problem(c, distribution, seed + std::uint64_t(i));
    auto want = reference(problem, {.rounding = Rounding::kExact});
    DeviceProblem on_device(device, problem);
    sets_.push_back(std::make_unique<Set>(std::move(problem), std::move(want), std::move(on_device)));
  }
}

void InputSets::poison() const {
  for (const auto& set : sets_) set->on_device.poison();
}

namespace {

struct Part {
  Comparison comparison;
  double difference = 0, size = 0;  // sums of squares
};

Part check_part(const std::vector<std::uint16_t>& got, const std::vector<std::uint16_t>& want,
                Operation operation, const GroupData& group, bool slack) {
  Part part;
  const Shape& s = group.shape;
  part.comparison = compare_half(got, want, s.m, s.n);
  if (slack && !part.comparison.passed())  // only then is the bound worth its time
    part.comparison = compare_half(got, want, s.m, s.n, {}, accumulation_bound(operation, group));
  for (size_t i = 0; i < got.size(); ++i) {
    const double w = half_to_float(want[i]), g = half_to_float(got[i]);
    if (!std::isfinite(w) || !std::isfinite(g)) continue;  // the comparison counts those
    part.difference += (g - w) * (g - w);
    part.size += w * w;
  }
  return part;
}

}  // namespace

OutputCheck InputSets::check(bool slack) const {
  std::vector<std::future<Part>> parts;
  for (const auto& set : sets_)
    for (size_t g = 0; g < set->want.size(); ++g)
      parts.push_back(std::async(std::launch::async, [got = set->on_device.output(g), &set, g, slack] {
        return check_part(got, set->want[g], set->problem.spec.operation, set->problem.groups[g], slack);
      }));
  OutputCheck out;
  double difference = 0, size = 0;
  for (auto& waiting : parts) {
    const Part part = waiting.get();
    add(out.comparison, part.comparison);
    difference += part.difference;
    size += part.size;
  }
  out.relative_rms = size > 0 ? std::sqrt(difference / size) : 0;
  return out;
}

namespace {

void write_file(const std::filesystem::path& path, const void* data, size_t bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(data), std::streamsize(bytes));
  file.close();
  if (!file) fail("{}: {}", path.string(), std::strerror(errno));
}

void write_operand(const std::filesystem::path& stem, const Operand& x) {
  write_file(stem.string() + ".codes", x.codes.data(), x.codes.size());
  write_file(stem.string() + ".scales", x.scales.data(), x.scales.size());
}

}  // namespace

void InputSets::write(const std::string& folder) const {
  const std::filesystem::path to = folder;
  std::error_code error;
  std::filesystem::create_directories(to, error);
  if (error) fail("{}: {}", folder, error.message());
  nlohmann::json shapes = nlohmann::json::array();
  for (const Shape& s : spec().shapes) shapes.push_back({{"m", s.m}, {"n", s.n}, {"k", s.k}});
  for (size_t i = 0; i < sets_.size(); ++i)
    for (size_t g = 0; g < sets_[i]->want.size(); ++g) {
      const GroupData& group = sets_[i]->problem.groups[g];
      const std::string stem = (to / fmt::format("set{}_group{}_", i, g)).string();
      write_operand(stem + "a", group.a);
      write_operand(stem + "b", group.b);
      if (group.b2.rows) write_operand(stem + "b2", group.b2);
      write_file(stem + "want", sets_[i]->want[g].data(), sets_[i]->want[g].size() * 2);
    }
  const nlohmann::json problem{
      {"case", spec().name},
      {"operation", operation_name(spec().operation)},
      {"distribution", distribution_name(distribution())},
      {"seed", seed()},
      {"sets", sets_.size()},
      {"groups", shapes},
      {"flops", spec().flops()},
      {"bytes", spec().input_bytes() + spec().output_bytes()},
      {"files",
       "setI_groupG_{a,b,b2}.codes: e2m1 [rows][k/2], low nibble = even k; .scales: e4m3 [rows][k/16]; want: "
       "fp16 [m][n], the exact sums rounded once"}};
  const std::string text = json_text(problem, 1);
  write_file(to / "problem.json", text.data(), text.size());
}

}  // namespace fp4lab
