// What an agent knows of the others: for each, up to which of its own steps everything has happened before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace fp4lab::emu {

class VectorClock {
 public:
  uint32_t operator[](uint32_t agent) const { return agent < at_.size() ? at_[agent] : 0; }
  void set(uint32_t agent, uint32_t step) {
    if (agent >= at_.size()) at_.resize(agent + 1);
    at_[agent] = std::max(at_[agent], step);
  }
  void join(const VectorClock& other) {
    if (other.at_.size() > at_.size()) at_.resize(other.at_.size());
    for (size_t k = 0; k < other.at_.size(); ++k) at_[k] = std::max(at_[k], other.at_[k]);
  }
  void clear() { at_.clear(); }

 private:
  std::vector<uint32_t> at_;
};

// Twice: what happened before, and what of it the async proxy sees as well (a proxy fence lies on the way).
struct Knowledge {
  VectorClock happened, fenced;
  void join(const Knowledge& k) {
    happened.join(k.happened);
    fenced.join(k.fenced);
  }
  void clear() {
    happened.clear();
    fenced.clear();
  }
};

}  // namespace fp4lab::emu
