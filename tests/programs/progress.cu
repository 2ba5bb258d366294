// Blocks and threads that wait for each other by spinning: every order of starting must make progress. Grids
// larger than the device: a block takes its turn by ticket, never by its index.
#include <cuda/atomic>

#include "check.h"

using Counter = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

// A chain over all blocks: the block with ticket i waits for i - 1 (decoupled look-back without the
// look-back).
__global__ void chain(unsigned* ticket, unsigned* done, unsigned* sum) {
  __shared__ unsigned mine;
  if (threadIdx.x == 0) {
    mine = Counter(*ticket).fetch_add(1);
    while (Counter(*done).load(cuda::memory_order_acquire) != mine) {
    }
    *sum = *sum * 3 + mine;
    Counter(*done).store(mine + 1, cuda::memory_order_release);
  }
}

// Persistent blocks: a queue that they empty together, and a barrier of their own that all of them spin on.
__global__ void persistent(unsigned* next, unsigned items, unsigned* arrived, unsigned* results) {
  __shared__ unsigned item;
  for (;;) {
    if (threadIdx.x == 0) item = atomicAdd(next, 1);
    __syncthreads();
    const unsigned i = item;
    __syncthreads();
    if (i >= items) break;
    if (threadIdx.x == 0) results[i] = i * i;
  }
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) < gridDim.x) __nanosleep(100);
    if (blockIdx.x == 0) results[items] = 1;
  }
}

// Lanes of one warp hand a lock around.
__global__ void lock(int* mutex, int* value) {
  for (bool done = false; !done;)
    if (atomicCAS(mutex, 0, 1) == 0) {
      __threadfence();
      *reinterpret_cast<volatile int*>(value) += 1;
      __threadfence();
      atomicExch(mutex, 0);
      done = true;
    }
}

int main() {
  unsigned* m;
  CUDA(cudaMallocManaged(&m, 4096 * 4));
  const unsigned blocks = 1000;  // of which 264 or 296 are resident at a time
  m[0] = m[1] = m[2] = 0;
  chain<<<blocks, 1024>>>(m, m + 1, m + 2);
  CUDA(cudaDeviceSynchronize());
  unsigned want = 0;
  for (unsigned i = 0; i < blocks; ++i) want = want * 3 + i;
  EXPECT(m[2] == want);

  int sms = 0;
  CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  m[0] = m[1] = 0;
  persistent<<<sms, 64>>>(m, 1000, m + 1, m + 2);
  CUDA(cudaDeviceSynchronize());
  for (unsigned i = 0; i < 1000; ++i) EXPECT(m[2 + i] == i * i);
  EXPECT(m[1002] == 1);

  m[0] = m[1] = 0;
  lock<<<4, 64>>>(reinterpret_cast<int*>(m), reinterpret_cast<int*>(m + 1));
  CUDA(cudaDeviceSynchronize());
  EXPECT(m[1] == 256);
  std::puts("ok");
}
