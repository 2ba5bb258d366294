// Nodes of any kind by one call: created and changed as by the call for their kind.
#include <fmt/format.h>

#include "emulator/driver/graph.h"

using namespace fp4lab::emu::driver;

namespace {

CUresult other_kind(const char* call, CUgraphNodeType type) {
  return explain(CUDA_ERROR_NOT_SUPPORTED,
                 fmt::format("{}: nodes of type {} are not emulated", call, int(type)));
}

CUDA_MEMSET_NODE_PARAMS fill_of(const CUDA_MEMSET_NODE_PARAMS_v2& p) {
  return {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
}
CUDA_KERNEL_NODE_PARAMS launch_of(const CUDA_KERNEL_NODE_PARAMS_v3& p) {
  return {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
          p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    p.kern,      p.ctx};
}

CUresult add(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count, CUgraphNodeParams* p) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const CUDA_KERNEL_NODE_PARAMS launch = launch_of(p->kernel);
      return cuGraphAddKernelNode(node, graph, needs, count, &launch);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return cuGraphAddMemcpyNode(node, graph, needs, count, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS fill = fill_of(p->memset);
      return cuGraphAddMemsetNode(node, graph, needs, count, &fill, p->memset.ctx);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      const CUDA_HOST_NODE_PARAMS host{p->host.fn, p->host.userData};
      return cuGraphAddHostNode(node, graph, needs, count, &host);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return cuGraphAddChildGraphNode(node, graph, needs, count, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return cuGraphAddEmptyNode(node, graph, needs, count);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return cuGraphAddEventWaitNode(node, graph, needs, count, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return cuGraphAddEventRecordNode(node, graph, needs, count, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      CUDA_MEM_ALLOC_NODE_PARAMS alloc{p->alloc.poolProps, p->alloc.accessDescs, p->alloc.accessDescCount,
                                       p->alloc.bytesize, 0};
      const CUresult r = cuGraphAddMemAllocNode(node, graph, needs, count, &alloc);
      p->alloc.dptr = alloc.dptr;
      return r;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return cuGraphAddMemFreeNode(node, graph, needs, count, p->free.dptr);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return add_conditional_node(node, graph, needs, count, &p->conditional);
    default:
      return other_kind("cuGraphAddNode", p->type);
  }
}

}  // namespace

#undef cuGraphAddNode
extern "C" {
CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs,
                                   const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params) {
  if (CUresult r = add(node, graph, needs, count, params)) return r;
  for (size_t i = 0; data && i < count; ++i)
    if (!is_plain(data[i])) (*node)->edges[needs[i]] = data[i];
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                                CUgraphNodeParams* params);
CUresult CUDAAPI cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs, size_t count,
                                CUgraphNodeParams* params) {
  return add(node, graph, needs, count, params);
}
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* p) {
  if (!exists(node) || !p || p->type != node->type) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const CUDA_KERNEL_NODE_PARAMS launch = launch_of(p->kernel);
      return cuGraphKernelNodeSetParams(node, &launch);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return cuGraphMemcpyNodeSetParams(node, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS fill = fill_of(p->memset);
      return cuGraphMemsetNodeSetParams(node, &fill);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      const CUDA_HOST_NODE_PARAMS host{p->host.fn, p->host.userData};
      return cuGraphHostNodeSetParams(node, &host);
    }
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return cuGraphEventWaitNodeSetEvent(node, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return cuGraphEventRecordNodeSetEvent(node, p->eventRecord.event);
    default:
      return other_kind("cuGraphNodeSetParams", p->type);
  }
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* p) {
  if (!step_of(exec, node) || !p || p->type != step_of(exec, node)->type) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const CUDA_KERNEL_NODE_PARAMS launch = launch_of(p->kernel);
      return cuGraphExecKernelNodeSetParams(exec, node, &launch);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return cuGraphExecMemcpyNodeSetParams(exec, node, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS fill = fill_of(p->memset);
      return cuGraphExecMemsetNodeSetParams(exec, node, &fill, p->memset.ctx);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      const CUDA_HOST_NODE_PARAMS host{p->host.fn, p->host.userData};
      return cuGraphExecHostNodeSetParams(exec, node, &host);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return cuGraphExecChildGraphNodeSetParams(exec, node, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return cuGraphExecEventWaitNodeSetEvent(exec, node, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return cuGraphExecEventRecordNodeSetEvent(exec, node, p->eventRecord.event);
    default:
      return other_kind("cuGraphExecNodeSetParams", p->type);
  }
}
