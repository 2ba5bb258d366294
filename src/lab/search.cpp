#include "fp4lab/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

namespace fp4lab {
namespace {

bool tried(Known known, size_t point) { return !std::isnan(known[point]); }

// The best of the points that are known; none where none is good.
std::optional<size_t> best_of(Known known, const std::vector<size_t>& points) {
  std::optional<size_t> best;
  for (const size_t p : points)
    if (std::isfinite(known[p]) && (!best || known[p] < known[*best])) best = p;
  return best;
}

void shuffle(std::vector<size_t>& order, std::mt19937_64& random) {
  // Not std::shuffle: every library does that in its own way.
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
}

class Ordered : public Search {
 public:
  explicit Ordered(std::vector<size_t> order) : order_(std::move(order)) {}

  std::vector<size_t> next(Known known, size_t most) override {
    std::vector<size_t> some;
    for (; at_ < order_.size() && some.size() < most; ++at_)
      if (!tried(known, order_[at_])) some.push_back(order_[at_]);
    return some;
  }

 protected:
  std::vector<size_t> order_;
  size_t at_ = 0;
};

class Halving : public Ordered {
 public:
  using Ordered::Ordered;

  bool quick() const override { return true; }
  std::vector<size_t> finalists(Known known) const override {
    std::vector<size_t> good;
    for (const size_t p : order_)
      if (std::isfinite(known[p])) good.push_back(p);
    std::ranges::stable_sort(good, {}, [&](size_t p) { return known[p]; });
    good.resize((good.size() + 3) / 4);
    return good;
  }
};

class Local : public Search {
 public:
  Local(const Lattice& lattice, std::vector<size_t> starts, uint64_t seed)
      : starts_(std::move(starts)), random_(seed) {
    const size_t axes = lattice.extent.size();
    for (const auto& [place, point] : lattice.points) {
      Spot spot{point, std::vector<int>(axes)};
      for (size_t axis = axes, rest = place; axis-- > 0; rest /= lattice.extent[axis])
        spot.values[axis] = static_cast<int>(rest % lattice.extent[axis]);
      if (first_.size() <= point) first_.resize(point + 1, lattice.points.size());
      first_[point] = std::min(first_[point], spots_.size());
      spots_.push_back(std::move(spot));
    }
  }

  std::vector<size_t> next(Known known, size_t most) override {
    for (;;) {
      if (!at_ && !begin(known)) return some(known, starting_, most);
      std::vector<size_t> open;
      std::optional<size_t> better;
      for (const size_t n : neighbours_) {
        if (!tried(known, n))
          open.push_back(n);
        else if (known[n] < known[better.value_or(*at_)])
          better = n;
      }
      if (better)
        go_to(*better);
      else if (!open.empty())
        return some(known, open, std::min(most, kStep));
      else
        at_.reset(), starting_.clear();
    }
  }

 private:
  static constexpr size_t kStarts = 8, kFurtherStarts = 4, kStep = 4;

  static std::vector<size_t> some(Known known, const std::vector<size_t>& points, size_t most) {
    std::vector<size_t> untried;
    for (const size_t p : points)
      if (!tried(known, p) && untried.size() < most) untried.push_back(p);
    return untried;
  }

  // Goes to the best of a few starts; false while some of them are not tried, and when none is left.
  bool begin(Known known) {
    for (;;) {
      if (starting_.empty())
        for (const size_t want = next_start_ ? kFurtherStarts : kStarts;
             next_start_ < starts_.size() && starting_.size() < want; ++next_start_)
          if (!tried(known, starts_[next_start_])) starting_.push_back(starts_[next_start_]);
      if (starting_.empty() || std::ranges::any_of(starting_, [&](size_t p) { return !tried(known, p); }))
        return false;
      if (const auto best = best_of(known, starting_)) {
        go_to(*best);
        return true;
      }
      starting_.clear();  // all of them failed
    }
  }

  void go_to(size_t point) {
    at_ = point;
    neighbours_.clear();
    const std::vector<int>& here = spots_[first_[point]].values;
    for (size_t axis = 0; axis < here.size(); ++axis)
      for (const int step : {1, -1})
        if (const auto n = beside(point, here, axis, step);
            n && std::ranges::find(neighbours_, *n) == neighbours_.end())
          neighbours_.push_back(*n);
    shuffle(neighbours_, random_);
  }

  // The legal point a step along the axis whose other values are nearest to those here.
  std::optional<size_t> beside(size_t point, const std::vector<int>& here, size_t axis, int step) const {
    std::optional<size_t> nearest;
    int least = std::numeric_limits<int>::max();
    for (const Spot& spot : spots_) {
      const int along = (spot.values[axis] - here[axis]) * step;
      if (along <= 0 || spot.point == point) continue;
      int distance = 1000 * (along - 1);
      for (size_t a = 0; a < here.size() && distance < least; ++a)
        if (a != axis) distance += std::abs(spot.values[a] - here[a]);
      if (distance < least) least = distance, nearest = spot.point;
    }
    return nearest;
  }

  struct Spot {
    size_t point;
    std::vector<int> values;
  };
  std::vector<Spot> spots_;    // in the order of their places
  std::vector<size_t> first_;  // of each point
  std::vector<size_t> starts_, starting_, neighbours_;
  size_t next_start_ = 0;
  std::optional<size_t> at_;
  std::mt19937_64 random_;
};

}  // namespace

std::vector<size_t> shuffled(size_t count, uint64_t seed) {
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = i;
  std::mt19937_64 random(seed);
  shuffle(order, random);
  return order;
}

std::unique_ptr<Search> ordered_search(std::vector<size_t> order) {
  return std::make_unique<Ordered>(std::move(order));
}
std::unique_ptr<Search> local_search(const Lattice& lattice, std::vector<size_t> starts, uint64_t seed) {
  return std::make_unique<Local>(lattice, std::move(starts), seed);
}
std::unique_ptr<Search> halving_search(std::vector<size_t> order) {
  return std::make_unique<Halving>(std::move(order));
}

SearchEnd search(Search& strategy, size_t points, const StopRules& rules, const Evaluate& evaluate,
                 size_t batch) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::vector<double> known(points, std::numeric_limits<double>::quiet_NaN());
  std::vector<size_t> all;  // that were tried, in order
  SearchEnd end;
  double least = std::numeric_limits<double>::infinity();
  size_t without_gain = 0;
  while (end.stopped.empty()) {
    const size_t room = rules.points ? rules.points - all.size() : points;
    if (!room) {
      end.stopped = fmt::format("--points {}", rules.points);
      break;
    }
    size_t most = batch ? std::min(batch, room) : room;
    if (rules.patience) most = std::min(most, rules.patience - without_gain);
    const std::vector<size_t> some = strategy.next(known, most);
    if (some.empty()) {
      end.stopped = "every point was tried";
      break;
    }
    evaluate(some, !strategy.quick(), known);
    for (const size_t p : some) {
      if (!tried(known, p)) continue;
      all.push_back(p);
      without_gain = known[p] < least ? 0 : without_gain + 1;
      least = std::min(least, known[p]);
      if (rules.patience && without_gain >= rules.patience)
        end.stopped = fmt::format("--patience {}", rules.patience);
    }
    const bool all_tried = std::ranges::all_of(some, [&](size_t p) { return tried(known, p); });
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (!all_tried || (rules.seconds > 0 && seconds >= rules.seconds))
      end.stopped = fmt::format("--seconds {:g}", rules.seconds);
  }
  end.tried = all.size();
  if (const std::vector<size_t> last = strategy.finalists(known); !last.empty()) {
    const std::vector<double> quick = known;
    for (const size_t p : last) known[p] = std::numeric_limits<double>::quiet_NaN();
    evaluate(last, true, known);
    std::vector<size_t> again;
    for (const size_t p : last)
      if (tried(known, p)) again.push_back(p);
    if (again.empty())
      known = quick;  // interrupted: the quick times decide
    else
      all = again;
  }
  end.best = best_of(known, all);
  if (end.best) end.us = known[*end.best];
  return end;
}

}  // namespace fp4lab
