// Shared parts of the graph API: the nodes' work, and the steps of an instantiated graph.
#pragma once

#include "emulator/driver/state.h"

namespace fp4lab::emu::driver {

using Steps = std::vector<CUgraphExec_st::Step>;

// The graph's nodes in topological order, with the current work of each: bodies and child graphs may have
// changed since their nodes were made. CUDA_ERROR_INVALID_VALUE: the edges form a cycle.
CUresult steps_of(const CUgraph_st& graph, Steps* steps);
CUresult run_steps(const Steps& steps);

// A node's new work, for graphs that are instantiated later.
CUresult change(CUgraphNode node, CUgraphNodeType type, Work work);
// The step of a node in an instantiated graph; null if there is none. Either may be null.
CUgraphExec_st::Step* step_of(CUgraphExec exec, CUgraphNode node);
CUresult replace(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, Work work);

// An edge without data: the first node completes before the second begins.
inline bool is_plain(const CUgraphEdgeData& e) { return !e.from_port && !e.to_port && !e.type; }

CUresult child_work(CUgraph child, Work* work);

// graph_conditional.cpp
CUresult conditional_work(std::shared_ptr<const Conditional> made_from, Work* work);
// Sets conditions to their default values, for handles that ask for it, at the begin of a launch.
void assign_defaults(const std::vector<CUgraph_st::Condition>& conditions);
CUresult add_conditional_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                              CUDA_CONDITIONAL_NODE_PARAMS* params);
// Whether it, or a graph of one of its nodes, has a conditional node.
bool has_conditions(const CUgraph_st& graph);

}  // namespace fp4lab::emu::driver
