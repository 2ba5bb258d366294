// Memory pools: names with attributes. Every allocation comes from the same memory and goes back to it at
// once.
#include <fmt/format.h>

#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

bool known(CUmemoryPool pool) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  return pool == &s.default_pool || s.pools.contains(pool);
}

CUresult give(CUmemoryPool* out, CUdevice device, CUmemoryPool pool) {
  if (CUresult r = ready(false)) return r;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = pool;
  return CUDA_SUCCESS;
}

bool is_int(CUmemPool_attribute a) {
  return a == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
         a == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
         a == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

}  // namespace

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return give(pool, device, &state().default_pool);
}
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) { return give(pool, device, state().pool); }
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  if (CUresult r = ready(false)) return r;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (!known(pool)) return CUDA_ERROR_INVALID_VALUE;
  state().pool = pool;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps*) {
  if (CUresult r = ready(false)) return r;
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  *pool = new CUmemPoolHandle_st;
  std::lock_guard lock(state().mutex);
  state().pools.insert(*pool);
  return CUDA_SUCCESS;
}
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  if (CUresult r = ready(false)) return r;
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (!s.pools.erase(pool)) return CUDA_ERROR_INVALID_VALUE;
  if (s.pool == pool) s.pool = &s.default_pool;
  delete pool;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
  if (CUresult r = ready(false)) return r;
  return known(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  if (CUresult r = ready(false)) return r;
  if (!known(pool) || !value) return CUDA_ERROR_INVALID_VALUE;
  pool->attributes[attribute] =
      is_int(attribute) ? uint64_t(*static_cast<int*>(value)) : *static_cast<uint64_t*>(value);
  return CUDA_SUCCESS;
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  if (CUresult r = ready(false)) return r;
  if (!known(pool) || !value) return CUDA_ERROR_INVALID_VALUE;
  const auto it = pool->attributes.find(attribute);
  if (is_int(attribute))
    *static_cast<int*>(value) = it == pool->attributes.end() ? 1 : int(it->second);
  else
    *static_cast<uint64_t*>(value) = it == pool->attributes.end() ? 0 : it->second;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc*, size_t) {
  if (CUresult r = ready(false)) return r;
  return known(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  if (CUresult r = ready(false)) return r;
  if (!known(pool) || !flags || !location) return CUDA_ERROR_INVALID_VALUE;
  if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id != 0) return CUDA_ERROR_INVALID_DEVICE;
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
  if (!known(pool)) return CUDA_ERROR_INVALID_VALUE;
  return cuMemAllocAsync(pointer, bytes, stream);
}
