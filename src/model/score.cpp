#include <algorithm>
#include <cmath>
#include <map>

#include "fp4lab/timing.h"
#include "model/points.h"

namespace fp4lab::model {
namespace {

struct Pair {
  double predicted, measured;
};

// Kendall's tau-b: ties in either count for neither side. NaN when one of them is all ties.
double kendall(const std::vector<Pair>& v) {
  double concordant = 0, tied_p = 0, tied_m = 0, all = 0;
  for (size_t i = 0; i < v.size(); ++i)
    for (size_t j = 0; j < i; ++j, ++all) {
      const double p = v[i].predicted - v[j].predicted, m = v[i].measured - v[j].measured;
      tied_p += p == 0, tied_m += m == 0;
      if (p != 0 && m != 0) concordant += (p > 0) == (m > 0) ? 1 : -1;
    }
  return concordant / std::sqrt((all - tied_p) * (all - tied_m));
}

double regret(const std::vector<Pair>& v) {
  const auto chosen = std::ranges::min_element(v, {}, &Pair::predicted);
  const auto best = std::ranges::min_element(v, {}, &Pair::measured);
  return chosen->measured / best->measured - 1;
}

}  // namespace

std::vector<ClassErrors> class_errors(const std::vector<Point>& points, const std::vector<Answer>& answers) {
  struct Errors {
    std::vector<double> times, near, far;
    std::map<std::string, std::vector<Pair>> shapes;
  };
  std::map<std::string, Errors> classes;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!answers[i].prediction || points[i].measured_us <= 0 || !answers[i].prediction->validation.holds)
      continue;
    const Prediction& p = *answers[i].prediction;
    Errors& e = classes[p.validation.on];
    e.times.push_back(points[i].measured_us / p.us);
    e.shapes[points[i].source + points[i].dtype + points[i].shape()].push_back({p.us, points[i].measured_us});
  }
  std::vector<ClassErrors> all;
  const auto between = [](std::vector<double> v, double& low, double& high) {
    std::ranges::sort(v);
    if (!v.empty()) low = quantile(v, 0.1), high = quantile(v, 0.9);
  };
  for (auto& [on, e] : classes) {
    for (const auto& [shape, v] : e.shapes)
      for (const Pair& slow : v)
        for (const Pair& fast : v) {
          const double predicted = slow.predicted / fast.predicted;
          if (predicted <= 1) continue;
          (predicted < 1.2 ? e.near : e.far).push_back(slow.measured / fast.measured / predicted);
        }
    ClassErrors c{on, int(e.times.size()), int(e.near.size() + e.far.size())};
    between(e.times, c.low, c.high), between(e.near, c.near_low, c.near_high),
        between(e.far, c.far_low, c.far_high);
    all.push_back(c);
  }
  return all;
}

std::vector<Score> score(const std::vector<Point>& points, const std::vector<Answer>& answers) {
  using Key = std::array<std::string, 3>;
  std::map<Key, Score> scores;
  std::map<Key, std::map<std::string, std::vector<Pair>>> shapes;
  for (size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i];
    if (!answers[i].prediction || point.measured_us <= 0) continue;
    const Prediction& p = *answers[i].prediction;
    const Key key{point.source, point.kind, point.dtype};
    Score& s = scores[key];
    const double error = p.us / point.measured_us - 1;
    ++s.points, s.mape += std::abs(error), s.bias += error;
    s.inside += p.low <= point.measured_us && point.measured_us <= p.high;
    const std::string machine = fmt::format("{} {:.0f} MHz", p.machine, p.sm_mhz);
    s.machine = s.machine.empty() || s.machine == machine ? machine : p.machine + ", several";
    shapes[key][point.shape()].push_back({p.us, point.measured_us});
  }
  std::vector<Score> all;
  for (auto& [key, s] : scores) {
    s.source = key[0], s.kind = key[1], s.dtype = key[2];
    s.mape /= s.points, s.bias /= s.points, s.inside /= s.points;
    int ranked = 0;
    for (const auto& [shape, pairs] : shapes[key]) {
      if (pairs.size() < 3) continue;
      ++s.shapes, s.regret += regret(pairs);
      if (const double tau = kendall(pairs); !std::isnan(tau)) ++ranked, s.tau += tau;
    }
    if (s.shapes) s.regret /= s.shapes;
    if (ranked) s.tau /= ranked;
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace fp4lab::model
