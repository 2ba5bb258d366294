// Graphs: nodes and edges, made by capture (capture.cpp) or by calls (graph_nodes.cpp).
#include "emulator/driver/graph.h"

#include <algorithm>
#include <map>

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

namespace fp4lab::emu::driver {

CUgraphNode add_node(CUgraph_st& graph, CUgraphNodeType type, Work work, std::vector<CUgraphNode_st*> needs) {
  graph.nodes.push_back(std::make_unique<CUgraphNode_st>(&graph, type, std::move(work), std::move(needs)));
  return graph.nodes.back().get();
}

bool has_nodes(CUgraph graph, const CUgraphNode* nodes, size_t count) {
  return std::all_of(nodes, nodes + count, [&](CUgraphNode n) { return exists(n) && n->graph == graph; });
}

CUresult add_checked_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs, size_t count,
                          CUgraphNodeType type, Work work) {
  if (CUresult r = ready_anywhere()) return r;
  if (!out || !exists(graph) || (count && !needs)) return CUDA_ERROR_INVALID_VALUE;
  if (!has_nodes(graph, needs, count)) return CUDA_ERROR_INVALID_VALUE;
  *out = add_node(*graph, type, std::move(work), {needs, needs + count});
  return CUDA_SUCCESS;
}

Work record_work(CUevent event) {
  return {[event] { return cuEventRecord(event, nullptr); }, event};
}

}  // namespace fp4lab::emu::driver

namespace {

// Whether the caller's graph or node is valid for the call.
template <class T>
CUresult check(const T* handle) {
  if (CUresult r = ready(false)) return r;
  return exists(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult check(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  if (CUresult r = check(graph)) return r;
  if (count && (!from || !to)) return CUDA_ERROR_INVALID_VALUE;
  return has_nodes(graph, from, count) && has_nodes(graph, to, count) ? CUDA_SUCCESS
                                                                      : CUDA_ERROR_INVALID_VALUE;
}

// Returns a list by the API's convention: a null pointer asks for the count; surplus elements become null.
CUresult give(const std::vector<CUgraphNode>& from, CUgraphNode* to, size_t* count) {
  if (!count || (to && !*count)) return CUDA_ERROR_INVALID_VALUE;
  if (to)
    for (size_t i = 0; i < *count; ++i) to[i] = i < from.size() ? from[i] : nullptr;
  *count = to ? std::min(*count, from.size()) : from.size();
  return CUDA_SUCCESS;
}

struct Edge {
  CUgraphNode from, to;
};
CUgraphEdgeData data_of(const Edge& e) {
  const auto at = e.to->edges.find(e.from);
  return at == e.to->edges.end() ? CUgraphEdgeData{} : at->second;
}

// The same for edges, selected by `end`. A caller that asks for edges without their data would lose it if
// they have some (CUDA Driver API: CUDA_ERROR_LOSSY_QUERY).
CUresult give(const std::vector<Edge>& edges, CUgraphNode Edge::*end, CUgraphNode* to, CUgraphEdgeData* data,
              size_t* count) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> nodes;
  for (const Edge& e : edges) nodes.push_back(e.*end);
  if (to && !data && !std::ranges::all_of(edges, [](const Edge& e) { return is_plain(data_of(e)); }))
    return CUDA_ERROR_LOSSY_QUERY;
  for (size_t i = 0; data && i < *count; ++i)
    data[i] = i < edges.size() ? data_of(edges[i]) : CUgraphEdgeData{};
  return give(nodes, to, count);
}

std::vector<Edge> edges_to(CUgraphNode node) {
  std::vector<Edge> edges;
  for (const CUgraphNode need : node->needs) edges.push_back({need, node});
  return edges;
}

std::vector<CUgraphNode> all(const CUgraph_st& graph) {
  std::vector<CUgraphNode> nodes;
  for (const auto& node : graph.nodes) nodes.push_back(node.get());
  return nodes;
}

}  // namespace

bool fp4lab::emu::driver::allocates(const CUgraph_st& graph) {
  return std::ranges::any_of(graph.nodes, [](const auto& node) {
    return node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
  });
}

CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  if (CUresult r = ready(false)) return r;
  if (!graph || flags) return CUDA_ERROR_INVALID_VALUE;
  *graph = new CUgraph_st;
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  if (CUresult r = ready(false)) return r;
  if (!exists(graph) || graph->is_child || is_captured(*graph)) return CUDA_ERROR_INVALID_VALUE;
  delete graph;
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* clone, CUgraph original) {
  if (CUresult r = ready(false)) return r;
  if (!clone || !exists(original)) return CUDA_ERROR_INVALID_VALUE;
  if (has_conditions(*original))
    return explain(CUDA_ERROR_NOT_SUPPORTED,
                   "a graph with conditional nodes can be neither cloned nor a child graph");
  if (allocates(*original))
    return explain(CUDA_ERROR_NOT_SUPPORTED,
                   "a graph that allocates or frees can be neither cloned nor a child graph");
  *clone = new CUgraph_st;
  std::map<CUgraphNode, CUgraphNode> twin;
  for (const auto& node : original->nodes) twin[node.get()] = add_node(**clone, node->type, node->work, {});
  for (const auto& [node, copy] : twin) copy->original = node;
  for (const auto& node : original->nodes)
    for (CUgraphNode need : node->needs) {
      CUgraphNode_st& copy = *twin[node.get()];
      copy.needs.push_back(twin[need]);
      if (const auto at = node->edges.find(need); at != node->edges.end())
        copy.edges[twin[need]] = at->second;
    }
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (CUresult r = check(graph)) return r;
  return give(all(*graph), nodes, count);
}
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (CUresult r = check(graph)) return r;
  std::vector<CUgraphNode> roots = all(*graph);
  std::erase_if(roots, [](CUgraphNode n) { return !n->needs.empty(); });
  return give(roots, nodes, count);
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  if (CUresult r = check(node)) return r;
  if (!type) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
}

extern "C" {
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphGetEdges
#undef cuGraphAddDependencies
#undef cuGraphRemoveDependencies
CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data,
                                               size_t* count) {
  if (CUresult r = check(node)) return r;
  return give(edges_to(node), &Edge::from, nodes, data, count);
}
CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data,
                                                 size_t* count) {
  if (CUresult r = check(node)) return r;
  std::vector<Edge> behind;
  for (const CUgraphNode n : all(*node->graph))
    if (std::ranges::find(n->needs, node) != n->needs.end()) behind.push_back({node, n});
  return give(behind, &Edge::to, nodes, data, count);
}
CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                                    size_t* count) {
  if (CUresult r = check(graph)) return r;
  std::vector<Edge> edges;
  for (const auto& node : graph->nodes) std::ranges::copy(edges_to(node.get()), std::back_inserter(edges));
  if ((from || to) && (!from || !to)) return CUDA_ERROR_INVALID_VALUE;
  size_t places = count ? *count : 0;
  if (CUresult r = give(edges, &Edge::from, from, data, count)) return r;
  return give(edges, &Edge::to, to, data, &places);
}
CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                           const CUgraphEdgeData* data, size_t count) {
  if (CUresult r = check(graph, from, to, count)) return r;
  for (size_t i = 0; i < count; ++i) {
    if (from[i] == to[i] || std::ranges::find(to[i]->needs, from[i]) != to[i]->needs.end())
      return CUDA_ERROR_INVALID_VALUE;
    to[i]->needs.push_back(from[i]);
    if (data && !is_plain(data[i])) to[i]->edges[from[i]] = data[i];
  }
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                              const CUgraphEdgeData*, size_t count) {
  if (CUresult r = check(graph, from, to, count)) return r;
  if (allocates(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  for (size_t i = 0; i < count; ++i) {
    if (!std::erase(to[i]->needs, from[i])) return CUDA_ERROR_INVALID_VALUE;
    to[i]->edges.erase(from[i]);
  }
  return CUDA_SUCCESS;
}
}

CUresult cuGraphNodeFindInClone(CUgraphNode* found, CUgraphNode original, CUgraph clone) {
  if (CUresult r = check(clone)) return r;
  if (!found || !original) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& node : clone->nodes)
    if (node->original == original) return *found = node.get(), CUDA_SUCCESS;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
  if (CUresult r = check(node)) return r;
  CUgraph_st& graph = *node->graph;
  if (is_captured(graph)) return CUDA_ERROR_INVALID_VALUE;
  if (allocates(graph)) return CUDA_ERROR_NOT_SUPPORTED;
  for (const auto& other : graph.nodes) std::erase(other->needs, node), other->edges.erase(node);
  std::erase_if(graph.nodes, [node](const auto& n) { return n.get() == node; });
  return CUDA_SUCCESS;
}
