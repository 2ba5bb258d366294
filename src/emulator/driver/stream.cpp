// Streams and events. Work runs when it is submitted, so a stream is always idle between calls.
#include <algorithm>

#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

constexpr int kGreatestPriority = -5;  // cuCtxGetStreamPriorityRange

template <class T>
CUresult known(const std::set<T*>& set, T* handle) {
  std::lock_guard lock(state().mutex);
  return set.contains(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// For queries that a capturing stream refuses: the capture becomes invalid (seen on an H200 with driver 580).
CUresult check_idle(CUstream handle) {
  CUstream_st* stream = stream_of(handle);
  if (CUresult r = ready_on(stream)) return r;
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->capture) return CUDA_SUCCESS;
  stream->capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

// The launch attributes that streams have too (CUDA Driver API, CUlaunchAttributeID).
bool is_attribute(CUstreamAttrID id) {
  return id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW || id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
         id == CU_LAUNCH_ATTRIBUTE_PRIORITY || id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
         id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

}  // namespace

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  if (CUresult r = ready()) return r;
  if (!stream || (flags & ~unsigned(CU_STREAM_NON_BLOCKING))) return CUDA_ERROR_INVALID_VALUE;
  static uint64_t last_id = 2;  // 1 and 2 are the default streams
  std::lock_guard lock(state().mutex);
  *stream = new CUstream_st{.context = context_stack().back(),
                            .flags = flags,
                            .priority = std::clamp(priority, kGreatestPriority, 0),
                            .id = ++last_id};
  state().streams.insert(*stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy(CUstream stream) {
  if (CUresult r = ready(false)) return r;
  std::lock_guard lock(state().mutex);
  if (!state().streams.contains(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture_origin) leave_capture(stream->capture);  // it can no longer be ended
  state().streams.erase(stream);
  delete stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  CUstream_st* stream = stream_of(handle);
  if (CUresult r = ready_on(stream)) return r;
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  {
    std::lock_guard lock(state().mutex);
    stream->last_work = {};
  }
  if (!stream->capture) return refuse_in_capture();
  stream->capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
CUresult cuStreamQuery(CUstream handle) { return cuStreamSynchronize(handle); }

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  if (CUresult r = check_idle(handle)) return r;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  const CUstream_st* stream = stream_of(handle);
  *flags = stream->flags;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  if (CUresult r = ready_anywhere()) return r;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  const CUstream_st* stream = stream_of(handle);
  if (CUresult r = ready_on(stream)) return r;
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = context_of(*stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  CUstream_st* stream = stream_of(handle);
  if (CUresult r = ready_on(stream)) return r;
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult r = known(state().events, event)) return r;
  if (event->is_spent || (flags & ~unsigned(CU_EVENT_WAIT_EXTERNAL))) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_WAIT_EXTERNAL) && !stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (!event->capture) return CUDA_SUCCESS;
  if (stream->capture && stream->capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  if (stream == &state().legacy) {
    event->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  stream->capture = event->capture;  // the waiting stream joins the capture
  for (CUgraphNode node : event->tail)
    if (std::ranges::find(stream->tail, node) == stream->tail.end()) stream->tail.push_back(node);
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, CU_GRAPH_NODE_TYPE_HOST, [=] { return function(data), CUDA_SUCCESS; });
}
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
  CUstream_st* on = stream_of(stream);
  if (CUresult r = ready_on(on)) return r;
  if (!on) return CUDA_ERROR_INVALID_HANDLE;
  if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
  if (on->capture) {  // as documented; cuLaunchHostFunc can be captured instead
    on->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return submit(stream, CU_GRAPH_NODE_TYPE_HOST,
                [=] { return callback(stream, CUDA_SUCCESS, data), CUDA_SUCCESS; });
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  if (CUresult r = ready()) return r;
  constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (!event || (flags & ~kKnown)) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
  *event = new CUevent_st{.context = context_stack().back(), .flags = flags};
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

CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned flags) {
  CUstream_st* stream = stream_of(handle);
  if (CUresult r = ready_on(stream)) return r;
  if (CUresult r = known(state().events, event)) return r;
  if (!stream || event->context != context_of(*stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (flags & ~unsigned(CU_EVENT_RECORD_EXTERNAL)) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_RECORD_EXTERNAL) && !stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags & CU_EVENT_RECORD_EXTERNAL)
    return submit(handle, CU_GRAPH_NODE_TYPE_EVENT_RECORD, record_work(event));
  event->capture = stream->capture;
  event->is_spent = false;
  event->tail = stream->tail;
  event->recorded = true;
  event->when = std::chrono::steady_clock::now();
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) { return cuEventRecordWithFlags(event, stream, 0); }

CUresult cuEventSynchronize(CUevent event) {
  if (CUresult r = ready_anywhere()) return r;
  if (CUresult r = known(state().events, event)) return r;
  if (event->is_spent) return CUDA_ERROR_INVALID_VALUE;
  if (!event->capture) return refuse_in_capture();
  event->capture->invalid = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}
CUresult cuEventQuery(CUevent event) { return cuEventSynchronize(event); }

// Host seconds between the two records: the emulator's run time, not a GPU's.
CUresult cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  if (CUresult r = ready_anywhere()) return r;
  for (CUevent e : {start, end})
    if (CUresult r = known(state().events, e)) return r;
  if (start->is_spent || end->is_spent) return CUDA_ERROR_INVALID_VALUE;
  if (!start->recorded || !end->recorded || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
    return CUDA_ERROR_INVALID_HANDLE;
  if (!ms) return CUDA_ERROR_INVALID_VALUE;
  *ms = std::chrono::duration<float, std::milli>(end->when - start->when).count();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  if (CUresult r = check_idle(handle)) return r;
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  const CUstream_st* stream = stream_of(handle);
  *id = stream == &state().legacy ? 1 : stream == &state().per_thread ? 2 : stream->id;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  if (CUresult r = check_idle(handle)) return r;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return CUDA_SUCCESS;
}

// Hints, stored for queries.
CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID id, const CUstreamAttrValue* value) {
  if (CUresult r = ready_anywhere()) return r;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!value || !is_attribute(id)) return CUDA_ERROR_INVALID_VALUE;
  stream->attributes[id] = *value;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID id, CUstreamAttrValue* value) {
  if (CUresult r = ready_anywhere()) return r;
  CUstream_st* stream = stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!value || !is_attribute(id)) return CUDA_ERROR_INVALID_VALUE;
  *value = stream->attributes.contains(id) ? stream->attributes[id] : CUstreamAttrValue{};
  return CUDA_SUCCESS;
}
CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  if (CUresult r = ready_anywhere()) return r;
  CUstream_st *d = stream_of(to), *s = stream_of(from);
  if (!d || !s) return CUDA_ERROR_INVALID_HANDLE;
  d->attributes = s->attributes;
  return CUDA_SUCCESS;
}
