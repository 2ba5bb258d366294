// Capture: a stream's work becomes nodes of a graph (submit in state.cpp) instead of being done.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

CUresult begin(CUstream handle, CUgraph graph, std::vector<CUgraphNode> behind) {
  if (CUresult r = ready()) return r;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == &state().legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  static uint64_t last_id = 0;
  std::lock_guard lock(state().mutex);
  auto own = graph ? nullptr : std::make_unique<CUgraph_st>();
  if (own) graph = own.get();
  stream->capture = std::make_shared<Capture>(Capture{++last_id, graph, std::move(own), graph->nodes.size()});
  stream->capture_origin = true;
  stream->tail = std::move(behind);
  return CUDA_SUCCESS;
}

// Streams and events leave the capture.
void forget(const std::shared_ptr<Capture>& capture) {
  const auto leave = [&](auto& s) {
    if (s.capture == capture) s.capture.reset(), s.tail.clear();
  };
  for (CUstream_st* s : state().streams) {
    if (s->capture == capture) s->capture_origin = false;
    leave(*s);
  }
  if (state().per_thread.capture == capture) state().per_thread.capture_origin = false;
  leave(state().per_thread);
  for (CUevent_st* e : state().events) leave(*e);
}

// Every new node that nothing follows must be one that the origin stream waits for: else a fork never came
// back.
bool is_joined(const Capture& capture, const std::vector<CUgraphNode>& tail) {
  std::set<CUgraphNode> followed;
  const auto& nodes = capture.graph->nodes;
  for (const auto& node : nodes) followed.insert(node->needs.begin(), node->needs.end());
  return std::all_of(nodes.begin() + ptrdiff_t(capture.first), nodes.end(), [&](const auto& node) {
    return followed.contains(node.get()) || std::ranges::find(tail, node.get()) != tail.end();
  });
}

}  // namespace

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) { return begin(stream, nullptr, {}); }

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* behind,
                                     const CUgraphEdgeData*, size_t count, CUstreamCaptureMode) {
  if (!graph || (count && !behind)) return CUDA_ERROR_INVALID_VALUE;
  return begin(stream, graph, {behind, behind + count});
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  if (CUresult r = ready()) return r;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (!stream->capture_origin) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (!graph && stream->capture->own) return CUDA_ERROR_INVALID_VALUE;
  const auto capture = stream->capture;
  std::lock_guard lock(state().mutex);
  const bool joined = is_joined(*capture, stream->tail);
  forget(capture);
  if (graph) *graph = nullptr;
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (graph) *graph = capture->graph;
  capture->own.release();
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

extern "C" {
#undef cuStreamGetCaptureInfo
#undef cuStreamUpdateCaptureDependencies
CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                           CUgraph* graph, const CUgraphNode** nodes,
                                           const CUgraphEdgeData** edges, size_t* count) {
  if (CUresult r = cuStreamIsCapturing(handle, status)) return r;
  const CUstream_st& stream = *stream_of(handle);
  if (!stream.capture) return CUDA_SUCCESS;
  if (id) *id = stream.capture->id;
  if (graph) *graph = stream.capture->graph;
  if (nodes) *nodes = stream.tail.data();
  if (edges) *edges = nullptr;
  if (count) *count = stream.tail.size();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                           CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  return cuStreamGetCaptureInfo_v3(handle, status, id, graph, nodes, nullptr, count);
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* nodes,
                                                      const CUgraphEdgeData*, size_t count, unsigned flags) {
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->tail.clear();
  stream->tail.insert(stream->tail.end(), nodes, nodes + count);
  return CUDA_SUCCESS;
}
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  static thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::swap(current, *mode);
  return CUDA_SUCCESS;
}
