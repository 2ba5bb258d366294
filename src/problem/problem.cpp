#include "fp4lab/problem.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "fp4lab/error.h"
#include "fp4lab/suggest.h"
#include "fp4lab/ue4m3.h"

namespace fp4lab {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ull;  // splitmix64's increment, 2^64 / golden ratio

// splitmix64's output function (Steele, Lea, Flood 2014; constants by Stafford).
constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
constexpr std::uint64_t stream_key(std::uint64_t seed, std::uint64_t stream) {
  return mix(mix(seed + kGolden) + (stream + 1) * kGolden);
}

// A 16-bit random number to a scale: four scales come from one word, low 16 bits first.
using ScaleMap = std::array<std::uint8_t, 65536>;
ScaleMap make_scale_map(Distribution distribution) {
  ScaleMap map{};
  for (unsigned r = 0; r < 65536; ++r) {
    switch (distribution) {
      case Distribution::kTaskGroup:
        map[r] = ue4m3_encode(r >> 15 ? 2.0f : 1.0f);
        break;
      case Distribution::kTaskDual:
        map[r] = ue4m3_encode(float(r) * 0x1p-16f);
        break;
      case Distribution::kFull:
        map[r] = std::uint8_t(r * 127u >> 16);
        break;
      case Distribution::kModerate:
        map[r] = std::uint8_t(40 + (r >> 11));
        break;  // codes 40..71
    }
  }
  return map;
}
const ScaleMap& scale_map(Distribution distribution) {
  static const std::array<ScaleMap, 4> maps = {
      make_scale_map(Distribution::kTaskGroup), make_scale_map(Distribution::kTaskDual),
      make_scale_map(Distribution::kFull), make_scale_map(Distribution::kModerate)};
  return maps[std::size_t(distribution)];
}

// Words [begin, end) of the packed codes; every word is 8 bytes, since K is a multiple of 16.
void fill_codes(std::uint8_t* codes, std::size_t begin, std::size_t end, std::uint64_t key,
                std::uint64_t mask) {
  for (std::size_t w = begin; w < end; ++w) {
    const std::uint64_t word = mix(key + (w + 1) * kGolden) & mask;
    std::memcpy(codes + w * 8, &word, 8);
  }
}
void fill_scales(std::uint8_t* scales, std::size_t begin, std::size_t end, std::uint64_t key,
                 const ScaleMap& map) {
  for (std::size_t i = begin; i < end;) {
    const std::uint64_t word = mix(key + (i / 4 + 1) * kGolden);
    do scales[i] = map[(word >> (i % 4 * 16)) & 0xFFFF];
    while (++i % 4 != 0 && i < end);
  }
}

template <class F>
void in_parallel(int threads, std::size_t count, F&& part) {
  if (threads <= 0) threads = int(std::max(1u, std::thread::hardware_concurrency()));
  if (count < 4096 || threads == 1) return part(std::size_t(0), count);
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t)
    pool.emplace_back([&, t] { part(count * t / threads, count * (t + 1) / threads); });
  for (std::thread& thread : pool) thread.join();
}

}  // namespace

std::string_view distribution_name(Distribution distribution) {
  switch (distribution) {
    case Distribution::kTaskGroup:
      return "task-group";
    case Distribution::kTaskDual:
      return "task-dual";
    case Distribution::kFull:
      return "full";
    case Distribution::kModerate:
      return "moderate";
  }
  return "?";
}

const std::vector<Distribution>& distributions() {
  static const std::vector<Distribution> all = {Distribution::kTaskGroup, Distribution::kTaskDual,
                                                Distribution::kFull, Distribution::kModerate};
  return all;
}

Distribution find_distribution(std::string_view name) {
  std::vector<std::string> names;
  for (Distribution d : distributions()) {
    if (distribution_name(d) == name) return d;
    names.emplace_back(distribution_name(d));
  }
  fail("no input distribution \"{}\"{}\n  there are {}", name, did_you_mean(name, names),
       fmt::join(names, " "));
}

Distribution task_distribution(Operation operation) {
  return operation == Operation::kDual ? Distribution::kTaskDual : Distribution::kTaskGroup;
}

std::uint64_t random_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return mix(stream_key(seed, stream) + (index + 1) * kGolden);
}

Operand random_operand(int rows, int k, Distribution distribution, std::uint64_t seed, std::uint64_t tensor,
                       int threads) {
  Operand operand = make_operand(rows, k);
  const bool small = distribution == Distribution::kTaskGroup || distribution == Distribution::kTaskDual;
  const std::uint64_t mask = small ? 0xBBBBBBBBBBBBBBBBull : ~0ull;  // sign and two low bits of each nibble
  const std::uint64_t code_key = stream_key(seed, 2 * tensor), scale_key = stream_key(seed, 2 * tensor + 1);
  const ScaleMap& map = scale_map(distribution);
  in_parallel(threads, operand.codes.size() / 8, [&](std::size_t begin, std::size_t end) {
    fill_codes(operand.codes.data(), begin, end, code_key, mask);
  });
  in_parallel(threads, operand.scales.size(), [&](std::size_t begin, std::size_t end) {
    fill_scales(operand.scales.data(), begin, end, scale_key, map);
  });
  operand.blocked = block_scales(operand.scales, rows, operand.scales_per_row());
  return operand;
}

Problem make_problem(const Case& c, Distribution distribution, std::uint64_t seed, int threads) {
  const std::vector<Reason> reasons = size_reasons(c);
  if (!reasons.empty()) {
    std::string text;
    for (const Reason& reason : reasons) text += "\n  " + reason.text;
    fail("case {} cannot be computed:{}", c.name, text);
  }
  Problem problem{c, distribution, seed, {}};
  for (std::size_t g = 0; g < c.shapes.size(); ++g) {
    const Shape& s = c.shapes[g];
    GroupData data{s,
                   random_operand(s.m, s.k, distribution, seed, 3 * g, threads),
                   random_operand(s.n, s.k, distribution, seed, 3 * g + 1, threads),
                   {}};
    if (c.operation == Operation::kDual)
      data.b2 = random_operand(s.n, s.k, distribution, seed, 3 * g + 2, threads);
    problem.groups.push_back(std::move(data));
  }
  return problem;
}

}  // namespace fp4lab
