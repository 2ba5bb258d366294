// Stream capture: a stream's work becomes nodes of a graph (submit in state.cpp) instead of being executed.
#include <algorithm>
#include <set>

#include "emulator/driver/graph.h"

using namespace fp4lab::emu::driver;

namespace {

template <class F>
void each_stream(F&& f) {
  for (CUstream_st* s : state().streams) f(*s);
  f(state().per_thread);
}

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// The stream's next node depends on these nodes too.
void follow(CUstream_st& stream, const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count) {
  stream.tail_edges.resize(stream.tail.size());
  stream.tail.insert(stream.tail.end(), nodes, nodes + count);
  for (size_t i = 0; i < count; ++i) stream.tail_edges.push_back(data ? data[i] : CUgraphEdgeData{});
}

CUresult begin(CUstream handle, CUgraph graph, const CUgraphNode* behind, const CUgraphEdgeData* data,
               size_t count, CUstreamCaptureMode mode) {
  CUstream_st* stream = stream_of(handle);
  if (CUresult r = ready_on(stream)) return r;
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == &state().legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (graph && !has_nodes(graph, behind, count)) return CUDA_ERROR_INVALID_VALUE;
  static uint64_t last_id = 0;
  std::lock_guard lock(state().mutex);
  auto own = graph ? nullptr : std::make_unique<CUgraph_st>();
  if (own) graph = own.get();
  stream->capture = std::make_shared<Capture>(Capture{.id = ++last_id,
                                                      .graph = graph,
                                                      .own = std::move(own),
                                                      .mode = mode,
                                                      .thread = std::this_thread::get_id()});
  stream->capture_origin = true;
  stream->tail.clear(), stream->tail_edges.clear();
  follow(*stream, behind, data, count);
  return CUDA_SUCCESS;
}

// Every captured node without a successor must be one that the origin stream waits for; otherwise a fork was
// not joined. Changes that the program itself makes to the graph meanwhile leave no fork open (CUDA Driver
// API, cuStreamGetCaptureInfo).
bool is_joined(const Capture& capture, const std::vector<CUgraphNode>& tail) {
  std::set<CUgraphNode> followed;
  for (const auto& node : capture.graph->nodes) followed.insert(node->needs.begin(), node->needs.end());
  return std::ranges::all_of(capture.open, [&](CUgraphNode node) {
    return followed.contains(node) || std::ranges::find(tail, node) != tail.end();
  });
}

template <class F>
bool invalidate_where(F&& concerns) {
  std::lock_guard lock(state().mutex);
  bool any = false;
  each_stream([&](CUstream_st& s) {
    if (s.capture && concerns(s)) any = s.capture->invalid = true;
  });
  return any;
}

bool is_blocking(const CUstream_st& s) { return !(s.flags & CU_STREAM_NON_BLOCKING); }

}  // namespace

namespace fp4lab::emu::driver {

bool is_captured(const CUgraph_st& graph) {
  std::lock_guard lock(state().mutex);
  bool any = false;
  const auto look = [&](const auto& s) { any |= s.capture && s.capture->graph == &graph; };
  each_stream(look);
  for (const CUevent_st* e : state().events) look(*e);
  return any;
}

void leave_capture(std::shared_ptr<Capture> capture) {
  std::lock_guard lock(state().mutex);
  const auto leave = [&](auto& s) {
    if (s.capture == capture) s.capture.reset(), s.tail.clear();
  };
  each_stream([&](CUstream_st& s) {
    if (s.capture == capture) s.capture_origin = false, s.tail_edges.clear();
    leave(s);
  });
  for (CUevent_st* e : state().events) {
    e->is_spent |= e->capture == capture;
    leave(*e);
  }
}

bool invalidate_captures() {
  return invalidate_where([](const CUstream_st&) { return true; });
}

CUresult refuse_in_capture() {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  const bool any = invalidate_where([](const CUstream_st& s) {
    return s.capture->thread == std::this_thread::get_id()
               ? s.capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
               : s.capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                     thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  });
  return any ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

bool meets_legacy_stream() { return invalidate_where(is_blocking); }

bool is_capturing_beside_legacy() {
  std::lock_guard lock(state().mutex);
  bool any = false;
  each_stream([&](const CUstream_st& s) { any |= s.capture && is_blocking(s); });
  return any;
}

}  // namespace fp4lab::emu::driver

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return begin(stream, nullptr, nullptr, nullptr, 0, mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* behind,
                                     const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode) {
  if (CUresult r = ready_on(stream_of(stream))) return r;
  if (!exists(graph) || (count && !behind)) return CUDA_ERROR_INVALID_VALUE;
  return begin(stream, graph, behind, data, count, mode);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  CUstream_st* stream = stream_of(handle);
  if (CUresult r = ready_on(stream)) return r;
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (!stream->capture_origin) {
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (!graph && stream->capture->own) return CUDA_ERROR_INVALID_VALUE;
  const auto capture = stream->capture;
  std::lock_guard lock(state().mutex);
  const bool joined = is_joined(*capture, stream->tail);
  leave_capture(capture);
  if (graph) *graph = nullptr;
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (graph) *graph = capture->graph;
  capture->own.release();
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  if (CUresult r = ready_anywhere()) return r;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  // The captures stay valid (CUDA Driver API, cuStreamIsCapturing).
  if (stream == &state().legacy && is_capturing_beside_legacy()) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
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
  CUstream_st& stream = *stream_of(handle);
  if (!stream.capture) return CUDA_SUCCESS;
  if (id) *id = stream.capture->id;
  if (graph) *graph = stream.capture->graph;
  if (nodes) *nodes = stream.tail.data();
  stream.tail_edges.resize(stream.tail.size());
  if (nodes && !edges && !std::ranges::all_of(stream.tail_edges, is_plain)) return CUDA_ERROR_LOSSY_QUERY;
  if (edges) *edges = stream.tail_edges.data();
  if (count) *count = stream.tail.size();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                           CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  return cuStreamGetCaptureInfo_v3(handle, status, id, graph, nodes, nullptr, count);
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* nodes,
                                                      const CUgraphEdgeData* data, size_t count,
                                                      unsigned flags) {
  if (CUresult r = ready_anywhere()) return r;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  Capture& capture = *stream->capture;
  if ((count && !nodes) || !has_nodes(capture.graph, nodes, count)) return CUDA_ERROR_INVALID_VALUE;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    for (const CUgraphNode node : stream->tail) capture.open.erase(node);  // dropped on purpose
    stream->tail.clear(), stream->tail_edges.clear();
  }
  follow(*stream, nodes, data, count);
  return CUDA_SUCCESS;
}
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (CUresult r = ready(false)) return r;
  if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(thread_mode, *mode);
  return CUDA_SUCCESS;
}
