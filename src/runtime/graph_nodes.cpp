// Graph nodes: creation, queries and changes, in a graph or in an instantiated one.
#include "runtime/descriptors.h"

using namespace fp4lab::cudart;

namespace {

CUresult add_copy(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs, size_t count,
                  const CUDA_MEMCPY3D& c) {
  CUcontext current;
  if (CUresult r = cuCtxGetCurrent(&current)) return r;
  return cuGraphAddMemcpyNode(node, graph, needs, count, &c, current);
}
CUresult set_copy(cudaGraphNode_t node, const CUDA_MEMCPY3D& c) {
  return cuGraphMemcpyNodeSetParams(node, &c);
}
CUresult set_copy(cudaGraphExec_t exec, cudaGraphNode_t node, const CUDA_MEMCPY3D& c) {
  CUcontext current;
  if (CUresult r = cuCtxGetCurrent(&current)) return r;
  return cuGraphExecMemcpyNodeSetParams(exec, node, &c, current);
}

// A copy between a registered variable and other memory.
cudaError_t to_symbol(const void* symbol, const void* from, size_t bytes, size_t offset, CUDA_MEMCPY3D* c) {
  void* part = nullptr;
  if (cudaError_t e = part_of(symbol, bytes, offset, &part)) return e;
  *c = linear_copy(part, from, bytes);
  return cudaSuccess;
}
cudaError_t from_symbol(void* to, const void* symbol, size_t bytes, size_t offset, CUDA_MEMCPY3D* c) {
  void* part = nullptr;
  if (cudaError_t e = part_of(symbol, bytes, offset, &part)) return e;
  *c = linear_copy(to, part, bytes);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                   size_t count, const cudaKernelNodeParams* params) {
  return call([&] {
    CUDA_KERNEL_NODE_PARAMS p;
    if (cudaError_t e = driver_params(params, &p)) return e;
    return from_driver(cuGraphAddKernelNode(node, graph, needs, count, &p));
  });
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  return call([&] {
    CUDA_KERNEL_NODE_PARAMS p;
    if (cudaError_t e = driver_params(params, &p)) return e;
    return from_driver(cuGraphExecKernelNodeSetParams(exec, node, &p));
  });
}
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* params) {
  return call([&] {
    CUDA_KERNEL_NODE_PARAMS p;
    if (cudaError_t e = driver_params(params, &p)) return e;
    return from_driver(cuGraphKernelNodeSetParams(node, &p));
  });
}
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* params) {
  return call([&] {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS p;
    const CUresult r = cuGraphKernelNodeGetParams(node, &p);
    if (!r) *params = runtime_params(p);
    return r;
  });
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                   size_t count, const cudaMemcpy3DParms* params) {
  return call([&] {
    CUDA_MEMCPY3D c;
    if (cudaError_t e = driver_params(params, &c)) return e;
    return from_driver(add_copy(node, graph, needs, count, c));
  });
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                     size_t count, void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return call([&] {
    const CUDA_MEMCPY3D c = linear_copy(to, from, bytes);
    return add_copy(node, graph, needs, count, c);
  });
}
cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                           const cudaGraphNode_t* needs, size_t count, const void* symbol,
                                           const void* from, size_t bytes, size_t offset, cudaMemcpyKind) {
  return call([&] {
    CUDA_MEMCPY3D c;
    if (cudaError_t e = to_symbol(symbol, from, bytes, offset, &c)) return e;
    return from_driver(add_copy(node, graph, needs, count, c));
  });
}
cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                             const cudaGraphNode_t* needs, size_t count, void* to,
                                             const void* symbol, size_t bytes, size_t offset,
                                             cudaMemcpyKind) {
  return call([&] {
    CUDA_MEMCPY3D c;
    if (cudaError_t e = from_symbol(to, symbol, bytes, offset, &c)) return e;
    return from_driver(add_copy(node, graph, needs, count, c));
  });
}
cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* params) {
  return call([&] {
    CUDA_MEMCPY3D c;
    if (cudaError_t e = driver_params(params, &c)) return e;
    return from_driver(set_copy(node, c));
  });
}
cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from, size_t bytes,
                                           cudaMemcpyKind) {
  return call([&] {
    const CUDA_MEMCPY3D c = linear_copy(to, from, bytes);
    return set_copy(node, c);
  });
}
cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol, const void* from,
                                                 size_t bytes, size_t offset, cudaMemcpyKind) {
  return call([&] {
    CUDA_MEMCPY3D c;
    if (cudaError_t e = to_symbol(symbol, from, bytes, offset, &c)) return e;
    return from_driver(set_copy(node, c));
  });
}
cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* to, const void* symbol,
                                                   size_t bytes, size_t offset, cudaMemcpyKind) {
  return call([&] {
    CUDA_MEMCPY3D c;
    if (cudaError_t e = from_symbol(to, symbol, bytes, offset, &c)) return e;
    return from_driver(set_copy(node, c));
  });
}
cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* params) {
  return call([&] {
    CUDA_MEMCPY3D c;
    if (cudaError_t e = driver_params(params, &c)) return e;
    return from_driver(set_copy(exec, node, c));
  });
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                               const void* from, size_t bytes, cudaMemcpyKind) {
  return call([&] {
    const CUDA_MEMCPY3D c = linear_copy(to, from, bytes);
    return set_copy(exec, node, c);
  });
}
cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     const void* symbol, const void* from, size_t bytes,
                                                     size_t offset, cudaMemcpyKind) {
  return call([&] {
    CUDA_MEMCPY3D c;
    if (cudaError_t e = to_symbol(symbol, from, bytes, offset, &c)) return e;
    return from_driver(set_copy(exec, node, c));
  });
}
cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                                       const void* symbol, size_t bytes, size_t offset,
                                                       cudaMemcpyKind) {
  return call([&] {
    CUDA_MEMCPY3D c;
    if (cudaError_t e = from_symbol(to, symbol, bytes, offset, &c)) return e;
    return from_driver(set_copy(exec, node, c));
  });
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* params) {
  return call([&] {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D c;
    const CUresult r = cuGraphMemcpyNodeGetParams(node, &c);
    if (!r) *params = runtime_params(c);
    return r;
  });
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                   size_t count, const cudaMemsetParams* params) {
  return call([&] {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMSET_NODE_PARAMS p = driver_params(*params);
    CUcontext current;
    if (CUresult r = cuCtxGetCurrent(&current)) return r;
    return cuGraphAddMemsetNode(node, graph, needs, count, &p, current);
  });
}
cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* params) {
  return call([&] {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMSET_NODE_PARAMS p;
    const CUresult r = cuGraphMemsetNodeGetParams(node, &p);
    if (!r) *params = runtime_params(p);
    return r;
  });
}
cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* params) {
  return call([&] {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMSET_NODE_PARAMS p = driver_params(*params);
    return cuGraphMemsetNodeSetParams(node, &p);
  });
}
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemsetParams* params) {
  return call([&] {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMSET_NODE_PARAMS p = driver_params(*params);
    CUcontext current;
    if (CUresult r = cuCtxGetCurrent(&current)) return r;
    return cuGraphExecMemsetNodeSetParams(exec, node, &p, current);
  });
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                 size_t count, const cudaHostNodeParams* params) {
  return call([&] {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_HOST_NODE_PARAMS p{params->fn, params->userData};
    return cuGraphAddHostNode(node, graph, needs, count, &p);
  });
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                  size_t count) {
  return call([&] { return cuGraphAddEmptyNode(node, graph, needs, count); });
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                       size_t count, cudaGraph_t child) {
  return call([&] { return cuGraphAddChildGraphNode(node, graph, needs, count, child); });
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* params) {
  static_assert(sizeof(cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS));
  return call(
      [&] { return cuGraphHostNodeGetParams(node, reinterpret_cast<CUDA_HOST_NODE_PARAMS*>(params)); });
}
cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* params) {
  return call(
      [&] { return cuGraphHostNodeSetParams(node, reinterpret_cast<const CUDA_HOST_NODE_PARAMS*>(params)); });
}
cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* params) {
  return call([&] {
    return cuGraphExecHostNodeSetParams(exec, node, reinterpret_cast<const CUDA_HOST_NODE_PARAMS*>(params));
  });
}
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  return call([&] { return cuGraphChildGraphNodeGetGraph(node, graph); });
}
cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaGraph_t child) {
  return call([&] { return cuGraphExecChildGraphNodeSetParams(exec, node, child); });
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                        const cudaGraphNode_t* needs, size_t count, cudaEvent_t event) {
  return call([&] { return cuGraphAddEventRecordNode(node, graph, needs, count, event); });
}
cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return call([&] { return cuGraphEventRecordNodeGetEvent(node, event); });
}
cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return call([&] { return cuGraphEventRecordNodeSetEvent(node, event); });
}
cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaEvent_t event) {
  return call([&] { return cuGraphExecEventRecordNodeSetEvent(exec, node, event); });
}
cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                      size_t count, cudaEvent_t event) {
  return call([&] { return cuGraphAddEventWaitNode(node, graph, needs, count, event); });
}
cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return call([&] { return cuGraphEventWaitNodeGetEvent(node, event); });
}
cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return call([&] { return cuGraphEventWaitNodeSetEvent(node, event); });
}
cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                               cudaEvent_t event) {
  return call([&] { return cuGraphExecEventWaitNodeSetEvent(exec, node, event); });
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                     size_t count, cudaMemAllocNodeParams* params) {
  static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));
  return call([&] {
    return cuGraphAddMemAllocNode(node, graph, needs, count,
                                  reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(params));
  });
}
cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* params) {
  return call([&] {
    return cuGraphMemAllocNodeGetParams(node, reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(params));
  });
}
cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                    size_t count, void* pointer) {
  return call([&] { return cuGraphAddMemFreeNode(node, graph, needs, count, device_pointer(pointer)); });
}
cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer) {
  return call([&] { return cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(pointer)); });
}
cudaError_t cudaDeviceGraphMemTrim(int device) {
  return call([&] { return cuDeviceGraphMemTrim(device); });
}

// Dispatches by kind to the call for that kind.
static cudaError_t add_by_kind(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                               size_t count, cudaGraphNodeParams* params) {
  if (!params) return plain([] { return cudaErrorInvalidValue; });
  switch (params->type) {
    case cudaGraphNodeTypeKernel: {
      const auto& k = params->kernel;
      const cudaKernelNodeParams p{k.func, k.gridDim, k.blockDim, k.sharedMemBytes, k.kernelParams, k.extra};
      return cudaGraphAddKernelNode(node, graph, needs, count, &p);
    }
    case cudaGraphNodeTypeMemcpy:
      return cudaGraphAddMemcpyNode(node, graph, needs, count, &params->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
      const auto& m = params->memset;
      const cudaMemsetParams p{m.dst, m.pitch, m.value, m.elementSize, m.width, m.height};
      return cudaGraphAddMemsetNode(node, graph, needs, count, &p);
    }
    case cudaGraphNodeTypeHost: {
      const cudaHostNodeParams p{params->host.fn, params->host.userData};
      return cudaGraphAddHostNode(node, graph, needs, count, &p);
    }
    case cudaGraphNodeTypeGraph:
      return cudaGraphAddChildGraphNode(node, graph, needs, count, params->graph.graph);
    case cudaGraphNodeTypeEmpty:
      return cudaGraphAddEmptyNode(node, graph, needs, count);
    case cudaGraphNodeTypeWaitEvent:
      return cudaGraphAddEventWaitNode(node, graph, needs, count, params->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
      return cudaGraphAddEventRecordNode(node, graph, needs, count, params->eventRecord.event);
    case cudaGraphNodeTypeMemAlloc: {
      static_assert(sizeof(cudaMemAllocNodeParamsV2) == sizeof(cudaMemAllocNodeParams));
      return cudaGraphAddMemAllocNode(node, graph, needs, count,
                                      reinterpret_cast<cudaMemAllocNodeParams*>(&params->alloc));
    }
    case cudaGraphNodeTypeMemFree:
      return cudaGraphAddMemFreeNode(node, graph, needs, count, params->free.dptr);
    case cudaGraphNodeTypeConditional: {
      auto& c = params->conditional;
      CUgraphNodeParams p{};
      p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
      p.conditional.handle = c.handle;
      p.conditional.type = static_cast<CUgraphConditionalNodeType>(c.type);
      p.conditional.size = c.size;
      return call([&] {
        const CUresult r = cuGraphAddNode(node, graph, needs, nullptr, count, &p);
        c.phGraph_out = p.conditional.phGraph_out;
        return r;
      });
    }
    default:
      return plain([&] {
        return explain(cudaErrorNotSupported, "cudaGraphAddNode: nodes of type %d are not emulated",
                       int(params->type));
      });
  }
}

// Edges with data are added after the node.
cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                             const cudaGraphEdgeData* edges, size_t count, cudaGraphNodeParams* params) {
  if (!edges || (count && !needs)) return add_by_kind(node, graph, needs, count, params);
  if (const cudaError_t e = add_by_kind(node, graph, nullptr, 0, params)) return e;
  const std::vector<cudaGraphNode_t> to(count, *node);
  const cudaError_t e = cudaGraphAddDependencies(graph, needs, to.data(), edges, count);
  if (e) cudaGraphDestroyNode(*node);
  return e;
}
