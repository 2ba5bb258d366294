// Sweeps: the cartesian product of rungs and knobs, pruned by the legality rules, every point verified.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fp4lab/run.h"
#include "fp4lab/search.h"

namespace fp4lab {

struct Axis {
  std::string knob;
  std::vector<std::string> values;
};

// "1..6", "64,128,256", "static,dynamic", "1..3,6".
Axis parse_axis(const std::string& knob, const std::string& values);

struct SweepPoints {
  std::vector<Candidate> legal;  // no two alike
  std::map<std::string, size_t>
      dropped;  // rule -> points that it forbade (a point counts once, for its first rule)
  std::map<std::string, std::string> example;  // rule -> what it said of the first such point
  size_t total = 0;
  Lattice lattice;  // of the legal ones; its first axis is the rung, then come the axes
  // Keeps these legal points, in this order.
  void keep(const std::vector<size_t>& chosen);
};
SweepPoints sweep_points(const Case& c, const std::vector<const Rung*>& rungs, const std::vector<Axis>& axes);

}  // namespace fp4lab
