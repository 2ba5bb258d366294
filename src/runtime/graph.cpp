// Graphs. A node's handle is the driver's; kernels are named by host stub here and by function there.
#include <vector>

#include "runtime/registry.h"

using namespace fp4lab::cudart;

namespace {

cudaError_t driver_params(const cudaKernelNodeParams* p, CUDA_KERNEL_NODE_PARAMS* out) {
  if (!p) return cudaErrorInvalidValue;
  CUfunction f;
  if (cudaError_t e = find_function(p->func, &f)) return e;
  *out = {};
  out->func = f;
  out->gridDimX = p->gridDim.x, out->gridDimY = p->gridDim.y, out->gridDimZ = p->gridDim.z;
  out->blockDimX = p->blockDim.x, out->blockDimY = p->blockDim.y, out->blockDimZ = p->blockDim.z;
  out->sharedMemBytes = p->sharedMemBytes;
  out->kernelParams = p->kernelParams, out->extra = p->extra;
  return cudaSuccess;
}

CUDA_MEMSET_NODE_PARAMS driver_params(const cudaMemsetParams& p) {
  return {device_pointer(p.dst), p.pitch, p.value, p.elementSize, p.width, p.height};
}

CUDA_MEMCPY3D linear_copy(void* to, const void* from, size_t bytes) {
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  c.srcDevice = device_pointer(from), c.dstDevice = device_pointer(to);
  c.WidthInBytes = c.srcPitch = c.dstPitch = bytes;
  c.Height = c.Depth = c.srcHeight = c.dstHeight = 1;
  return c;
}

CUresult context(CUcontext* c) { return cuCtxGetCurrent(c); }

}  // namespace

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return call([&] { return cuGraphCreate(graph, flags); });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&] { return cuGraphDestroy(graph); });
}
cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  return call([&] { return cuGraphClone(clone, original); });
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return call([&] { return cuGraphGetNodes(graph, nodes, count); });
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  static_assert(int(cudaGraphNodeTypeKernel) == int(CU_GRAPH_NODE_TYPE_KERNEL));
  static_assert(int(cudaGraphNodeTypeMemFree) == int(CU_GRAPH_NODE_TYPE_MEM_FREE));
  return call([&] { return cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(type)); });
}

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
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                     size_t count, void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return call([&] {
    const CUDA_MEMCPY3D c = linear_copy(to, from, bytes);
    CUcontext current;
    if (CUresult r = context(&current)) return r;
    return cuGraphAddMemcpyNode(node, graph, needs, count, &c, current);
  });
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                   size_t count, const cudaMemsetParams* params) {
  return call([&] {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMSET_NODE_PARAMS p = driver_params(*params);
    CUcontext current;
    if (CUresult r = context(&current)) return r;
    return cuGraphAddMemsetNode(node, graph, needs, count, &p, current);
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
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                     size_t count) {
  return call([&] {
    return cuGraphAddDependencies(graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(edges), count);
  });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return call([&] { return cuGraphInstantiateWithFlags(exec, graph, flags); });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(exec, graph, flags);
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo));
  return call(
      [&] { return cuGraphExecUpdate(exec, graph, reinterpret_cast<CUgraphExecUpdateResultInfo*>(info)); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return call([&] { return cuGraphExecDestroy(exec); });
}
