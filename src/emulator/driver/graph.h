// What the parts of the graph API share: nodes' work, and the steps that a graph becomes when it is
// instantiated.
#pragma once

#include "emulator/driver/state.h"

namespace fp4lab::emu::driver {

using Steps = std::vector<CUgraphExec_st::Step>;

// The graph's nodes in an order that the edges allow, with the work of each as it is now: bodies and child
// graphs may have changed since their nodes were made. CUDA_ERROR_INVALID_VALUE: the edges make a cycle.
CUresult steps_of(const CUgraph_st& graph, Steps* steps);
CUresult run_steps(const Steps& steps);

// A node's new work, for launches of graphs that are instantiated later.
CUresult change(CUgraphNode node, CUgraphNodeType type, Work work);
// What a node has become in an instantiated graph; null where there is none. Either may be null.
CUgraphExec_st::Step* step_of(CUgraphExec exec, CUgraphNode node);
CUresult replace(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, Work work);

// An edge without data: all of the one node is done before the other begins.
inline bool is_plain(const CUgraphEdgeData& e) { return !e.from_port && !e.to_port && !e.type; }

CUresult child_work(CUgraph child, Work* work);

// graph_conditional.cpp
CUresult conditional_work(std::shared_ptr<const Conditional> made_from, Work* work);
// Gives the conditions of handles that ask for it their default values, at the begin of a launch.
void assign_defaults(const std::vector<CUgraph_st::Condition>& conditions);
CUresult add_conditional_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                              CUDA_CONDITIONAL_NODE_PARAMS* params);
// Is there a conditional node in it, or in a graph of one of its nodes?
bool has_conditions(const CUgraph_st& graph);

}  // namespace fp4lab::emu::driver
