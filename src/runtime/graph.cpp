// Graphs. A node's handle is the driver's; kernels are host stubs here and functions there.
#include "runtime/descriptors.h"

using namespace fp4lab::cudart;

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

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return call([&] { return cuGraphGetRootNodes(graph, nodes, count); });
}
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* edges, size_t* count) {
  return call(
      [&] { return cuGraphGetEdges(graph, from, to, reinterpret_cast<CUgraphEdgeData*>(edges), count); });
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                         cudaGraphEdgeData* edges, size_t* count) {
  return call([&] {
    return cuGraphNodeGetDependencies(node, nodes, reinterpret_cast<CUgraphEdgeData*>(edges), count);
  });
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                           cudaGraphEdgeData* edges, size_t* count) {
  return call([&] {
    return cuGraphNodeGetDependentNodes(node, nodes, reinterpret_cast<CUgraphEdgeData*>(edges), count);
  });
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                     size_t count) {
  return call([&] {
    return cuGraphAddDependencies(graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(edges), count);
  });
}
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                        size_t count) {
  return call([&] {
    return cuGraphRemoveDependencies(graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(edges), count);
  });
}
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return call([&] { return cuGraphDestroyNode(node); });
}
cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original, cudaGraph_t clone) {
  return call([&] { return cuGraphNodeFindInClone(node, original, clone); });
}
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled) {
  return call([&] { return cuGraphNodeSetEnabled(exec, node, enabled); });
}
cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled) {
  return call([&] { return cuGraphNodeGetEnabled(exec, node, enabled); });
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy,
                                 unsigned count, unsigned flags) {
  return call([&] { return cuUserObjectCreate(object, pointer, destroy, count, flags); });
}
cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return call([&] { return cuUserObjectRetain(object, count); });
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return call([&] { return cuUserObjectRelease(object, count); });
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
  return call([&] { return cuGraphRetainUserObject(graph, object, count, flags); });
}
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
  return call([&] { return cuGraphReleaseUserObject(graph, object, count); });
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
cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  return call([&] { return cuGraphExecGetFlags(exec, reinterpret_cast<cuuint64_t*>(flags)); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return call([&] { return cuGraphExecDestroy(exec); });
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  return call([&] {
    return cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value);
  });
}
cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  return call([&] {
    return cuDeviceSetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value);
  });
}

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph,
                                             unsigned value, unsigned flags) {
  static_assert(sizeof(cudaGraphConditionalHandle) == sizeof(CUgraphConditionalHandle));
  return call([&] {
    CUcontext current;
    if (CUresult r = cuCtxGetCurrent(&current)) return r;
    return cuGraphConditionalHandleCreate(reinterpret_cast<CUgraphConditionalHandle*>(handle), graph, current,
                                          value, flags);
  });
}
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned flags) {
  return call([&] { return cuGraphDebugDotPrint(graph, path, flags); });
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                            cudaLaunchAttributeValue* value) {
  static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUkernelNodeAttrValue));
  return call([&] {
    return cuGraphKernelNodeGetAttribute(node, static_cast<CUkernelNodeAttrID>(id),
                                         reinterpret_cast<CUkernelNodeAttrValue*>(value));
  });
}
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                            const cudaLaunchAttributeValue* value) {
  return call([&] {
    return cuGraphKernelNodeSetAttribute(node, static_cast<CUkernelNodeAttrID>(id),
                                         reinterpret_cast<const CUkernelNodeAttrValue*>(value));
  });
}
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from) {
  return call([&] { return cuGraphKernelNodeCopyAttributes(to, from); });
}
