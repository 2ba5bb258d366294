// Memory pools: accounts with attributes. Every allocation comes from the same memory and returns to it at
// once, so a pool reserves exactly what is in use.
#include <fmt/format.h>

#include <algorithm>

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
// The result for another device is an H200's with driver 580.
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  const CUresult r = give(pool, device, state().pool);
  return r == CUDA_ERROR_INVALID_DEVICE ? CUDA_ERROR_INVALID_VALUE : r;
}
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  if (CUresult r = ready(false)) return r;
  if (CUresult r = refuse_in_capture()) return r;
  if (device != 0 || !known(pool)) return CUDA_ERROR_INVALID_VALUE;
  state().pool = pool;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  if (CUresult r = ready(false)) return r;
  if (CUresult r = refuse_in_capture()) return r;
  if (!pool || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type == CU_MEM_LOCATION_TYPE_INVALID)
    return CUDA_ERROR_INVALID_VALUE;
  *pool = new CUmemPoolHandle_st{.max_bytes = properties->maxSize};
  std::lock_guard lock(state().mutex);
  state().pools.insert(*pool);
  return CUDA_SUCCESS;
}
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  if (CUresult r = ready(false)) return r;
  if (CUresult r = refuse_in_capture()) return r;
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (!s.pools.erase(pool)) return CUDA_ERROR_INVALID_VALUE;
  if (s.pool == pool) s.pool = &s.default_pool;
  std::erase_if(s.pool_memory, [pool](const auto& m) { return m.second.pool == pool; });
  delete pool;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
  if (CUresult r = ready(false)) return r;
  if (CUresult r = refuse_in_capture()) return r;
  return known(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  if (CUresult r = ready(false)) return r;
  if (CUresult r = refuse_in_capture()) return r;
  if (!known(pool) || !value || attribute <= 0 || attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return CUDA_ERROR_INVALID_VALUE;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:  // 0 resets it; nothing else can be set
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<uint64_t*>(value)) return CUDA_ERROR_INVALID_VALUE;
      pool->most_used = pool->used;
      return CUDA_SUCCESS;
    default:
      pool->attributes[attribute] =
          is_int(attribute) ? uint64_t(*static_cast<int*>(value)) : *static_cast<uint64_t*>(value);
      return CUDA_SUCCESS;
  }
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  if (CUresult r = ready(false)) return r;
  if (CUresult r = refuse_in_capture()) return r;
  if (!known(pool) || !value || attribute <= 0 || attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    return CUDA_ERROR_INVALID_VALUE;
  const auto it = pool->attributes.find(attribute);
  if (is_int(attribute))
    *static_cast<int*>(value) = it == pool->attributes.end() ? 1 : int(it->second);
  else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT || attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
    *static_cast<uint64_t*>(value) = pool->used;
  else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
    *static_cast<uint64_t*>(value) = pool->most_used;
  else
    *static_cast<uint64_t*>(value) = it == pool->attributes.end() ? 0 : it->second;
  return CUDA_SUCCESS;
}
// The only device always has access to its own memory.
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, size_t count) {
  if (CUresult r = ready(false)) return r;
  if (CUresult r = refuse_in_capture()) return r;
  if (!known(pool) || (count && !access)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i)
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || access[i].location.id != 0 ||
        access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  if (CUresult r = ready(false)) return r;
  if (CUresult r = refuse_in_capture()) return r;
  if (!known(pool) || !flags || !location || location->type == CU_MEM_LOCATION_TYPE_INVALID)
    return CUDA_ERROR_INVALID_VALUE;
  if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id != 0) return CUDA_ERROR_INVALID_DEVICE;
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

void fp4lab::emu::driver::leave_pool(CUdeviceptr pointer) {
  const auto it = state().pool_memory.find(pointer);
  if (it == state().pool_memory.end()) return;
  it->second.pool->used -= it->second.bytes;
  state().pool_memory.erase(it);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
  CUstream_st* s = stream_of(stream);
  if (CUresult r = ready_on(s)) return r;
  if (!known(pool) || !pointer) return CUDA_ERROR_INVALID_VALUE;
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (!s->capture)
    if (CUresult r = refuse_in_capture()) return r;
  if (!bytes) return *pointer = 0, CUDA_SUCCESS;
  if (s->capture) {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    params.bytesize = bytes;
    Work work;
    if (CUresult r = graph_allocation(bytes, &params, &work)) return r;
    *pointer = params.dptr;
    return submit(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC, std::move(work));
  }
  std::lock_guard lock(state().mutex);
  if (pool->max_bytes && pool->used + bytes > pool->max_bytes)
    return explain(CUDA_ERROR_OUT_OF_MEMORY,
                   fmt::format("cuMemAllocFromPoolAsync: {} bytes requested, {} of the pool's {} in use",
                               bytes, pool->used, pool->max_bytes));
  if (CUresult r = allocate_device(pointer, bytes, "cuMemAllocAsync")) return r;
  pool->used += bytes;
  pool->most_used = std::max(pool->most_used, pool->used);
  state().pool_memory[*pointer] = {pool, bytes};
  return CUDA_SUCCESS;
}
CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  return cuMemAllocFromPoolAsync(pointer, bytes, state().pool, stream);
}
