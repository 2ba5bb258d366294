// Memory of every kind: pitched, 3D, page-locked and registered (read by kernels in place), managed, pools,
// stream order; what a pointer is; dynamic shared memory beyond 48 KiB.
#include <cstdint>
#include <vector>

#include "check.h"

__global__ void increment(int* p, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) ++p[i];
}

__global__ void large_shared(int words, int* out) {
  extern __shared__ int s[];
  for (int i = threadIdx.x; i < words; i += blockDim.x) s[i] = i;
  __syncthreads();
  int sum = 0;
  for (int i = threadIdx.x; i < words; i += blockDim.x) sum += s[words - 1 - i];
  atomicAdd(out, sum);
}

void new_memory() {
  unsigned char* d;
  std::vector<unsigned char> to(100000);
  CUDA(cudaMalloc(&d, to.size()));
  CUDA(cudaMemcpy(to.data(), d, to.size(), cudaMemcpyDeviceToHost));
  for (unsigned char x : to) EXPECT(x == to[0]);
  std::printf("new memory holds %02x\n", to[0]);
  CUDA(cudaFree(d));
}

void copies() {
  const int width = 100, height = 7, depth = 3;
  std::vector<unsigned char> from(width * height), to(width * height);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 31);
  unsigned char* d;
  size_t pitch;
  CUDA(cudaMallocPitch(&d, &pitch, width, height));
  EXPECT(pitch >= width && pitch % 256 == 0);
  CUDA(cudaMemcpy2D(d, pitch, from.data(), width, width, height, cudaMemcpyHostToDevice));
  CUDA(cudaMemset2D(d + 10, pitch, 0xaa, 20, 3));
  CUDA(cudaMemcpy2D(to.data(), width, d, pitch, width, height, cudaMemcpyDeviceToHost));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      EXPECT(to[y * width + x] == (y < 3 && x >= 10 && x < 30 ? 0xaa : from[y * width + x]));
  FAILS(cudaErrorInvalidPitchValue,
        cudaMemcpy2D(d, 50, from.data(), width, width, height, cudaMemcpyHostToDevice));

  cudaPitchedPtr volume;
  CUDA(cudaMalloc3D(&volume, make_cudaExtent(width, height, depth)));
  CUDA(cudaMemset3D(volume, 0, make_cudaExtent(width, height, depth)));
  cudaMemcpy3DParms p{};
  p.srcPtr = make_cudaPitchedPtr(from.data(), width, width, height);
  p.dstPtr = volume;
  p.dstPos = make_cudaPos(0, 0, 2);
  p.extent = make_cudaExtent(width, height, 1);
  p.kind = cudaMemcpyHostToDevice;
  CUDA(cudaMemcpy3D(&p));
  CUDA(cudaMemcpy2D(to.data(), width, static_cast<char*>(volume.ptr) + 2 * volume.pitch * height,
                    volume.pitch, width, height, cudaMemcpyDefault));
  EXPECT(to == from);
  FAILS(cudaErrorInvalidValue, cudaMemcpy(d, from.data(), pitch * height + 1, cudaMemcpyHostToDevice));
}

void in_place() {
  const int n = 1000;
  int *locked, *device;
  CUDA(cudaHostAlloc(&locked, n * 4, cudaHostAllocMapped));
  for (int i = 0; i < n; ++i) locked[i] = i;
  CUDA(cudaHostGetDevicePointer(&device, locked, 0));
  increment<<<1, 128>>>(device, n);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) EXPECT(locked[i] == i + 1);
  cudaPointerAttributes a;
  CUDA(cudaPointerGetAttributes(&a, locked + 5));
  EXPECT(a.type == cudaMemoryTypeHost && a.devicePointer == locked + 5);
  CUDA(cudaFreeHost(locked));

  std::vector<int> own(n, 3);
  CUDA(cudaPointerGetAttributes(&a, own.data()));
  EXPECT(a.type == cudaMemoryTypeUnregistered);
  CUDA(cudaHostRegister(own.data(), n * 4, cudaHostRegisterDefault));
  FAILS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own.data(), n * 4, cudaHostRegisterDefault));
  increment<<<1, 128>>>(own.data(), n);
  CUDA(cudaDeviceSynchronize());
  EXPECT(own[0] == 4 && own[n - 1] == 4);
  CUDA(cudaHostUnregister(own.data()));
  FAILS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own.data()));

  int* managed;
  CUDA(cudaMallocManaged(&managed, n * 4));
  for (int i = 0; i < n; ++i) managed[i] = -i;
  increment<<<1, 128>>>(managed, n);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) EXPECT(managed[i] == 1 - i);
  CUDA(cudaPointerGetAttributes(&a, managed));
  EXPECT(a.type == cudaMemoryTypeManaged);
  CUDA(cudaFree(managed));
  FAILS(cudaErrorInvalidValue, cudaFree(managed));
}

void in_stream_order() {
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  cudaMemPool_t pool;
  CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  unsigned long long threshold = 1 << 20, got = 0;
  CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &got));
  EXPECT(got == threshold);
  int *p, value = 0;
  CUDA(cudaMallocAsync(&p, 4, stream));
  CUDA(cudaMemsetAsync(p, 0, 4, stream));
  increment<<<1, 1, 0, stream>>>(p, 1);
  CUDA(cudaMemcpyAsync(&value, p, 4, cudaMemcpyDeviceToHost, stream));
  CUDA(cudaFreeAsync(p, stream));
  CUDA(cudaStreamSynchronize(stream));
  EXPECT(value == 1);
  size_t free = 0, total = 0;
  CUDA(cudaMemGetInfo(&free, &total));
  EXPECT(free > 0 && free <= total);
}

void shared() {
  cudaFuncAttributes a;
  CUDA(cudaFuncGetAttributes(&a, large_shared));
  EXPECT(a.maxDynamicSharedSizeBytes == 49152 && a.sharedSizeBytes == 0 && a.maxThreadsPerBlock == 1024);
  EXPECT(a.numRegs >= 8 && a.numRegs <= 64);  // an estimate, and 1024 threads fit
  int* out;
  CUDA(cudaMalloc(&out, 4));
  CUDA(cudaMemset(out, 0, 4));
  const int bytes = 200 * 1024, words = bytes / 4;
  large_shared<<<1, 256, bytes>>>(words, out);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  CUDA(cudaFuncSetAttribute(large_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  large_shared<<<1, 256, bytes>>>(words, out);
  CUDA(cudaGetLastError());
  int got = 0;
  CUDA(cudaMemcpy(&got, out, 4, cudaMemcpyDeviceToHost));
  EXPECT(got == int(1ll * words * (words - 1) / 2));
  FAILS(cudaErrorInvalidValue,
        cudaFuncSetAttribute(large_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 * 1024));
  int blocks = 0;
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, large_shared, 256, bytes));
  EXPECT(blocks == 1);
  int grid = 0, block = 0;
  CUDA(cudaOccupancyMaxPotentialBlockSize(&grid, &block, increment));
  EXPECT(block > 0 && grid > 0);
}

// A pool of the program's own: what it counts, and its end.
void pool() {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  properties.maxSize = 1 << 20;
  cudaMemPool_t pool;
  CUDA(cudaMemPoolCreate(&pool, &properties));
  const auto count = [&](cudaMemPoolAttr attribute) {
    uint64_t value = 1;
    CUDA(cudaMemPoolGetAttribute(pool, attribute, &value));
    return value;
  };
  void *a, *b;
  CUDA(cudaMallocFromPoolAsync(&a, 4096, pool, nullptr));
  CUDA(cudaMallocFromPoolAsync(&b, 1024, pool, nullptr));
  EXPECT(count(cudaMemPoolAttrUsedMemCurrent) == 5120);
  CUDA(cudaFreeAsync(a, nullptr));
  EXPECT(count(cudaMemPoolAttrUsedMemCurrent) == 1024 && count(cudaMemPoolAttrUsedMemHigh) == 5120);
  FAILS(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync(&a, 1 << 20, pool, nullptr));
  CUDA(cudaDeviceSetMemPool(0, pool));
  CUDA(cudaMallocAsync(&a, 100, nullptr));
  EXPECT(count(cudaMemPoolAttrUsedMemCurrent) == 1124);
  CUDA(cudaFree(a));
  CUDA(cudaFree(b));
  EXPECT(count(cudaMemPoolAttrUsedMemCurrent) == 0);
  CUDA(cudaMemPoolDestroy(pool));
}

// Freed when the process ends, behind main and the thread's own variables.
struct Static {
  void* p = nullptr;
  ~Static() {
    if (cudaFree(p) != cudaSuccess) std::abort();
  }
} kept;

int main() {
  CUDA(cudaMalloc(&kept.p, 100));
  new_memory();
  copies();
  in_place();
  in_stream_order();
  pool();
  shared();
  std::puts("ok");
}
