// The program's objects that graphs keep alive.
#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

CUresult check(CUuserObject object, unsigned count) {
  if (CUresult r = ready(false)) return r;
  return exists(object) && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult check(CUgraph graph, CUuserObject object, unsigned count) {
  if (CUresult r = check(object, count)) return r;
  return exists(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuUserObjectCreate(CUuserObject* out, void* object, CUhostFn destroy, unsigned count,
                            unsigned flags) {
  if (CUresult r = ready(false)) return r;
  if (!out || !destroy || !count || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  *out = new CUuserObject_st{object, destroy, count};
  return CUDA_SUCCESS;
}
CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
  if (CUresult r = check(object, count)) return r;
  object->count += count;
  return CUDA_SUCCESS;
}
CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  if (CUresult r = check(object, count)) return r;
  if (count > object->count) return CUDA_ERROR_INVALID_VALUE;
  object->release(count);
  return CUDA_SUCCESS;
}
CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  if (CUresult r = check(graph, object, count)) return r;
  if (flags & ~unsigned(CU_GRAPH_USER_OBJECT_MOVE)) return CUDA_ERROR_INVALID_VALUE;
  graph->objects.held[object] += count;
  return flags & CU_GRAPH_USER_OBJECT_MOVE ? CUDA_SUCCESS : cuUserObjectRetain(object, count);
}
CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  if (CUresult r = check(graph, object, count)) return r;
  const auto it = graph->objects.held.find(object);
  if (it == graph->objects.held.end() || it->second < count) return CUDA_ERROR_INVALID_VALUE;
  if (!(it->second -= count)) graph->objects.held.erase(it);
  return cuUserObjectRelease(object, count);
}
