// Strategies that find a fast plan by trying few: on the model's own times, so that the best of all is known.
#include "fp4lab/search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fp4lab/model.h"
#include "fp4lab/sweep.h"

using namespace fp4lab;

namespace {

constexpr double kFailed = std::numeric_limits<double>::infinity();

// Points on a line: us[p] at place p.
struct Line {
  std::vector<double> us;
  Lattice lattice;
  std::vector<size_t> asked;
  explicit Line(std::vector<double> times) : us(std::move(times)), lattice{{us.size()}, {}} {
    for (size_t p = 0; p < us.size(); ++p) lattice.points.emplace_back(p, p);
  }
  Evaluate evaluate() {
    return [this](const std::vector<size_t>& points, bool, std::span<double> known) {
      for (const size_t p : points) known[p] = us[p], asked.push_back(p);
    };
  }
};

std::vector<size_t> in_order(size_t count) {
  std::vector<size_t> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

}  // namespace

TEST_CASE("search: 60 of 5,000 legal plans are enough to come within 2 % of the best") {
  const Case c = find_case("g8k7168");
  std::vector<const Rung*> rungs;
  for (const char* name : {"v7", "v12", "v14"}) rungs.push_back(&find_rung("sm_100a", Op::kGroup, name));
  std::vector<Axis> axes;
  for (const auto& [knob, values] :
       {std::pair("mma_n", "32,64,96,128,160,192,224,256"), std::pair("block_k", "256,512"),
        std::pair("stages", "2..8"), std::pair("acc_slots", "1,2"), std::pair("split_k", "1..8"),
        std::pair("multicast", "0,1"), std::pair("ctas", "0,118,132")})
    axes.push_back(parse_axis(knob, values));
  const SweepPoints points = sweep_points(c, rungs, axes);
  CHECK(points.legal.size() >= 5000);
  std::vector<double> us;
  for (const Candidate& candidate : points.legal) us.push_back(predict(candidate, c).us);
  const double best = *std::ranges::min_element(us);
  // Few plans are so good that any search would meet one.
  CHECK(std::ranges::count_if(us, [&](double t) { return t <= 1.02 * best; }) < double(us.size()) / 50);

  const auto within = [&](const auto& strategy_of) {
    int found = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      std::vector<size_t> asked;
      const auto strategy = strategy_of(seed);
      const SearchEnd end = search(*strategy, us.size(), {.points = 60},
                                   [&](const std::vector<size_t>& some, bool, std::span<double> known) {
                                     for (const size_t p : some) known[p] = us[p], asked.push_back(p);
                                   });
      CHECK(end.tried == 60);
      std::ranges::sort(asked);
      CHECK(asked.size() == 60);  // none twice
      CHECK(std::ranges::adjacent_find(asked) == asked.end());
      CHECK(end.us == us[end.best.value()]);
      found += end.us <= 1.02 * best;
    }
    return found;
  };
  const auto order = [&](uint64_t seed) { return shuffled(us.size(), seed); };
  CHECK(within([&](uint64_t seed) { return local_search(points.lattice, order(seed), seed); }) == 20);
  // Random is what local must be better than: it finds one in some of the runs.
  const int random = within([&](uint64_t seed) { return ordered_search(order(seed)); });
  CHECK(random > 5);
  CHECK(random < 20);
}

TEST_CASE("search: equal seeds go the same way, others go another") {
  std::vector<double> us;
  for (int i = 0; i < 200; ++i) us.push_back(10 + std::abs(i - 137) % 40 + (i * 7919) % 5);
  const auto way = [&](uint64_t seed, size_t batch) {
    Line line(us);
    const auto strategy = local_search(line.lattice, shuffled(us.size(), seed), seed);
    search(*strategy, us.size(), {.points = 50}, line.evaluate(), batch);
    return line.asked;
  };
  CHECK(way(3, 16) == way(3, 16));
  CHECK(way(3, 16) != way(4, 16));
  CHECK(shuffled(9, 1) == shuffled(9, 1));
  auto order = shuffled(9, 1);
  CHECK(order != in_order(9));
  std::ranges::sort(order);
  CHECK(order == in_order(9));
}

TEST_CASE("search: it says which rule stopped it") {
  const auto grid = [](Line& line, const StopRules& rules) {
    const auto strategy = ordered_search(in_order(line.us.size()));
    return search(*strategy, line.us.size(), rules, line.evaluate());
  };
  Line line({5, 4, 6, 7, 8, 9, 1, 2});
  SearchEnd end = grid(line, {});
  CHECK(end.stopped == "every point was tried");
  CHECK((end.tried == 8 && end.best == 6 && end.us == 1));
  end = grid(line, {.points = 3});
  CHECK(end.stopped == "--points 3");
  CHECK((end.tried == 3 && end.best == 1));
  end = grid(line, {.patience = 3});  // 6, 7 and 8 are no gain
  CHECK(end.stopped == "--patience 3");
  CHECK((end.tried == 5 && end.best == 1));
  end = grid(line, {.points = 5, .patience = 30});
  CHECK(end.stopped == "--points 5");

  // What there was no time for is not known.
  const auto strategy = ordered_search(in_order(8));
  end =
      search(*strategy, 8, {.seconds = 100},
             [&](const std::vector<size_t>& points, bool, std::span<double> known) { known[points[0]] = 3; });
  CHECK(end.stopped == "--seconds 100");
  CHECK((end.tried == 1 && end.best == 0));

  Line bad({kFailed, kFailed});
  end = grid(bad, {});
  CHECK_FALSE(end.best);
  CHECK(end.tried == 2);
}

TEST_CASE("search: local climbs from its starts, over gaps, and begins anew where nothing is better") {
  // Two valleys: places 0 .. 99, the deeper one where few starts are; every third place is no legal point.
  std::vector<double> us;
  Lattice lattice{{100}, {}};
  for (size_t place = 0; place < 100; ++place) {
    if (place % 3 == 1) continue;
    lattice.points.emplace_back(place, us.size());
    us.push_back(place < 80 ? 50 + double(place) : 20 + std::abs(double(place) - 90));
  }
  const auto strategy = local_search(lattice, in_order(us.size()), 1);
  size_t asked = 0;
  const SearchEnd end =
      search(*strategy, us.size(), {}, [&](const std::vector<size_t>& points, bool, std::span<double> known) {
        for (const size_t p : points) known[p] = us[p], ++asked;
      });
  CHECK(end.us == 20);
  CHECK(asked == us.size());  // without a rule it ends when all was tried
  // A knob without effect puts one plan at several places; more of one knob may need less of another.
  const Lattice diagonal{{3, 3}, {{0, 0}, {1, 0}, {4, 1}, {8, 2}}};
  std::vector<size_t> way;
  const std::vector<double> times{3, 2, 1};
  const auto steps = local_search(diagonal, {0}, 1);
  search(*steps, 3, {}, [&](const std::vector<size_t>& points, bool, std::span<double> known) {
    for (const size_t p : points) known[p] = times[p], way.push_back(p);
  });
  CHECK(way == std::vector<size_t>{0, 1, 2});
}

TEST_CASE("search: halving measures the best quarter again, and that decides") {
  // In front by the model; quickly measured the second is best; with care the first is.
  const std::vector<double> quick{10, 9, 30, 40, 50, 60, 70, 80}, careful{8, 9, 1, 1, 1, 1, 1, 1};
  std::vector<std::pair<size_t, bool>> asked;
  const auto strategy = halving_search(in_order(8));
  const SearchEnd end =
      search(*strategy, 8, {.points = 7},
             [&](const std::vector<size_t>& points, bool with_care, std::span<double> known) {
               for (const size_t p : points) {
                 known[p] = (with_care ? careful : quick)[p];
                 asked.emplace_back(p, with_care);
               }
             });
  CHECK(asked.size() == 9);
  CHECK((asked[7] == std::pair<size_t, bool>(1, true) && asked[8] == std::pair<size_t, bool>(0, true)));
  CHECK((end.best == 0 && end.us == 8 && end.tried == 7));
}

TEST_CASE("search: where no finalist could be measured again the quick times decide") {
  const auto strategy = halving_search(in_order(8));
  const SearchEnd end =
      search(*strategy, 8, {.points = 7},
             [](const std::vector<size_t>& points, bool with_care, std::span<double> known) {
               for (const size_t p : points)
                 if (!with_care) known[p] = p == 3 ? 5 : 10;
             });
  CHECK((end.best == 3 && end.us == 5 && end.tried == 7));
}
