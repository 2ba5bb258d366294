// Dominators: the nodes of a graph that every path from its root to a node passes.
#pragma once

#include <cstdint>
#include <vector>

namespace fp4lab::emu {

struct Dominators {
  static constexpr uint32_t kNone = 0xffffffff;

  std::vector<uint32_t> up;     // the immediate dominator; of the root itself; kNone for unreachable nodes
  std::vector<uint32_t> order;  // the reachable nodes in reverse post-order: the root first
};

// The post-dominators are those of the reversed graph, from its exit.
Dominators immediate_dominators(const std::vector<std::vector<uint32_t>>& successors,
                                const std::vector<std::vector<uint32_t>>& predecessors, uint32_t root);

}  // namespace fp4lab::emu
