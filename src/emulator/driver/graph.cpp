// Graphs: nodes with their work, by capture (capture.cpp) or one by one; a launch runs them one after the
// other in an order that the edges allow.
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

bool has_nodes(CUgraph graph, const CUgraphNode* nodes, size_t count) {
  return std::all_of(nodes, nodes + count, [&](CUgraphNode n) { return n && n->graph == graph; });
}

CUresult add_checked_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* needs, size_t count,
                          CUgraphNodeType type, Work work) {
  if (CUresult r = ready()) return r;
  if (!out || !graph || (count && !needs)) return CUDA_ERROR_INVALID_VALUE;
  if (!has_nodes(graph, needs, count)) return CUDA_ERROR_INVALID_VALUE;
  *out = add_node(*graph, type, std::move(work), {needs, needs + count});
  return CUDA_SUCCESS;
}

Work record_work(CUevent event) {
  return {[event] { return cuEventRecord(event, nullptr); }, event};
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

CUresult child_work(CUgraph child, Work* work);

CUresult steps_of(const CUgraph_st& graph, std::vector<CUgraphExec_st::Step>* steps) {
  const std::vector<CUgraphNode> order = in_order(graph);
  if (order.size() < graph.nodes.size()) return CUDA_ERROR_INVALID_VALUE;  // a cycle
  for (const CUgraphNode node : order) {
    steps->push_back({node, node->work});
    // A child graph as it is now: its nodes may have changed since the node was made.
    if (const CUgraph* child = std::get_if<CUgraph>(&node->work.params))
      if (CUresult r = child_work(*child, &steps->back().work)) return r;
  }
  return CUDA_SUCCESS;
}

CUresult run_steps(const std::vector<CUgraphExec_st::Step>& steps) {
  for (const auto& step : steps)
    if (step.enabled && step.work)
      if (CUresult r = step.work()) return r;
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
  const auto fill = [p] {
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
  *work = {fill, p};
  return CUDA_SUCCESS;
}

Work copy_work(const CUDA_MEMCPY3D& c) {
  return {[c] { return cuMemcpy3D(&c); }, c};
}
Work host_work(const CUDA_HOST_NODE_PARAMS& p) {
  return {[p] { return p.fn(p.userData), CUDA_SUCCESS; }, p};
}
// Launches run one after the other: what the event was recorded behind is over.
Work wait_work(CUevent event) {
  return {[] { return CUDA_SUCCESS; }, event};
}
CUresult child_work(CUgraph child, Work* work) {
  std::vector<CUgraphExec_st::Step> steps;
  if (CUresult r = steps_of(*child, &steps)) return r;
  *work = {[steps = std::move(steps)] { return run_steps(steps); }, child};
  return CUDA_SUCCESS;
}

// The node's own new work, for launches of graphs that are instantiated later.
CUresult change(CUgraphNode node, CUgraphNodeType type, Work work) {
  if (!node || node->type != type) return CUDA_ERROR_INVALID_VALUE;
  node->work = std::move(work);
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
  if (graph && is_captured(*graph)) return CUDA_ERROR_INVALID_VALUE;
  delete graph;
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* clone, CUgraph original) {
  if (CUresult r = ready()) return r;
  *clone = new CUgraph_st;
  std::map<CUgraphNode, CUgraphNode> twin;
  for (const auto& node : original->nodes) twin[node.get()] = add_node(**clone, node->type, node->work, {});
  for (const auto& [node, copy] : twin) copy->original = node;
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
#undef cuGraphNodeGetDependentNodes
#undef cuGraphGetEdges
#undef cuGraphAddDependencies
#undef cuGraphRemoveDependencies
CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData*,
                                               size_t* count) {
  return give(node->needs, nodes, count);
}
CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData*,
                                                 size_t* count) {
  std::vector<CUgraphNode> behind = all(*node->graph);
  std::erase_if(behind, [&](CUgraphNode n) { return std::ranges::find(n->needs, node) == n->needs.end(); });
  return give(behind, nodes, count);
}
CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData*,
                                    size_t* count) {
  std::vector<CUgraphNode> first, second;
  for (const auto& node : graph->nodes)
    for (const CUgraphNode need : node->needs) first.push_back(need), second.push_back(node.get());
  size_t places = count ? *count : 0;
  if (CUresult r = give(first, from, count)) return r;
  return give(second, to, &places);
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

CUresult cuGraphNodeFindInClone(CUgraphNode* found, CUgraphNode original, CUgraph clone) {
  for (const auto& node : clone->nodes)
    if (node->original == original) return *found = node.get(), CUDA_SUCCESS;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
  CUgraph_st& graph = *node->graph;
  if (is_captured(graph)) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& other : graph.nodes) std::erase(other->needs, node);
  std::erase_if(graph.nodes, [node](const auto& n) { return n.get() == node; });
  return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS* params) {
  Work work;
  if (CUresult r = work_of(*params, &work)) return r;
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_KERNEL, std::move(work));
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  std::shared_ptr<const KernelLaunch> launch;
  if (CUresult r = params_of(node, &launch)) return r;
  *params = launch->shape;
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  Work work;
  if (CUresult r = work_of(*params, &work)) return r;
  return change(node, CU_GRAPH_NODE_TYPE_KERNEL, std::move(work));
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS* params) {
  Work work;
  if (CUresult r = work_of(*params, &work)) return r;
  return replace(exec, node, std::move(work));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                              const CUDA_MEMCPY3D* params, CUcontext) {
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEMCPY, copy_work(*params));
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params,
                                        CUcontext) {
  return replace(exec, node, copy_work(*params));
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* params) {
  return params_of(node, params);
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* params) {
  return change(node, CU_GRAPH_NODE_TYPE_MEMCPY, copy_work(*params));
}
CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  Work work;
  if (CUresult r = fill_work(*params, &work)) return r;
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEMSET, std::move(work));
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  Work work;
  if (CUresult r = fill_work(*params, &work)) return r;
  return replace(exec, node, std::move(work));
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
  return params_of(node, params);
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  Work work;
  if (CUresult r = fill_work(*params, &work)) return r;
  return change(node, CU_GRAPH_NODE_TYPE_MEMSET, std::move(work));
}
CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                            const CUDA_HOST_NODE_PARAMS* params) {
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_HOST, host_work(*params));
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
  return params_of(node, params);
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return change(node, CU_GRAPH_NODE_TYPE_HOST, host_work(*params));
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* params) {
  return replace(exec, node, host_work(*params));
}
CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count) {
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_EMPTY, {});
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                                  CUgraph child) {
  if (!graph || !child) return CUDA_ERROR_INVALID_VALUE;
  CUgraph own = nullptr;
  Work work;
  if (CUresult r = cuGraphClone(&own, child)) return r;
  graph->children.emplace_back(own);
  if (CUresult r = child_work(own, &work)) return r;
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_GRAPH, std::move(work));
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) { return params_of(node, graph); }
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  Work work;
  if (CUresult r = child_work(child, &work)) return r;
  return replace(exec, node, std::move(work));
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                                   CUevent event) {
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD, record_work(event));
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) { return params_of(node, event); }
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return change(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, record_work(event));
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return replace(exec, node, record_work(event));
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                                 CUevent event) {
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT, wait_work(event));
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) { return params_of(node, event); }
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return change(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, wait_work(event));
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return replace(exec, node, wait_work(event));
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  if (CUresult r = ready()) return r;
  if (!exec || !graph) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<CUgraphExec_st>(std::vector<CUgraphExec_st::Step>{}, graph->objects);
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

CUresult cuUserObjectCreate(CUuserObject* out, void* object, CUhostFn destroy, unsigned count, unsigned) {
  if (!out || !destroy || !count) return CUDA_ERROR_INVALID_VALUE;
  *out = new CUuserObject_st{object, destroy, count};
  return CUDA_SUCCESS;
}
CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
  object->count += count;
  return CUDA_SUCCESS;
}
CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  if (count > object->count) return CUDA_ERROR_INVALID_VALUE;
  object->release(count);
  return CUDA_SUCCESS;
}
CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  graph->objects.held[object] += count;
  return flags & CU_GRAPH_USER_OBJECT_MOVE ? CUDA_SUCCESS : cuUserObjectRetain(object, count);
}
CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  const auto it = graph->objects.held.find(object);
  if (it == graph->objects.held.end() || it->second < count) return CUDA_ERROR_INVALID_VALUE;
  if (!(it->second -= count)) graph->objects.held.erase(it);
  return cuUserObjectRelease(object, count);
}
