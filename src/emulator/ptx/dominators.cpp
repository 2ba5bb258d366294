#include "emulator/ptx/dominators.h"

#include <algorithm>
#include <utility>

namespace fp4lab::emu {

// Cooper, Harvey, Kennedy, "A simple, fast dominance algorithm".
Dominators immediate_dominators(const std::vector<std::vector<uint32_t>>& successors,
                                const std::vector<std::vector<uint32_t>>& predecessors, uint32_t root) {
  constexpr uint32_t kNone = Dominators::kNone;
  const auto n = static_cast<uint32_t>(successors.size());
  Dominators d{std::vector<uint32_t>(n, kNone), {}};
  std::vector<uint32_t> number(n, kNone);  // in post-order
  std::vector<std::pair<uint32_t, size_t>> stack{{root, 0}};
  std::vector<char> seen(n, 0);
  seen[root] = 1;
  while (!stack.empty()) {
    auto& [b, i] = stack.back();
    if (i < successors[b].size()) {
      const uint32_t next = successors[b][i++];
      if (!std::exchange(seen[next], 1)) stack.emplace_back(next, 0);
    } else {
      number[b] = static_cast<uint32_t>(d.order.size());
      d.order.push_back(b);
      stack.pop_back();
    }
  }
  std::reverse(d.order.begin(), d.order.end());
  d.up[root] = root;
  const auto meet = [&](uint32_t a, uint32_t b) {
    while (a != b) {
      while (number[a] < number[b]) a = d.up[a];
      while (number[b] < number[a]) b = d.up[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const uint32_t b : d.order) {
      if (b == root) continue;
      uint32_t best = kNone;
      // Last one first: in a chain of blocks that all lead here, each is then intersected with its neighbour.
      for (auto p = predecessors[b].rbegin(); p != predecessors[b].rend(); ++p)
        if (d.up[*p] != kNone) best = best == kNone ? *p : meet(*p, best);
      if (best != std::exchange(d.up[b], best)) changed = true;
    }
  }
  return d;
}

}  // namespace fp4lab::emu
