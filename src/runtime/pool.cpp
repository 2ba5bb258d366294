// Memory pools: the device's default one and those that a program creates.
#include "runtime/runtime.h"

using namespace fp4lab::cudart;

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return call([&] { return cuDeviceGetDefaultMemPool(pool, device); });
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return call([&] { return cuDeviceGetMemPool(pool, device); });
}
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return call([&] { return cuDeviceSetMemPool(device, pool); });
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
  return call([&] { return cuMemPoolCreate(pool, reinterpret_cast<const CUmemPoolProps*>(properties)); });
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return call([&] { return cuMemPoolDestroy(pool); });
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) {
  return call([&] { return cuMemPoolTrimTo(pool, bytes); });
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return call(
      [&] { return cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value); });
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return call(
      [&] { return cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value); });
}
// The only device always has access.
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t count) {
  static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
  return call(
      [&] { return cuMemPoolSetAccess(pool, reinterpret_cast<const CUmemAccessDesc*>(access), count); });
}
cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* location) {
  return call([&] {
    return cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), pool,
                              reinterpret_cast<CUmemLocation*>(location));
  });
}
