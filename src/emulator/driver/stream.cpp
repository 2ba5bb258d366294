// Streams, events and graphs. Work runs when it is submitted, so a stream is always idle between calls.
#include <fmt/format.h>

#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

template <class T>
CUresult known(const std::set<T*>& set, T* handle) {
  std::lock_guard lock(state().mutex);
  return set.contains(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  if (CUresult r = ready()) return r;
  if (!stream) return CUDA_ERROR_INVALID_VALUE;
  *stream = new CUstream_st{flags, priority};
  std::lock_guard lock(state().mutex);
  state().streams.insert(*stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy(CUstream stream) {
  if (CUresult r = ready(false)) return r;
  std::lock_guard lock(state().mutex);
  if (!state().streams.erase(stream)) return CUDA_ERROR_INVALID_HANDLE;
  delete stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  if (CUresult r = ready()) return r;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  return stream->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream handle) { return cuStreamSynchronize(handle); }

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  if (!stream_of(handle)) return CUDA_ERROR_INVALID_HANDLE;
  return cuCtxGetCurrent(context);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  if (CUresult r = ready()) return r;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult r = known(state().events, event)) return r;
  if (event->capture) stream->capture = event->capture;  // the waiting stream joins the capture
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return submit(stream, CU_GRAPH_NODE_TYPE_HOST, [=] { return function(data), CUDA_SUCCESS; });
}
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned) {
  return submit(stream, CU_GRAPH_NODE_TYPE_HOST,
                [=] { return callback(stream, CUDA_SUCCESS, data), CUDA_SUCCESS; });
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  if (CUresult r = ready()) return r;
  if (!event) return CUDA_ERROR_INVALID_VALUE;
  *event = new CUevent_st{flags};
  std::lock_guard lock(state().mutex);
  state().events.insert(*event);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  if (CUresult r = ready(false)) return r;
  std::lock_guard lock(state().mutex);
  if (!state().events.erase(event)) return CUDA_ERROR_INVALID_HANDLE;
  delete event;
  return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned) {
  if (CUresult r = ready()) return r;
  if (CUresult r = known(state().events, event)) return r;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  event->capture = stream->capture;
  event->recorded = true;
  event->when = std::chrono::steady_clock::now();
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) { return cuEventRecordWithFlags(event, stream, 0); }

CUresult cuEventSynchronize(CUevent event) {
  if (CUresult r = ready()) return r;
  return known(state().events, event);
}
CUresult cuEventQuery(CUevent event) { return cuEventSynchronize(event); }

// Host seconds between the two records: the emulator's own time, not a GPU's.
CUresult cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  if (CUresult r = ready()) return r;
  for (CUevent e : {start, end})
    if (CUresult r = known(state().events, e)) return r;
  if (!start->recorded || !end->recorded || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
    return CUDA_ERROR_INVALID_HANDLE;
  *ms = std::chrono::duration<float, std::milli>(end->when - start->when).count();
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode) {
  if (CUresult r = ready()) return r;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == &state().legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_shared<CUgraph_st>();
  stream->capture_origin = true;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  if (CUresult r = ready()) return r;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (!stream->capture_origin) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  const auto capture = stream->capture;
  *graph = new CUgraph_st{std::move(capture->work), std::move(capture->nodes)};
  std::lock_guard lock(state().mutex);
  for (CUstream_st* s : state().streams)
    if (s->capture == capture) s->capture.reset(), s->capture_origin = false;
  for (CUevent_st* e : state().events)
    if (e->capture == capture) e->capture.reset();
  stream->capture.reset();
  stream->capture_origin = false;
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *status = stream->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  static thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::swap(current, *mode);
  return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph* graph, unsigned) {
  *graph = new CUgraph_st;
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return CUDA_SUCCESS;
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (nodes)
    for (size_t i = 0; i < std::min(*count, graph->nodes.size()); ++i) nodes[i] = graph->nodes[i].get();
  else
    *count = graph->nodes.size();
  return CUDA_SUCCESS;
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  *type = node->type;
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  if (CUresult r = ready()) return r;
  *exec = new CUgraphExec_st{graph->work};
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
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  delete exec;
  return CUDA_SUCCESS;
}
CUresult cuGraphUpload(CUgraphExec, CUstream) { return ready(); }
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_GRAPH, [work = exec->work] {
    for (const auto& item : work)
      if (CUresult r = item()) return r;
    return CUDA_SUCCESS;
  });
}
