// Cooperative groups: a reduction over tiles, blocks and the grid, with barriers of all three; launches that
// are refused.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include <vector>

#include "check.h"

namespace cg = cooperative_groups;

__global__ void sum(const int* x, int n, int* partial, int* total) {
  const cg::grid_group grid = cg::this_grid();
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<32>(block);
  __shared__ int shared[32];
  int s = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.size()) s += x[i];
  s = cg::reduce(tile, s, cg::plus<int>());
  if (tile.thread_rank() == 0) shared[tile.meta_group_rank()] = s;
  block.sync();
  if (block.thread_rank() == 0) {
    int t = 0;
    for (unsigned i = 0; i < tile.meta_group_size(); ++i) t += shared[i];
    partial[blockIdx.x] = t;
  }
  grid.sync();
  // A second round over the grid: every block needs what every other one wrote.
  for (int round = 0; round < 4; ++round) {
    int t = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) t += partial[i];
    grid.sync();
    if (block.thread_rank() == 0) partial[blockIdx.x] = t;
    grid.sync();
  }
  if (grid.thread_rank() == 0) *total = partial[0];
}

__global__ void tiles(int* out) {
  const auto block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<8>(block);
  const int scan = cg::inclusive_scan(tile, int(tile.thread_rank()) + 1);
  const auto active = cg::coalesced_threads();
  int count = 0;
  if (threadIdx.x % 3 == 0) count = cg::coalesced_threads().size();
  out[threadIdx.x] = scan * 1000 + count * 10 + (tile.any(tile.thread_rank() == 7) ? 1 : 0);
  active.sync();
}

// Tiles of two warps meet in the shared memory that the system lends (%reserved_smem_offset_1).
__global__ void wide_tiles(int* out) {
  __shared__ cg::block_tile_memory<256> memory;
  const auto block = cg::this_thread_block(memory);
  const auto tile = cg::tiled_partition<64>(block);
  int s = 0;
  for (int round = 0; round < 3; ++round) {
    s += cg::reduce(tile, int(threadIdx.x) + round, cg::plus<int>());
    tile.sync();
  }
  out[threadIdx.x] = s + tile.shfl(int(threadIdx.x), 40);
}

int main() {
  const int n = 20000, blocks = 64;
  std::vector<int> x(n);
  int want = 0;
  for (int i = 0; i < n; ++i) want += x[i] = i % 23 - 7;
  int *dx, *partial, *total, got = 0;
  CUDA(cudaMalloc(&dx, n * 4));
  CUDA(cudaMalloc(&partial, blocks * 4));
  CUDA(cudaMalloc(&total, 4));
  CUDA(cudaMemcpy(dx, x.data(), n * 4, cudaMemcpyHostToDevice));
  int count = n;
  void* arguments[] = {&dx, &count, &partial, &total};
  CUDA(cudaLaunchCooperativeKernel(sum, blocks, 128, arguments, 0, nullptr));
  CUDA(cudaMemcpy(&got, total, 4, cudaMemcpyDeviceToHost));
  for (int round = 0; round < 4; ++round) want = int(unsigned(want) * (round ? blocks : 1u));
  EXPECT(got == want);

  // The same by attribute, and a grid that cannot be resident at once.
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks, config.blockDim = 128, config.attrs = &cooperative, config.numAttrs = 1;
  CUDA(cudaMemset(total, 0, 4));
  CUDA(cudaLaunchKernelEx(&config, sum, (const int*)dx, n, partial, total));
  CUDA(cudaMemcpy(&got, total, 4, cudaMemcpyDeviceToHost));
  EXPECT(got == want);
  int per_sm = 0, sms = 0;
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, sum, 1024, 0));
  CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  EXPECT(per_sm == 2);
  FAILS(cudaErrorCooperativeLaunchTooLarge,
        cudaLaunchCooperativeKernel(sum, per_sm * sms + 1, 1024, arguments, 0, nullptr));

  int *out, values[64];
  CUDA(cudaMalloc(&out, sizeof values));
  tiles<<<1, 64>>>(out);
  CUDA(cudaMemcpy(values, out, sizeof values, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i) {
    const int rank = i % 8;
    EXPECT(values[i] / 1000 == (rank + 1) * (rank + 2) / 2);
    if (i % 3) EXPECT(values[i] % 1000 / 10 == 0);
    EXPECT(values[i] % 10 == 1);
  }
  int *wide, sums[256];
  CUDA(cudaMalloc(&wide, sizeof sums));
  wide_tiles<<<1, 256>>>(wide);
  CUDA(cudaMemcpy(sums, wide, sizeof sums, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 256; ++i) {
    const int first = i / 64 * 64, all = 64 * first + 63 * 64 / 2;
    EXPECT(sums[i] == 3 * all + 64 * 3 + first + 40);
  }
  std::puts("ok");
}
