// Calls in the form of CUDA 12 and earlier, and under their first symbols, which today's headers rename.
#include "emulator/driver/state.h"

#undef cuCtxCreate_v3
#undef cuCtxDestroy
#undef cuCtxPopCurrent
#undef cuCtxPushCurrent
#undef cuDeviceGetUuid
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxSetFlags
#undef cuEventDestroy
#undef cuEventElapsedTime
#undef cuGraphAddDependencies
#undef cuGraphExecUpdate
#undef cuGraphGetEdges
#undef cuGraphInstantiate
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphRemoveDependencies
#undef cuLinkAddData
#undef cuLinkAddFile
#undef cuLinkCreate
#undef cuMemAdvise
#undef cuMemHostRegister
#undef cuMemPrefetchAsync
#undef cuStreamDestroy
#undef cuStreamGetCaptureInfo
#undef cuStreamUpdateCaptureDependencies

namespace {

// Device -1 is the host.
CUmemLocation location(CUdevice device) {
  CUmemLocation l{};
  l.type = device < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  l.id = device < 0 ? 0 : device;
  return l;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuCtxCreate_v2(CUcontext*, unsigned, CUdevice);
CUresult CUDAAPI cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int count, unsigned flags,
                                CUdevice device);
CUresult CUDAAPI cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int count, unsigned flags,
                                CUdevice device) {
  return count ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : cuCtxCreate_v2(context, flags, device);
}

CUresult CUDAAPI cuEventElapsedTime(float* ms, CUevent start, CUevent end);
CUresult CUDAAPI cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(ms, start, end);
}

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, CUdevice device, CUstream stream);
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, CUdevice device, CUstream stream) {
  return cuMemPrefetchAsync_v2(p, bytes, location(device), 0, stream);
}
CUresult CUDAAPI cuMemAdvise(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUdevice device);
CUresult CUDAAPI cuMemAdvise(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUdevice device) {
  return cuMemAdvise_v2(p, bytes, advice, location(device));
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id);
CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, size_t count,
                                                   unsigned flags);
CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, size_t count,
                                                   unsigned flags) {
  return cuStreamUpdateCaptureDependencies_v2(stream, nodes, nullptr, count, flags);
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count);
CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return cuGraphGetEdges_v2(graph, from, to, nullptr, count);
}
CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, size_t* count);
CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  return cuGraphNodeGetDependencies_v2(node, nodes, nullptr, count);
}
CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes, size_t* count);
CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  return cuGraphNodeGetDependentNodes_v2(node, nodes, nullptr, count);
}
CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                        size_t count);
CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                        size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, nullptr, count);
}
CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                           size_t count);
CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                           size_t count) {
  return cuGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}

CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec*, CUgraph, CUgraphNode*, char*, size_t);
CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* node, char* log,
                                    size_t bytes);
CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* node, char* log,
                                    size_t bytes) {
  return cuGraphInstantiate_v2(exec, graph, node, log, bytes);
}
CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* node,
                                   CUgraphExecUpdateResult* result);
CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* node,
                                   CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult r = cuGraphExecUpdate_v2(exec, graph, &info);
  if (node) *node = info.errorNode;
  if (result) *result = info.result;
  return r;
}

// Under their first symbols, with today's arguments and meaning.
#define SAME_AS_V2(name, parameters, arguments) \
  CUresult CUDAAPI name parameters;             \
  CUresult CUDAAPI name parameters { return name##_v2 arguments; }

SAME_AS_V2(cuCtxDestroy, (CUcontext context), (context))
SAME_AS_V2(cuCtxPushCurrent, (CUcontext context), (context))
SAME_AS_V2(cuCtxPopCurrent, (CUcontext * context), (context))
SAME_AS_V2(cuDeviceGetUuid, (CUuuid * uuid, CUdevice device), (uuid, device))
SAME_AS_V2(cuDevicePrimaryCtxRelease, (CUdevice device), (device))
SAME_AS_V2(cuDevicePrimaryCtxReset, (CUdevice device), (device))
SAME_AS_V2(cuDevicePrimaryCtxSetFlags, (CUdevice device, unsigned flags), (device, flags))
SAME_AS_V2(cuEventDestroy, (CUevent event), (event))
SAME_AS_V2(cuStreamDestroy, (CUstream stream), (stream))
SAME_AS_V2(cuMemHostRegister, (void* p, size_t bytes, unsigned flags), (p, bytes, flags))
SAME_AS_V2(cuLinkCreate, (unsigned count, CUjit_option* options, void** values, CUlinkState* state),
           (count, options, values, state))
SAME_AS_V2(cuLinkAddData,
           (CUlinkState state, CUjitInputType type, void* data, size_t bytes, const char* name,
            unsigned count, CUjit_option* options, void** values),
           (state, type, data, bytes, name, count, options, values))
SAME_AS_V2(cuLinkAddFile,
           (CUlinkState state, CUjitInputType type, const char* path, unsigned count, CUjit_option* options,
            void** values),
           (state, type, path, count, options, values))

#undef SAME_AS_V2

}  // extern "C"
