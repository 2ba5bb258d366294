// Objects of the program's that graphs keep alive.
#include "emulator/driver/state.h"

CUresult cuUserObjectCreate(CUuserObject* out, void* object, CUhostFn destroy, unsigned count, unsigned) {
  if (!out || !destroy || !count) return CUDA_ERROR_INVALID_VALUE;
  *out = new CUuserObject_st{object, destroy, count};
  return CUDA_SUCCESS;
}
CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
  object->count += count;
  return CUDA_SUCCESS;
}
CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  if (count > object->count) return CUDA_ERROR_INVALID_VALUE;
  object->release(count);
  return CUDA_SUCCESS;
}
CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  graph->objects.held[object] += count;
  return flags & CU_GRAPH_USER_OBJECT_MOVE ? CUDA_SUCCESS : cuUserObjectRetain(object, count);
}
CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  const auto it = graph->objects.held.find(object);
  if (it == graph->objects.held.end() || it->second < count) return CUDA_ERROR_INVALID_VALUE;
  if (!(it->second -= count)) graph->objects.held.erase(it);
  return cuUserObjectRelease(object, count);
}
