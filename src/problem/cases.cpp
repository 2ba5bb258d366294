// The cases as data. Sizes: the public NVFP4 task. Times: speed of light as the task states it (1.5 GHz
// B200), the best published result that computes the product honestly, and where the rounds of the contest
// stood.
#include <algorithm>
#include <charconv>

#include "fp4lab/error.h"
#include "fp4lab/problem.h"
#include "fp4lab/suggest.h"

namespace fp4lab {
namespace {

using Sizes = std::vector<int>;

Sizes widen(Sizes values, std::size_t count) { return values.size() == 1 ? Sizes(count, values[0]) : values; }

std::vector<Shape> zip(Sizes m, Sizes n, Sizes k) {
  const std::size_t groups = std::max({m.size(), n.size(), k.size()});
  m = widen(m, groups), n = widen(n, groups), k = widen(k, groups);
  if (m.size() != groups || n.size() != groups || k.size() != groups)
    fail("a case with {} values of M, {} of N and {} of K: each list holds one value, or one per group",
         m.size(), n.size(), k.size());
  std::vector<Shape> shapes;
  for (std::size_t g = 0; g < groups; ++g) shapes.push_back({m[g], n[g], k[g]});
  return shapes;
}

std::vector<Case> make_cases() {
  constexpr auto kGroup = Operation::kGroup;
  std::vector<Case> all = {
      {"g8k7168", kGroup, zip({80, 176, 128, 72, 64, 248, 96, 160}, {4096}, {7168}), true, 18.833, 27.9, 479},
      {"g8k2048", kGroup, zip({40, 76, 168, 72, 164, 148, 196, 160}, {7168}, {2048}), true, 10.667, 18.8,
       451},
      {"g2k4096", kGroup, zip({192, 320}, {3072}, {4096}), true, 2.406, 8.48, 247},
      {"g2k1536", kGroup, zip({128, 384}, {4096}, {1536}), true, 1.525, 6.43, 218},
  };
  const struct {
    Operation operation;
    Shape shape;
    double speed_of_light_us, best_us;
  } kSingles[] = {
      {Operation::kDual, {256, 4096, 7168}, 4.708, 12.4},  {Operation::kDual, {512, 4096, 7168}, 8.714, 15.3},
      {Operation::kDual, {256, 3072, 4096}, 2.125, 9.43},  {Operation::kDual, {512, 3072, 7168}, 6.535, 14.4},
      {Operation::kGemm, {128, 7168, 16384}, 8.994, 18.8}, {Operation::kGemm, {128, 4096, 7168}, 2.354, 10.3},
      {Operation::kGemm, {128, 7168, 2048}, 1.333, 6.78},
  };
  for (const auto& [operation, s, light, best] : kSingles)
    all.push_back({fmt::format("{}-{}-{}-{}", operation_name(operation), s.m, s.n, s.k),
                   operation,
                   {s},
                   true,
                   light,
                   best,
                   {}});

  const std::vector<std::vector<Shape>> group_checks = {
      zip({96, 128}, {128, 256}, {256, 512}),
      zip({256, 72}, {512, 384}, {256, 256}),
      zip({128, 128}, {128, 256}, {512, 256}),
      zip({80, 128, 256}, {384, 256, 128}, {256, 512, 256}),
      zip({64, 72, 96}, {128, 384, 512}, {512, 512, 256}),
      zip({64, 256, 128}, {768, 128, 256}, {512, 256, 512}),
      zip({128, 128, 64}, {256, 512, 512}, {768, 256, 768}),
      zip({128, 128, 128, 128}, {128, 128, 128, 128}, {512, 256, 512, 256}),
      zip({40, 56, 384, 512}, {512, 384, 256, 128}, {256, 256, 256, 256}),
      zip({512, 384, 256, 128}, {256, 256, 256, 256}, {512, 768, 512, 768}),
  };
  for (std::size_t i = 0; i < group_checks.size(); ++i)
    all.push_back({fmt::format("group-c{}", i + 1), kGroup, group_checks[i], false, {}, {}, {}});
  const Shape dual_checks[] = {{1536, 512, 7168}, {256, 512, 256},    {3072, 1024, 1536},
                               {7168, 1024, 256}, {7168, 2304, 2048}, {4608, 384, 7168},
                               {7168, 384, 2304}, {512, 768, 7168},   {4096, 768, 512}};
  for (std::size_t i = 0; i < std::size(dual_checks); ++i)
    all.push_back({fmt::format("dual-c{}", i + 1), Operation::kDual, {dual_checks[i]}, false, {}, {}, {}});
  return all;
}

Sizes parse_sizes(std::string_view text, std::string_view whole) {
  Sizes values;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (next != end && *next != ','))
      fail("case \"{}\": \"{}\" is not a list of sizes such as 80,176,128", whole, text);
    values.push_back(value);
    if (next == end) return values;
    at = next + 1;
  }
}

}  // namespace

std::string_view operation_name(Operation operation) {
  switch (operation) {
    case Operation::kGroup:
      return "group";
    case Operation::kDual:
      return "dual";
    case Operation::kGemm:
      return "gemm";
  }
  return "?";
}

double Case::flops() const {
  double sum = 0;
  for (const Shape& s : shapes) sum += 2.0 * s.m * s.n * s.k * products();
  return sum;
}
std::int64_t Case::input_bytes() const {
  std::int64_t sum = 0;
  for (const Shape& s : shapes) sum += (s.m + std::int64_t(s.n) * products()) * (s.k / 2 + s.k / kScaleBlock);
  return sum;
}
std::int64_t Case::output_bytes() const {
  std::int64_t sum = 0;
  for (const Shape& s : shapes) sum += 2ll * s.m * s.n;
  return sum;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = make_cases();
  return all;
}

Case find_case(std::string_view text) {
  for (const Case& c : cases())
    if (c.name == text) return c;
  for (Operation operation : {Operation::kGroup, Operation::kDual, Operation::kGemm}) {
    const std::string prefix = fmt::format("{}:", operation_name(operation));
    if (!text.starts_with(prefix)) continue;
    std::vector<Sizes> lists;
    std::string_view rest = text.substr(prefix.size());
    while (true) {
      const std::size_t slash = rest.find('/');
      lists.push_back(parse_sizes(rest.substr(0, slash), text));
      if (slash == std::string_view::npos) break;
      rest.remove_prefix(slash + 1);
    }
    if (lists.size() != 3) fail("case \"{}\": {} lists of sizes, but M/N/K are three", text, lists.size());
    Case c{std::string(text), operation, zip(lists[0], lists[1], lists[2]), false, {}, {}, {}};
    if (operation != Operation::kGroup && c.shapes.size() != 1)
      fail("case \"{}\": {} groups, but {} has one", text, c.shapes.size(), operation_name(operation));
    return c;
  }
  std::vector<std::string> names;
  for (const Case& c : cases()) names.push_back(c.name);
  fail("no case \"{}\"{}\n  the cases are {}, or give a shape as group:M,M/N/K, dual:M/N/K, gemm:M/N/K", text,
       did_you_mean(text, names), fmt::join(names, " "));
}

std::vector<Reason> size_reasons(const Case& c) {
  std::vector<Reason> reasons;
  if (c.shapes.empty()) reasons.push_back({"groups", fmt::format("{}: no group", c.name)});
  for (std::size_t g = 0; g < c.shapes.size(); ++g) {
    const Shape& s = c.shapes[g];
    const auto add = [&](const char* rule, int value, const char* why) {
      reasons.push_back({rule, fmt::format("{}, group {}: {} = {} {}", c.name, g, rule, value, why)});
    };
    if (s.m < 1) add("M", s.m, "but a product needs at least one row");
    if (s.n < 1 || s.n % 128 != 0)
      add("N", s.n, "is not a positive multiple of 128, the rows of one scale atom and of the MMA's M side");
    if (s.k < 1 || s.k % 256 != 0)
      add("K", s.k, "is not a positive multiple of 256, the FP4 elements of one 128-byte swizzled row");
  }
  return reasons;
}

}  // namespace fp4lab
