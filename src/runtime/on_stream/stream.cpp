// Streams: waits, queries, capture; events and graphs on a stream.
#include "runtime/on_stream/default_stream.h"

using namespace fp4lab::cudart;

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&] { return cuStreamSynchronize(on(stream)); });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call([&] { return cuStreamQuery(on(stream)); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call([&] { return cuStreamWaitEvent(on(stream), event, flags); });
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return call([&] { return cuStreamGetFlags(on(stream), flags); });
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return call([&] { return cuStreamGetPriority(on(stream), priority); });
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return call([&] { return cuStreamGetId(on(stream), id); });
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return call([&] { return cuStreamGetDevice(on(stream), device); });
}
cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaLaunchAttributeID id,
                                   cudaLaunchAttributeValue* value) {
  return call([&] {
    return cuStreamGetAttribute(on(stream), static_cast<CUstreamAttrID>(id),
                                reinterpret_cast<CUstreamAttrValue*>(value));
  });
}
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID id,
                                   const cudaLaunchAttributeValue* value) {
  return call([&] {
    return cuStreamSetAttribute(on(stream), static_cast<CUstreamAttrID>(id),
                                reinterpret_cast<const CUstreamAttrValue*>(value));
  });
}
cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
  return call([&] { return cuStreamCopyAttributes(on(to), on(from)); });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned flags) {
  struct Context {
    cudaStreamCallback_t callback;
    void* data;
  };
  return call([&] {
    if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
    auto* context = new Context{callback, data};
    const auto run = [](CUstream s, CUresult r, void* p) {
      const Context c = *static_cast<Context*>(p);
      delete static_cast<Context*>(p);
      c.callback(s, from_driver(r), c.data);
    };
    return cuStreamAddCallback(on(stream), run, context, flags);
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call([&] { return cuStreamBeginCapture(on(stream), static_cast<CUstreamCaptureMode>(mode)); });
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* behind, const cudaGraphEdgeData* edges,
                                          size_t count, cudaStreamCaptureMode mode) {
  return call([&] {
    return cuStreamBeginCaptureToGraph(on(stream), graph, behind,
                                       reinterpret_cast<const CUgraphEdgeData*>(edges), count,
                                       static_cast<CUstreamCaptureMode>(mode));
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([&] { return cuStreamEndCapture(on(stream), graph); });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call(
      [&] { return cuStreamIsCapturing(on(stream), reinterpret_cast<CUstreamCaptureStatus*>(status)); });
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  return call([&] {
    return cuStreamGetCaptureInfo(on(stream), reinterpret_cast<CUstreamCaptureStatus*>(status),
                                  reinterpret_cast<cuuint64_t*>(id), graph, nodes,
                                  reinterpret_cast<const CUgraphEdgeData**>(edges), count);
  });
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData* edges, size_t count,
                                                unsigned flags) {
  return call([&] {
    return cuStreamUpdateCaptureDependencies(on(stream), nodes,
                                             reinterpret_cast<const CUgraphEdgeData*>(edges), count, flags);
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&] { return cuEventRecord(event, on(stream)); });
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return call([&] { return cuEventRecordWithFlags(event, on(stream), flags); });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return call([&] { return cuGraphUpload(exec, on(stream)); });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return call([&] { return cuGraphLaunch(exec, on(stream)); });
}
cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* params) {
  static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS));
  return call([&] {
    return cuGraphInstantiateWithParams(exec, graph,
                                        reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(params));
  });
}
