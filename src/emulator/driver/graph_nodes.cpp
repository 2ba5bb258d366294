// The kinds of nodes: creation, queries and changes, in a graph or in an instantiated one.
#include "emulator/driver/graph.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

namespace {

// The work of a node with these parameters.
CUresult work_of(const CUDA_MEMSET_NODE_PARAMS* params, Work* work) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMSET_NODE_PARAMS p = *params;
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
CUresult work_of(const CUDA_MEMCPY3D* params, Work* work) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  for (const CUmemorytype type : {params->srcMemoryType, params->dstMemoryType})
    if (type < CU_MEMORYTYPE_HOST || type > CU_MEMORYTYPE_UNIFIED) return CUDA_ERROR_INVALID_VALUE;
  *work = {[c = *params] { return cuMemcpy3D(&c); }, *params};
  return CUDA_SUCCESS;
}
CUresult work_of(const CUDA_HOST_NODE_PARAMS* params, Work* work) {
  if (!params || !params->fn) return CUDA_ERROR_INVALID_VALUE;
  *work = {[p = *params] { return p.fn(p.userData), CUDA_SUCCESS; }, *params};
  return CUDA_SUCCESS;
}

// Sets these parameters for a new node, an existing one, or one in an instantiated graph.
template <class Params>
CUresult add_with(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                  CUgraphNodeType type, const Params* params) {
  Work work;
  if (CUresult r = work_of(params, &work)) return r;
  return add_checked_node(node, graph, needs, count, type, std::move(work));
}
template <class Params>
CUresult change_to(CUgraphNode node, CUgraphNodeType type, const Params* params) {
  Work work;
  if (CUresult r = work_of(params, &work)) return r;
  return change(node, type, std::move(work));
}
template <class Params>
CUresult replace_by(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, const Params* params) {
  Work work;
  if (CUresult r = work_of(params, &work)) return r;
  return replace(exec, node, type, std::move(work));
}

// Launches are serialised: everything before the event's record has completed.
Work wait_work(CUevent event) {
  return {[] { return CUDA_SUCCESS; }, event};
}
bool is_attribute(CUkernelNodeAttrID id) {
  return id > CU_LAUNCH_ATTRIBUTE_IGNORE && id <= CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING;
}

// The same launch with other attributes.
template <class F>
CUresult with_attributes(CUgraphNode node, F&& change_them) {
  std::shared_ptr<const KernelLaunch> old;
  if (CUresult r = params_of(node, &old)) return r;
  LaunchAttributes attributes = old->attributes;
  change_them(attributes);
  Work work;
  if (CUresult r = prepare_launch(old->shape, attributes, &work)) return r;
  return change(node, CU_GRAPH_NODE_TYPE_KERNEL, std::move(work));
}

}  // namespace

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS* params) {
  if (CUresult r = ready_anywhere()) return r;
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  if (CUresult r = prepare_launch(*params, {}, &work)) return r;
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_KERNEL, std::move(work));
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  std::shared_ptr<const KernelLaunch> launch;
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = params_of(node, &launch)) return r;
  *params = launch->shape;
  return CUDA_SUCCESS;
}
// Other parameters or another kernel; the node keeps its attributes.
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  std::shared_ptr<const KernelLaunch> old;
  Work work;
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = params_of(node, &old)) return r;
  if (CUresult r = prepare_launch(*params, old->attributes, &work)) return r;
  return change(node, CU_GRAPH_NODE_TYPE_KERNEL, std::move(work));
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS* params) {
  CUgraphExec_st::Step* step = step_of(exec, node);
  const auto* old = step ? std::get_if<std::shared_ptr<const KernelLaunch>>(&step->work.params) : nullptr;
  if (!old || !params) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  if (CUresult r = prepare_launch(*params, (*old)->attributes, &work)) return r;
  step->work = std::move(work);
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                       CUkernelNodeAttrValue* value) {
  std::shared_ptr<const KernelLaunch> launch;
  if (CUresult r = params_of(node, &launch)) return r;
  if (!value || !is_attribute(id)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = launch->attributes.find(id);
  *value = found == launch->attributes.end() ? CUkernelNodeAttrValue{} : found->second;
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                       const CUkernelNodeAttrValue* value) {
  if (!value || !is_attribute(id)) return CUDA_ERROR_INVALID_VALUE;
  return with_attributes(node, [&](LaunchAttributes& attributes) { attributes[id] = *value; });
}
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  std::shared_ptr<const KernelLaunch> launch;
  if (CUresult r = params_of(from, &launch)) return r;
  return with_attributes(to, [&](LaunchAttributes& attributes) { attributes = launch->attributes; });
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                              const CUDA_MEMCPY3D* params, CUcontext) {
  return add_with(node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEMCPY, params);
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params,
                                        CUcontext) {
  return replace_by(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, params);
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* params) {
  return params_of(node, params);
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* params) {
  return change_to(node, CU_GRAPH_NODE_TYPE_MEMCPY, params);
}
CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return add_with(node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEMSET, params);
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return replace_by(exec, node, CU_GRAPH_NODE_TYPE_MEMSET, params);
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
  return params_of(node, params);
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  return change_to(node, CU_GRAPH_NODE_TYPE_MEMSET, params);
}
CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                            const CUDA_HOST_NODE_PARAMS* params) {
  return add_with(node, graph, needs, count, CU_GRAPH_NODE_TYPE_HOST, params);
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
  return params_of(node, params);
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return change_to(node, CU_GRAPH_NODE_TYPE_HOST, params);
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* params) {
  return replace_by(exec, node, CU_GRAPH_NODE_TYPE_HOST, params);
}
CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count) {
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_EMPTY, {});
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                                  CUgraph child) {
  if (CUresult r = ready_anywhere()) return r;
  if (!exists(graph) || !exists(child) || graph == child) return CUDA_ERROR_INVALID_VALUE;
  CUgraph own = nullptr;
  Work work;
  if (CUresult r = cuGraphClone(&own, child)) return r;
  own->is_child = true;
  graph->children.emplace_back(own);
  if (CUresult r = child_work(own, &work)) return r;
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_GRAPH, std::move(work));
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) { return params_of(node, graph); }
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  if (CUresult r = ready(false)) return r;
  if (!exists(child)) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  if (CUresult r = child_work(child, &work)) return r;
  return replace(exec, node, CU_GRAPH_NODE_TYPE_GRAPH, std::move(work));
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                                   CUevent event) {
  if (!is_event(event)) return CUDA_ERROR_INVALID_VALUE;
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD, record_work(event));
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) { return params_of(node, event); }
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  if (!is_event(event)) return CUDA_ERROR_INVALID_VALUE;
  return change(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, record_work(event));
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  if (!is_event(event)) return CUDA_ERROR_INVALID_VALUE;
  return replace(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, record_work(event));
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                                 CUevent event) {
  if (!is_event(event)) return CUDA_ERROR_INVALID_VALUE;
  return add_checked_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT, wait_work(event));
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) { return params_of(node, event); }
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  if (!is_event(event)) return CUDA_ERROR_INVALID_VALUE;
  return change(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, wait_work(event));
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  if (!is_event(event)) return CUDA_ERROR_INVALID_VALUE;
  return replace(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, wait_work(event));
}
