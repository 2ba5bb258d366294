#include "emulator/driver/state.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulator/driver/graph.h"

namespace fp4lab::emu::driver {

State& state() {
  static State* s = new State;  // never destroyed: programs call the driver from their own static destructors
  return *s;
}

std::vector<CUctx_st*>& context_stack() {
  // Never destroyed: a thread's own variables are destroyed before the program's static objects, which still
  // free memory.
  static thread_local auto* stack = new std::vector<CUctx_st*>;
  return *stack;
}

CUresult ready(bool needs_context) {
  if (!state().initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!needs_context) return CUDA_SUCCESS;
  if (context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  return context_stack().back()->sticky;
}

CUresult ready_anywhere() {
  if (!state().initialized) return CUDA_ERROR_NOT_INITIALIZED;
  return context_stack().empty() ? CUDA_SUCCESS : context_stack().back()->sticky;
}

CUresult ready_on(const CUstream_st* stream) {
  if (!state().initialized) return CUDA_ERROR_NOT_INITIALIZED;
  return stream && stream->context ? stream->context->sticky : ready();
}

CUstream_st* stream_of(CUstream handle) {
  State& s = state();
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return &s.legacy;
  if (handle == CU_STREAM_PER_THREAD) return &s.per_thread;
  std::lock_guard lock(s.mutex);
  return s.streams.contains(handle) ? handle : nullptr;
}

bool is_event(CUevent handle) {
  std::lock_guard lock(state().mutex);
  return state().events.contains(handle);
}

CUctx_st* context_of(const CUstream_st& stream) {
  return stream.context ? stream.context : context_stack().back();
}

CUresult submit(CUstream handle, CUgraphNodeType type, Work work) {
  static thread_local bool is_running = false;
  if (is_running) return work();  // part of other work
  CUstream_st* stream = stream_of(handle);
  if (CUresult r = ready_on(stream)) return r;
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == &state().legacy && meets_legacy_stream()) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (!stream->capture) {
    {
      std::lock_guard lock(state().mutex);
      stream->last_work = type;
      stream->synchronised = state().synchronisations;
    }
    is_running = true;
    const CUresult r = work();
    is_running = false;
    return r;
  }
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  Capture& capture = *stream->capture;
  for (const CUgraphNode node : stream->tail) capture.open.erase(node);
  stream->tail = {add_node(*capture.graph, type, std::move(work), stream->tail)};
  capture.open.insert(stream->tail.front());
  CUgraphNode_st& node = *stream->tail.front();
  for (size_t i = 0; i < std::min(stream->tail_edges.size(), node.needs.size()); ++i)
    if (!is_plain(stream->tail_edges[i])) node.edges[node.needs[i]] = stream->tail_edges[i];
  stream->tail_edges.clear();
  return CUDA_SUCCESS;
}

CUresult explain(CUresult code, const std::string& text) {
  state().last_report = text;
  if (!state().quiet) fmt::print(stderr, "fp4lab emulator: {}\n", text);
  return code;
}

CUresult result_of(FaultKind kind) {
  switch (kind) {
#define FAULT(kind, name, result, what) \
  case FaultKind::kind:                 \
    return result;
#include "emulator/core/faults.def"
#undef FAULT
  }
  return CUDA_ERROR_LAUNCH_FAILED;
}

}  // namespace fp4lab::emu::driver
