// Searching many plans for the fastest by trying few of them: strategies that name the points to try next,
// and the rules by which a search stops. They know no kernels: a point is a number, what came of it a time.
//
//   const SweepPoints points = sweep_points(c, rungs, axes);
//   const auto local = local_search(points.lattice, shuffled(points.legal.size(), seed), seed);
//   const SearchEnd end = search(*local, points.legal.size(), {.points = 60}, evaluate);
//
// Equal seeds and equal times give equal ways: a search that was interrupted goes on where its recorded
// points end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fp4lab {

/// Where points lie: each knob is an axis, its values in the order in which they were given.
struct Lattice {
  std::vector<size_t> extent;  // values of each axis
  // Place (row-major, the last axis runs fastest) and the point that lies there, ascending. A point may lie
  // at several places: a knob can be without effect.
  std::vector<std::pair<size_t, size_t>> points;
};

/// What is known of every point: microseconds; NaN: not tried; infinity: tried, and it failed.
using Known = std::span<const double>;

class Search {
 public:
  virtual ~Search() = default;
  /// Points to try next, at most `most`, none of them known. Empty: nothing is left.
  virtual std::vector<size_t> next(Known known, size_t most) = 0;
  /// Whether those may be measured quickly, because `finalists` are measured again, with care.
  virtual bool quick() const { return false; }
  virtual std::vector<size_t> finalists(Known) const { return {}; }
};

/// 0 .. count - 1 in an order that the seed decides.
std::vector<size_t> shuffled(size_t count, uint64_t seed);

/// All of `order`, one after the other: the grid, or without replacement what was shuffled.
std::unique_ptr<Search> ordered_search(std::vector<size_t> order);
/// Begins with the best of a few points from the front of `starts`, and goes to the best neighbour as long as
/// that is better. A neighbour is one step away along one axis; along the others it is the nearest point that
/// is legal there (more stages need smaller tiles). At a point without a better neighbour it begins anew,
/// further on in `starts`.
std::unique_ptr<Search> local_search(const Lattice& lattice, std::vector<size_t> starts, uint64_t seed);
/// Successive halving: `order`, best guess first, is measured quickly; the best quarter is measured again.
std::unique_ptr<Search> halving_search(std::vector<size_t> order);

/// Rules by which a search ends; 0: no such rule.
struct StopRules {
  size_t points = 0;    // tried; a second measurement of the same point does not count
  double seconds = 0;   // from now
  size_t patience = 0;  // points in a row without a gain
  bool any() const { return points || seconds > 0 || patience; }
};

struct SearchEnd {
  std::optional<size_t> best;  // none: nothing that was tried was good
  double us = 0;               // its time
  size_t tried = 0;
  std::string stopped;  // by which rule: "--points 60"
};

/// Tries the points and writes their times in `known`; what it had no more time for stays as it is.
/// `careful`: they are finalists.
using Evaluate =
    std::function<void(const std::vector<size_t>& points, bool careful, std::span<double> known)>;

/// Asks the strategy for points until a rule or the end of the points stops it. `batch`: points that are
/// given to `evaluate` at once, at most; 0: as many as there are.
SearchEnd search(Search& strategy, size_t points, const StopRules& rules, const Evaluate& evaluate,
                 size_t batch = 8);

}  // namespace fp4lab
