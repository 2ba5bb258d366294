// Graphs: nodes with their work, by capture (stream.cpp) or one by one; a launch runs them one after the
// other in an order that the edges allow.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "emulator/driver/state.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

namespace fp4lab::emu::driver {

CUgraphNode add_node(CUgraph_st& graph, CUgraphNodeType type, Work work, std::vector<CUgraphNode_st*> needs) {
  graph.nodes.push_back(
      std::make_unique<CUgraphNode_st>(CUgraphNode_st{&graph, type, std::move(work), std::move(needs)}));
  return graph.nodes.back().get();
}

}  // namespace fp4lab::emu::driver

namespace {

// The nodes in an order that the edges allow, those added first first. Shorter than the graph: it has a
// cycle.
std::vector<CUgraphNode> in_order(const CUgraph_st& graph) {
  std::vector<CUgraphNode> order;
  std::set<CUgraphNode> done;
  for (size_t before = 1; before != order.size() && order.size() < graph.nodes.size();) {
    before = order.size();
    for (const auto& node : graph.nodes) {
      const auto ready = [&](CUgraphNode n) { return done.contains(n); };
      if (done.contains(node.get()) || !std::ranges::all_of(node->needs, ready)) continue;
      order.push_back(node.get());
      done.insert(node.get());
    }
    if (order.size() == before) break;
  }
  return order;
}

CUresult steps_of(const CUgraph_st& graph, std::vector<CUgraphExec_st::Step>* steps) {
  const std::vector<CUgraphNode> order = in_order(graph);
  if (order.size() < graph.nodes.size()) return CUDA_ERROR_INVALID_VALUE;  // a cycle
  for (const CUgraphNode node : order) steps->push_back({node, node->work});
  return CUDA_SUCCESS;
}

CUresult run_steps(const std::vector<CUgraphExec_st::Step>& steps) {
  for (const auto& step : steps)
    if (step.enabled && step.work)
      if (CUresult r = step.work()) return r;
  return CUDA_SUCCESS;
}

CUresult add(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs, size_t count, CUgraphNodeType type,
             Work work) {
  if (CUresult r = ready()) return r;
  if (!out || !graph || (count && !needs)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i)
    if (!needs[i] || needs[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
  *out = add_node(*graph, type, std::move(work), {needs, needs + count});
  return CUDA_SUCCESS;
}

CUresult work_of(const CUDA_KERNEL_NODE_PARAMS& p, Work* work) {
  return prepare_launch(p.func,
                        {{p.gridDimX, p.gridDimY, p.gridDimZ},
                         {p.blockDimX, p.blockDimY, p.blockDimZ},
                         {1, 1, 1},
                         p.sharedMemBytes,
                         {},
                         false},
                        p.kernelParams, p.extra, work);
}

CUresult fill_work(const CUDA_MEMSET_NODE_PARAMS& p, Work* work) {
  if (p.elementSize != 1 && p.elementSize != 2 && p.elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
  *work = [p] {
    const size_t pitch = p.height > 1 ? p.pitch : p.width * p.elementSize;
    switch (p.elementSize) {
      case 1:
        return cuMemsetD2D8(p.dst, pitch, static_cast<unsigned char>(p.value), p.width, p.height);
      case 2:
        return cuMemsetD2D16(p.dst, pitch, static_cast<unsigned short>(p.value), p.width, p.height);
      default:
        return cuMemsetD2D32(p.dst, pitch, p.value, p.width, p.height);
    }
  };
  return CUDA_SUCCESS;
}

// New work for one node of an instantiated graph.
CUresult replace(CUgraphExec exec, CUgraphNode node, Work work) {
  for (auto& step : exec->steps)
    if (step.node == node) {
      step.work = std::move(work);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

// Gives out a list by the API's convention: a null pointer asks for the count; missing places become null.
CUresult give(const std::vector<CUgraphNode>& from, CUgraphNode* to, size_t* count) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (to)
    for (size_t i = 0; i < *count; ++i) to[i] = i < from.size() ? from[i] : nullptr;
  *count = to ? std::min(*count, from.size()) : from.size();
  return CUDA_SUCCESS;
}

std::vector<CUgraphNode> all(const CUgraph_st& graph) {
  std::vector<CUgraphNode> nodes;
  for (const auto& node : graph.nodes) nodes.push_back(node.get());
  return nodes;
}

}  // namespace

CUresult cuGraphCreate(CUgraph* graph, unsigned) {
  if (CUresult r = ready()) return r;
  *graph = new CUgraph_st;
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* clone, CUgraph original) {
  if (CUresult r = ready()) return r;
  *clone = new CUgraph_st;
  std::map<CUgraphNode, CUgraphNode> twin;
  for (const auto& node : original->nodes) twin[node.get()] = add_node(**clone, node->type, node->work, {});
  for (const auto& node : original->nodes)
    for (CUgraphNode need : node->needs) twin[node.get()]->needs.push_back(twin[need]);
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return give(all(*graph), nodes, count);
}
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  std::vector<CUgraphNode> roots = all(*graph);
  std::erase_if(roots, [](CUgraphNode n) { return !n->needs.empty(); });
  return give(roots, nodes, count);
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  *type = node->type;
  return CUDA_SUCCESS;
}

extern "C" {
#undef cuGraphNodeGetDependencies
#undef cuGraphAddDependencies
#undef cuGraphRemoveDependencies
CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData*,
                                               size_t* count) {
  return give(node->needs, nodes, count);
}
CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                           const CUgraphEdgeData*, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (from[i]->graph != graph || to[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
    to[i]->needs.push_back(from[i]);
  }
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                              const CUgraphEdgeData*, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (from[i]->graph != graph || to[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
    if (!std::erase(to[i]->needs, from[i])) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
  CUgraph_st& graph = *node->graph;
  for (const auto& other : graph.nodes) std::erase(other->needs, node);
  std::erase_if(graph.nodes, [node](const auto& n) { return n.get() == node; });
  return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS* params) {
  Work work;
  if (CUresult r = work_of(*params, &work)) return r;
  return add(node, graph, needs, count, CU_GRAPH_NODE_TYPE_KERNEL, std::move(work));
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  return work_of(*params, &node->work);
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS* params) {
  Work work;
  if (CUresult r = work_of(*params, &work)) return r;
  return replace(exec, node, std::move(work));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                              const CUDA_MEMCPY3D* params, CUcontext) {
  return add(node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEMCPY, [c = *params] { return cuMemcpy3D(&c); });
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params,
                                        CUcontext) {
  return replace(exec, node, [c = *params] { return cuMemcpy3D(&c); });
}
CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  Work work;
  if (CUresult r = fill_work(*params, &work)) return r;
  return add(node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEMSET, std::move(work));
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  Work work;
  if (CUresult r = fill_work(*params, &work)) return r;
  return replace(exec, node, std::move(work));
}
CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                            const CUDA_HOST_NODE_PARAMS* params) {
  return add(node, graph, needs, count, CU_GRAPH_NODE_TYPE_HOST,
             [p = *params] { return p.fn(p.userData), CUDA_SUCCESS; });
}
CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count) {
  return add(node, graph, needs, count, CU_GRAPH_NODE_TYPE_EMPTY, {});
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                                  CUgraph child) {
  std::vector<CUgraphExec_st::Step> steps;
  if (CUresult r = steps_of(*child, &steps)) return r;
  return add(node, graph, needs, count, CU_GRAPH_NODE_TYPE_GRAPH,
             [steps = std::move(steps)] { return run_steps(steps); });
}
CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                                   CUevent event) {
  return add(node, graph, needs, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
             [event] { return cuEventRecord(event, nullptr); });
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                                 CUevent) {
  return add(node, graph, needs, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT, {});
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  if (CUresult r = ready()) return r;
  if (!exec || !graph) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<CUgraphExec_st>();
  if (CUresult r = steps_of(*graph, &made->steps)) return r;
  *exec = made.release();
  return CUDA_SUCCESS;
}
#undef cuGraphInstantiate
extern "C" CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode*, char*,
                                                  size_t) {
  return cuGraphInstantiateWithFlags(exec, graph, 0);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return cuGraphInstantiateWithFlags(exec, graph, 0);
}

// The same graph again with other parameters: nodes must agree in number and kind. Node handles stay those of
// the graph that was instantiated.
extern "C" {
#undef cuGraphExecUpdate
CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  std::vector<CUgraphExec_st::Step> steps;
  const CUresult r = steps_of(*graph, &steps);
  const bool same = !r && steps.size() == exec->steps.size();
  if (info)
    *info = {same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr,
             nullptr};
  if (!same) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  for (size_t i = 0; i < steps.size(); ++i) exec->steps[i].work = std::move(steps[i].work);
  return CUDA_SUCCESS;
}
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  for (auto& step : exec->steps)
    if (step.node == node) return step.enabled = enabled != 0, CUDA_SUCCESS;
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned* enabled) {
  for (auto& step : exec->steps)
    if (step.node == node) return *enabled = step.enabled, CUDA_SUCCESS;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  delete exec;
  return CUDA_SUCCESS;
}
CUresult cuGraphUpload(CUgraphExec, CUstream) { return ready(); }
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_GRAPH, [steps = exec->steps] { return run_steps(steps); });
}
